"""What a replay on a cluster would be like, event by event, without running anything.

Hosts follow the lanes of a schedule.  Where one is about to compute cells that lead to a state of
which an image is in the store by then, it loads the image if that is faster.  Which states are
worth an image is found out by a first run without any.  When a host is lost, what it has not done
is planned again for the others.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush

from chexpoint.model import (
    Cluster,
    ExecutionTree,
    HostAction,
    HostRun,
    HostStep,
    NodeId,
    Plan,
    PlanStep,
    Seconds,
    Simulation,
    StepCosts,
    StoredImage,
)
from chexpoint.plan.emission import Memory
from chexpoint.plan.hosts_bound import lower_bound
from chexpoint.plan.planning import TIME_LIMIT, plan
from chexpoint.plan.problem import FRESH, Problem
from chexpoint.plan.shipping import choose_shipping
from chexpoint.plan.solving import DEFAULT_PLANNER

# Shares of the time limit: of the first plan, and of each that is made when a host is lost.  What
# planning finds late is worth little, and a simulation of large trees plans many times.
_FIRST = 1 / 3
_AGAIN = 1 / 12


def simulate(
    tree: ExecutionTree,
    cluster: Cluster,
    *,
    planner: str = DEFAULT_PLANNER,
    costs: StepCosts | None = None,
    seconds: Seconds = TIME_LIMIT,
    versions: Iterable[NodeId] | None = None,
) -> Simulation:
    """Return what a replay of versions on a cluster would be like.

    Unless hosts are lost, a cluster with a store is never later than one without.

    Parameters
    ----------
    tree
        Its leaves are the versions.
    planner, costs, seconds, versions
        As for `plan`.

    Raises
    ------
    InvalidValue
        If the tree or a number cannot be planned with.
    """
    leaves = None if versions is None else tuple(versions)
    surrounded = with_cell_cost(tree, cluster.cell)
    simulator = _Simulator(surrounded, cluster, planner, costs or StepCosts(), seconds, leaves)
    best = simulator.run(losses=())
    if cluster.losses:
        ends = best.makespan
        times = [ends * n / (cluster.losses + 1) for n in range(1, cluster.losses + 1)]
        best = simulator.run(losses=times)
    return best


def with_cell_cost(tree: ExecutionTree, cost: Seconds) -> ExecutionTree:
    """Return a tree in which each cell takes so much longer."""
    if not cost:
        return tree
    nodes = (replace(node, cost=node.cost + cost) for node in tree.nodes.values())
    return ExecutionTree(nodes, tree.versions)


@dataclass(slots=True)
class _Host:
    """A host at some time."""

    number: int
    memory: Memory
    budget: float
    lanes: deque[Plan]
    """What it has to do after the steps that it is at."""
    time: Seconds = 0.0
    waiting: deque[PlanStep] = field(default_factory=deque)
    steps: list[HostStep] = field(default_factory=list)
    leaves: list[NodeId] = field(default_factory=list)
    """The versions that it was given."""
    lost: Seconds | None = None
    is_in_chain: bool = False
    """Whether its last step was to compute: then no image is looked for."""
    until: Seconds = 0.0
    """When it should be done with the lane that it is at."""

    @property
    def free(self) -> Seconds:
        """When it should be done with everything."""
        return max(self.time, self.until) + math.fsum(lane.cost for lane in self.lanes)


class _Simulator:
    """All runs of one question."""

    def __init__(
        self,
        tree: ExecutionTree,
        cluster: Cluster,
        planner: str,
        costs: StepCosts,
        seconds: Seconds,
        leaves: tuple[NodeId, ...] | None,
    ) -> None:
        self.tree = tree
        self.cluster = cluster
        self.planner = planner
        self.costs = costs
        self.seconds = seconds
        self.problem = Problem(tree, math.inf, costs=costs, leaves=leaves)
        self.number = {node: number for number, node in enumerate(self.problem.ids)}
        self.schedule = plan(
            tree,
            cluster.memory,
            planner=planner,
            costs=costs,
            seconds=seconds * _FIRST,
            versions=leaves,
            workers=cluster.hosts,
            is_shared=cluster.is_shared,
        )

    def run(self, losses: Sequence[Seconds]) -> Simulation:
        """Return the run that is done earliest: without images, or with those worth it."""
        bare = _Run(self, losses, frozenset())
        bare.go()
        wanted = frozenset(bare.worth_storing()) if self.cluster.bandwidth else frozenset[int]()
        best = bare
        if wanted:
            shipping = _Run(self, losses, wanted)
            shipping.go()
            best = min(bare, shipping, key=lambda run: run.end)
        return self._told(best)

    def _told(self, run: _Run) -> Simulation:
        begin = self.cluster.start + self.cluster.task
        loaded = {s.node for host in run.hosts for s in host.steps if s.action == "load"}
        return Simulation(
            cluster=self.cluster,
            hosts=tuple(
                HostRun(steps=tuple(host.steps), budget=host.budget, lost=host.lost)
                for host in run.hosts
            ),
            images=tuple(run.images.values()),
            sizes={node: self.tree.nodes[node].size for node in loaded if node is not None},
            single=begin + self.schedule.single,
            lower_bound=begin + lower_bound(self.problem, self.cluster.hosts),
        )

    def again(self, leaves: Sequence[NodeId], host: _Host, others: int) -> tuple[Plan, ...]:
        """Return plans for what a lost host has not done.

        Of a budget that is shared there is just what the lost one had.
        """
        found = plan(
            self.tree,
            host.budget,
            planner=self.planner,
            costs=self.costs,
            seconds=self.seconds * _AGAIN,
            versions=leaves,
            workers=1 if self.cluster.is_shared else others,
            is_shared=False,
        )
        return found.lanes


class _Run:
    """The hosts of a cluster, as time goes by."""

    def __init__(
        self, simulator: _Simulator, losses: Sequence[Seconds], wanted: frozenset[int]
    ) -> None:
        self.simulator = simulator
        self.cluster = simulator.cluster
        self.problem = simulator.problem
        self.losses = deque(losses)
        self.wanted = wanted
        """The nodes of which images are written, when they are first computed."""
        self.images: dict[int, StoredImage] = {}
        self.first: dict[int, Seconds] = {}
        """When each node was computed first."""
        self.chains: list[tuple[Seconds, tuple[int, ...]]] = []
        """Nodes that a host was to compute one after the other, and from when on."""
        lanes = simulator.schedule.lanes
        rest = 0.0 if self.cluster.is_shared else self.cluster.memory
        self.hosts = [
            _Host(
                number=number,
                memory=Memory(self.problem),
                budget=lanes[number].budget if number < len(lanes) else rest,
                lanes=deque(lanes[number : number + 1]),
                leaves=list(lanes[number].versions) if number < len(lanes) else [],
            )
            for number in range(self.cluster.hosts)
        ]

    @property
    def end(self) -> Seconds:
        return max(host.steps[-1].end for host in self.hosts if host.steps)

    def go(self) -> None:
        """Do everything, in the order of time."""
        queue = [(0.0, host.number) for host in self.hosts if host.lanes]
        heapify(queue)
        while queue:
            time, number = queue[0]
            if self.losses and time >= self.losses[0]:
                queue += self._lose(self.losses.popleft())
                heapify(queue)
                continue
            heappop(queue)
            host = self.hosts[number]
            # A host that was given something new is there twice.
            is_due = host.lost is None and time == host.time
            if is_due and self._step(host):
                heappush(queue, (host.time, number))

    # ------------------------------------------------------------ steps

    def _step(self, host: _Host) -> bool:
        """Have a host do what comes next; return whether there was anything."""
        if not host.waiting:
            if not host.lanes:
                return False
            self._begin(host)
            return True
        step = host.waiting[0]
        node = FRESH if step.node is None else self.simulator.number[step.node]
        if step.action == "compute" and not host.is_in_chain and self._load(host):
            return True
        host.waiting.popleft()
        host.is_in_chain = step.action == "compute"
        if step.action == "compute":
            self._did(host, "compute", node, self.problem.cost[node])
            self._computed(host, node)
        elif step.action == "checkpoint":
            host.memory.hold(node)
            self._did(host, "checkpoint", node, self.problem.checkpoint_cost(node))
        elif step.action == "restore":
            self._did(host, "restore", node, self.problem.restore_cost(node))
        else:
            host.memory.drop(node)
            is_taken = step.action == "take"
            self._did(host, step.action, node, self.problem.costs.take if is_taken else 0.0)
        return True

    def _begin(self, host: _Host) -> None:
        """Begin a lane, in a fresh engine or in one that has done another lane before."""
        is_first = not host.steps
        for node in tuple(host.memory.held):
            host.memory.drop(node)
            self._did(host, "evict", node, 0.0)
        seconds = self.cluster.start if is_first else self.problem.costs.fresh
        self._did(host, "start" if is_first else "restore", FRESH, seconds + self.cluster.task)
        lane = host.lanes.popleft()
        host.waiting.extend(lane.steps)
        host.is_in_chain = False
        host.budget = max(host.budget, lane.budget)
        host.until = host.time + lane.cost

    def _did(self, host: _Host, action: HostAction, node: int, seconds: Seconds) -> None:
        end = host.time + seconds
        ident = self.problem.ids[node]
        host.steps.append(HostStep(action, ident, host.time, end, int(host.memory.bytes)))
        host.time = end

    def _computed(self, host: _Host, node: int) -> None:
        if node not in self.first:
            self.first[node] = host.time
            if node in self.wanted:
                self._store(host, node)

    def _store(self, host: _Host, node: int) -> None:
        """Have a copy of the engine write an image, which costs the engine a fork."""
        self._did(host, "store", node, self.problem.checkpoint_cost(node))
        size, ident = self.problem.size[node], self.problem.ids[node]
        ready = host.time + self.cluster.store + self.cluster.moving(size)
        if ident is not None:
            self.images[node] = StoredImage(ident, host.number, size, host.time, ready)

    # ------------------------------------------------------------ images

    def _chain(self, host: _Host) -> Iterator[int]:
        """Yield the nodes that a host is to compute one after the other, without a version's end.

        Each version is computed where it was planned to be.
        """
        for step in host.waiting:
            node = FRESH if step.node is None else self.simulator.number[step.node]
            if step.action != "compute" or not self.problem.children[node]:
                return
            yield node

    def _load(self, host: _Host) -> bool:
        """Load an image instead of computing what leads to it, if that is faster."""
        if not self.cluster.bandwidth:
            return False
        chain = tuple(self._chain(host))
        if chain and not self.wanted:
            self.chains.append((host.time, chain))
        best = self._best_of(
            chain, lambda node: node in self.images and self.images[node].ready <= host.time
        )
        if best is None:
            return False
        node = chain[best]
        for _ in range(best + 1):
            host.waiting.popleft()
        size = self.problem.size[node]
        self._did(host, "load", node, self.cluster.moving(size) + self.cluster.load)
        return True

    def _best_of(self, chain: Sequence[int], is_there: Callable[[int], bool]) -> int | None:
        """Return the place in a chain of the image that saves most; None if none saves anything."""
        best, most, prefix = None, 0.0, 0.0
        for place, node in enumerate(chain):
            prefix += self.problem.cost[node]
            if not is_there(node):
                continue
            size = self.problem.size[node]
            chosen = choose_shipping(
                prefix, size, self.cluster.bandwidth, load_seconds=self.cluster.load
            )
            if chosen.is_shipped and prefix - chosen.seconds > most:
                best, most = place, prefix - chosen.seconds
        return best

    def worth_storing(self) -> Iterator[int]:
        """Yield the nodes whose images would have been loaded, had they been written."""
        ready = {
            node: done
            + self.problem.checkpoint_cost(node)
            + self.cluster.store
            + self.cluster.moving(self.problem.size[node])
            for node, done in self.first.items()
        }
        for time, chain in self.chains:
            best = self._best_of(
                chain,
                lambda node: ready.get(node, math.inf) <= time,  # noqa: B023
            )
            if best is not None:
                yield chain[best]

    # ------------------------------------------------------------ losses

    def _lose(self, time: Seconds) -> list[tuple[Seconds, int]]:
        """Lose the host that has most to do; return when others begin with it instead."""
        there = [host for host in self.hosts if host.lost is None]
        busy = [host for host in there if host.waiting or host.lanes]
        if not busy or len(there) == 1:
            return []
        host = max(busy, key=lambda host: (host.free, -host.number))
        others = [each for each in there if each is not host]
        self._cut(host, time)
        run = HostRun(steps=tuple(host.steps), budget=host.budget, lost=time)
        done = set(run.computed)
        left = [leaf for leaf in host.leaves if leaf not in done]
        if not left:
            return []
        woken = []
        lanes = self.simulator.again(left, host, len(others))
        for lane in sorted(lanes, key=lambda lane: -lane.cost):
            other = min(others, key=lambda each: (max(each.free, time), each.number))
            others.remove(other)
            is_idle = not other.waiting and not other.lanes
            other.lanes.append(lane)
            other.leaves += lane.versions
            if is_idle:
                other.time = max(other.time, time)
                woken.append((other.time, other.number))
        return woken

    def _cut(self, host: _Host, time: Seconds) -> None:
        """End a host in the middle of what it does."""
        host.lost = time
        host.waiting.clear()
        host.lanes.clear()
        while host.steps and host.steps[-1].start > time:
            host.steps.pop()
        if host.steps and host.steps[-1].end > time:
            host.steps[-1] = host.steps[-1]._replace(end=time)
        last = host.steps[-1] if host.steps else None
        if last is not None and last.action == "compute" and last.end >= time:
            self._forget(self.simulator.number[last.node], time)
        for node, image in tuple(self.images.items()):
            if image.host == host.number and image.ready > time:
                del self.images[node]
                self._forget(node, -math.inf)

    def _forget(self, node: int, time: Seconds) -> None:
        """Forget that a node was computed, if that was at a time or later."""
        if node in self.first and self.first[node] >= time:
            del self.first[node]
