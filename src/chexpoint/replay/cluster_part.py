"""What is done on a host of a cluster: a part of a replay, in an engine of its own.

These functions are called by name in threads of Dask workers.  What comes of each cell is said as
soon as it is known; only large cells travel with the end of the part.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import platform
import shutil
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from chexpoint.compare import Tolerance
from chexpoint.engine import Guest, available_bytes
from chexpoint.errors import ClusterError
from chexpoint.lineage import Present, default_cache_folder, root_node
from chexpoint.model import (
    Bytes,
    ExecutionTree,
    NodeId,
    Plan,
    Recording,
    ReplayedCell,
    Seconds,
    StepCosts,
)
from chexpoint.package import environment_info
from chexpoint.replay.cluster import Desk
from chexpoint.replay.cluster_cargo import Cargo, HostFiles
from chexpoint.replay.cluster_hosts import HostFacts
from chexpoint.replay.cluster_speaker import Speaker
from chexpoint.replay.cluster_states import ShippedState
from chexpoint.replay.host_lane import HostLane
from chexpoint.replay.shared_course import SharedCourse
from chexpoint.replay.sharing import Reach

_LOOK_S: Seconds = 0.1
# How long a cell may go on after it was interrupted.
_GRACE_S: Seconds = 5.0
_MOST_ABOARD = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What all parts of a replay have in common; sent to each host once."""

    recording: Recording
    tree: ExecutionTree
    """What is planned with."""
    costs: StepCosts
    planner: str
    timeout_s: Seconds | None
    tolerance: Tolerance
    cargo: Cargo
    settings: Mapping[str, str]
    """What is set where the replay was started, as environment variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartOrder:
    """One part of a replay."""

    number: int
    plan: Plan | None
    """None to start an engine, and to wait for what it is to do."""
    budget: Bytes
    cores: frozenset[int]
    within_s: Seconds | None = None
    is_alone: bool = False
    """Whether nothing else runs on the host: then what ends its engine has failed."""
    states: tuple[ShippedState, ...] = ()
    """In the store, to begin with."""
    bandwidth: float = 0.0
    """Bytes a second between the host and the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartEnd:
    """What came of a part, besides what was said."""

    said: int
    """How many messages there were."""
    cells: tuple[ReplayedCell, ...] = ()
    """Those that were too large to be said."""


@dataclass(frozen=True, slots=True)
class Aboard:
    """What a host has taken in."""

    load: Any
    files: HostFiles
    folder: Path

    def guest(self, desk: Desk, cores: frozenset[int]) -> Guest:
        """Return what an engine is given here."""
        return Guest(cores=cores, without=desk.environment, settings=self.load.settings)


@dataclass(frozen=True, slots=True)
class _AtWork:
    """A part, for those who call while it is computed."""

    course: SharedCourse
    speaker: Speaker


_aboard: OrderedDict[tuple[str, str], Aboard] = OrderedDict()
_at_work: dict[tuple[str, str, int], _AtWork] = {}
_lock = threading.Lock()


# ---------------------------------------------------------------- hosts


def board(topic: str, data: bytes) -> HostFacts:
    """Take in what a replay needs, and tell what this host is like.

    Raises
    ------
    StoreError
        If the store cannot be read from here.
    """
    return settled(Desk(topic), data, lambda load, files, folder: None)


