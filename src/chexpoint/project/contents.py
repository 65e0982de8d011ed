"""Files that are named by the digest of what is in them.

A file appears under its name only when it is complete and on the disk: it is written under another
name in the same folder first.  A kill in between leaves that other file, which nobody reads.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import xxhash

from chexpoint.model import Digest

UNFINISHED = ".unfinished-"
"""What the names of files begin with that are being written."""

_CHUNK = 2**20
_DIGEST = re.compile("[0-9a-f]{32}")


class Contents:
    """A folder of such files: ``ab/ab12...``; nothing is made before something is put there.

    Any number of processes may put the same contents there at once.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._verified: dict[Digest, tuple[int, ...]] = {}

    def put(self, data: bytes, digest: Digest) -> None:
        """Keep some bytes, whose digest is known.

        Raises
        ------
        OSError
            If they cannot be written.
        """
        if self.find(digest) is None:
            with self._new(digest) as file:
                file.write(data)

    def put_file(self, path: Path, digest: Digest) -> bool:
        """Keep a copy of a file; return whether it has that digest, and could be read at all.

        Raises
        ------
        OSError
            If the copy cannot be written.
        """
        if _DIGEST.fullmatch(digest) is None:
            return False  # a word instead of a digest
        if self.find(digest) is not None:
            return True
        try:
            source = _opened(path)
        except OSError:
            return False
        with source:
            try:
                with self._new(digest) as copy:
                    if _copied(source, copy) != digest:
                        raise _OtherContents
            except _OtherContents:
                return False
        return True

    def get(self, digest: Digest) -> bytes | None:
        """Return what has a digest; None if it is not there, or damaged."""
        if _DIGEST.fullmatch(digest) is None:
            return None  # it may be anything, a path to somewhere else included
        try:
            data = self._path(digest).read_bytes()
        except OSError:
            return None
        return data if xxhash.xxh3_128_hexdigest(data) == digest else None

    def find(self, digest: Digest) -> Path | None:
        """Return the file with a digest; None if it is not there, or damaged.

        It is read once; as long as it does not change, it is not read again.
        """
        if _DIGEST.fullmatch(digest) is None:
            return None
        path = self._path(digest)
        try:
            with _opened(path) as file:
                signature = _signature(file)
                if self._verified.get(digest) != signature:
                    if _copied(file, None) != digest:
                        return None
                    self._verified[digest] = signature
        except (OSError, _OtherContents):
            return None
        return path

    def _path(self, digest: Digest) -> Path:
        return self._folder / digest[:2] / digest

    @contextlib.contextmanager
    def _new(self, digest: Digest) -> Iterator[BinaryIO]:
        """Open a file that gets its name if the block succeeds, and vanishes if not."""
        path = self._path(digest)
        for folder in (self._folder.parent, self._folder, path.parent):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
                _sync_folder(folder.parent)
        fd, name = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
        try:
            with open(fd, "wb") as file:
                yield file
                file.flush()
                os.fsync(fd)
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
        _sync_folder(path.parent)


def digest_of(path: Path) -> Digest | None:
    """Return the digest of what is in a file; None if it cannot be read."""
    try:
        with _opened(path) as file:
            return _copied(file, None)
    except (OSError, _OtherContents):
        return None


class _OtherContents(Exception):
    """What was read is not what was meant."""


def _opened(path: Path) -> BinaryIO:
    """Open a file for reading.

    Raises
    ------
    OSError
        Also if it is something else than a file: a pipe may keep one waiting for ever.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a file")
    return open(fd, "rb", buffering=0)


def _copied(source: BinaryIO, copy: BinaryIO | None) -> Digest:
    """Return the digest of a file, and write its contents to another one, if there is one.

    Raises
    ------
    _OtherContents
        If it cannot be read to its end.
    OSError
        If it cannot be written.
    """
    hasher = xxhash.xxh3_128()
    while True:
        try:
            chunk = source.read(_CHUNK)
        except OSError as error:
            raise _OtherContents from error
        if not chunk:
            return hasher.hexdigest()
        hasher.update(chunk)
        if copy is not None:
            copy.write(chunk)


def _signature(file: BinaryIO) -> tuple[int, ...]:
    info = os.fstat(file.fileno())
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def _sync_folder(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
