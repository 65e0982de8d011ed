"""Background materialisation: snapshots leave the training thread, and become images of a store.

The training thread copies what changed into memory that it shares with a writer process, at the
speed of memory, and goes on.  Serialising, de-duplicating and writing happen in the writer.

A fork for each checkpoint, as in the seed, is in `fork_materialiser`.  It returns sooner, but on a
processor the training then pays a page fault for everything it touches, parameters or not, which
measured several times what copying costs.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from chexpoint.config import here
from chexpoint.errors import InvalidValue
from chexpoint.hindsight.writing.arena import Arena
from chexpoint.hindsight.writing.writer_layout import Layout, fill, layout_of, spooled
from chexpoint.hindsight.writing.writer_lines import read_lines
from chexpoint.hindsight.writing.writer_link import WriterGone, WriterLink, wait_end
from chexpoint.hindsight.writing.writer_lock import hasten
from chexpoint.hindsight.writing.writer_snapshot import (
    Materialiser,
    Paid,
    Part,
    Saved,
    Snapshot,
    Stopwatch,
    full_path,
    saved_from_line,
)
from chexpoint.model import Bytes, Seconds

DEFAULT_BUDGET: Bytes = 1 << 30
"""What snapshots may take that are not yet stored."""
# Answers to more might not fit into the connection, and the writer would wait for us.
_MOST_PENDING = 64
# A writer that cannot even begin is not started for each checkpoint again.
_MOST_LOSSES = 3
_LOST = "the process that stores it ended before it was stored"

_alive: weakref.WeakSet[StagingMaterialiser] = weakref.WeakSet()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pending:
    """A snapshot that the writer has."""

    name: str
    start: int | None
    """Its slot; None if it is in a file of its own."""


class StagingMaterialiser:
    """Stores snapshots through shared memory and a writer process, see `Materialiser`.

    Parameters
    ----------
    store
        Where images go: a folder or a URL.
    folder
        Of the run: ``saved.jsonl`` in it says what is durable.
    budget_bytes
        How much memory snapshots may take that are not yet stored.  A larger one goes through a
        file in `folder`, if its caller waits.
    store_budget
        What the store may take.
    """

    def __init__(
        self,
        store: str,
        folder: str,
        *,
        budget_bytes: Bytes = DEFAULT_BUDGET,
        store_budget: Bytes | None = None,
    ) -> None:
        if budget_bytes <= 0:
            raise InvalidValue(f"a budget of {budget_bytes} bytes holds no snapshot.")
        self._store, self._folder = full_path(store), full_path(folder)
        self._budget, self._store_budget = budget_bytes, store_budget
        self._pid = os.getpid()
        self._link: WriterLink | None = None
        self._arena: Arena | None = None
        self._touched = 0
        """Up to where the writer was asked to have pages ready."""
        self._pending: dict[int, _Pending] = {}
        self._left: dict[str, int | None] = {}
        """Snapshots of writers that were left alone, and their process ids."""
        self._done: list[Saved] = []
        self._serial = 0
        self._losses = 0
        _alive.add(self)

    # ------------------------------------------------------------ the protocol

    def start(self) -> None:
        """Start the writer, and return at once."""
        self._check_process()
        with suppress(WriterGone):
            self._connect()

    def submit(self, snapshot: Snapshot, *, wait: bool) -> Paid | None:
        """Copy a snapshot to where the writer finds it; None if there is no room."""
        watch = Stopwatch()
        self._check_process()
        with self._untorn():
            self._receive(0)
            try:
                layout = layout_of(snapshot)
                if layout.nbytes > self._budget:
                    self._submit_large(snapshot, layout, wait=wait)
                elif not self._submit(snapshot, layout, wait=wait):
                    return None
            except WriterGone as error:
                self._lose()
                self._fail(snapshot.name, f"{_LOST} ({error})")
            except Exception as error:  # of whoever copies a part, or no memory
                self._fail(snapshot.name, f"{type(error).__name__}: {error}")
        return watch.paid()

    def poll(self) -> list[Saved]:
        """Return what has become of snapshots since the last call."""
        self._check_process()
        with self._untorn():
            self._receive(0)
        if self._left:
            self._look_up(self._left)
        done, self._done = self._done, []
        return done

    def drain(self, timeout_s: Seconds | None) -> bool:
        """Wait until all that was submitted is stored or has failed; return whether it is."""
        self._check_process()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s

        def left() -> float | None:
            return None if deadline is None else max(0.0, deadline - time.monotonic())

        with self._untorn():
            while self._pending:
                self._hasten()
                if not self._receive(left()):
                    return False
        for pid in set(self._left.values()):
            if pid is not None and not wait_end(pid, left()):
                self._look_up(self._left)
                return not self._left
        self._look_up(self._left)
        # Their writers have ended.
        for name in self._left:
            self._fail(name, _LOST)
        self._left.clear()
        return True

    def finish(self) -> None:
        """Let go of writer and memory; what was submitted is still stored."""
        self._check_process()
        self._receive(0)
        self._let_go()

    def paid_later(self) -> Seconds:
        """Return 0: when `submit` has returned, all is paid."""
        return 0.0

    # ------------------------------------------------------------ handing over

    def _submit(self, snapshot: Snapshot, layout: Layout, *, wait: bool) -> bool:
        """Hand over a snapshot through the arena; return whether there was room."""
        while True:
            arena, link = self._connect()
            start = arena.take(layout.nbytes) if len(self._pending) < _MOST_PENDING else None
            if start is not None:
                break
            if not wait:
                return False
            self._hasten()
            self._receive(None)
        # While it stores this one, the next needs another place.
        self._touch(link, arena.present_bytes + layout.nbytes)
        try:
            fill(arena.memory, start, snapshot, layout)
        except Exception:
            arena.give(start)
            raise
        pending = _Pending(name=snapshot.name, start=start)
        self._hand_over(link, pending, {"do": "save", "at": start, "bytes": layout.nbytes})
        return True

    def _submit_large(self, snapshot: Snapshot, layout: Layout, *, wait: bool) -> None:
        """Hand over a snapshot that the arena cannot hold: in a file that has no name."""
        if not wait:
            raise MemoryError(
                f"it has {layout.nbytes} bytes, and staging may take {self._budget}:"
                " raise the budget"
            )
        # One at a time: the disk is not to fill up with them.
        while any(each.start is None for each in self._pending.values()):
            self._hasten()
            self._receive(None)
        _, link = self._connect()
        fd = spooled(snapshot, layout, self._folder)
        try:
            pending = _Pending(name=snapshot.name, start=None)
            self._hand_over(link, pending, {"do": "save", "bytes": layout.nbytes}, fd)
        finally:
            os.close(fd)

    def _hand_over(
        self,
        link: WriterLink,
        pending: _Pending,
        packet: Mapping[str, Any],
        fd: int | None = None,
    ) -> None:
        """Tell the writer of a snapshot that is complete."""
        while len(self._pending) >= _MOST_PENDING and self._link is link:
            self._receive(None)
        while not link.send({**packet, "n": self._serial + 1}, fd):
            # Cannot be for long: it has a limited number of snapshots.
            self._receive(1.0)
        self._serial += 1
        self._pending[self._serial] = pending

    def _touch(self, link: WriterLink, end: int) -> None:
        """Ask for pages up to an offset, if they are within the budget."""
        if self._touched < end <= self._budget:
            packet = {"do": "touch", "at": self._touched, "bytes": end - self._touched}
            if link.send(packet):
                self._touched = end

    @contextmanager
    def _untorn(self) -> Iterator[None]:
        """Begin anew if the user interrupts: a packet may be sent, or taken, and not noted."""
        try:
            yield
        except Exception:
            raise
        except BaseException:
            self._let_go()
            raise

    # ------------------------------------------------------------ the writer

    def _connect(self) -> tuple[Arena, WriterLink]:
        """Return the arena and the writer, which are started if they are not there."""
        if self._arena is not None and self._link is not None:
            return self._arena, self._link
        if self._losses >= _MOST_LOSSES:
            raise WriterGone("it ended several times, and is not started again")
        try:
            arena = Arena(self._budget)
        except OSError as error:
            raise WriterGone(f"no memory for staging: {error}") from error
        try:
            link = WriterLink(self._store, self._folder, self._store_budget)
            link.send({"do": "arena", "bytes": arena.nbytes}, arena.fd)
        except BaseException:
            arena.close()
            raise
        arena.close_fd()
        self._arena, self._link, self._touched = arena, link, 0
        return arena, link

    def _hasten(self) -> None:
        """Have the writer hurry: this process has nothing else to do."""
        if self._link is not None and self._link.pid is not None:
            hasten(self._link.pid)

    def _receive(self, timeout_s: float | None) -> bool:
        """Take in all answers that are there, and wait for the first; return whether one was."""
        is_any = False
        while self._link is not None:
            try:
                answer = self._link.receive(0 if is_any else timeout_s)
            except WriterGone:
                self._lose()
                return True
            if answer is None:
                return is_any
            is_any = True
            self._losses = 0
            pending = self._pending.pop(answer.pop("n"))
            if self._arena is not None and pending.start is not None:
                self._arena.give(pending.start)
            self._done.append(Saved(name=pending.name, **answer))
        return is_any

    def _lose(self) -> None:
        """Go on without a writer that has ended: what it had stored before counts."""
        self._losses += 1
        if self._link is not None:
            self._link.close()
        names = dict.fromkeys(each.name for each in self._pending.values())
        self._release()
        self._look_up(names)
        for name in names:
            self._fail(name, _LOST)

    def _look_up(self, names: dict[str, Any]) -> None:
        """Take those snapshots out of some of which the file says what became of them."""
        lines = read_lines(self._folder) if names else {}
        for name in [name for name in names if name in lines]:
            del names[name]
            self._done.append(saved_from_line(lines[name]))

    def _let_go(self) -> None:
        """Leave the writer alone: it stores what it has, and ends."""
        pid = None if self._link is None else self._link.close()
        if pid is not None:
            hasten(pid)
        self._left |= {each.name: pid for each in self._pending.values()}
        self._release()

    def _release(self) -> None:
        self._pending.clear()
        arena, self._arena, self._link = self._arena, None, None
        if arena is not None:
            arena.close()

    def _fail(self, name: str, why: str) -> None:
        self._done.append(Saved(name=name, failed=why))

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self.abandon()

    def abandon(self) -> None:
        """Begin anew, in a forked child: writer, memory and snapshots are the parent's."""
        self._pid = os.getpid()
        if self._link is not None:
            self._link.abandon()
        if self._arena is not None:
            self._arena.abandon()
        self._link = self._arena = None
        self._pending, self._left, self._done, self._losses = {}, {}, [], 0


