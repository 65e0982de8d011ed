"""What files and folders are now, in the words of the audit, and how to make them what they were.

They are looked at by the code that audits cells, so that what it finds now can
be compared with what it found then.
"""

from __future__ import annotations

import contextlib
import os
import queue
import secrets
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import xxhash

from chexpoint.errors import ChexError
from chexpoint.lineage.cell_log import CellLog
from chexpoint.lineage.fingerprint import (
    Fingerprints,
    Job,
    Reading,
    Signature,
    link_word,
    signature_of,
    size_word,
)
from chexpoint.lineage.folders import Folder
from chexpoint.lineage.places import Kind, Places
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.reads import Reads
from chexpoint.lineage.table import printable
from chexpoint.lineage.trail import Step
from chexpoint.model import Digest

FOLDER = "folder"
"""Instead of a digest: there is a folder."""
ELSEWHERE = "elsewhere"
"""Instead of a digest: the name leads to another file, or to one that is no data any more."""
LATE = "late"
"""Instead of a digest: nobody knows, because it took too long."""
NOWHERE = "nowhere"
"""Instead of a digest: no file can be found by this name."""

NOT_KNOWN = {
    "": "is not known as a cell left it",
    "volatile": "changed while it was read",
    "unreadable": "could not be read",
    "fifo": "is a pipe: what came out of it is not known",
    "socket": "is a socket: what came out of it is not known",
    "device": "is a device: what came out of it is not known",
    "link": "is a link: where it led is not known",
}
"""What is recorded where contents are not known, and so cannot be the same now."""
NOW = {
    "absent": "is not there any more",
    "volatile": "is being changed",
    "unreadable": "cannot be read",
    "fifo": "is a pipe now",
    "socket": "is a socket now",
    "device": "is a device now",
    FOLDER: "is a folder now",
    ELSEWHERE: "leads elsewhere now",
    LATE: "could not be looked at in time",
    NOWHERE: "cannot be found again: its name was drawn by lot, or is that of another place",
}
"""What may be found instead of contents."""

# A file server that has not answered by then is not waited for.
_FAR_PATIENCE_S = 5.0
# The largest file that is hashed at all takes about half as long on a slow disk.
_PATIENCE_S = 120.0
_ONLY_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_CHUNK = 2**20
_MOST_SPOTS = 100_000
_WITH_LOTS = ("$TMP/", "/dev/shm/")


def is_by_lot(name: str) -> bool:
    """Return whether parts of a canonical name were drawn by lot, so that many files have it."""
    return "*" in name and name.startswith(_WITH_LOTS)


def path_of(name: str, places: Places) -> str:
    """Return the real path of a file by its canonical name; empty if it cannot be found again.

    Names with parts that were drawn by lot cannot, nor can what is no canonical name here.
    """
    if "\0" in name or is_by_lot(name):
        return ""
    base, slash, rest = name.partition("/")
    folder = {"": "", ".": places.project, "~": places.home, "$TMP": places.tmp}.get(base)
    parts = rest.split("/") if slash and name != "/" else ()
    if folder is None or not {"", ".", ".."}.isdisjoint(parts):
        return ""
    path = folder + slash + rest
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        return ""
    return path if path and places.name(path) == name else ""


def difference(then: Digest, now: Digest) -> str:
    """Return how a file differs from what it was; empty if it surely does not."""
    if then in NOT_KNOWN:
        return NOT_KNOWN[then]
    if then == now:
        return ""
    if now in NOW:
        return NOW[now]
    return "is there now" if then == "absent" else "has other contents now"


class _Spot:
    """Where a file is to be found, and what was found there last."""

    __slots__ = ("digest", "head", "path", "raw", "signature", "tail")

    def __init__(self, path: str) -> None:
        self.path = path
        self.raw = os.fsencode(path)
        self.head = path.rpartition("/")[0]
        self.tail = self.raw.rpartition(b"/")[2]
        self.signature: Signature | None = None
        """Of the file that the digest is of, if it tells all."""
        self.digest: Digest = ""

    def glance(self, then: Digest) -> Digest:
        """Return what is there; nothing if that takes more than a glance."""
        try:
            info = os.lstat(self.raw)
        except (FileNotFoundError, NotADirectoryError):
            return "absent"
        except OSError:
            return ""
        signature = signature_of(info)
        if signature == self.signature:
            return self.digest
        # Whatever is in it, it is not absent; and of what was not hashed the size will do.
        is_size_enough = then == "absent" or then.startswith("size:")
        return size_word(signature) if is_size_enough and stat.S_ISREG(info.st_mode) else ""


