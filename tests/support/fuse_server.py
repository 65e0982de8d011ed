"""A file server that can be told to hang: one file behind a FUSE mount, in a process of its own.

It speaks the kernel's protocol on /dev/fuse (linux/fuse.h) and nothing is cached, so that every
look at a path below the mount asks the server.  While it hangs it takes requests and does not
answer them: not even a kill gets a process out of such a call.  Leave the context, which ends the
server and with it every pending request, before you wait for a process that used the mount.
"""

from __future__ import annotations

import ctypes
import enum
import errno
import os
import select
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

NAME = "far.bin"
CONTENTS = bytes(range(256)) * 12

_DEVICE = "/dev/fuse"
_MS_NOSUID, _MS_NODEV, _MNT_DETACH = 2, 4, 2


class _Op(enum.IntEnum):
    """Requests of the kernel that the server knows."""

    LOOKUP = 1
    FORGET = 2
    GETATTR = 3
    OPEN = 14
    READ = 15
    STATFS = 17
    RELEASE = 18
    FLUSH = 25
    INIT = 26
    OPENDIR = 27
    READDIR = 28
    RELEASEDIR = 29
    ACCESS = 34
    INTERRUPT = 36
    DESTROY = 38
    BATCH_FORGET = 42


_UNANSWERED = {_Op.FORGET, _Op.BATCH_FORGET, _Op.INTERRUPT}

_REQUEST = struct.Struct("<IIQQIIIHH")
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<6Q10I")
_READ_ARGUMENTS = struct.Struct("<QQII")
_LARGEST_REQUEST = 2**17 + 4096
_ROOT_NODE, _FILE_NODE = 1, 2
_MTIME = 1_600_000_000


class Server:
    """Controls the server process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def hang(self) -> None:
        """Answer nothing from now on."""
        self._tell(b"h")

    def resume(self) -> None:
        """Answer everything again, what came meanwhile included."""
        self._tell(b"r")

    def wait_held(self) -> None:
        """Wait until some process is stuck in a call that the server does not answer."""
        self._tell(b"w")

    def _tell(self, word: bytes) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(word)
        self._process.stdin.flush()
        assert self._process.stdout.read(1) == word, "the file server has ended"


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Mount the file server on a folder, where it serves `NAME` with `CONTENTS`."""
    process = subprocess.Popen(
        [sys.executable, __file__, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"m", "the file server could not mount"
        yield Server(process)
    finally:
        with process:
            process.kill()
        _libc().umount2(os.fsencode(folder), _MNT_DETACH)


def can_mount() -> bool:
    """Return whether this process may mount a FUSE file system."""
    return os.geteuid() == 0 and os.access(_DEVICE, os.R_OK | os.W_OK) and _has_mount_right()


def _has_mount_right() -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    (line,) = (line for line in status.splitlines() if line.startswith("CapEff:"))
    return bool(int(line.split()[1], 16) >> 21 & 1)  # CAP_SYS_ADMIN


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


# ---------------------------------------------------------------- the server process


@dataclass(slots=True)
class _Connection:
    """The server's end of /dev/fuse."""

    device: int
    hangs: bool = False
    held: list[bytes] = field(default_factory=list)
    watched: bool = False
    """Whether somebody waits for a request to be held."""

    def take(self) -> None:
        request = os.read(self.device, _LARGEST_REQUEST)
        if not self.hangs:
            self._serve(request)
        elif _REQUEST.unpack_from(request)[1] not in _UNANSWERED:
            self.held.append(request)

    def resume(self) -> None:
        self.hangs = False
        while self.held:
            self._serve(self.held.pop(0))

    def _serve(self, request: bytes) -> None:
        _, opcode, unique, node, *_ = _REQUEST.unpack_from(request)
        if opcode in _UNANSWERED:
            return
        try:
            error, body = 0, _answer(opcode, node, request[_REQUEST.size :])
        except OSError as problem:
            error, body = -(problem.errno or errno.EIO), b""
        os.write(self.device, _ANSWER.pack(_ANSWER.size + len(body), error, unique) + body)


def _answer(opcode: int, node: int, body: bytes) -> bytes:
    match opcode:
        case _Op.INIT:
            major, _, readahead, _ = struct.unpack_from("<4I", body)
            reply = struct.pack("<4I2H2I2HI28x", major, 31, readahead, 0, 1, 1, 2**17, 1, 1, 0, 0)
        case _Op.LOOKUP:
            if node != _ROOT_NODE or body.rstrip(b"\0") != NAME.encode():
                raise FileNotFoundError(errno.ENOENT, "no such file")
            reply = struct.pack("<4Q2I", _FILE_NODE, 0, 0, 0, 0, 0) + _attributes(_FILE_NODE)
        case _Op.GETATTR:
            reply = struct.pack("<QII", 0, 0, 0) + _attributes(node)
        case _Op.OPEN | _Op.OPENDIR:
            reply = struct.pack("<QIi", 0, 0, 0)
        case _Op.READ | _Op.READDIR:
            _, offset, size, _ = _READ_ARGUMENTS.unpack_from(body)
            whole = CONTENTS if opcode == _Op.READ else _entries()
            reply = whole[offset : offset + size]
        case _Op.STATFS:
            reply = struct.pack("<5Q4I24x", 1, 0, 0, 2, 0, 4096, 255, 4096, 0)
        case _Op.RELEASE | _Op.FLUSH | _Op.RELEASEDIR | _Op.ACCESS | _Op.DESTROY:
            reply = b""
        case _:
            raise OSError(errno.ENOSYS, "not served")
    return reply


def _attributes(node: int) -> bytes:
    is_root = node == _ROOT_NODE
    size = 0 if is_root else len(CONTENTS)
    mode = stat.S_IFDIR | 0o755 if is_root else stat.S_IFREG | 0o644
    links = 2 if is_root else 1
    times = (_MTIME, _MTIME, _MTIME, 0, 0, 0)
    return _ATTRIBUTES.pack(node, size, 8, *times, mode, links, 0, 0, 0, 4096, 0)


def _entries() -> bytes:
    """Return the directory, each entry with the offset at which the next one begins."""
    whole = b""
    for node, kind, name in ((1, 4, b"."), (1, 4, b".."), (_FILE_NODE, 8, NAME.encode())):
        padding = -len(name) % 8
        end = len(whole) + 24 + len(name) + padding
        whole += struct.pack("<QQII", node, end, len(name), kind) + name + bytes(padding)
    return whole


def _mount(folder: str) -> int:
    device = os.open(_DEVICE, os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    flags = _MS_NOSUID | _MS_NODEV
    if _libc().mount(b"chextest", os.fsencode(folder), b"fuse.chextest", flags, options.encode()):
        raise OSError(ctypes.get_errno(), "mount failed")
    return device


def main(folder: str) -> None:
    """Mount, say so, and serve until standard input ends."""
    connection = _Connection(_mount(folder))
    os.write(1, b"m")
    poll = select.poll()
    poll.register(connection.device, select.POLLIN)
    poll.register(0, select.POLLIN)
    while True:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if connection.device in ready:
            connection.take()
        if 0 in ready:
            word = os.read(0, 1)
            if not word:
                return
            _switch(connection, word)
        if connection.watched and connection.held:
            connection.watched = False
            os.write(1, b"w")


def _switch(connection: _Connection, word: bytes) -> None:
    if word == b"w":
        connection.watched = True
        return  # answered when a request is held
    if word == b"h":
        connection.hangs = True
    else:
        connection.resume()
    os.write(1, word)


if __name__ == "__main__":
    main(sys.argv[1])
