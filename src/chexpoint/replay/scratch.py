"""The folder that one worker of a replay runs its cells in.

Nothing of the project itself is touched: the files that cells read are copied here when a cell
needs them, and what cells write stays here.  A state is more than a process: going back to one
makes the folder what it was, too.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

_Signature = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class FolderState:
    """What was in the folder at some time; contents are files that never change."""

    files: Mapping[str, Path]
    folders: frozenset[str]
    links: Mapping[str, str]


EMPTY = FolderState({}, frozenset(), {})


class Scratch:
    """A folder, and what it has been.

    Paths are relative to it.

    Parameters
    ----------
    base
        An empty folder for the cells' folder, and for contents that have to be kept.
    """

    def __init__(self, base: Path) -> None:
        self.folder = base / "project"
        self._kept = base / "kept"
        self.folder.mkdir()
        self._kept.mkdir()
        self._known: dict[str, tuple[_Signature, Path]] = {}
        """What is in each file, as long as its signature says so."""
        self._count = 0

    def place(self, path: str, contents: Path | None) -> None:
        """Give a file these contents; None makes an empty one."""
        if contents is not None and self._contents_now(path) == contents:
            return
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_symlink() or target.is_dir():
            self.remove(path)
        # In place: whoever has the file open must go on seeing it.
        if contents is None:
            target.write_bytes(b"")
            return
        shutil.copyfile(contents, target)
        shutil.copystat(contents, target)
        target.chmod(0o644)
        self._known[path] = _signature(target.lstat()), contents

    def has(self, path: str) -> bool:
        """Return whether there is anything of this name."""
        return os.path.lexists(self.folder / path)

    def make_folder(self, path: str) -> None:
        """Make a folder, unless there is one."""
        (self.folder / path).mkdir(parents=True, exist_ok=True)

    def remove(self, path: str) -> None:
        """Remove a file or a folder, if there is one."""
        target = self.folder / path
        self._known.pop(path, None)
        if target.is_dir() and not target.is_symlink():
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)

    def touched(self, paths: Iterable[str]) -> None:
        """Say that files have been written: two changes in one tick of the clock look like one."""
        for path in paths:
            self._known.pop(path, None)

    def state(self) -> FolderState:
        """Return what is in the folder now, and keep it."""
        files, folders, links = {}, set(), {}
        for path, info in self._walk():
            if stat.S_ISREG(info.st_mode):
                known = self._known.get(path)
                if known is None or known[0] != _signature(info):
                    known = _signature(info), self._keep(path)
                    self._known[path] = known
                files[path] = known[1]
            elif stat.S_ISDIR(info.st_mode):
                folders.add(path)
            elif stat.S_ISLNK(info.st_mode):
                links[path] = os.readlink(self.folder / path)
        return FolderState(files, frozenset(folders), links)

    def go_back(self, state: FolderState) -> None:
        """Make the folder what it was."""
        there = {path: info.st_mode for path, info in self._walk()}
        for path in sorted(there, reverse=True):  # what is in a folder goes before it
            mode = there[path]
            is_kept = (
                (stat.S_ISREG(mode) and path in state.files)
                or (stat.S_ISDIR(mode) and path in state.folders)
                or (stat.S_ISLNK(mode) and path in state.links)
            )
            if not is_kept:
                self.remove(path)
        for folder in sorted(state.folders):
            self.make_folder(folder)
        for path, contents in state.files.items():
            self.place(path, contents)
        for path, target in state.links.items():
            link = self.folder / path
            if not link.is_symlink() or os.readlink(link) != target:
                self.remove(path)
                link.symlink_to(target)

    def _contents_now(self, path: str) -> Path | None:
        """Return what is known to be in a file; None if nothing is."""
        known = self._known.get(path)
        with contextlib.suppress(OSError):
            if known is not None and known[0] == _signature((self.folder / path).lstat()):
                return known[1]
        return None

    def _keep(self, path: str) -> Path:
        self._count += 1
        copy = self._kept / str(self._count)
        shutil.copyfile(self.folder / path, copy)
        shutil.copystat(self.folder / path, copy)
        return copy

    def _walk(self) -> list[tuple[str, os.stat_result]]:
        found = []
        waiting = [""]
        while waiting:
            at = waiting.pop()
            with os.scandir(self.folder / at) as entries:
                for entry in entries:
                    path = os.path.join(at, entry.name)
                    info = entry.stat(follow_symlinks=False)
                    found.append((path, info))
                    if stat.S_ISDIR(info.st_mode):
                        waiting.append(path)
        return found


def _signature(info: os.stat_result) -> _Signature:
    return (info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
