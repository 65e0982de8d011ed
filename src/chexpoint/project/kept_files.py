"""Keeps what cells have read and written, so that it can be put back."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from chexpoint.config import Config
from chexpoint.lineage import Places, worth_keeping
from chexpoint.model import Bytes, CellLineage
from chexpoint.project.project import Project

_config = lru_cache(maxsize=8)(Config.at)


def keep_files(project: Project, lineage: CellLineage, places: Places) -> None:
    """Keep what a cell has read or written in its project, and is not too large."""
    largest = _largest_bytes(project.folder)
    for file in worth_keeping(lineage, places):
        if file.size_bytes <= largest:
            project.keep_file(file.path, file.digest)


def _largest_bytes(folder: Path) -> Bytes:
    # With 0 not even empty ones.
    return _config(folder).without_problems().size("keep_files") or -1
