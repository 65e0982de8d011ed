"""Packets between supervisor, worker and frozen checkpoints.

One ``SOCK_SEQPACKET`` pair for each connection.  A packet is atomic, so user
threads and user-forked children may all send on the same descriptor without a
lock; a stream would interleave them.  Packets too large for the socket buffer
travel in a memfd passed by ``SCM_RIGHTS``.

Packet: ``<BBI`` channel, flags, number of frames; ``<Q`` length of each frame;
then the frames.  In a memfd packet only the head is in the packet itself.
"""

from __future__ import annotations

import array
import enum
import json
import os
import socket
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEAD = struct.Struct("<BBI")
_IN_MEMFD = 1
# Well below the default socket buffer (208 KiB), so that one packet always fits.
_INLINE_MAX = 96 * 1024
_INLINE_FRAMES = 500
_MAX_FDS = 4
_RECEIVE_BUFFER = _HEAD.size + 8 * _INLINE_FRAMES + _INLINE_MAX


class Channel(enum.IntEnum):
    """What a packet is about."""

    SHELL = 1
    CONTROL = 2
    IOPUB = 3
    STDIN = 4
    ENGINE = 5
    """Our own commands and events, one JSON object each."""


# A cell may put something else in their place.
_to_text, _from_text = json.dumps, json.loads


@dataclass(frozen=True, slots=True)
class Packet:
    """One received packet; whoever takes it owns its descriptors."""

    channel: Channel
    frames: list[bytes]
    fds: list[int]

    def command(self) -> dict[str, Any]:
        """Return the JSON object of an ``ENGINE`` packet."""
        data: dict[str, Any] = _from_text(self.frames[0])
        return data

    def close_fds(self) -> None:
        for fd in self.fds:
            os.close(fd)


def _as_bytes(frame: Any) -> memoryview:
    view = memoryview(frame)
    return view if view.format == "B" and view.contiguous and view.ndim == 1 else _flat(view)


def _flat(view: memoryview) -> memoryview:
    return view.cast("B") if view.c_contiguous else memoryview(view.tobytes())


class Link:
    """One end of a packet connection.

    Sending is safe from any thread and from forked children.  Receiving is for
    one thread of one process.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._buffer = bytearray(_RECEIVE_BUFFER)

    @classmethod
    def pair(cls) -> tuple[Link, Link]:
        """Return two connected ends."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        return cls(mine), cls(theirs)

    @classmethod
    def from_fd(cls, fd: int) -> Link:
        return cls(socket.socket(fileno=fd))

    def fileno(self) -> int:
        return self.sock.fileno()

    def close(self) -> None:
        self.sock.close()

    def send(
        self,
        channel: Channel,
        frames: Sequence[Any],
        fds: Sequence[int] = (),
        *,
        wait: bool = True,
    ) -> None:
        """Send one packet; ``fds`` stay open on this side.

        Raises
        ------
        BlockingIOError
            If ``wait`` is false and the connection is full; nothing was sent.
        """
        views = [_as_bytes(frame) for frame in frames]
        lengths = struct.pack(f"<{len(views)}Q", *[len(v) for v in views])
        flags = 0 if wait else socket.MSG_DONTWAIT
        if sum(map(len, views)) <= _INLINE_MAX and len(views) <= _INLINE_FRAMES:
            head = _HEAD.pack(channel, 0, len(views))
            self._sendmsg([head, lengths, *views], fds, flags)
            return
        memfd = os.memfd_create("chex-packet", os.MFD_CLOEXEC)
        try:
            for view in (memoryview(lengths), *views):
                rest = view
                while len(rest):
                    rest = rest[os.write(memfd, rest) :]
            head = _HEAD.pack(channel, _IN_MEMFD, len(views))
            self._sendmsg([head], [memfd, *fds], flags)
        finally:
            os.close(memfd)

    def _sendmsg(self, buffers: list[Any], fds: Sequence[int], flags: int) -> None:
        ancillary = []
        if fds:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))]
        self.sock.sendmsg(buffers, ancillary, flags | socket.MSG_NOSIGNAL)

    def command(self, _fds: Sequence[int] = (), *, wait: bool = True, **fields: Any) -> None:
        """Send one ``ENGINE`` packet."""
        self.send(Channel.ENGINE, [_to_text(fields).encode()], _fds, wait=wait)

    def receive(self, *, wait: bool = True) -> Packet | None:
        """Return the next packet, or None when the other end is gone.

        Raises
        ------
        BlockingIOError
            If ``wait`` is false and there is none.
        """
        flags = socket.MSG_CMSG_CLOEXEC | (0 if wait else socket.MSG_DONTWAIT)
        try:
            size, ancillary, _, _ = self.sock.recvmsg_into(
                [self._buffer], socket.CMSG_SPACE(_MAX_FDS * 4), flags
            )
        except ConnectionResetError:
            return None
        if size == 0:
            return None
        fds = array.array("i")
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        channel, flag, count = _HEAD.unpack_from(self._buffer)
        passed = list(fds)
        if flag & _IN_MEMFD:
            frames = _read_frames(passed.pop(0), count)
        else:
            lengths = struct.unpack_from(f"<{count}Q", self._buffer, _HEAD.size)
            frames = []
            at = _HEAD.size + 8 * count
            for length in lengths:
                frames.append(bytes(self._buffer[at : at + length]))
                at += length
        return Packet(Channel(channel), frames, passed)


def _read_frames(memfd: int, count: int) -> list[bytes]:
    try:
        os.lseek(memfd, 0, os.SEEK_SET)
        with open(memfd, "rb", closefd=False) as file:
            lengths = struct.unpack(f"<{count}Q", file.read(8 * count))
            return [file.read(length) for length in lengths]
    finally:
        os.close(memfd)
