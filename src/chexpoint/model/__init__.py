"""Frozen values that cross package borders; no I/O, standard library only."""

from chexpoint.model.cell import CellError, CellResult
from chexpoint.model.checkpoint import (
    AutoMode,
    Checkpoint,
    Hazard,
    RestoreReport,
    Status,
    checkpoint_from_json,
    hazard_from_json,
    report_from_json,
    status_from_json,
    to_json,
)
from chexpoint.model.ids import ROOT, Bytes, CheckpointId, Seconds
from chexpoint.model.size import format_seconds, format_size, parse_size

__all__ = [
    "ROOT",
    "AutoMode",
    "Bytes",
    "CellError",
    "CellResult",
    "Checkpoint",
    "CheckpointId",
    "Hazard",
    "RestoreReport",
    "Seconds",
    "Status",
    "checkpoint_from_json",
    "format_seconds",
    "format_size",
    "hazard_from_json",
    "parse_size",
    "report_from_json",
    "status_from_json",
    "to_json",
]
