"""What is in a package, in numbers and sentences."""

from __future__ import annotations

from dataclasses import dataclass

from chexpoint.model import Bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PackageSummary:
    """What is in a package."""

    title: str
    made_by: str
    """Such as ``chexpoint 0.1.0``."""
    versions: tuple[str, ...]
    """Their labels, oldest first."""
    cells: int
    """How many different ones there are: the nodes of the tree."""
    files: int
    """How many input files, by contents."""
    files_bytes: Bytes
    """What they take when they are unpacked."""
    size_bytes: Bytes
    """Of the package itself."""
    unpacked_bytes: Bytes
    """Of everything in it."""
    lineage_bytes: Bytes
    """What manifest, tree and lineage take in the package."""
    left_out: tuple[str, ...] = ()
    """Which files a replay would need and are not in it, and why, in sentences."""
    notes: tuple[str, ...] = ()
    """What else the user should know, in sentences."""
