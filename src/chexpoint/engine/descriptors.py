"""Open descriptors that a fork shares and a checkpoint must not share.

After a fork both processes use the same open file descriptions: one offset, one
pipe buffer, one epoll set.  A frozen process therefore gives itself its own:

- files and folders are opened again, at the same offset; descriptors that were
  duplicates of each other stay so;
- a file without a name is copied: its contents, too, would be shared;
- a pipe with both ends in this process becomes a new pipe with the same contents;
- an epoll set is built again;
- other pipes and connected sockets end in nothing (a frozen copy of a pipe's
  write end would keep its reader in the live timeline from ever seeing the end);
- listening sockets become silent ones: a dead end would make ``accept`` spin;
- a socket that is neither bound nor connected becomes a new one.

What cannot be carried over is returned as warnings for whoever restores.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import select
import socket
import stat
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from chexpoint.engine.proc import libc, list_unseen, open_unseen

_NOT_AGAIN = os.O_CREAT | os.O_EXCL | os.O_TRUNC | os.O_NOFOLLOW
_SPLICE_F_NONBLOCK = 2
# The same number on all 64-bit systems but the oldest one.
_SYS_KCMP = 312 if os.uname().machine == "x86_64" else 272
_KCMP_FILE = 0
_STANDARD = {0, 1, 2}


@dataclass(frozen=True, slots=True)
class Descriptor:
    """One open descriptor of this process."""

    fd: int
    target: str
    """What ``/proc/self/fd`` says it is."""
    mode: int
    inode: tuple[int, int]

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.mode)

    @property
    def is_pipe(self) -> bool:
        return stat.S_ISFIFO(self.mode)

    @property
    def is_socket(self) -> bool:
        return stat.S_ISSOCK(self.mode)

    @property
    def flags(self) -> int:
        return fcntl.fcntl(self.fd, fcntl.F_GETFL)


def open_descriptors(but: Collection[int] = ()) -> Iterator[Descriptor]:
    """Yield the descriptors of this process except standard streams and those in ``but``."""
    try:
        names = list_unseen("/proc/self/fd")
    except OSError:
        return
    for name in names:
        fd = int(name)
        if fd in _STANDARD or fd in but:
            continue
        try:
            info = os.fstat(fd)
            target = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # the descriptor that listed the folder
        yield Descriptor(fd, target, info.st_mode, (info.st_dev, info.st_ino))


def privatize(keep: Collection[int]) -> list[str]:
    """Give this process its own open descriptions; return what was lost, in words."""
    lost: list[str] = []
    found = list(open_descriptors(but=keep))
    for same in _by_description([d for d in found if d.is_file or d.is_folder]):
        lost.extend(_reopen(same))
    pipes: dict[tuple[int, int], list[Descriptor]] = {}
    for descriptor in found:
        if descriptor.is_pipe:
            pipes.setdefault(descriptor.inode, []).append(descriptor)
        elif descriptor.is_socket:
            lost.extend(_renew_socket(descriptor))
        elif descriptor.target.startswith(("/dev/pts/", "/dev/ptmx", "/dev/tty")):
            lost.append(f"the terminal {descriptor.target} is shared with the state that was left")
    for ends in pipes.values():
        lost.extend(_renew_pipe(ends))
    # Last, because the set refers to the descriptors replaced above.
    for descriptor in found:
        if descriptor.target == "anon_inode:[eventpoll]":
            _renew_epoll(descriptor.fd)
    return lost


def held_locks(descriptors: Iterable[Descriptor]) -> list[str]:
    """Return, in words, the file locks this process holds and a forked one does not."""
    lost = []
    for descriptor in descriptors:
        if not descriptor.is_file and not descriptor.is_folder:
            continue  # each look takes a while where system calls are audited
        with (
            contextlib.suppress(OSError),
            open(open_unseen(f"/proc/self/fdinfo/{descriptor.fd}")) as info,
        ):
            if any(line.startswith("lock:") for line in info):
                lost.append(f"the lock on {descriptor.target} is not held")
    return lost


def _put(new: int, fd: int) -> None:
    """Make ``fd`` refer to ``new``, and close ``new``."""
    os.dup2(new, fd, inheritable=os.get_inheritable(fd))
    os.close(new)


def _by_description(descriptors: list[Descriptor]) -> list[list[Descriptor]]:
    """Group descriptors that are duplicates of each other: they share one offset."""
    groups: list[list[Descriptor]] = []
    for descriptor in descriptors:
        for group in groups:
            if group[0].inode == descriptor.inode and _is_same(group[0].fd, descriptor.fd):
                group.append(descriptor)
                break
        else:
            groups.append([descriptor])
    return groups


def _is_same(first: int, second: int) -> bool:
    pid = os.getpid()
    answer = libc.syscall(_SYS_KCMP, pid, pid, _KCMP_FILE, first, second)
    if answer >= 0:
        return bool(answer == 0)
    # The system does not tell.  Two descriptors of one file at one place most likely are.
    return os.lseek(first, 0, os.SEEK_CUR) == os.lseek(second, 0, os.SEEK_CUR) > 0


def _reopen(same: list[Descriptor]) -> Iterator[str]:
    fd = same[0].fd
    try:
        offset = os.lseek(fd, 0, os.SEEK_CUR)
        if same[0].is_file and os.fstat(fd).st_nlink == 0:
            new = _copy_unnamed(same[0])
        else:
            new = open_unseen(f"/proc/self/fd/{fd}", same[0].flags & ~_NOT_AGAIN)
        os.lseek(new, offset, os.SEEK_SET)
    except OSError as error:
        yield f"the position in {same[0].target} is not kept ({error.strerror})"
        return
    for descriptor in same:
        os.dup2(new, descriptor.fd, inheritable=os.get_inheritable(descriptor.fd))
    os.close(new)


def _copy_unnamed(original: Descriptor) -> int:
    """Copy a file that has no name any more, or never had one, into another such file."""
    size = os.fstat(original.fd).st_size
    if original.target.startswith("/memfd:"):
        new = os.memfd_create(original.target.split(":", 1)[1].removesuffix(" (deleted)"))
    else:
        folder = os.path.dirname(original.target)
        new = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    done = 0
    source = open_unseen(f"/proc/self/fd/{original.fd}")
    try:
        while done < size and (sent := os.sendfile(new, source, done, size - done)):
            done += sent
    finally:
        os.close(source)
    fcntl.fcntl(new, fcntl.F_SETFL, original.flags)  # append mode, for one
    return new


def _renew_socket(descriptor: Descriptor) -> Iterator[str]:
    with socket.socket(fileno=os.dup(descriptor.fd)) as sock:
        listening = bool(sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        name = sock.getsockname()
        peer: object = None
        with contextlib.suppress(OSError):
            peer = sock.getpeername()
        kind = (sock.family, sock.type, sock.proto)
    if listening:
        _put(_silent_socket(), descriptor.fd)
        yield f"the server listening on {_address(name)} is closed"
    elif peer is not None:
        _put(_dead_socket(), descriptor.fd)
        where = f"to {_address(peer)}" if peer else "between local sockets"
        yield f"the connection {where} is closed"
    elif _is_bound(name):
        _put(_dead_socket(), descriptor.fd)
        yield f"the socket on {_address(name)} is closed"
    elif kind[0] != socket.AF_UNIX:
        _put(socket.socket(*kind).detach(), descriptor.fd)


def _is_bound(name: object) -> bool:
    return bool(name[1]) if isinstance(name, tuple) else bool(name)


def _address(name: object) -> str:
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else str(name or "a local socket")


def _dead_socket() -> int:
    mine, other = socket.socketpair()
    other.close()
    return mine.detach()


def _silent_socket() -> int:
    mine, other = socket.socketpair()
    other.detach()  # stays open, and silent, for ever
    return mine.detach()


def _renew_pipe(ends: list[Descriptor]) -> Iterator[str]:
    readers = [end for end in ends if end.flags & os.O_ACCMODE == os.O_RDONLY]
    writers = [end for end in ends if end.flags & os.O_ACCMODE == os.O_WRONLY]
    if not (readers and writers) and not _is_broken(ends[0].fd):
        for end in ends:
            _put(_dead_socket(), end.fd)
        yield "a pipe to another process is closed"
        return
    if not readers:
        return  # nobody reads it: writing fails now and then
    new_reader, new_writer = os.pipe()
    with contextlib.suppress(OSError):
        fcntl.fcntl(new_writer, fcntl.F_SETPIPE_SZ, fcntl.fcntl(readers[0].fd, fcntl.F_GETPIPE_SZ))
    # tee() copies what is in the pipe without taking it out of the original.
    libc.tee(readers[0].fd, new_writer, ctypes.c_size_t(2**30), _SPLICE_F_NONBLOCK)
    for new, old in ((new_reader, readers), (new_writer, writers)):
        for end in old:
            flags = end.flags
            os.dup2(new, end.fd, inheritable=os.get_inheritable(end.fd))
            fcntl.fcntl(end.fd, fcntl.F_SETFL, flags)
        os.close(new)


def _is_broken(fd: int) -> bool:
    """Return whether nobody holds the other end of a pipe."""
    poll = select.poll()
    poll.register(fd, 0)
    return bool(poll.poll(0))


def _renew_epoll(fd: int) -> None:
    interests = []
    with open(open_unseen(f"/proc/self/fdinfo/{fd}")) as info:
        for line in info:
            if line.startswith("tfd:"):
                words = line.split()
                interests.append((int(words[1]), int(words[3], 16)))
    fresh = select.epoll()
    for watched, events in interests:
        with contextlib.suppress(OSError):
            fresh.register(watched, events & 0x7FFFFFFF)
    os.dup2(fresh.fileno(), fd, inheritable=os.get_inheritable(fd))
    fresh.close()
