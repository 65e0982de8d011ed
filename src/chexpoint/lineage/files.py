"""What reading and changing files means for the cell that does it.

Shared by both ways of seeing it: system calls, and Python's audit hook.
Everything here is quick; whatever may take time is a `Job` for a thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import deque
from collections.abc import Iterable

from chexpoint.lineage.cell_log import CellLog, Outcome
from chexpoint.lineage.fingerprint import (
    LARGEST_BYTES,
    LARGEST_WAIT_BYTES,
    READ_FLAGS,
    SMALL_BYTES,
    Fingerprints,
    Job,
    Reading,
    Signature,
    is_settled,
    listing,
    signature_of,
    size_word,
    special_word,
)
from chexpoint.lineage.folders import Folder, Folders
from chexpoint.lineage.places import Kind, Places
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.trail import Step

CHANGING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT
_ENTROPY = {"/dev/random", "/dev/urandom", "/dev/hwrng"}
_MAX_LINKS = 40
_MOST_USED = 1000

Where = tuple[Folder, bytes]
"""A folder, and a name in it."""


class Produced:
    """A file as a cell left it."""

    __slots__ = ("reading", "step")

    def __init__(self, reading: Reading, step: Step) -> None:
        self.reading = reading
        self.step = step


class Files:
    """Notes what the current cell does to files; used under the auditor's lock alone.

    Methods that are told of a change before it happens return a `Job` if the change has to wait
    for it, and are then to be called again.  ``who`` is the logical name of a process.
    """

    def __init__(self, places: Places, prints: Fingerprints) -> None:
        self.log = CellLog(Step(None))
        self.places = places
        self.folders = Folders(places)
        self.written: deque[tuple[str, os.stat_result | None]] = deque()
        """Paths before they changed, for whoever takes them."""
        self.used: dict[str, None] = {}
        """Paths that were read or changed, as many as are worth looking at again."""
        self._produced: dict[str, Produced] = {}
        self._prints = prints
        self._pending: dict[tuple[int, int] | str, Job] = {}
        self._late: dict[Reading, Produced] = {}
        self._doubtful: set[tuple[int, int]] = set()
        self._probes: dict[str, tuple[int, int]] = {}
        self._held: dict[str, Signature] = {}

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
                self.log.hint("entropy", f"it read random numbers from {folder.text(name)}")
            return True
        if folder.kind is Kind.CACHE:
            return changes  # compiled by Python: its source counts
        if not changes:
            self.log.environment_reads += 1
        return True  # what is installed shows in the environment fingerprint

    # ------------------------------------------------------------ reading

    def read(
        self, who: str, folder: Folder, name: bytes, flags: int = os.O_DIRECTORY, when: int = 0
    ) -> str | None:
        """Note that a path was opened for reading; return it if it is a folder, now listed.

        ``when`` it was opened, in ns; what has changed since then is volatile.
        """
        for _ in range(_MAX_LINKS):
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
        if when and info.st_ctime_ns > when and path not in self.log.writes:
            self.log.word(who, path, "volatile")
        elif stat.S_ISREG(info.st_mode):
            if path in self.log.writes and path not in self.log.moved:
                self.log.did(who, "read own", path)
            elif self.places.is_system_file(path):
                self.log.environment_reads += 1
            else:
                self.read_file(who, raw, path, signature_of(info))
        elif stat.S_ISDIR(info.st_mode):
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

    # ------------------------------------------------------------ changing

    def change(self, who: str, op: str, path: str, before: os.stat_result | None) -> None:
        """Note that a path is about to change."""
        if path not in self.log.writes:
            self.written.append((path, before))
            self.used[path] = None
        self.log.wrote(who, op, path, None if before is None else signature_of(before))

    def _change_far(self, who: str, op: str, folder: Folder, name: bytes) -> Job | None:
        job = self._blocked(folder, name)
        if job is None:
            self.log.wrote(who, op, folder.text(name), None)
        return job

    def _must_wait(self, signature: Signature) -> Job | None:
        """Return the job that must end before a file may change: the cell has read it."""
        job = self._pending.get(signature[:2])
        if job is not None and not job.reading.digest and job.reading in self.log.pending:
            self._prints.hurry(job)
            return job
        return None

    def open_to_change(
        self, who: str, folder: Folder, name: bytes, flags: int, thread: int = 0
    ) -> Job | None:
        """Note that a path is about to be opened for writing, or to be created."""
        for _ in range(_MAX_LINKS):
            if self.is_elsewhere(folder, name, changes=True):
                return None
            raw = folder.prefix + name
            path = os.fsdecode(raw)
            if self.folders.far_at(folder, name):
                return self._change_far(who, "write", folder, name)
            try:
                info = os.lstat(raw)
            except OSError:
                if flags & os.O_CREAT:
                    self.change(who, "create", path, None)
                else:
                    self.log.word(who, path, "absent")
                return None
            if not stat.S_ISLNK(info.st_mode):
                return self._open_existing(who, raw, info, flags, thread)
            if flags & os.O_NOFOLLOW:
                return None  # the call will fail
            folder, name = self.folders.follow(folder, name)
        return None

    def _open_existing(
        self, who: str, raw: bytes, info: os.stat_result, flags: int, thread: int
    ) -> Job | None:
        path = os.fsdecode(raw)
        if path in self.log.writes and not self.log.writes[path]:
            return None  # made by this very cell
        will_fail = flags & os.O_CREAT and flags & os.O_EXCL
        if will_fail or stat.S_ISDIR(info.st_mode):
            return None
        access = flags & os.O_ACCMODE
        is_read = access == os.O_RDONLY and not flags & os.O_TRUNC
        if is_read or not stat.S_ISREG(info.st_mode):
            self._read_entry(who, raw, info, flags)
            return None
        signature = signature_of(info)
        job = self._must_wait(signature)
        if job is not None:
            return job
        if access == os.O_RDWR:
            self._doubtful.add(signature[:2])  # it may be mapped, and then changes do not show
            if not flags & os.O_TRUNC and info.st_size and path not in self.log.writes:
                job = self._read_before_update(who, raw, path, signature, thread)
                if job is None:
                    self.change(who, "update", path, info)
                return job
        if flags & os.O_TRUNC:
            self._forget_probe(thread, path)
        self.change(who, "append" if flags & os.O_APPEND else "write", path, info)
        return None

    def _read_before_update(
        self, who: str, raw: bytes, path: str, signature: Signature, thread: int
    ) -> Job | None:
        """A file is opened to be read and changed: what it is must be known before."""
        if path in self.log.reads:
            return None
        self._probes[path] = thread, _bytes_read(thread)
        if signature[2] > LARGEST_WAIT_BYTES:
            self.log.read(who, path, Reading(signature, size_word(signature)))
            return None
        job = self.read_file(who, raw, path, signature)
        if job is not None:
            self._prints.hurry(job)
        return job

    def _forget_probe(self, thread: int, path: str) -> None:
        """HDF5 opens a file to look whether it is there, and then to overwrite it."""
        probe = self._probes.pop(path, None)
        if probe is not None and probe[0] == thread and probe[1] == _bytes_read(thread) >= 0:
            self.log.reads.pop(path, None)
            self.log.notes = [note for note in self.log.notes if note[2] != path]

    def truncate(self, who: str, folder: Folder, name: bytes) -> Job | None:
        return self.open_to_change(who, folder, name, os.O_WRONLY)

    def remove(self, who: str, folder: Folder, name: bytes) -> Job | None:
        """Note that a file or folder is about to be deleted."""
        if self._is_no_data(folder, name):
            return None
        path = folder.text(name)
        if self.folders.far_at(folder, name):
            return self._change_far(who, "delete", folder, name)
        try:
            info = os.lstat(folder.prefix + name)
        except OSError:
            return None  # the call will fail
        signature = signature_of(info)
        job = self._must_wait(signature)
        if job is not None:
            return job
        if not stat.S_ISREG(info.st_mode):
            self.folders.forget()
        self.change(who, "delete", path, info)
        return None

    def create(self, who: str, op: str, folder: Folder, name: bytes) -> None:
        """Note that a folder or a link is about to be made."""
        if self._is_no_data(folder, name):
            return
        if self.folders.far_at(folder, name):
            self.log.wrote(who, op, folder.text(name), None)
        elif not os.path.lexists(folder.prefix + name):
            if op == "link":
                self.folders.forget()
            self.change(who, op, folder.text(name), None)

    def link(self, who: str, old: Where, new: Where) -> Job | None:
        """Note that a file is about to get a second name."""
        if self._is_no_data(*new) or not self._is_there(*old):
            return None
        job = self._blocked(*new)
        if job is None:
            self._note_move(old, new)
            self._replace(who, "link", *new)
        return job

    def rename(self, who: str, old: Where, new: Where) -> Job | None:
        """Note that something is about to get another name."""
        source, target = old[0].text(old[1]), new[0].text(new[1])
        if self._is_no_data(*new):
            self.log.writes.pop(source, None)  # Python writes its caches under odd names first
            return None
        if not self._is_there(*old):
            return None  # the call will fail
        job = self._blocked(*old) or self._blocked(*new)
        if job is None:
            self._note_move(old, new)
            self._replace(who, "rename", *old)
            self._replace(who, "rename", *new)
            if not self.folders.far_at(*old) and os.path.isdir(old[0].prefix + old[1]):
                self._move_folder(source, target)
        return job

    def _is_there(self, folder: Folder, name: bytes) -> bool:
        """Return whether there is such an entry; far ones are believed to be there."""
        return bool(self.folders.far_at(folder, name)) or os.path.lexists(folder.prefix + name)

    def _note_move(self, old: Where, new: Where) -> None:
        source, target = old[0].text(old[1]), new[0].text(new[1])
        if source not in self.log.writes or source in self.log.moved:
            self.log.moved.add(target)
        else:
            self.log.moved.discard(target)

    def _blocked(self, folder: Folder, name: bytes) -> Job | None:
        """Return the job that must end before a name may change its meaning."""
        if self.folders.far_at(folder, name):
            job = self._pending.get(folder.text(name))
            if job is None or job.reading.digest:
                return None
            self._prints.hurry(job)
            return job
        try:
            return self._must_wait(signature_of(os.lstat(folder.prefix + name)))
        except OSError:
            return None

    def _replace(self, who: str, op: str, folder: Folder, name: bytes) -> None:
        path = folder.text(name)
        info = None
        if not self.folders.far_at(folder, name):
            with contextlib.suppress(OSError):
                info = os.lstat(folder.prefix + name)
                if not stat.S_ISREG(info.st_mode):
                    self.folders.forget()
        self.change(who, op, path, info)

    def _move_folder(self, old: str, new: str) -> None:
        """What was written into a folder moves with it."""
        start = old + "/"
        for path in [path for path in self.log.writes if path.startswith(start)]:
            moved = new + path[len(old) :]
            self.log.writes.setdefault(moved, self.log.writes.pop(path))
            self.written.append((moved, None))
        for path in [path for path in self._produced if path.startswith(start)]:
            self._produced[new + path[len(old) :]] = self._produced.pop(path)

    def _is_no_data(self, folder: Folder, name: bytes) -> bool:
        return name == b"__pycache__" or self.is_elsewhere(folder, name, changes=True)

    # ------------------------------------------------------------ the end of a cell

    def look_at_held(self, paths: Iterable[str]) -> None:
        """See whether files have changed that stay open from an earlier cell: it may read on."""
        held = {}
        for path in paths:
            folder, name = self.folders.split(os.fsencode(path))
            if folder.kind is not Kind.DATA or self.folders.far_at(folder, name):
                continue
            try:
                info = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISREG(info.st_mode):
                held[path] = signature = signature_of(info)
                before = self._held.get(path, signature)
                if signature != before and not self._is_noted(path):
                    self.read_file(WORKER, os.fsencode(path), path, signature)
        self._held = held

    def _is_noted(self, path: str) -> bool:
        return path in self.log.writes or path in self.log.reads

    def settle(self, still_open: set[str]) -> None:
        """See what became of the paths that the cell changed, before another cell does."""
        log = self.log
        for path, before in log.writes.items():
            folder, name = self.folders.split(os.fsencode(path))
            if far := self.folders.far_at(folder, name):
                reading = Reading(None)
                self._submit_far(far, folder.prefix + name, reading)
                log.outcomes[path] = Outcome("written", reading)
                self._produced[path] = Produced(reading, log.step)
                continue
            try:
                info = os.lstat(path)
            except OSError:
                log.outcomes[path] = Outcome("transient" if before is None else "deleted")
                self._produced.pop(path, None)
                continue
            self._settle_path(path, before, info, is_open=path in still_open)
        for path in still_open & self._produced.keys() - log.writes.keys():
            try:
                reading = Reading(signature_of(os.lstat(path)))
            except OSError:
                continue
            if reading.signature != self._produced[path].reading.signature:
                self._produced[path] = Produced(reading, log.step)

    def _settle_path(
        self, path: str, before: Signature | None, info: os.stat_result, *, is_open: bool
    ) -> None:
        log, signature = self.log, signature_of(info)
        if signature == before and not is_open:
            return  # opened, but not touched
        reading = Reading(signature)
        if stat.S_ISREG(info.st_mode):
            self._produced[path] = Produced(reading, log.step)
            if info.st_size > LARGEST_WAIT_BYTES:
                reading.digest = size_word(signature)
            else:
                log.pending.add(reading)
                self._prints.submit(Job(os.fsencode(path), -1, reading, trusted=not is_open))
            log.outcomes[path] = Outcome("held" if is_open else "written", reading)
        elif stat.S_ISDIR(info.st_mode):
            if before is None:
                log.outcomes[path] = Outcome("folder")
        else:
            is_link = stat.S_ISLNK(info.st_mode)
            word = "link" if is_link else special_word(info.st_mode)
            log.outcomes[path] = Outcome("written", Reading(signature, word))


def _changed_at(folder: str) -> int:
    """Return when an entry of a folder last came or went, in ns; 0 if there is no such folder."""
    try:
        return os.lstat(folder).st_ctime_ns
    except OSError:
        return 0


def _as_left_by(step: Step) -> str:
    return f"cell:{step.number}"


def _bytes_read(thread: int) -> int:
    """Return how much a thread has read so far; -1 if that is not known."""
    try:
        with open(f"/proc/{thread}/task/{thread}/io", "rb") as file:
            return int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return -1