class FilesNow:
    """Looks at files and folders by their canonical names; for one thread.

    What it has seen it remembers, as long as the signature of a file tells that it has not changed.

    Parameters
    ----------
    cache_file
        Where digests of large files are kept from one process to the next.
    """

    def __init__(self, places: Places, cache_file: str | None = None) -> None:
        self._places = places
        self._done: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._prints = Fingerprints(self._done.put, cache_file)
        self._reads = Reads(places, self._prints)
        self._spots: dict[str, _Spot] = {}
        self._heads: dict[str, Folder] = {}
        """The folders of one look; the next look finds them anew."""
        self._hung: dict[bytes, Reading] = {}
        """What a far file system has not answered yet, though it had its time."""

    def files(self, expected: Mapping[str, Digest]) -> dict[str, Digest]:
        """Return what each file is, given what it should be: then it need not always be read."""
        log = self._begin()
        found: dict[str, Digest] = {}
        asked: dict[str, tuple[_Spot, bytes]] = {}
        for name, then in expected.items():
            spot = self._spots.get(name) or self._spot(name)
            folder = self._folder(spot)
            if folder is None:
                found[name] = ELSEWHERE if spot.path else NOWHERE
                continue
            far = self._reads.folders.far_at(folder, spot.tail)
            if far and self._is_hung(far):
                found[name] = LATE
            elif not far and (word := spot.glance(then)):
                found[name] = word
            else:
                self._reads.read(WORKER, folder, spot.tail)
                asked[name] = spot, far
        self._wait(log)
        return found | {name: self._answer(log, *each) for name, each in asked.items()}

    def listings(self, names: Iterable[str]) -> dict[str, Digest]:
        """Return the digest of the entries of each folder, or a word if it is none."""
        log = self._begin()
        found = {}
        for name in names:
            spot = self._spot(name)
            folder = self._folder(spot, near=True)
            found[name] = ELSEWHERE if spot.path else NOWHERE
            if folder is not None:
                self._reads.read(WORKER, folder, spot.tail)
                seen = log.lists.get(spot.path)
                found[name] = seen[-1][1].digest if seen else self._answer(log, spot, b"")
        return found

    def links(self, names: Iterable[str]) -> dict[str, Digest]:
        """Return what stands for each link and where it leads, or a word if it is none."""
        self._begin()
        found = {}
        for name in names:
            spot = self._spot(name)
            found[name] = ELSEWHERE if spot.path else NOWHERE
            if self._folder(spot, near=True) is not None:
                with contextlib.suppress(OSError):
                    found[name] = link_word(os.readlink(spot.raw), self._places)
        return found

    def existing_folders(self, names: Iterable[str]) -> set[str]:
        """Return the names that are surely those of folders."""
        self._begin()
        spots = {name: self._spot(name) for name in names}
        return {
            name
            for name, spot in spots.items()
            if self._folder(spot, near=True) is not None and _is_folder(spot.path)
        }

    # ------------------------------------------------------------ one look

    def _begin(self) -> CellLog:
        self._reads.folders.look_at_mounts()
        self._heads.clear()
        self._reads.log = CellLog(Step(None))
        return self._reads.log

    def _spot(self, name: str) -> _Spot:
        if len(self._spots) >= _MOST_SPOTS:
            self._spots.clear()
        spot = self._spots[name] = _Spot(path_of(name, self._places))
        return spot

    def _folder(self, spot: _Spot, *, near: bool = False) -> Folder | None:
        """Return the folder of a file; None if its name leads elsewhere, or if it must be near."""
        if not spot.path:
            return None
        folder = self._heads.get(spot.head)
        if folder is None:
            folder = self._reads.folders.find(os.fsencode(spot.head))
            self._heads[spot.head] = folder
        if folder.path != (spot.head or "/") or folder.kind is not Kind.DATA:
            return None  # a folder on the way has become a link
        return None if near and self._reads.folders.far_at(folder, spot.tail) else folder

    def _wait(self, log: CellLog) -> None:
        """Wait for the digests that threads compute, but not for ever."""
        self._prints.rush()
        since = time.monotonic()
        while log.pending:
            is_far = all(reading.is_far for reading in log.pending)
            until = since + (_FAR_PATIENCE_S if is_far else _PATIENCE_S)
            try:
                job = self._done.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                return
            self._reads.done(job)
            log.pending.discard(job.reading)

    def _is_hung(self, far: bytes) -> bool:
        reading = self._hung.get(far)
        return reading is not None and not reading.digest

    def _answer(self, log: CellLog, spot: _Spot, far: bytes) -> Digest:
        """Return what was found by reading."""
        readings = log.reads.get(spot.path)
        if readings is None:
            return FOLDER if spot.path in log.lists else ELSEWHERE
        reading = readings[-1]
        if not reading.digest:
            if far:
                self._hung[far] = reading
            return LATE
        if reading.signature is not None and not far:
            if _has_changed(spot.raw, reading.signature):
                return "volatile"
            if self._prints.known(reading.signature) == reading.digest:
                spot.signature, spot.digest = reading.signature, reading.digest
        return reading.digest


