"""De-duplication: successive contents of an array in, pieces out, and back."""

from chexpoint.store.dedup.analysis import BLOCK_BYTES, Analysis, Differ, Method, Regions
from chexpoint.store.dedup.decoding import decode
from chexpoint.store.dedup.deduplicator import Deduplicator, Diff, restore
from chexpoint.store.dedup.digests import content_root
from chexpoint.store.dedup.piece import PieceInfo, read_info
from chexpoint.store.dedup.series import Series

__all__ = [
    "BLOCK_BYTES",
    "Analysis",
    "Deduplicator",
    "Diff",
    "Differ",
    "Method",
    "PieceInfo",
    "Regions",
    "Series",
    "content_root",
    "decode",
    "read_info",
    "restore",
]
