"""Files that are not as they were at a checkpoint.

A restore takes the process back, not the disk.  So that it can say which files
differ, each file is noted before it is first written, and at each checkpoint
the files used so far and those of the working folder.  The audit of system
calls sees who uses files; where there is none, the worker notes what Python
does.  The supervisor keeps these notes in the order of time: processes branch,
the disk does not.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass

from chexpoint.engine.proc import list_unseen

Signature = tuple[int, ...] | None
"""What tells whether a file has changed; None if it does not exist."""

Note = tuple[str, Signature]

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_NOT_FILES = ("/dev/", "/proc/", "/sys/")
_CHANGING = {
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.truncate",
    "os.chmod",
    "os.chown",
    "os.utime",
    "sqlite3.connect",
}
# Folders and sets of files beyond this are not looked at: it would delay every checkpoint.
_MANY = 1000
# On a file system that takes longer than this, the working folder is left alone.
_PATIENCE_S = 0.05


def signature(path: str) -> Signature:
    try:
        info = os.lstat(path)
    except OSError:
        return None
    return signature_of(info)


def signature_of(info: os.stat_result) -> Signature:
    if stat.S_ISDIR(info.st_mode):
        return (info.st_ino, info.st_mode)  # its entries are looked at one by one
    return (info.st_ino, info.st_mode, info.st_uid, info.st_size, info.st_mtime_ns)


def entries(folder: str) -> list[str] | None:
    """Return the paths in a folder, or None if it cannot be read or has too many."""
    try:
        names = list_unseen(folder)
    except OSError:
        return None
    return [os.path.join(folder, name) for name in names] if len(names) <= _MANY else None


class FileWatch:
    """Notes the files this process uses, from `start` on."""

    def __init__(self, ignored: Iterable[str] = ()) -> None:
        self._ignored = (*_NOT_FILES, sys.prefix, sys.base_prefix, *ignored)
        self._known: set[str] = set()
        self._unsent: dict[str, Signature] = {}
        self._is_slow = False
        self.folder = ""

    def start(self) -> None:
        sys.addaudithook(self._hook)

    def take(self) -> list[Note]:
        """Return the files first written since the last call, as they were before."""
        unsent, self._unsent = self._unsent, {}
        return list(unsent.items())

    def at_checkpoint(self) -> list[Note]:
        """Return the files used so far and those of the working folder, as they are now."""
        self._unsent.clear()
        try:
            self.folder = os.getcwd()
        except OSError:  # it may be gone
            self.folder = ""
        notes = [(path, signature(path)) for path in self._known]
        inside = None if self._is_slow else entries(self.folder)
        started = time.monotonic()
        for path in inside or ():
            if path not in self._known:
                notes.append((path, signature(path)))
            if time.monotonic() - started > _PATIENCE_S:
                self._is_slow, inside = True, None
                break
        if inside is None:
            self.folder = ""
        return notes

    def _hook(self, event: str, args: tuple[object, ...]) -> None:
        if event == "open":
            flags = args[2]
            self._note(args[0], writing=isinstance(flags, int) and bool(flags & _WRITING))
        elif event in _CHANGING:
            self._note(args[0], writing=True)
        elif event == "os.rename":
            self._note(args[0], writing=True)
            self._note(args[1], writing=True)
        elif event in {"os.link", "os.symlink"}:
            self._note(args[1], writing=True)

    def _note(self, target: object, *, writing: bool) -> None:
        if not isinstance(target, str | bytes | os.PathLike):
            return
        # An exception here would make the user's own call fail.
        with contextlib.suppress(Exception):
            path = os.path.abspath(os.fsdecode(target))
            if path.startswith(self._ignored):
                return
            if len(self._known) < _MANY:
                self._known.add(path)
            if writing and path not in self._unsent:
                self._unsent[path] = signature(path)


class FileLog:
    """Notes of files in the order of time, across all timelines."""

    def __init__(self) -> None:
        self._written: list[Note] = []
        self._checkpoints: dict[str, Snapshot] = {}

    def add(self, notes: Iterable[Note]) -> None:
        """Take notes of files as they were just before they were written."""
        self._written.extend(_known(notes))

    def checkpoint(self, name: str, folder: str, notes: Iterable[Note]) -> None:
        """Take notes of files at the moment of a checkpoint; ``folder`` is listed in full."""
        self._checkpoints[name] = Snapshot(len(self._written), folder, dict(_known(notes)))

    def forget(self, name: str) -> None:
        self._checkpoints.pop(name, None)

    def changed_since(self, name: str) -> list[str]:
        """Return the files that are not as they were at a checkpoint."""
        snapshot = self._checkpoints.get(name)
        if snapshot is None:
            return []
        then = dict(snapshot.files)
        for path, before in self._written[snapshot.written :]:
            then.setdefault(path, before)
        if snapshot.folder:
            for path in entries(snapshot.folder) or ():
                then.setdefault(path, None)
        return sorted(path for path, before in then.items() if signature(path) != before)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files at one checkpoint."""

    written: int
    """How many files had been noted as written by then."""
    folder: str
    """A folder whose entries are all in ``files``; empty if there was none."""
    files: dict[str, Signature]


def _known(notes: Iterable[Note]) -> list[Note]:
    """Return notes as they were before they travelled as JSON."""
    return [(path, None if noted is None else tuple(noted)) for path, noted in notes]
