"""The files that cells find when they are replayed in hindsight: copies, never the user's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from chexpoint.model import Bytes, NodeId, Recording, format_size
from chexpoint.replay.files import ABSENT, FileSource, lay_out, make_ready, needed_files
from chexpoint.replay.scratch import Scratch

_SKIPPED = frozenset(
    {".chex", ".git", ".hg", ".ipynb_checkpoints", ".venv", "__pycache__", "node_modules", "venv"}
)
_MOST_COPIED: Bytes = 2**30


class World(Protocol):
    """What cells find in their folder; may be used by several threads."""

    def lay_out(self, scratch: Scratch) -> list[str]:
        """Fill an empty folder; return what a user should know."""

    def make_ready(self, node: NodeId | None, scratch: Scratch, before: Sequence[NodeId]) -> str:
        """Let the cell of a node find what it found; return why it cannot, or nothing.

        Parameters
        ----------
        before
            The nodes of the cells that have run.
        """


class RecordedWorld:
    """The files that the cells of a version have read, as they were."""

    def __init__(self, recording: Recording, files: FileSource) -> None:
        self.recording = recording
        self.files = files

    def lay_out(self, scratch: Scratch) -> list[str]:
        """Put what no cell has read, but some may list, into the folder."""
        lay_out(self.recording, self.files, scratch)
        return []

    def make_ready(self, node: NodeId | None, scratch: Scratch, before: Sequence[NodeId]) -> str:
        """Put what a cell has read into its place."""
        cell = None if node is None else self.recording.cells.get(node)
        if cell is None:
            return ""
        written = {
            effect.path
            for each in before
            if each in self.recording.cells
            for effect in self.recording.cells[each].lineage.audit.effects
            # A loop that is passed over does not write its files.
            if scratch.has(effect.path.removeprefix("./"))
        }
        for needed in needed_files(cell.lineage):
            if needed.name in written or needed.digest == ABSENT:
                continue
            if self.files.find(needed.name, needed.digest) is None:
                return f"{needed.name}, which it reads, is gone"
        try:
            make_ready(cell.lineage, self.recording, self.files, scratch, written)
        except OSError as error:
            return f"what it reads cannot be put in its place: {error}"
        return ""


class FolderWorld:
    """A copy of the folder of a script of which nobody knows what it reads."""

    def __init__(self, folder: Path, *, most_bytes: Bytes = _MOST_COPIED) -> None:
        self._folder = folder
        self._most_bytes = most_bytes

    def lay_out(self, scratch: Scratch) -> list[str]:
        """Copy the files, small ones first; those for which there is no room are links."""
        notes, room = [], self._most_bytes
        for size, path in sorted(self._files()):
            target = scratch.folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if size <= room:
                shutil.copy2(self._folder / path, target)
                room -= size
            else:
                target.symlink_to(self._folder / path)
                notes.append(f"{path} ({format_size(size)}) is not copied: it is read where it is")
        return notes

    def make_ready(self, node: NodeId | None, scratch: Scratch, before: Sequence[NodeId]) -> str:
        """Do nothing: everything is there."""
        del node, scratch, before
        return ""

    def _files(self) -> Iterator[tuple[Bytes, str]]:
        for folder, folders, names in os.walk(self._folder):
            folders[:] = [name for name in folders if name not in _SKIPPED]
            for name in names:
                path = Path(folder, name)
                if path.is_file():
                    yield path.stat().st_size, os.path.relpath(path, self._folder)
