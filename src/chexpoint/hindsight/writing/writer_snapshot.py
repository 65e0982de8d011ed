"""Snapshots of a state, and what stores them in the background."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from chexpoint.model import Bytes, Seconds


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Part:
    """One leaf of a snapshot."""

    key: str
    kind: Literal["array", "stream"]
    nbytes: Bytes
    copy_into: Callable[[memoryview], None]
    """Writes the contents into memory of exactly that size, and keeps no reference to it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Snapshot:
    """A state at one moment, to be stored as an image."""

    name: str
    document: dict[str, Any]
    """JSON about the image."""
    parts: tuple[Part, ...]
    like: str | None = None
    """An image that is similar, if there is one by then."""
    cost_s: Seconds = 0.0
    """How long the state would take to compute again."""

    @property
    def nbytes(self) -> Bytes:
        """Size of all parts together."""
        return sum(part.nbytes for part in self.parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Saved:
    """What became of a snapshot."""

    name: str
    failed: str = ""
    """Why it is not in the store; empty if it is."""
    stored_bytes: Bytes = 0
    seconds: Seconds = 0.0
    """How long storing it took, in the background."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """What handing over a snapshot cost."""

    seconds: Seconds


class Materialiser(Protocol):
    """Stores snapshots in the background.  Used by one thread of one process.

    A fork of the process may use its copy: it begins anew, with a writer of its own.
    Nothing that goes wrong in the background is raised: `poll` tells it.
    """

    def start(self) -> None:
        """Get ready, and return at once.  Called when a loop begins; not necessary."""

    def submit(self, snapshot: Snapshot, *, wait: bool) -> Paid | None:
        """Take a snapshot of what its parts hold now.

        Called by the training thread, which may change everything when it returns.

        Parameters
        ----------
        wait
            Whether to wait for room.

        Returns
        -------
        Paid or None
            What the calling thread paid; None if there is no room now: nothing was taken.
        """

    def poll(self) -> list[Saved]:
        """Return what has become of snapshots since the last call.  Does not wait."""

    def drain(self, timeout_s: Seconds | None) -> bool:
        """Wait until all that was submitted is stored or has failed; return whether it is."""

    def finish(self) -> None:
        """Let go of everything: no more will come for now.

        What was submitted is still stored.  Afterwards this process has no memory, descriptor or
        child of ours.  `poll` and `drain` still work, and `submit` begins anew.
        """

    def paid_later(self) -> Seconds:
        """Return what this process has paid since the last call, after `submit` had returned."""


class Stopwatch:
    """Measures what a call costs the training thread."""

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def paid(self) -> Paid:
        """Return the cost so far."""
        return Paid(seconds=time.perf_counter() - self._started)


def full_path(where: str) -> str:
    """Return a folder by its full path, and a URL as it is."""
    return where if "://" in where else os.path.abspath(where)


def saved_from_line(line: dict[str, Any]) -> Saved:
    """Return what a line of ``saved.jsonl`` says."""
    return Saved(
        name=line["image"],
        failed=line.get("failed", ""),
        stored_bytes=line.get("stored_bytes", 0),
        seconds=line.get("seconds", 0.0),
    )
