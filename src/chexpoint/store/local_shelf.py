"""A store in a folder: files are mapped into memory, synchronised to disk, locked by `flock`."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.store.shelf import FOLDERS, Entry, flat

if TYPE_CHECKING:
    from typing_extensions import Buffer

_MAPPED_BYTES = 256 * 1024
"""Files from this size on are mapped: each mapping takes a file descriptor, and there are few."""
_POLL_S = 0.005


class LocalShelf:
    """The `Shelf` of a folder on a local disk."""

    grace_s = 0.0

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.url = str(folder)

    def prepare(self) -> None:
        """Make the folder of the store and those inside it."""
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        for path in (self._folder, *(self._folder / name for name in FOLDERS)):
            path.mkdir(mode=0o700, exist_ok=True)
        _sync(self._folder)
        _sync(self._folder.parent)

    def view(self, name: str) -> memoryview:
        """Return the contents of a file; the larger ones are read when they are looked at."""
        fd = os.open(self._folder / name, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            if size < _MAPPED_BYTES:
                return memoryview(_read(fd, size))
            return memoryview(mmap.mmap(fd, size, prot=mmap.PROT_READ))
        finally:
            os.close(fd)

    def read_all(self, folder: str, names: list[str]) -> dict[str, bytes]:
        """Return the contents of small files."""
        found = {}
        for name in names:
            try:
                found[name] = bytes(self.view(f"{folder}/{name}"))
            except FileNotFoundError:
                continue
        return found

    def entries(self, folder: str) -> list[Entry]:
        """Return the files of a folder."""
        found = []
        try:
            with os.scandir(self._folder / folder) as items:
                for item in items:
                    try:
                        status = item.stat(follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    found.append(Entry(name=item.name, nbytes=status.st_size, time=status.st_mtime))
        except FileNotFoundError:
            return []
        return found

    def writer(self) -> LocalWriter:
        """Begin a file, under a name of its own."""
        if not (self._folder / "tmp").is_dir():
            # Empty folders get lost when a store is copied by Git or through an archive.
            self.prepare()
        return LocalWriter(self._folder)

    def delete(self, name: str) -> None:
        """Delete a file."""
        (self._folder / name).unlink(missing_ok=True)

    def move(self, name: str, to: str) -> None:
        """Rename a file."""
        os.replace(self._folder / name, self._folder / to)

    def lock(self, *, exclusive: bool, patience_s: float) -> FileLock | None:
        """Lock the file ``lock``; who may only read the folder needs none if it has none."""
        path = self._folder / "lock"
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno not in (errno.EACCES, errno.EPERM, errno.EROFS):
                raise
            fd = _open_or_none(path)
        if fd < 0:
            return FileLock(-1)
        if _flock(fd, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH, patience_s):
            return FileLock(fd)
        os.close(fd)
        return None


class FileLock:
    """A lock that ends with its process at the latest.

    A fork inherits it; what the fork does never unlocks it for its parent.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._pid = os.getpid()

    def release(self) -> None:
        """Unlock."""
        fd, self._fd = self._fd, -1
        if fd < 0:
            return
        if self._pid == os.getpid():
            # Forks share it: closing alone would keep it until the last of them ends.
            fcntl.flock(fd, fcntl.LOCK_UN)
        os.close(fd)


class LocalWriter:
    """Writes a file below ``tmp`` and renames it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Not `tempfile`: its generator of names would be that of the process that was forked.
        self._path = folder / "tmp" / f"{os.getpid()}-{os.urandom(8).hex()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, 0o600)

    def write(self, data: Buffer) -> None:
        """Add bytes."""
        rest = flat(data)
        while rest:
            rest = rest[os.write(self._fd, rest) :]

    def finish(self, name: str, *, durable: bool = True) -> None:
        """Rename the file."""
        target = self._folder / name
        if durable:
            os.fsync(self._fd)
        self._close()
        os.replace(self._path, target)
        if durable:
            _sync(target.parent)

    def discard(self) -> None:
        """Delete the file if it was not renamed."""
        self._close()
        self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)


def _read(fd: int, size: int) -> bytes:
    pieces = []
    while size > 0 and (data := os.read(fd, size)):
        pieces.append(data)
        size -= len(data)
    return b"".join(pieces)


def _sync(folder: Path) -> None:
    """Make the names in a folder survive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _open_or_none(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _flock(fd: int, how: int, patience_s: float) -> bool:
    """Try to lock a file for a while; `flock` itself would wait for ever."""
    end = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(fd, how | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                return False
            time.sleep(_POLL_S)
        else:
            return True