def settled(desk: Desk, data: bytes, unpack: Callable[[Any, HostFiles, Path], None]) -> HostFacts:
    """Take in a load, and tell what this host is like.

    Parameters
    ----------
    unpack
        Puts what else is in the load into a folder.
    """
    folder = Path(tempfile.mkdtemp(prefix="chex-replay-", dir=desk.folder))
    try:
        # It comes from the same CHEX, through a scheduler that may have anything run here anyway.
        load = pickle.loads(data)  # noqa: S301
        files = HostFiles(load.cargo, folder / "files")
        bandwidth = files.try_out()
        unpack(load, files, folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    _forget(desk.topic, desk.address)  # of a member that was given up, and is taken in again
    with _lock:
        _aboard[desk.topic, desk.address] = Aboard(load, files, folder)
        old = [key for key in _aboard if key[1] == desk.address][:-_MOST_ABOARD]
    for run, _ in old:  # of drivers that were killed
        _forget(run, desk.address)
    # Of an engine, which does not find what Dask has set for its own work.
    seed = "0" if "PYTHONHASHSEED" in desk.environment else None
    present = Present(str(folder), cache_folder=default_cache_folder(), hash_seed=seed)
    return HostFacts(
        machine=f"{_boot()} {platform.node()}",
        hostname=platform.node(),
        cores=frozenset(os.sched_getaffinity(0)),
        available_bytes=available_bytes(),
        root=root_node(present.packages()),
        environment=environment_info(),
        bandwidth=bandwidth,
    )


def aboard_of(desk: Desk) -> Aboard:
    """Return what was taken in.

    Raises
    ------
    ClusterError
        If this worker has never heard of the replay: it was started again meanwhile.
    """
    with _lock:
        found = _aboard.get((desk.topic, desk.address))
    if found is None:
        raise ClusterError("the worker was started again")
    return found


def leave(topic: str) -> None:
    """Forget a replay that is over."""
    _forget(topic, Desk(topic).address)


def _forget(topic: str, address: str) -> None:
    with _lock:
        aboard = _aboard.pop((topic, address), None)
    if aboard is not None:
        shutil.rmtree(aboard.folder, ignore_errors=True)


def _boot() -> str:
    """Return what tells this machine from others: containers of one share it."""
    with contextlib.suppress(OSError):
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    return ""


# ---------------------------------------------------------------- parts


def run_part(topic: str, order: PartOrder) -> PartEnd:
    """Take an engine through a part of a replay; its thread outlives the engine.

    When all is done, the engine waits with its checkpoints for more, until it is told that there
    will be none.

    Raises
    ------
    ClusterError
        If this worker has never heard of the replay: it was started again meanwhile.
    EngineError
        If no engine can be started.
    """
    desk = Desk(topic)
    aboard = aboard_of(desk)
    load: Load = aboard.load
    course = SharedCourse(
        load.tree, order.plan, budget=order.budget, costs=load.costs, planner=load.planner
    )
    speaker = Speaker(order.number, desk.say, course.remaining)
    until = None if order.within_s is None else time.monotonic() + order.within_s
    folder = Path(tempfile.mkdtemp(prefix="part-", dir=aboard.folder))
    key = topic, desk.address, order.number
    with _lock:
        _at_work[key] = _AtWork(course, speaker)
    try:
        lane = HostLane(
            order.number,
            load.recording,
            aboard.files,
            base=folder,
            budget_bytes=order.budget,
            timeout_s=load.timeout_s,
            tolerance=load.tolerance,
            seconds_left=lambda: None if until is None else max(0.0, until - time.monotonic()),
            watcher=speaker,
            guest=aboard.guest(desk, order.cores),
            shared=load.cargo.store,
            images=folder / "images",
            bandwidth=order.bandwidth,
            states=speaker,
        )
        lane.is_alone = order.is_alone
        with watched(desk, lane, speaker.flush):
            try:
                lane.start()
                states = order.states
                while True:
                    for state in (*states, *course.take_arrivals()):
                        lane.begin_with(course, state)
                    lane.follow(course)
                    speaker.idle(course.held, lane.take_fatal())
                    if not course.wait_for_more(lambda: not lane.is_interrupted):
                        break
                    states = ()
            finally:
                lane.close()
    finally:
        course.finish()
        with _lock:
            del _at_work[key]
        shutil.rmtree(folder, ignore_errors=True)
    return PartEnd(said=speaker.said, cells=speaker.take_large())


# These are called while a part is computed, by the thread that must not wait.


def ask_part(
    topic: str, address: str, number: int, reach: Reach
) -> tuple[frozenset[NodeId], tuple[int, Seconds]]:
    """Have a part leave something to others; return its leaves, and what the part keeps to do."""
    part = _found(topic, address, number)
    return (frozenset(), (0, 0.0)) if part is None else part.course.asked(reach)


def extend_part(
    topic: str,
    address: str,
    number: int,
    leaves: frozenset[NodeId],
    plan: Plan | None,
    states: tuple[ShippedState, ...],
) -> bool:
    """Have a part compute more leaves, from some states; return whether it will."""
    part = _found(topic, address, number)
    return part is not None and part.course.given(leaves, plan, states)


def finish_part(topic: str, address: str, number: int) -> None:
    """Have a part end when it has done what it has to do."""
    part = _found(topic, address, number)
    if part is not None:
        part.course.finish()


def collect_large(topic: str, address: str, number: int) -> tuple[ReplayedCell, ...]:
    """Return the cells of a part that were too large to be said."""
    part = _found(topic, address, number)
    return () if part is None else part.speaker.take_large()


def _found(topic: str, address: str, number: int) -> _AtWork | None:
    with _lock:
        return _at_work.get((topic, address, number))


class Stoppable(Protocol):
    """What can be made to end by another thread."""

    def interrupt(self) -> None:
        """Interrupt what runs."""

    def kill(self) -> None:
        """End what does not listen."""


@contextlib.contextmanager
def watched(desk: Desk, lane: Stoppable, flush: Callable[[], None]) -> Iterator[None]:
    """See to it that what is said gets out, and that a lane ends that nobody wants any more."""
    is_over = threading.Event()

    def watch() -> None:
        patience = _GRACE_S
        while not is_over.wait(_LOOK_S):
            flush()
            if not desk.is_wanted():
                patience -= _LOOK_S
                lane.interrupt()
                if patience < 0:
                    lane.kill()

    thread = threading.Thread(target=watch, name="chex-part", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
        flush()