def _abandon_all() -> None:
    for each in list(_alive):
        each.abandon()


os.register_at_fork(after_in_child=_abandon_all)


def open_materialiser(
    store: str,
    folder: str,
    *,
    budget_bytes: Bytes = DEFAULT_BUDGET,
    store_budget: Bytes | None = None,
    kind: str = "",
) -> Materialiser:
    """Return a materialiser.

    Parameters
    ----------
    store
        Where images go: a folder or a URL.
    folder
        Of the run: ``saved.jsonl`` in it says what is durable.
    budget_bytes
        How much memory snapshots may take that are not yet stored.
    store_budget
        What the store may take.
    kind
        ``staging`` or ``fork``; empty for what the user has set.

    Raises
    ------
    InvalidValue
        For another kind.
    """
    from chexpoint.hindsight.writing.fork_materialiser import ForkMaterialiser

    wanted = kind or here().word("materialiser")
    match wanted:
        case "staging":
            return StagingMaterialiser(
                store, folder, budget_bytes=budget_bytes, store_budget=store_budget
            )
        case "fork":
            return ForkMaterialiser(store, folder, store_budget=store_budget)
        case _:
            raise InvalidValue(f"no materialiser '{wanted}': use staging or fork.")


__all__ = [
    "DEFAULT_BUDGET",
    "Materialiser",
    "Paid",
    "Part",
    "Saved",
    "Snapshot",
    "StagingMaterialiser",
    "open_materialiser",
]
