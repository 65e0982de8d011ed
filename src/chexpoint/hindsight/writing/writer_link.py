"""The training process's end of the connection to its writer."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import socket
import sys
from typing import Any

from chexpoint.hindsight.writing.writer import PACKET_BYTES
from chexpoint.hindsight.writing.writer_start import start_writer

_RUN_WRITER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_writer.py")


class WriterGone(Exception):
    """The writer has ended, or could not be started."""


class WriterLink:
    """A writer that was just started, and the connection to it.  For one thread.

    Parameters
    ----------
    store
        Where images go: a folder, by its full path, or a URL.
    folder
        Of the run, by its full path.
    store_budget
        What the store may take.

    Raises
    ------
    WriterGone
        If no process can be started.
    """

    def __init__(self, store: str, folder: str, store_budget: int | None) -> None:
        budget = "" if store_budget is None else str(store_budget)
        command = [sys.executable, _RUN_WRITER, str(os.getpid()), store, folder, budget]
        try:
            self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        except OSError as error:
            raise WriterGone(str(error)) from error
        with theirs:
            try:
                start_writer(command, theirs.fileno())
            except OSError as error:
                self._socket.close()
                raise WriterGone(str(error)) from error
        self._pid: int | None = None

    def send(self, packet: dict[str, Any], fd: int | None = None) -> bool:
        """Send a packet, and a descriptor with it; return False if the writer is behind.

        Raises
        ------
        WriterGone
        """
        ancillary = []
        if fd is not None:
            ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [fd]))]
        flags = socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT
        try:
            self._socket.sendmsg([json.dumps(packet).encode()], ancillary, flags)
        except BlockingIOError:
            return False
        except OSError as error:
            raise WriterGone(str(error)) from error
        return True

    @property
    def pid(self) -> int | None:
        """The writer's process id, if it has come."""
        if self._pid is None and (data := self._peeked()) is not None:
            self._pid = data
        return self._pid

    def _peeked(self) -> int | None:
        """Return the process id if it is the next packet; it is taken then."""
        with contextlib.suppress(OSError):
            data = self._socket.recv(PACKET_BYTES, socket.MSG_DONTWAIT | socket.MSG_PEEK)
            if data and data[:1] != b"{":
                return int(self._socket.recv(PACKET_BYTES, socket.MSG_DONTWAIT))
        return None

    def receive(self, timeout_s: float | None) -> dict[str, Any] | None:
        """Return the next answer; None if there is none in time.

        Raises
        ------
        WriterGone
            After the last answer of a writer that has ended.
        """
        while True:
            data = self._packet(timeout_s)
            if data is None:
                return None
            if data[:1] == b"{":
                answer: dict[str, Any] = json.loads(data)
                return answer
            self._pid = int(data)

    def _packet(self, timeout_s: float | None) -> bytes | None:
        # Not asked for first: most of the time nothing is there, and one call says so.
        while True:
            try:
                data = self._socket.recv(PACKET_BYTES, socket.MSG_DONTWAIT)
            except BlockingIOError:
                if timeout_s is not None and timeout_s <= 0:
                    return None
                waiting = select.poll()
                waiting.register(self._socket, select.POLLIN)
                wait_ms = None if timeout_s is None else timeout_s * 1000
                if not waiting.poll(wait_ms):
                    return None
                continue
            except ConnectionResetError:
                continue  # it left packets unread; its answers are still to come
            except OSError as error:
                raise WriterGone(str(error)) from error
            if not data:
                raise WriterGone("it ended")
            return data

    def close(self) -> int | None:
        """End the connection; return the writer's process id, if it is known.

        The writer stores what it has got, and ends.
        """
        if self._pid is None:
            # The shell sends it as soon as it runs.
            with contextlib.suppress(WriterGone, ValueError):
                data = self._packet(1.0)
                self._pid = int(data) if data and data[:1] != b"{" else None
        self._socket.close()
        return self._pid

    def abandon(self) -> None:
        """Close this process's copy of a connection that another process uses."""
        self._socket.close()


def wait_end(pid: int, timeout_s: float | None) -> bool:
    """Wait until a process that is not ours has ended; return whether it has."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return True
    try:
        waiting = select.poll()
        waiting.register(fd, select.POLLIN)
        return bool(waiting.poll(None if timeout_s is None else timeout_s * 1000))
    finally:
        os.close(fd)
