"""What a replay has found out so far, on disk: so that it can be gone on with.

A file of JSON lines.  The first says which versions are replayed; each other one is a cell, as it
was when it was computed last.  A line that was being written when the process was killed is not
read.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import TextIO

import xxhash

from chexpoint.model import (
    Digest,
    NodeId,
    Recording,
    ReplayedCell,
    replayed_cell_from_json,
    to_json,
)

FORMAT = 1


def recording_digest(recording: Recording) -> Digest:
    """Return what tells whether two replays are of the same versions."""
    hasher = xxhash.xxh3_128()
    for label, version in sorted(recording.labels.items()):
        hasher.update(json.dumps([label, list(version.path)]).encode())
    return hasher.hexdigest()


class ReplayLog:
    """The file of one replay.

    Parameters
    ----------
    path
        None keeps nothing.
    """

    def __init__(self, path: Path | None, recording: Recording) -> None:
        self._path = path
        self._head = {"format": FORMAT, "recording": recording_digest(recording)}
        self._known = recording.cells
        self._file: TextIO | None = None

    def read(self) -> dict[NodeId, ReplayedCell]:
        """Return the cells of an earlier replay of the same versions that did not end."""
        found: dict[NodeId, ReplayedCell] = {}
        if self._path is None:
            return found
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            lines = iter(self._path.read_text(encoding="utf-8").splitlines())
            if json.loads(next(lines, "null")) != self._head:
                return found
            for line in lines:
                cell = replayed_cell_from_json(json.loads(line))
                if cell.node in self._known:
                    found[cell.node] = cell
        return found

    def begin(self, cells: dict[NodeId, ReplayedCell]) -> None:
        """Begin a file that has these cells in it.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        if self._path is None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        fresh = self._path.with_name(f"{self._path.name}.new")
        self._file = open(fresh, "w", encoding="utf-8")  # noqa: SIM115 - until `end`
        self._write(self._head)
        for cell in cells.values():
            self._write(to_json(cell))
        os.replace(fresh, self._path)

    def add(self, cell: ReplayedCell) -> None:
        self._write(to_json(cell))

    def end(self, *, is_complete: bool) -> None:
        """Close the file; nothing is left of a replay that is complete."""
        if self._file is not None:
            self._file.close()
            self._file = None
        if is_complete and self._path is not None:
            self._path.unlink(missing_ok=True)

    def _write(self, data: object) -> None:
        if self._file is not None:
            self._file.write(json.dumps(data) + "\n")
            self._file.flush()
