"""The supervisor's side of the live worker: its process, and packets on their way to it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections import deque
from collections.abc import Sequence
from typing import Any

from chexpoint.engine import proc
from chexpoint.engine.wire import Channel, Link


def started_below(pid: int) -> list[int]:
    """Return the processes below one that end with it: not those that left its process group.

    A resource tracker outlives its process to clean up after it.
    """
    found = []
    for child in proc.descendants(pid):
        with contextlib.suppress(OSError):
            is_tracker = "resource_tracker" in proc.command_line(child)
            if os.getpgid(child) == os.getpgrp() and not is_tracker:
                found.append(child)
    return found


class LiveWorker:
    """One process that runs cells, until it dies or another takes over.

    Sending never blocks: what the worker cannot take yet waits here.
    """

    def __init__(self, pid: int, link: Link) -> None:
        self.pid = pid
        self.link = link
        self._waiting: deque[tuple[Channel, Sequence[Any], Sequence[int]]] = deque()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def command(self, _fds: Sequence[int] = (), **fields: Any) -> None:
        self.send(Channel.ENGINE, [json.dumps(fields).encode()], _fds)

    def send(self, channel: Channel, frames: Sequence[Any], fds: Sequence[int] = ()) -> None:
        """Send a packet as soon as possible; ``fds`` are closed once it is sent."""
        self._waiting.append((channel, frames, fds))
        self.flush()

    def flush(self) -> None:
        """Send what is waiting, as far as the worker takes it."""
        while self._waiting:
            channel, frames, fds = self._waiting[0]
            try:
                self.link.send(channel, frames, fds, wait=False)
            except BlockingIOError:
                return
            except OSError:
                pass  # it is dying; its end will be noticed
            self._waiting.popleft()
            for fd in fds:
                os.close(fd)

    def interrupt(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGINT)

    def kill(self) -> None:
        """End the worker, and what it started: both belong to a state that is left."""
        for victim in [self.pid, *started_below(self.pid)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)

    def close(self) -> None:
        """Let go of a worker that is dead or about to be."""
        self.link.close()
        for _, _, fds in self._waiting:
            for fd in fds:
                os.close(fd)
        self._waiting.clear()
