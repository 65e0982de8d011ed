"""Materialisation by fork, as in the seed: a child has the state as it was, and stores it.

It returns as soon as the fork has been made.  The training pays later: until the child has ended,
whatever is written to for the first time costs a page fault and the copy of a page.

Right for states that are few bytes among many that do not change, and for objects that take long
to pickle.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
import warnings

from chexpoint.hindsight.writing.writer import close_all_but, save_snapshot, stand_back, warm_up
from chexpoint.hindsight.writing.writer_lines import read_lines
from chexpoint.hindsight.writing.writer_link import wait_end
from chexpoint.hindsight.writing.writer_snapshot import (
    Paid,
    Saved,
    Snapshot,
    Stopwatch,
    full_path,
    saved_from_line,
)
from chexpoint.model import Bytes, Seconds

MOST_CHILDREN = 2
"""At the same time: each may come to hold a copy of the whole process."""
_LOST = "the process that stores it ended before it was stored"


class ForkMaterialiser:
    """Stores each snapshot in a fork of the process, see `Materialiser`.

    No signal handler is touched: children are collected by their own process ids, by `poll`.
    `finish` waits for them, because they are children as long as they live.

    Parameters
    ----------
    store
        Where images go: a folder or a URL.
    folder
        Of the run: ``saved.jsonl`` in it says what is durable.
    store_budget
        What the store may take.
    """

    def __init__(self, store: str, folder: str, *, store_budget: Bytes | None = None) -> None:
        self._where = (full_path(store), full_path(folder), store_budget)
        self._pid = os.getpid()
        self._children: dict[int, str] = {}
        """Names of snapshots by the processes that store them."""
        self._done: list[Saved] = []
        self._is_warm = False
        self._faults = _Faults()

    def start(self) -> None:
        """Load what a child needs, so that not every child has to."""
        if not self._is_warm:
            self._is_warm = True
            with contextlib.suppress(Exception):  # a child will say it
                warm_up()

    def submit(self, snapshot: Snapshot, *, wait: bool) -> Paid | None:
        """Fork a child that has the snapshot; None if there are two already."""
        watch = Stopwatch()
        self._check_process()
        self.start()
        self._collect()
        while len(self._children) >= MOST_CHILDREN:
            if not wait:
                return None
            wait_end(next(iter(self._children)), None)
            self._collect()
        self._faults.begin()
        try:
            with warnings.catch_warnings():
                # Of threads, which the child does not use.
                warnings.simplefilter("ignore", DeprecationWarning)
                pid = os.fork()
        except OSError as error:
            self._done.append(Saved(name=snapshot.name, failed=f"no fork: {error}"))
            return watch.paid()
        if pid == 0:
            self._run_child(snapshot)
        self._children[pid] = snapshot.name
        return watch.paid()

    def poll(self) -> list[Saved]:
        """Return what has become of snapshots since the last call."""
        self._check_process()
        self._collect()
        done, self._done = self._done, []
        return done

    def drain(self, timeout_s: Seconds | None) -> bool:
        """Wait until all children have ended; return whether they have."""
        self._check_process()
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        for pid in list(self._children):
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            wait_end(pid, left)
        self._collect()
        return not self._children

    def finish(self) -> None:
        """Wait until all children have ended."""
        self.drain(None)

    def paid_later(self) -> Seconds:
        """Return what page faults have cost since the last call, beyond what is usual."""
        return self._faults.cost(bool(self._children))

    def _collect(self) -> None:
        """Collect the children that have ended, and see what became of their snapshots."""
        ended = [pid for pid in self._children if _has_ended(pid)]
        if not ended:
            return
        lines = read_lines(self._where[1])
        for pid in ended:
            name = self._children.pop(pid)
            line = lines.get(name)
            lost = Saved(name=name, failed=_LOST)
            self._done.append(lost if line is None else saved_from_line(line))

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._children, self._done = {}, []

    def _run_child(self, snapshot: Snapshot) -> None:
        """Store a snapshot, in the child, which does not return."""
        code = 1
        try:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            stand_back()
            # Ports and pipes must not stay open because the child lives on.
            close_all_but(-1)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in range(3):
                os.dup2(null, fd)
            _use_one_thread()
            header = {
                "name": snapshot.name,
                "document": snapshot.document,
                "like": snapshot.like,
                "cost_s": snapshot.cost_s,
                "parts": [(part.key, part.kind, 0, part.nbytes) for part in snapshot.parts],
            }
            save_snapshot(self._where, header, lambda number: _Fetch(snapshot, number))
            code = 0
        finally:
            os._exit(code)


class _Fetch:
    """Copies a part when it is stored: only one of them is there twice."""

    def __init__(self, snapshot: Snapshot, number: int) -> None:
        self._part = snapshot.parts[number]

    def __call__(self) -> memoryview:
        contents = memoryview(bytearray(self._part.nbytes))
        if self._part.nbytes:
            self._part.copy_into(contents)
        return contents


def _use_one_thread() -> None:
    """Keep libraries from waiting for threads that a fork does not have."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _has_ended(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] != 0
    except ChildProcessError:
        return True  # a handler of the user's has collected it


class _Faults:
    """Estimates what the copies of pages cost while children live.

    The system's time of the process, less what it takes when there is no child.
    """

    def __init__(self) -> None:
        self._usual = 0.0
        """Seconds in the system by seconds, without children."""
        self._had_child = False
        self._time, self._system = time.monotonic(), _system_time()

    def begin(self) -> None:
        """Note that a child is about to be there."""
        if not self._had_child:
            self.cost(False)
        self._had_child = True

    def cost(self, has_child: bool) -> Seconds:
        """Return the cost since the last call."""
        now, system = time.monotonic(), _system_time()
        elapsed, used = now - self._time, system - self._system
        self._time, self._system = now, system
        had_child, self._had_child = self._had_child, has_child
        if elapsed <= 0:
            return 0.0
        if not had_child:
            rate = used / elapsed
            self._usual = rate if self._usual == 0 else 0.7 * self._usual + 0.3 * rate
            return 0.0
        return min(max(0.0, used - self._usual * elapsed), elapsed)


def _system_time() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_stime
