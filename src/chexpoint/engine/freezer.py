"""The supervisor's side of the checkpoints: frozen processes, and the one that goes live."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chexpoint.engine import events as ev
from chexpoint.engine.wire import Link
from chexpoint.model import CheckpointId


@dataclass(slots=True)
class _Thawing:
    checkpoint: CheckpointId
    link: Link
    started: float


class Freezer:
    """Connections to frozen processes, by the checkpoints they are."""

    def __init__(self) -> None:
        self.pids: dict[CheckpointId, int] = {}
        self._controls: dict[CheckpointId, Link] = {}
        self._thawing: _Thawing | None = None

    def __len__(self) -> int:
        return len(self._controls)

    def __iter__(self) -> Iterator[CheckpointId]:
        return iter(list(self._controls))

    def filenos(self) -> list[int]:
        links = list(self._controls.values())
        if self._thawing is not None:
            links.append(self._thawing.link)
        return [link.fileno() for link in links]

    def control(self, checkpoint: CheckpointId) -> Link | None:
        return self._controls.get(checkpoint)

    def connect(self, checkpoint: CheckpointId) -> int:
        """Return the other end of a connection to a checkpoint that is about to be taken."""
        mine, theirs = Link.pair()
        self._controls[checkpoint] = mine
        return theirs.sock.detach()

    def thaw(self, checkpoint: CheckpointId, *, keep: bool) -> None:
        """Tell a frozen process to go live."""
        mine, theirs = Link.pair()
        self._thawing = _Thawing(checkpoint, mine, time.perf_counter())
        # If the process is dead, closing our copy of its end shows on ours.
        with contextlib.suppress(OSError, KeyError):
            self._controls[checkpoint].command([theirs.fileno()], do="thaw", keep=keep)
        theirs.close()

    def thawed(self, pid: int) -> Link | None:
        """Return the connection to the process that is live now, and is the worker's."""
        thawing, self._thawing = self._thawing, None
        if thawing is None:
            return None
        if self.pids.get(thawing.checkpoint) == pid:
            del self.pids[thawing.checkpoint]
        return thawing.link

    def drop(self, checkpoint: CheckpointId) -> None:
        """End a frozen process."""
        if self._thawing is not None and self._thawing.checkpoint == checkpoint:
            self._thawing.link.close()
            self._thawing = None
        control = self._controls.pop(checkpoint, None)
        if control is not None:
            control.close()
        pid = self.pids.get(checkpoint)
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def reaped(self, pid: int) -> None:
        """A process has ended."""
        for checkpoint, frozen in list(self.pids.items()):
            if frozen == pid:
                del self.pids[checkpoint]

    def events(self, ready: set[int]) -> Iterator[ev.Event]:
        """Yield what frozen processes tell; whoever takes an event may drop others meanwhile."""
        for checkpoint, control in list(self._controls.items()):
            if control.fileno() in ready and checkpoint in self._controls:
                yield from self._from_frozen(checkpoint, control)
        thawing = self._thawing
        if thawing is not None and thawing.link.fileno() in ready:
            yield from self._from_thawing(thawing)

    def _from_frozen(self, checkpoint: CheckpointId, control: Link) -> Iterator[ev.Event]:
        try:
            packet = control.receive(wait=False)
        except BlockingIOError:
            return
        if packet is None:
            self._controls.pop(checkpoint).close()
            yield ev.CheckpointGone(checkpoint)
            return
        event = packet.command()
        self.pids[checkpoint] = event["pid"]
        yield ev.Froze(checkpoint, event["pid"], tuple(event["lost"]))

    def _from_thawing(self, thawing: _Thawing) -> Iterator[ev.Event]:
        try:
            packet = thawing.link.receive(wait=False)
        except BlockingIOError:
            return
        if packet is None:
            self._thawing = None
            thawing.link.close()
            yield ev.ThawFailed(thawing.checkpoint)
            return
        event = packet.command()
        yield ev.Thawed(
            thawing.checkpoint,
            event["pid"],
            event["kept"],
            seconds=time.perf_counter() - thawing.started,
            warnings=tuple(_unique(event["lost"])),
        )


def _unique(texts: Iterable[str]) -> list[str]:
    """Return texts in order, with how often each came."""
    counts: dict[str, int] = {}
    for text in texts:
        counts[text] = counts.get(text, 0) + 1
    return [text if n == 1 else f"{text} ({n} times)" for text, n in counts.items()]
