"""What changing files means for the cell that does it, and what has become of them at its end.

Shared, as is `Reads`, by both ways of seeing it: system calls, and Python's audit hook.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections import deque
from collections.abc import Iterable

from chexpoint.lineage.cell_log import Outcome
from chexpoint.lineage.fingerprint import (
    LARGEST_WAIT_BYTES,
    Fingerprints,
    Job,
    Reading,
    Signature,
    link_word,
    signature_of,
    size_word,
    special_word,
)
from chexpoint.lineage.folders import Folder
from chexpoint.lineage.places import Kind, Places
from chexpoint.lineage.processes import WORKER
from chexpoint.lineage.reads import MAX_LINKS, Produced, Reads

CHANGING = os.O_WRONLY | os.O_RDWR | os.O_TRUNC | os.O_CREAT

Where = tuple[Folder, bytes]
"""A folder, and a name in it."""


class Files(Reads):
    """Notes what the current cell does to files; used under the auditor's lock alone.

    Methods that are told of a change before it happens return a `Job` if the change has to wait
    for it, and are then to be called again.
    """

    def __init__(self, places: Places, prints: Fingerprints) -> None:
        super().__init__(places, prints)
        self.written: deque[tuple[str, os.stat_result | None]] = deque()
        """Paths before they changed, for whoever takes them."""
        self._probes: dict[str, tuple[int, int]] = {}
        self._held: dict[str, Signature] = {}

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
        for _ in range(MAX_LINKS):
            if folder.links:
                self.note_links(who, folder)
            if self.is_elsewhere(folder, name, changes=True):
                return None
            raw = folder.prefix + name
            path = os.fsdecode(raw)
            if self.folders.far_at(folder, name):
                return self._change_far(who, "write", folder, name)
            try:
                info = os.lstat(raw)
            except OSError:
                # Who truncates does not care; who appends, updates or must be the first, does.
                if not flags & os.O_CREAT or not flags & os.O_TRUNC:
                    self.log.word(who, path, "absent")
                if flags & os.O_CREAT:
                    self.change(who, "create", path, None)
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
        if stat.S_ISDIR(info.st_mode):
            return None
        access = flags & os.O_ACCMODE
        will_fail = flags & os.O_CREAT and flags & os.O_EXCL
        is_read = will_fail or (access == os.O_RDONLY and not flags & os.O_TRUNC)
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
        elif info.st_size and path not in self.log.writes:
            self.log.added.add(path)
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
            self.log.word(who, path, "absent")  # the call will fail
            return None
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
            self.log.word(who, source, "absent")  # the call will fail
            return None
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
            word = special_word(info.st_mode)
            if stat.S_ISLNK(info.st_mode):
                word = "link"
                with contextlib.suppress(OSError):
                    word = link_word(os.readlink(os.fsencode(path)), self.places)
            log.outcomes[path] = Outcome("written", Reading(signature, word))


def _bytes_read(thread: int) -> int:
    """Return how much a thread has read so far; -1 if that is not known."""
    try:
        with open(f"/proc/{thread}/task/{thread}/io", "rb") as file:
            return int(file.readline().split()[1])
    except (OSError, ValueError, IndexError):
        return -1
