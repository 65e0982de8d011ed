"""Files written by the cells, as far as Python itself sees them.

A restore takes the process back, not the disk.  So that it can say which files
are not as they were, the worker notes each file before it is first written
after a checkpoint, and the supervisor keeps these notes in the order of time.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable

Signature = tuple[int, int, int] | None
"""Inode, size and time of change of a file; None if it does not exist."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOT_FILES = ("/dev/", "/proc/", "/sys/")


def signature(path: str) -> Signature:
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_ino, info.st_size, info.st_mtime_ns


class WriteWatch:
    """Notes the files this process is about to write, from `start` on."""

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        self._ignored = (*_NOT_FILES, *ignored)
        self._before: dict[str, Signature] = {}
        self._unsent: dict[str, Signature] = {}

    def start(self) -> None:
        sys.addaudithook(self._hook)

    def take(self) -> dict[str, Signature]:
        """Return what was noted since the last call."""
        unsent, self._unsent = self._unsent, {}
        return unsent

    def new_epoch(self) -> None:
        """A checkpoint was taken: the next write to any file is a first one again."""
        self._before.clear()

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            path, _, flags = args[:3]
            if isinstance(flags, int) and flags & _WRITING:
                self._note(path)
        elif event in {"os.remove", "os.rmdir", "os.mkdir", "os.truncate", "sqlite3.connect"}:
            self._note(args[0])
        elif event == "os.rename":
            self._note(args[0])
            self._note(args[1])
        elif event in {"os.link", "os.symlink"}:
            self._note(args[1])

    def _note(self, target: object) -> None:
        if not isinstance(target, str | bytes | os.PathLike):
            return
        # An exception here would make the user's own call fail.
        with contextlib.suppress(Exception):
            path = os.path.abspath(os.fsdecode(target))
            if path not in self._before and not path.startswith(self._ignored):
                self._before[path] = self._unsent[path] = signature(path)


class WriteLog:
    """All notes in the order of time, across all timelines; the disk has only one."""

    def __init__(self) -> None:
        self._notes: list[tuple[str, Signature]] = []
        self._positions: dict[str, int] = {}

    def add(self, notes: Iterable[tuple[str, Signature]]) -> None:
        self._notes.extend((path, tuple(sig) if sig else None) for path, sig in notes)  # type: ignore[misc]

    def mark(self, checkpoint: str) -> None:
        """Remember the present as the moment of a checkpoint."""
        self._positions[checkpoint] = len(self._notes)

    def changed_since(self, checkpoint: str) -> list[str]:
        """Return the files that are not as they were at a checkpoint."""
        then: dict[str, Signature] = {}
        for path, before in self._notes[self._positions.get(checkpoint, 0) :]:
            then.setdefault(path, before)
        return sorted(path for path, before in then.items() if signature(path) != before)