def put_contents(path: str, kept: Path, then: Digest) -> None:
    """Make the contents of a file what is kept of them: at once, or not at all.

    Folders on the way are made.  The file keeps its permissions; a new one gets the usual ones.

    Raises
    ------
    ChexError
        If that would lead through a link, replace anything but a file, or if what is kept is not
        what it should be.
    OSError
        If it cannot be written.
    """
    folder, _, name = path.rpartition("/")
    temporary = f".chex-{secrets.token_hex(8)}"
    with _opened_folder(folder) as at:
        mode = _permissions(path, name, at)
        fd = os.open(temporary, _NEW_FILE, 0o666, dir_fd=at)
        try:
            with open(fd, "wb") as target, open(kept, "rb") as source:
                if mode is not None:
                    os.fchmod(fd, mode)
                found = _copy(source, target)
            if found != then:
                raise ChexError(f"what is kept of {printable(path)} is damaged: run the cell again")
            os.replace(temporary, name, src_dir_fd=at, dst_dir_fd=at)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=at)
            raise


def make_folder(path: str) -> None:
    """Make a folder if there is none; raises as `put_contents` does."""
    with _opened_folder(path):
        pass


@contextlib.contextmanager
def _opened_folder(path: str) -> Iterator[int]:
    """Open a folder, made if need be, step by step, so that no link on the way is followed."""
    at = os.open("/", _ONLY_FOLDER)
    try:
        for part in filter(None, path.split("/")):
            try:
                inner = _open_or_make(part, at)
            except NotADirectoryError:
                what = f"{printable(path)} leads through a link or a file"
                raise ChexError(f"{what}: nothing is put back there; run the cell again") from None
            os.close(at)
            at = inner
        yield at
    finally:
        os.close(at)


def _open_or_make(name: str, folder: int) -> int:
    try:
        return os.open(name, _ONLY_FOLDER, dir_fd=folder)
    except FileNotFoundError:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        return os.open(name, _ONLY_FOLDER, dir_fd=folder)


def _permissions(path: str, name: str, folder: int) -> int | None:
    """Return those of the file to be replaced; None if there is none."""
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise ChexError(f"{printable(path)} is no file now, and is not replaced: move it away")
    return stat.S_IMODE(mode)


def _copy(source: BinaryIO, target: BinaryIO) -> Digest:
    """Copy a file; return the digest of its contents."""
    hasher = xxhash.xxh3_128()
    while data := source.read(_CHUNK):
        hasher.update(data)
        target.write(data)
    return hasher.hexdigest()


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def _has_changed(path: bytes, signature: Signature) -> bool:
    try:
        return signature_of(os.lstat(path)) != signature
    except OSError:
        return True
