"""Digests of file contents, computed once for each state of a file.

A file's *signature* tells whether it has changed without reading it.  Small
files are hashed where they are met; larger ones by a thread, while the cell
runs; those of a far file system by a thread of their own, because it may hang.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sqlite3
import stat
import threading
import time
from collections.abc import Callable, Iterable

import xxhash

from chexpoint.lineage.digest import digest
from chexpoint.lineage.places import Places, listed_names
from chexpoint.model import Digest

Signature = tuple[int, int, int, int, int]
"""Device, inode, size, and the times of the last change of contents and of the file, in ns."""

SMALL_BYTES = 64 * 1024
"""Up to here a file is hashed at once: handing it over would take longer."""
LARGEST_BYTES = 4 * 2**30
"""Beyond this, size and time stand for the contents."""
LARGEST_WAIT_BYTES = 512 * 2**20
"""Beyond this, nobody waits for a file to be hashed before it is changed."""

_FAR_LARGEST_BYTES = 64 * 2**20
_CHUNK = 2**20  # larger ones fall out of the cache
_WORTH_KEEPING = 2**20
# A change within one tick of the clock may leave the times as they were.
_RACY_NS = 50_000_000
_FAR_RACY_NS = 2_000_000_000
_PATIENCE_S = 5.0
_DELAY_S = 1.0
_KEPT = 200_000
_MOST_OPEN = 200
READ_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW

_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS fingerprint (dev INTEGER, ino INTEGER, size INTEGER,"
    " mtime INTEGER, ctime INTEGER, digest TEXT, PRIMARY KEY (dev, ino))"
)


def signature_of(info: os.stat_result) -> Signature:
    return (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)


def size_word(signature: Signature) -> Digest:
    """Return what stands for contents that are not hashed."""
    return f"size:{signature[2]}:{signature[3]}"


class Reading:
    """What a file was when it was read; the digest may come later."""

    __slots__ = ("digest", "is_far", "signature")

    def __init__(self, signature: Signature | None, digest: Digest = "") -> None:
        self.signature = signature
        self.digest = digest
        """Empty while it is being computed."""
        self.is_far = False


class Job:
    """One file to be hashed by a thread."""

    __slots__ = ("deadline", "fd", "given_up", "path", "reading", "submitted", "trusted")

    def __init__(self, path: bytes, fd: int, reading: Reading, *, trusted: bool = True) -> None:
        self.path = path
        self.fd = fd
        self.reading = reading
        self.trusted = trusted
        """Whether its signature tells all: not if somebody may have it mapped for writing."""
        self.deadline = 0.0
        """Set when somebody waits: size and time will do if it takes longer."""
        self.submitted = time.monotonic()
        self.given_up = False
        """Whether nobody waits any longer for a file server that hangs."""


class Fingerprints:
    """Hashes files, and remembers.

    Parameters
    ----------
    done
        Called with each job that has ended, by the thread that did it.
    cache_file
        Where digests of large files are kept from one kernel to the next.
    """

    def __init__(self, done: Callable[[Job], None], cache_file: str | None = None) -> None:
        self._done = done
        self._cache_file = cache_file
        self._known: dict[Signature, Digest] = {}
        self._lanes: dict[bytes, queue.SimpleQueue[Job]] = {}
        # Counted by one thread each: together they tell how many descriptors are held.
        self._opened = self._closed = 0
        self._turn = threading.Condition()
        self._rushed = 0.0
        self._small = bytearray(SMALL_BYTES)
        self._small_view = memoryview(self._small)

    def known(self, signature: Signature) -> Digest | None:
        return self._known.get(signature)

    def small(self, fd: int, size: int) -> Digest:
        """Return the digest of a small file that has just been opened."""
        count = os.readv(fd, [self._small]) if size else 0
        return xxhash.xxh3_128_hexdigest(self._small_view[:count])

    def submit(self, job: Job, lane: bytes = b"") -> None:
        """Have a thread fill in the digest; ``lane`` is the far mount it is on, if any."""
        if job.fd >= 0:
            if self._opened - self._closed >= _MOST_OPEN:
                os.close(job.fd)
                job.fd = -1  # it will be opened again when its turn comes
            else:
                self._opened += 1
        if lane not in self._lanes:
            self._lanes[lane] = queue.SimpleQueue()
            threading.Thread(target=self._serve, args=(lane,), daemon=True).start()
        self._lanes[lane].put(job)

    def hurry(self, job: Job) -> None:
        """Somebody waits for a job; it will not wait long."""
        with self._turn:
            job.deadline = job.deadline or time.monotonic() + _PATIENCE_S
            self._rushed = time.monotonic()  # those before it in the queue, too
            self._turn.notify_all()

    def rush(self) -> None:
        """A cell has ended: whatever it has read may be hashed now."""
        with self._turn:
            self._rushed = time.monotonic()
            self._turn.notify_all()

    # ------------------------------------------------------------ threads

    def _serve(self, lane: bytes) -> None:
        jobs = self._lanes[lane]
        kept = None if lane else _Kept.at(self._cache_file)
        while True:
            job = jobs.get()
            if not lane:
                self._wait_for_turn(job)
            try:
                found = self._hash(job, kept, far=bool(lane))
            except (FileNotFoundError, NotADirectoryError):
                found = "absent"
            except OSError:
                found = "unreadable"
            except Exception:  # a thread that dies would leave everybody waiting
                found = "volatile"
            finally:
                if job.fd >= 0:
                    os.close(job.fd)
                    self._closed += 1
            if not job.given_up:
                job.reading.digest = found
                self._done(job)

    def _wait_for_turn(self, job: Job) -> None:
        """Wait a moment while a cell runs: it would be slowed down just when it reads the file."""
        with self._turn:
            while not job.deadline and self._rushed < job.submitted:
                left = job.submitted + _DELAY_S - time.monotonic()
                if left <= 0:
                    return
                self._turn.wait(left)

    def _hash(self, job: Job, kept: _Kept | None, *, far: bool) -> Digest:
        if far and (word := _other_than_file(job.path)):
            return word
        fd = job.fd if job.fd >= 0 else os.open(job.path, READ_FLAGS & ~os.O_NOFOLLOW)
        try:
            now = signature_of(os.fstat(fd))
            wanted = job.reading.signature or now
            job.reading.signature = wanted
            if far and wanted[2] > _FAR_LARGEST_BYTES:
                return size_word(wanted)
            found = self._known.get(wanted) if job.trusted else None
            if found is None and kept is not None and job.trusted:
                found = kept.get(wanted)
            if found is None:
                found = self._contents(fd, job)
                if not found:
                    return size_word(wanted)
            if now != wanted or signature_of(os.fstat(fd)) != wanted:
                return "volatile"
        finally:
            if fd != job.fd:
                os.close(fd)
        if job.trusted and is_settled(wanted, far=far):
            self.remember(wanted, found)
            if kept is not None and wanted[2] >= _WORTH_KEEPING:
                kept.put(wanted, found)
        return found

    def remember(self, signature: Signature, digest: Digest) -> None:
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[signature] = digest

    def _contents(self, fd: int, job: Job) -> Digest:
        """Return the digest of an open file, or nothing if somebody waited too long for it."""
        hasher = xxhash.xxh3_128()
        buffer = bytearray(_CHUNK)
        view = memoryview(buffer)
        at = 0
        # By position: the descriptor may be shared.
        while count := os.preadv(fd, [buffer], at):
            hasher.update(view[:count])
            at += count
            if job.deadline and time.monotonic() > job.deadline:
                return ""
        return hasher.hexdigest()


def listing(folder: bytes | str) -> Digest:
    """Return the digest of the names in a folder."""
    return listing_digest(os.listdir(os.fsencode(folder)))


def listing_digest(names: Iterable[bytes]) -> Digest:
    """Return the digest of names as a folder lists them."""
    return digest("folder", *listed_names(names))


def special_word(mode: int) -> Digest:
    """Return what stands for something that has no contents to hash."""
    if stat.S_ISFIFO(mode):
        return "fifo"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def link_word(target: bytes, places: Places) -> Digest:
    """Return what stands for a link: where it leads, whoever has made it, and where."""
    return "link:" + digest("link", places.normalise(os.fsdecode(target)))


def _other_than_file(path: bytes) -> Digest:
    mode = os.stat(path).st_mode
    if stat.S_ISREG(mode):
        return ""
    return listing(path) if stat.S_ISDIR(mode) else special_word(mode)


def is_settled(signature: Signature, *, far: bool = False) -> bool:
    """Return whether a later change would surely show in the signature."""
    margin = _FAR_RACY_NS if far else _RACY_NS
    return time.time_ns() - max(signature[3], signature[4]) > margin


class _Kept:
    """Digests of large files on disk; losing them costs time, nothing else."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._db = connection

    @classmethod
    def at(cls, path: str | None) -> _Kept | None:
        if path is None:
            return None
        for _ in range(2):
            try:
                os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
                connection = sqlite3.connect(path, timeout=1.0, isolation_level=None)
                connection.execute("PRAGMA journal_mode=WAL")
                connection.execute("PRAGMA synchronous=OFF")
                connection.execute(_SCHEMA)
                return cls(connection)
            except sqlite3.OperationalError:
                return None  # locked, or not ours to write
            except sqlite3.DatabaseError:
                with contextlib.suppress(OSError):
                    os.unlink(path)  # damaged: begin anew
            except OSError:
                return None
        return None

    def get(self, signature: Signature) -> Digest | None:
        with contextlib.suppress(sqlite3.Error, OverflowError):
            row = self._db.execute(
                "SELECT digest FROM fingerprint WHERE dev=? AND ino=? AND size=? AND mtime=?"
                " AND ctime=?",
                signature,
            ).fetchone()
            if row and isinstance(row[0], str):
                return row[0]
        return None

    def put(self, signature: Signature, digest: Digest) -> None:
        with contextlib.suppress(sqlite3.Error, OverflowError):
            self._db.execute(
                "INSERT OR REPLACE INTO fingerprint VALUES (?, ?, ?, ?, ?, ?)",
                (*signature, digest),
            )
