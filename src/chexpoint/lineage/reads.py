"""What reading a file means for the cell that does it.

Everything here is quick; whatever may take time is a `Job` for a thread.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from chexpoint.lineage.cell_log import CellLog
from chexpoint.lineage.fingerprint import (
    LARGEST_BYTES,
    READ_FLAGS,
    SMALL_BYTES,
    Fingerprints,
    Job,
    Reading,
    Signature,
    is_settled,
    link_word,
    listing,
    signature_of,
    size_word,
    special_word,
)
from chexpoint.lineage.folders import Folder, Folders
from chexpoint.lineage.places import Kind, Places
from chexpoint.lineage.trail import Step

_MODULES = (b".py", b".pyc", b".so")
_ENTROPY = {"/dev/random", "/dev/urandom", "/dev/hwrng"}
MAX_LINKS = 40
_MOST_USED = 1000


class Produced:
    """A file as a cell left it."""

    __slots__ = ("reading", "step")

    def __init__(self, reading: Reading, step: Step) -> None:
        self.reading = reading
        self.step = step


class Reads:
    """Notes what the current cell reads; used under the auditor's lock alone.

    ``who`` is the logical name of a process.
    """

    def __init__(self, places: Places, prints: Fingerprints) -> None:
        self.log = CellLog(Step(None))
        self.places = places
        self.folders = Folders(places)
        self.used: dict[str, None] = {}
        """Paths that were read or changed, as many as are worth looking at again."""
        self._produced: dict[str, Produced] = {}
        self._prints = prints
        self._pending: dict[tuple[int, int] | str, Job] = {}
        self._late: dict[Reading, Produced] = {}
        self._doubtful: set[tuple[int, int]] = set()

    def known(self, signature: Signature) -> str | None:
        """Return the digest of a file that was hashed before."""
        return self._prints.known(signature)

    def done(self, job: Job) -> None:
        """A digest has been computed, or will not be."""
        reading = job.reading
        for key in [key for key, running in self._pending.items() if running is job]:
            del self._pending[key]
        made = self._late.pop(reading, None)
        if made is not None and made.reading.signature == reading.signature:
            reading.digest = _as_left_by(made.step)

    def is_elsewhere(self, folder: Folder, name: bytes, *, changes: bool) -> bool:
        """Return whether a file is no data and needs no further look, having counted it."""
        if folder.kind is Kind.DATA:
            if folder.path == "/etc" and self.places.is_system_file(folder.text(name)):
                self.log.environment_reads += 1
                return True
            return False
        if folder.kind is Kind.IGNORED:
            if folder.path == "/dev" and folder.text(name) in _ENTROPY:
                self.log.entropy(f"it read random numbers from {folder.text(name)}")
            return True
        if folder.kind is Kind.CACHE:
            return changes  # compiled by Python: its source counts
        if not changes:
            self.log.environment_reads += 1
            if name.endswith(_MODULES) or b".so." in name:
                self.log.loaded_module()
        return True  # what is installed shows in the environment fingerprint

    def note_links(self, who: str, folder: Folder) -> None:
        """Note which links led to a folder: they may lead elsewhere another time."""
        below_project = os.fsencode(self.places.project) + b"/"
        for link in folder.links:
            # Those of the system are many, and as much a part of it as what they lead to.
            is_data = folder.kind is Kind.DATA or link[0].startswith(below_project)
            if is_data and link not in self.log.links:
                self.log.followed(who, link, link_word(link[1], self.places))

    def add_looks(self, looks: Iterable[tuple[str, str, bool]]) -> None:
        """Note what the cell asked about files of the project without opening them.

        Imports look for modules everywhere; what they find shows when it is opened.
        """
        start = self.places.project + "/"
        for path, what, answer in looks:
            if (path + "/").startswith(start):
                self.log.looked(path, what, answer)

    # ------------------------------------------------------------ reading

    def read(
        self, who: str, folder: Folder, name: bytes, flags: int = os.O_DIRECTORY, when: int = 0
    ) -> str | None:
        """Note that a path was opened for reading; return it if it is a folder, now listed.

        ``when`` it was opened, in ns; what has changed since then is volatile.
        """
        for _ in range(MAX_LINKS):
            if folder.links:
                self.note_links(who, folder)
            if self.is_elsewhere(folder, name, changes=False):
                return None
            if folder.kind is Kind.CACHE:
                self._read_source(who, folder, name, when)
                return None
            raw = folder.prefix + name
            if far := self.folders.far_at(folder, name):
                self._read_far(who, far, raw)
                return None
            try:
                info = os.lstat(raw)
            except OSError as error:
                self._cannot_read(who, folder, name, error, when)
                return None
            if not stat.S_ISLNK(info.st_mode):
                return self._read_entry(who, raw, info, flags, when)
            folder, name = self.folders.follow(folder, name)
        self.log.word(who, folder.text(name), "unreadable")  # a loop of links
        return None

    def _cannot_read(
        self, who: str, folder: Folder, name: bytes, error: OSError, when: int
    ) -> None:
        path = folder.text(name)
        if path in self.log.writes or self.places.is_system_file(path):
            return
        word = "unreadable"
        if error.errno in {errno.ENOENT, errno.ENOTDIR}:
            word = "volatile" if when and _changed_at(folder.path) > when else "absent"
        self.log.word(who, path, word)

    def _read_entry(
        self, who: str, raw: bytes, info: os.stat_result, flags: int, when: int = 0
    ) -> str | None:
        path = os.fsdecode(raw)
        has_contents = stat.S_ISREG(info.st_mode) or stat.S_ISDIR(info.st_mode)
        if when and has_contents and info.st_ctime_ns > when and path not in self.log.writes:
            self.log.word(who, path, "volatile")
        elif stat.S_ISREG(info.st_mode):
            if path in self.log.writes and path not in self.log.moved:
                self.log.did(who, "read own", path)
            elif self.places.is_system_file(path):
                self.log.environment_reads += 1
            else:
                self.read_file(who, raw, path, signature_of(info))
        elif stat.S_ISDIR(info.st_mode):
            if self.places.kind(path) in {Kind.IGNORED, Kind.ENVIRONMENT}:
                return None  # such as /proc, in a folder of data
            if not flags & os.O_DIRECTORY and self._has_changed_in(path):
                return None  # to have its changes reach the disk, as databases do
            try:
                found = listing(raw)
            except OSError:
                found = "unreadable"
            self.log.listed(who, path, Reading(None, found))
            return path
        else:
            self.log.word(who, path, special_word(info.st_mode))
        return None

    def _has_changed_in(self, folder: str) -> bool:
        start = folder + "/"
        return any(path.startswith(start) for path in self.log.writes)

    def _read_source(self, who: str, folder: Folder, name: bytes, when: int) -> None:
        """A compiled file is read: its source counts, whether or not Python looks at it."""
        if name.endswith(b".pyc") and not folder.far:
            parent = self.folders.find(folder.prefix[: -len("/__pycache__/")])
            source = name.split(b".", 1)[0] + b".py"
            if os.path.exists(parent.prefix + source):
                self.read(who, parent, source, when=when)

    def read_file(self, who: str, raw: bytes, path: str, signature: Signature) -> Job | None:
        """Note the read of a regular file; return the job if its digest is yet to come."""
        if len(self.used) < _MOST_USED:
            self.used[path] = None
        made = self._produced.get(path)
        if (
            made is not None
            and made.reading.signature == signature
            and self.log.step.follows(made.step)
        ):
            self.log.read(who, path, Reading(signature, _as_left_by(made.step)))
            return None
        is_doubtful = bool(self._doubtful) and signature[:2] in self._doubtful
        found = None if is_doubtful else self._prints.known(signature)
        if found is None and signature[2] > LARGEST_BYTES:
            found = size_word(signature)
        if found is None and signature[2] <= SMALL_BYTES:
            found = self._read_small(raw, signature, remember=not is_doubtful)
        if found is not None:
            self.log.read(who, path, Reading(signature, found))
            return None
        return self._read_large(who, raw, path, signature, trusted=not is_doubtful)

    def _read_small(self, raw: bytes, signature: Signature, *, remember: bool) -> str:
        try:
            fd = os.open(raw, READ_FLAGS)
        except OSError as error:
            return "absent" if error.errno == errno.ENOENT else "unreadable"
        try:
            found = self._prints.small(fd, signature[2])
        finally:
            os.close(fd)
        if remember and is_settled(signature):
            self._prints.remember(signature, found)
        return found

    def _read_large(
        self, who: str, raw: bytes, path: str, signature: Signature, *, trusted: bool
    ) -> Job:
        job = self._pending.get(signature[:2])
        if job is None or job.reading.signature != signature:
            try:
                fd = os.open(raw, READ_FLAGS)
            except OSError:
                fd = -1  # the thread will find out why
            job = Job(raw, fd, Reading(signature), trusted=trusted)
            self._pending[signature[:2]] = job
            self._prints.submit(job)
        self.log.read(who, path, job.reading)
        if not job.reading.digest:
            self.log.pending.add(job.reading)
        return job

    def _read_far(self, who: str, far: bytes, raw: bytes) -> None:
        path = os.fsdecode(raw)
        if path in self.log.writes:
            return
        reading = Reading(None)
        self.log.reads.setdefault(path, []).append(reading)
        self.log.did(who, "read", path)
        made = self._produced.get(path)
        if made is not None and self.log.step.follows(made.step):
            self._late[reading] = made
        self._pending[path] = self._submit_far(far, raw, reading)

    def _submit_far(self, far: bytes, raw: bytes, reading: Reading) -> Job:
        job = Job(raw, -1, reading)
        reading.is_far = True
        self.log.pending.add(reading)
        self._prints.submit(job, far)
        return job


def _changed_at(folder: str) -> int:
    """Return when an entry of a folder last came or went, in ns; 0 if there is no such folder."""
    try:
        return os.lstat(folder).st_ctime_ns
    except OSError:
        return 0


def _as_left_by(step: Step) -> str:
    return f"cell:{step.number}"
