"""What each audited system call is about.

A call waits while it is looked at.  One that only reads is just written down,
and looked at with others a moment later, so that its caller hardly waits.  One
that changes something is looked at before it goes on, after all that were
written down, because afterwards what was there is gone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import struct
import time

from chexpoint.lineage.files import CHANGING, Files, Where
from chexpoint.lineage.fingerprint import Job
from chexpoint.lineage.folders import Folder
from chexpoint.lineage.places import Kind
from chexpoint.lineage.processes import Process, Processes
from chexpoint.lineage.syscalls import Architecture, names_by_number

_AT_FDCWD = 0xFFFFFF9C
_LOW = 0xFFFFFFFF
_TMPFILE = 0o20000000
_MODULES = (b".py", b".pyc", b".so", b".pyi")
# Sockets of the system's own services, which say nothing about results.
_SERVICES = ("nscd", "systemd", "dbus", "X11", "pulse", "pipewire", "wayland", "gnupg", "/pymp-")

_MANY = 256
_EXEC = -1

Seen = tuple[Process, bytes, int, int]
"""A call that was written down: who, which path, the flags of an open or `_EXEC`, and when."""


class Calls:
    """Turns system calls into notes about files; used under the auditor's lock alone."""

    def __init__(self, arch: Architecture, files: Files) -> None:
        self._files = files
        self.processes = Processes()
        self.gave_up_privileges = False
        self._arch = arch.audit_arch
        self._openat = arch.calls["openat"]
        self._o_directory = arch.o_directory
        self._names = names_by_number(arch)
        self._seen: list[Seen] = []

    @property
    def waiting_since(self) -> int:
        """When the first call was written down that has not been looked at; 0 if there is none."""
        return self._seen[0][3] if self._seen else 0

    @property
    def has_many(self) -> bool:
        """Whether it is time to look at what was written down."""
        return len(self._seen) >= _MANY

    def handle(  # noqa: PLR0911 - a table
        self, process: Process, call: tuple[int, ...]
    ) -> Seen | Job | None:
        """Take note of a waiting call; return what it still needs.

        That may be a look as soon as it is let go, or to wait for a job; a call that has waited is
        to be handled again.
        """
        thread, number, arch, args = call[1], call[3], call[4], call[6:]
        if number == self._openat and arch == self._arch:
            return self._open(process, thread, args[0], args[1], args[2])
        name = self._names.get((arch, number), "")
        match name:
            case "openat":
                return self._open(process, thread, args[0], args[1], args[2])
            case "open":
                return self._open(process, thread, _AT_FDCWD, args[0], args[1])
            case "creat":
                flags = os.O_CREAT | os.O_WRONLY | os.O_TRUNC
                return self._open(process, thread, _AT_FDCWD, args[0], flags)
            case "openat2":
                flags = int.from_bytes(process.read(args[2], 8), "little")
                return self._open(process, thread, args[0], args[1], flags)
            case "execve":
                self._exec(process, thread, _AT_FDCWD, args[0], args[1])
                return None
            case "execveat":
                self._exec(process, thread, args[0], args[1], args[2])
                return None
        self.flush()
        return self._change(process, thread, name, args)

    def flush(self) -> None:
        """Look at all calls that were written down, in order."""
        seen, self._seen = self._seen, []
        for call in seen:
            self.look(call)

    def look(self, call: Seen) -> None:
        """Look at what a call reads that has been let go."""
        process, path, flags, when = call
        folder, name = self._files.folders.split(path)
        if flags == _EXEC:
            self._executed(process, folder, name, path, when)
            return
        if process.unclear_lists and not flags & self._o_directory:
            self._who_listed(process, folder, name)
        listed = self._files.read(process.name, folder, name, flags, when)
        if listed is not None and os.fsencode(listed) in process.import_folders:
            process.unclear_lists.append(listed)

    # ------------------------------------------------------------ names

    def _path(self, process: Process, thread: int, dirfd: int, address: int) -> bytes | None:
        """Return the absolute path that a call speaks of; None if there is none to be known."""
        raw = process.text(address)
        if raw is None:
            self._files.log.gap(f"the memory of process {process.name} cannot be read")
            return None
        return self._absolute(process, thread, dirfd, raw) if raw else None

    def _absolute(self, process: Process, thread: int, dirfd: int, raw: bytes) -> bytes | None:
        if process.root:
            self._files.log.gap(f"process {process.name} has file systems of its own")
        if raw[:1] == b"/":
            return process.root + raw
        dirfd &= _LOW
        link = f"/proc/{thread}/cwd" if dirfd == _AT_FDCWD else f"/proc/{thread}/fd/{dirfd}"
        try:
            base = os.fsencode(os.readlink(link))
        except OSError:
            return None  # it has just ended
        return process.root + (base + b"/" + raw if raw else base)

    def _where(self, process: Process, thread: int, dirfd: int, address: int) -> Where | None:
        path = self._path(process, thread, dirfd, address)
        return None if path is None else self._files.folders.split(path)

    # ------------------------------------------------------------ opening

    def _open(
        self, process: Process, thread: int, dirfd: int, address: int, flags: int
    ) -> Seen | Job | None:
        path = self._path(process, thread, dirfd, address)
        if path is None or flags & os.O_PATH:
            return None
        if flags & CHANGING:
            return self._open_to_change(process, thread, path, flags)
        call = (process, path, flags, time.time_ns())
        if flags & self._o_directory:
            self.flush()
            return call  # a folder is listed at once: what comes and goes in it shows no time
        self._seen.append(call)
        return None

    def _open_to_change(self, process: Process, thread: int, path: bytes, flags: int) -> Job | None:
        self.flush()
        folder, name = self._files.folders.split(path)
        if process.unclear_lists:
            self._who_listed(process, folder, name)
        if flags & _TMPFILE == _TMPFILE:
            return None  # a file without a name
        return self._files.open_to_change(process.name, folder, name, flags, thread)

    def _who_listed(self, process: Process, folder: Folder, name: bytes) -> None:
        """Tell by what follows whether a Python child listed folders to import something.

        It lists each folder on its path once, before the first import that looks there; its next
        open is then that of a module.  Any other listing is the program's own.
        """
        lists, process.unclear_lists = process.unclear_lists, []
        is_module = folder.kind is Kind.ENVIRONMENT or (
            name.endswith(_MODULES) and folder.path.startswith(tuple(lists))
        )
        for listed in lists if is_module else ():
            raw = os.fsencode(listed)
            if raw in process.import_folders:
                process.import_folders.discard(raw)
                self._files.log.unlist(process.name, listed)

    # ------------------------------------------------------------ everything else

    def _change(
        self, process: Process, thread: int, name: str, args: tuple[int, ...]
    ) -> Job | None:
        files, here = self._files, _AT_FDCWD
        match name:
            case "unlink" | "rmdir":
                where = self._where(process, thread, here, args[0])
                return where and files.remove(process.name, *where)
            case "unlinkat":
                where = self._where(process, thread, args[0], args[1])
                return where and files.remove(process.name, *where)
            case "rename" | "link":
                old = self._where(process, thread, here, args[0])
                new = self._where(process, thread, here, args[1])
                return self._rename(process, name, old, new)
            case "renameat" | "renameat2" | "linkat":
                old = self._where(process, thread, args[0], args[1])
                new = self._where(process, thread, args[2], args[3])
                return self._rename(process, name, old, new)
            case "truncate":
                where = self._where(process, thread, here, args[0])
                return where and files.truncate(process.name, *where)
        self._make(process, thread, name, args)
        return None

    def _rename(
        self, process: Process, name: str, old: Where | None, new: Where | None
    ) -> Job | None:
        if old is None or new is None:
            return None
        if name.startswith("link"):
            return self._files.link(process.name, old, new)
        return self._files.rename(process.name, old, new)

    def _make(self, process: Process, thread: int, name: str, args: tuple[int, ...]) -> None:
        files, here = self._files, _AT_FDCWD
        where, op = None, "folder"
        match name:
            case "mkdir":
                where = self._where(process, thread, here, args[0])
            case "mkdirat":
                where = self._where(process, thread, args[0], args[1])
            case "symlink":
                where, op = self._where(process, thread, here, args[1]), "link"
            case "symlinkat":
                where, op = self._where(process, thread, args[1], args[2]), "link"
            case _:
                self._use_system(process, thread, name, args)
        if where is not None:
            files.create(process.name, op, *where)

    def _use_system(self, process: Process, thread: int, name: str, args: tuple[int, ...]) -> None:
        log = self._files.log
        match name:
            case "connect":
                self._connect(process, args[1], args[2])
            case "sendto":
                self._connect(process, args[4], args[5])
            case "getrandom":
                if args[1]:  # else it only asks whether there is such a call
                    self.flush()  # what was opened before counts as before
                    log.entropy(f"it asked the system for {args[1]} random bytes")
            case "mount" | "move_mount":
                self._files.folders.expect_mounts()
            case "unshare" | "setns" | "chroot" | "pivot_root":
                self.processes.namespace_changed()
            case "io_uring_setup":
                log.gap(f"process {process.name} uses io_uring, whose reads are not seen")
            case "open_by_handle_at":
                log.gap(f"process {process.name} opens files by handle")
            case _:
                log.gap(f"process {process.name} makes system calls of another kind (x32)")

    def _exec(self, process: Process, thread: int, dirfd: int, path: int, argv: int) -> None:
        program = self._path(process, thread, dirfd, path)
        if program is None:  # by descriptor, perhaps
            try:
                program = os.fsencode(os.readlink(f"/proc/{thread}/fd/{dirfd & _LOW}"))
            except OSError:
                return
        self.processes.executes(process, thread, program, argv)
        self._seen.append((process, program, _EXEC, time.time_ns()))

    def _executed(
        self, process: Process, folder: Folder, name: bytes, program: bytes, when: int
    ) -> None:
        try:
            is_far = self._files.folders.far_at(folder, name)
            info = None if is_far else os.stat(program)
        except OSError:
            return  # looked for along PATH
        self.processes.executed(process)
        self._files.log.did(process.name, "exec", folder.text(name))
        if self.gave_up_privileges and info is not None and _wants_privileges(program, info):
            self._files.log.needed_privileges[os.fsdecode(os.path.basename(program))] = None
        if folder.kind is Kind.DATA:
            self._files.read(process.name, folder, name, when=when)

    def _connect(self, process: Process, address: int, length: int) -> None:
        peer = _peer(process.read(address, min(length & _LOW, 128)))
        if peer:
            self._files.log.peers[peer] = process.name
            self._files.log.did(process.name, "connect", peer)


def _wants_privileges(program: bytes, info: os.stat_result) -> bool:
    if info.st_mode & stat.S_ISUID and info.st_uid != os.geteuid():
        return True
    with contextlib.suppress(OSError):
        return bool(os.getxattr(program, "security.capability"))
    return False


def _peer(data: bytes) -> str:
    """Return the address a process connects to, in words; nothing if it does not count."""
    if len(data) < 2:
        return ""
    family = int.from_bytes(data[:2], "little")
    if family == socket.AF_UNIX:
        name = os.fsdecode(data[2:].split(b"\0")[0])
        return f"unix:{name}" if name and not any(s in name for s in _SERVICES) else ""
    if family in {socket.AF_INET, socket.AF_INET6} and len(data) >= 8:
        (port,) = struct.unpack_from(">H", data, 2)
        size, at = (4, 4) if family == socket.AF_INET else (16, 8)
        host = socket.inet_ntop(family, data[at : at + size].ljust(size, b"\0"))
        return f"{host}:{port}" if port else ""  # port 0: only to find a route
    return "vsock" if family == getattr(socket, "AF_VSOCK", 40) else ""
