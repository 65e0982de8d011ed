"""A replay on a cluster at work: parts go to hosts, and to others when hosts are lost."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from chexpoint.errors import ChexError, ClusterError
from chexpoint.model import (
    Bytes,
    ExecutionTree,
    NodeId,
    Plan,
    ReplayedCell,
    ReplayHost,
    Seconds,
    format_seconds,
    format_size,
    replayed_cell_from_json,
)
from chexpoint.replay.cluster import Cluster, Said
from chexpoint.replay.cluster_crew import Crew
from chexpoint.replay.cluster_hosts import Host, Seat
from chexpoint.replay.cluster_part import (
    PartEnd,
    PartOrder,
    ask_part,
    collect_large,
    extend_part,
    finish_part,
    run_part,
)
from chexpoint.replay.cluster_parts import RunningPart
from chexpoint.replay.cluster_pool import Pool
from chexpoint.replay.cluster_states import ShippedState, States
from chexpoint.replay.ledger import Ledger
from chexpoint.replay.sharing import Reach

_TICK_S: Seconds = 0.25
# How often the scheduler is asked who is there: in large clusters that is work.
_LOOK_S: Seconds = 1.0
# Who has less to do than this is not asked to leave something to others.
_WORTH_S: Seconds = 0.5
# Until an engine was started here that could be watched.
_START_S: Seconds = 1.0
_RESTORE_S: Seconds = 0.02
_RESUME = "what was found out is kept: go on with --resume"


class Planning(Protocol):
    """Who plans for a run, and knows how long it may take."""

    @property
    def is_interrupted(self) -> bool:
        """Whether nothing more is to be computed."""

    def seconds_left(self) -> Seconds | None:
        """Return how much time there is; None is no limit."""

    def divided(
        self, tree: ExecutionTree, leaves: Sequence[NodeId], engines: int, budget: Bytes
    ) -> tuple[tuple[Plan, ...], Seconds]:
        """Return plans for so many engines with this budget each, and when the last one is done."""

    def planned(self, tree: ExecutionTree, leaves: Sequence[NodeId], budget: Bytes) -> Plan:
        """Return a plan for one engine."""


class ClusterRun:
    """One run; belongs to one thread.

    Parameters
    ----------
    patience_s
        How long to wait for a scheduler that is gone, or for workers when none is left.
    """

    def __init__(
        self,
        cluster: Cluster,
        crew: Crew,
        ledger: Ledger,
        pool: Pool,
        planning: Planning,
        patience_s: Seconds,
    ) -> None:
        bandwidth = min((seat.host.facts.bandwidth for seat in crew.seats.values()), default=0.0)
        self._states = States(pool.tree, bandwidth)
        self._cluster, self._crew, self._ledger, self._pool = cluster, crew, ledger, pool
        self._planning = planning
        self._patience_s = patience_s
        self._parts: dict[int, RunningPart] = {}
        self._ready: deque[Plan] = deque()
        self._used: dict[str, Host] = {}
        self._cells: dict[str, int] = {}
        self._lost: set[str] = set()
        self._why = ""
        self._start_s = _START_S
        self.engines = 1
        """How many were at work at the same time."""

    def hosts(self) -> tuple[ReplayHost, ...]:
        """Return the hosts that had something to do, and how much."""
        return tuple(
            ReplayHost(
                name=host.name,
                engines=host.member.slots,
                computed_cells=self._cells.get(address, 0),
                is_lost=address in self._lost,
            )
            for address, host in sorted(self._used.items(), key=lambda pair: pair[1].name)
        )

    def drive(self) -> Seconds:
        """Give parts to hosts until nothing is left to do; return what the first plan said."""
        # Engines take longer to start than most plans to make.
        for seat in list(self._crew.seats.values())[: len(self._pool.loose)]:
            self._start(seat, None)
        planned = self._divide()
        self._ledger.begin(sum(_cells(plan) for plan in self._ready))
        looked = time.monotonic()
        while not self._planning.is_interrupted:
            self._give()
            if not self._parts and not self._ready and self._pool.is_empty:
                break
            if not self._parts and not self._crew.seats:
                self._wait_for_hosts()
            self._listen()
            if time.monotonic() - looked > _LOOK_S:
                self._look()
                looked = time.monotonic()
            if self._pool.loose and self._crew.seats:
                self._divide()
        return planned

    def _divide(self) -> Seconds:
        """Plan for the leaves that nobody has; return when the last of them should be done."""
        tree = self._pool.tree
        leaves = [leaf for leaf in self._pool.loose if self._ledger.has_to_reach(tree.path(leaf))]
        self._pool.loose.clear()
        if not leaves:
            return 0.0
        before = time.perf_counter()
        budget = min((seat.budget for seat in self._crew.seats.values()), default=0)
        engines = max(1, len(self._crew.seats))
        plans, seconds = self._planning.divided(tree, sorted(leaves), engines, budget)
        self._ready.extend(plan for plan in plans if plan.versions)
        self._ledger.spent(time.perf_counter() - before)
        return seconds

    def _give(self) -> None:
        """Have something done by all who can."""
        waiting = [job for job, part in self._parts.items() if part.is_idle]
        busy = {part.seat.number for part in self._parts.values()}
        free = [seat for number, seat in sorted(self._crew.seats.items()) if number not in busy]
        starting = sum(part.is_starting for part in self._parts.values())
        while self._ready and (waiting or (free and len(self._ready) > starting)):
            plan = self._ready.popleft()
            if waiting:
                self._extend(waiting.pop(0), _leaves(plan), plan)
            else:
                self._start(free.pop(0), plan)
        if self._ready or self._pool.loose:
            return
        if any(not part.is_idle for part in self._parts.values()):
            self._share(waiting, free)
        elif self._parts:
            self._finish()
        elif free:
            self._try_alone(free)

    def _try_alone(self, free: Sequence[Seat]) -> None:
        """Have a cell computed that has ended engines, while nothing else runs."""
        found = self._pool.next_alone()
        if found is not None:
            tree = self._pool.tree
            leaves = [leaf for leaf in found[1] if self._ledger.has_to_reach(tree.path(leaf))]
            if leaves:
                seat = max(free, key=lambda each: each.host.facts.available_bytes)
                self._ledger.note(
                    f"what has ended its engine is computed alone on host {seat.host.name}"
                )
                self._start(seat, self._planning.planned(tree, leaves, 0), is_alone=True)

    # ------------------------------------------------------------ sharing

    def _share(self, waiting: Sequence[int], free: Sequence[Seat]) -> None:
        """Have those who have nothing to do take over what waits at others."""
        for job in waiting:
            if job not in self._parts:
                continue  # its host was lost meanwhile
            part = self._parts[job]
            loadable = self._loadable(part.seat, part.states)
            states = {**loadable, **dict.fromkeys(part.states, _RESTORE_S)}
            if leaves := self._taken_over(Reach(states=states)):
                self._extend(job, leaves)
        for seat in free:
            reach = Reach(start_s=self._start_s, states=self._loadable(seat, ()))
            if leaves := self._taken_over(reach):
                before = time.perf_counter()
                plan = self._planning.planned(self._pool.tree, sorted(leaves), seat.budget)
                self._ledger.spent(time.perf_counter() - before)
                self._start(seat, plan)

    def _loadable(self, seat: Seat, held: Sequence[NodeId]) -> dict[NodeId, Seconds]:
        """Return the states that are loaded faster than computed, and how long that takes."""
        return self._states.for_leaves(self._states.known, held, seat.host.facts.root)

    def _shipped(
        self, seat: Seat, leaves: frozenset[NodeId], held: Sequence[NodeId]
    ) -> tuple[ShippedState, ...]:
        """Return the states that are loaded for some leaves."""
        found = self._states.for_leaves(leaves, held, seat.host.facts.root)
        return tuple(self._states.known[node] for node in found)

    def _taken_over(self, reach: Reach) -> frozenset[NodeId]:
        """Return leaves that are done earlier by somebody else than by who has most to do."""
        now = time.monotonic()
        rich = [
            (part.left[1], job)
            for job, part in self._parts.items()
            if not part.is_idle and part.left[1] > _WORTH_S and now - part.asked > _LOOK_S
        ]
        for _, job in sorted(rich, reverse=True):
            part = self._parts.get(job)
            if part is None:
                continue  # its host was lost meanwhile
            part.asked = now
            found = self._call(part, ask_part, job, reach)
            if found is not None and found[0]:
                leaves, part.left = found
                part.leaves -= leaves
                part.asked = 0.0
                return frozenset(leaves)
        return frozenset()

    def _extend(self, job: int, leaves: frozenset[NodeId], plan: Plan | None = None) -> None:
        """Have an engine that waits go on with more leaves; as planned, if they are its first."""
        part = self._parts.get(job)
        if part is None:  # its host was lost meanwhile
            self._pool.loose |= leaves
            return
        part.leaves |= leaves
        part.is_idle = False
        self._note_use(part)
        tree = self._pool.tree
        nodes = {node.id: node.cost for leaf in leaves for node in tree.path(leaf)}
        part.left = len(nodes), sum(nodes.values())
        states = self._shipped(part.seat, leaves, part.states)
        if self._call(part, extend_part, job, leaves, plan, states) is False:
            part.leaves -= leaves
            part.is_idle = part.is_finishing = True
            self._pool.loose |= leaves

    def _finish(self) -> None:
        """Have all engines end that wait: there will be nothing more."""
        for job, part in list(self._parts.items()):
            if not part.is_finishing:
                part.is_finishing = True
                self._call(part, finish_part, job)

    def _call(self, part: RunningPart, function: Callable[..., Any], *args: object) -> Any:
        """Ask the host of a part something; None if it is lost."""
        try:
            return self._cluster.call(part.seat.host.member, function, *args)
        except ClusterError as error:
            if not self._cluster.is_lost:
                self._give_up_host(part.seat.host, str(error))
            return None

    def _start(self, seat: Seat, plan: Plan | None, *, is_alone: bool = False) -> None:
        """Start an engine; without a plan, it waits for something to do."""
        leaves = _leaves(plan)
        if seat.number not in self._crew.seats:  # its host was lost meanwhile
            self._pool.loose |= leaves
            return
        job = self._crew.new_job()
        order = PartOrder(
            number=job,
            plan=plan,
            budget=int(plan.budget if plan else seat.budget),
            cores=frozenset() if is_alone else seat.cores,
            within_s=self._planning.seconds_left(),
            is_alone=is_alone,
            states=self._shipped(seat, leaves, ()),
            bandwidth=self._states.bandwidth,
        )
        part = RunningPart(seat, time.monotonic(), leaves)
        self._parts[job] = part
        self._ledger.courses[seat.number] = part
        if plan is not None:
            part.left = _cells(plan), plan.cost
            self._note_use(part)
        self._cluster.start(job, seat.host.member, run_part, order)

    def _note_use(self, part: RunningPart) -> None:
        self._used[part.seat.host.member.address] = part.seat.host
        self.engines = max(self.engines, sum(bool(each.leaves) for each in self._parts.values()))

    # ------------------------------------------------------------ what happens

    def _listen(self) -> None:
        """Take in what has happened; wait for it for a moment."""
        timeout = _TICK_S
        while (event := self._cluster.next_event(timeout)) is not None:
            timeout = 0.0
            if isinstance(event, Said):
                self._said(json.loads(event.text))
            elif event.job in self._parts:
                self._ended(event.job)

    def _said(self, told: dict[str, Any]) -> None:
        part = self._parts.get(told["part"])
        if part is None:
            return
        if not part.heard:
            self._start_s = time.monotonic() - part.started
        part.heard += 1
        cells, seconds = told["left"]
        part.left = cells, seconds
        self._ledger.spent(told["spent"])
        for message in told["messages"]:
            self._message(told["part"], part, message)

    def _message(self, job: int, part: RunningPart, message: dict[str, Any]) -> None:
        match message["kind"]:
            case "begins":
                part.running = message["node"]
                self._ledger.begins(part, message["node"])
            case "computed":
                self._computed(part, replayed_cell_from_json(message["cell"]))
            case "gave_up":
                self._ledger.gave_up(part, message["node"], message["reason"])
            case "held":
                self._ledger.held(part, message["bytes"])
            case "idle":
                self._idle(job, part, message)
            case "stored":
                state = ShippedState(**message["state"])
                root = part.seat.host.facts.root
                self._states.stored(replace(state, root=root), message["seconds"])
            case "loaded":
                self._loaded(part, message)
            case "useless":
                self._states.useless(message["node"])
            case "note":
                self._ledger.note(f"host {part.seat.host.name}: {message['text']}")

    def _loaded(self, part: RunningPart, message: dict[str, Any]) -> None:
        node, tree = message["node"], self._pool.tree
        if node not in self._states.known:
            return
        self._states.loaded(node, message["moving"], message["seconds"])
        size = format_size(self._states.known[node].size_bytes)
        saved = sum(each.cost for each in tree.path(node))
        self._ledger.note(
            f"host {part.seat.host.name}: a state that takes {format_seconds(saved)} to compute "
            f"was loaded from the store in {format_seconds(message['seconds'])} ({size})"
        )

    def _idle(self, job: int, part: RunningPart, message: dict[str, Any]) -> None:
        """A part has done all that it had to do, and waits."""
        part.is_idle, part.states = True, tuple(message["states"])
        if message["large"]:
            for cell in self._call(part, collect_large, job) or ():
                self._computed(part, cell)
        for node in message["fatal"]:
            below = [leaf for leaf in part.leaves if self._pool.is_on_way(node, leaf)]
            part.leaves -= frozenset(below)
            self._pool.fatal(node, below)

    def _computed(self, part: RunningPart, cell: ReplayedCell) -> None:
        host = part.seat.host
        if part.running == cell.node:
            part.running = None
        address = host.member.address
        self._cells[address] = self._cells.get(address, 0) + cell.computed
        self._ledger.computed(part, replace(cell, host=host.name))

    def _ended(self, job: int) -> None:
        part = self._parts[job]
        try:
            end: PartEnd = self._cluster.result(job)
            if end.said != part.heard:
                raise ClusterError("not all that it has said has arrived")
        except (ChexError, OSError) as error:
            # It is gone; or it has no room, or no engine can be started: others may have more luck.
            self._give_up_host(part.seat.host, str(error))
            return
        for cell in end.cells:
            self._computed(part, cell)
        self._forget(job)

    def _look(self) -> None:
        """See who is still there."""
        if self._cluster.is_lost:
            self._wait_for_scheduler()
        hosts = dict(self._crew.hosts)
        for address in self._crew.look_again():
            self._give_up_host(hosts[address], "it is gone")

    def _give_up_host(self, host: Host, why: str) -> None:
        """Have others do what a host has not done."""
        address = host.member.address
        self._lost.add(address)
        self._why = why
        self._crew.dismiss(address)
        self._ledger.note(f"host {host.name} is lost, and what it had is given to others: {why}")
        for job, part in list(self._parts.items()):
            if part.seat.host.member.address != address:
                continue
            self._forget(job)
            failed = self._pool.lost(part.leaves, part.running)
            if failed is not None:
                reason = "each host that computed it was lost"
                cell = ReplayedCell(node=failed, status="failed", reasons=(reason,), host=host.name)
                self._ledger.computed(part, cell)
                self._ledger.gave_up(part, failed, reason)

    def _forget(self, job: int) -> None:
        part = self._parts.pop(job)
        self._cluster.stop(job)  # whoever is given up may still be at it
        self._ledger.courses.pop(part.number, None)
        self._ledger.held(part, 0)

    # ------------------------------------------------------------ nobody there

    def _wait_for_hosts(self) -> None:
        """Wait for a host, when none is left: some deployments start new ones."""
        until = time.monotonic() + self._patience_s
        while not self._crew.seats and not self._planning.is_interrupted:
            if time.monotonic() > until:
                raise ClusterError(
                    f"no host of {self._cluster.address} is left ({self._why}); {_RESUME}"
                )
            time.sleep(_TICK_S)
            if self._cluster.is_lost:
                self._wait_for_scheduler()
            self._crew.look_again()

    def _wait_for_scheduler(self) -> None:
        until = time.monotonic() + self._patience_s
        while self._cluster.is_lost and not self._planning.is_interrupted:
            if time.monotonic() > until:
                raise ClusterError(f"the scheduler {self._cluster.address} is lost; {_RESUME}")
            time.sleep(_TICK_S)


def _leaves(plan: Plan | None) -> frozenset[NodeId]:
    return frozenset((*plan.versions, *plan.left_out)) if plan else frozenset()


def _cells(plan: Plan) -> int:
    return sum(step.action == "compute" for step in plan.steps)
