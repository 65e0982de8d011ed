"""Keeps what cells have read and written, so that it can be put back."""

from __future__ import annotations

import os

from chexpoint.errors import InvalidValue
from chexpoint.lineage import Places, worth_keeping
from chexpoint.model import Bytes, CellLineage, parse_size
from chexpoint.project.project import Project

KEEP_VARIABLE = "CHEX_KEEP_FILES"
"""Environment variable: the largest file whose contents are kept, such as ``32M``; 0 for none."""

_LARGEST_BYTES = 32 * 2**20


def keep_files(project: Project, lineage: CellLineage, places: Places) -> None:
    """Keep what a cell has read or written in its project, and is not too large."""
    largest = _largest_bytes()
    for file in worth_keeping(lineage, places):
        if file.size_bytes <= largest:
            project.keep_file(file.path, file.digest)


def _largest_bytes() -> Bytes:
    text = os.environ.get(KEEP_VARIABLE, "")
    try:
        if text == "0":
            return -1  # not even empty ones
        return parse_size(text) if text else _LARGEST_BYTES
    except InvalidValue:
        return _LARGEST_BYTES
