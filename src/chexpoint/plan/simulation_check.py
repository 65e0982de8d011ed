"""The judge of every simulation: goes through what hosts did, and refuses what cannot be.

It shares no code with the simulator, so that what is wrong in one is not wrong in the other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import NoReturn

from chexpoint.errors import InvalidPlan
from chexpoint.model import (
    Cluster,
    ExecutionTree,
    HostRun,
    HostStep,
    NodeId,
    PlanStep,
    Seconds,
    Simulation,
    StepCosts,
    StoredImage,
)
from chexpoint.plan.check import Memory, part_of

_NOISE = 1e-9


def check_simulation(
    tree: ExecutionTree,
    simulation: Simulation,
    *,
    costs: StepCosts | None = None,
    versions: Iterable[NodeId] | None = None,
) -> None:
    """Refuse a simulation that is wrong.

    Raises
    ------
    InvalidPlan
        If a host does what it cannot do, in another time than that takes or with more memory than
        it has; if an image is loaded that is not in the store; if a version is not computed; or if
        it is done before any cluster can be.
    """
    part = part_of(tree, versions)
    images = {image.node: image for image in simulation.images}
    spent = costs or StepCosts()
    for number, run in enumerate(simulation.hosts):
        host = _Host(tree, simulation.cluster, spent, images, number, run)
        for at, step in enumerate(run.steps):
            host.check(at, step)
    done = {node for run in simulation.hosts for node in run.computed}
    ends = part - {parent for node in part if (parent := tree.nodes[node].parent) is not None}
    if missing := ends - done:
        raise InvalidPlan(f"version '{min(missing)}' is not computed on any host")
    if simulation.cluster.is_shared:
        _check_sum(simulation)
    _check_images(simulation, images)
    if simulation.makespan < simulation.lower_bound * (1 - _NOISE):
        raise InvalidPlan(
            f"it is done after {simulation.makespan:.12g} s, "
            f"which takes {simulation.lower_bound:.12g} s at least"
        )


class _Host:
    """What is known of a host at some step."""

    def __init__(
        self,
        tree: ExecutionTree,
        cluster: Cluster,
        costs: StepCosts,
        images: Mapping[NodeId, StoredImage],
        number: int,
        run: HostRun,
    ) -> None:
        self.tree = tree
        self.cluster = cluster
        self.costs = costs
        self.images = images
        self.number = number
        self.run = run
        self.memory = Memory(tree)
        self.worker: NodeId | None = None
        self.time: Seconds = 0.0
        self.has_started = False

    def check(self, at: int, step: HostStep) -> None:
        """Refuse a step that cannot follow those before."""
        if not self.has_started and step.action != "start":
            self._refuse(at, step, "the engine has not been started")
        if step.start < self.time - _NOISE * max(1.0, self.time):
            self._refuse(at, step, "the host is still at the step before")
        if reason := self._objection(step):
            self._refuse(at, step, reason)
        is_cut = self.run.lost is not None and at == len(self.run.steps) - 1
        takes = self._do(step)
        took = step.end - step.start
        if not (_same(took, takes, step.end) or (is_cut and took <= takes)):
            self._refuse(at, step, f"it takes {took:.12g} s and not {takes:.12g} s")
        if step.held_bytes != self.memory.bytes:
            self._refuse(at, step, f"checkpoints take {self.memory.bytes} bytes then")
        if self.memory.bytes > self.run.budget:
            self._refuse(at, step, f"there are {self.run.budget:.0f} bytes for checkpoints")
        if self.run.lost is not None and step.end > self.run.lost:
            self._refuse(at, step, "the host is lost by then")
        self.time = step.end

    def _objection(self, step: HostStep) -> str:
        action, node = step.action, step.node
        if action == "start":
            return "the engine is there" if self.has_started else ""
        if node is None:
            return "" if action == "restore" else f"there is nothing to {action}"
        if action == "compute":
            parent = self.tree.nodes[node].parent
            return "" if self.worker == parent else f"the host is not at '{parent}'"
        if action in {"checkpoint", "store"}:
            is_held = action == "checkpoint" and node in self.memory
            return "" if self.worker == node and not is_held else "the host cannot keep that state"
        if action == "load":
            image = self.images.get(node)
            is_there = image is not None and image.ready <= step.start * (1 + _NOISE)
            return "" if is_there else "its image is not in the store"
        return "" if node in self.memory else "no checkpoint of it is in memory"

    def _do(self, step: HostStep) -> Seconds:
        """Do a step and return how long it takes."""
        action, node = step.action, step.node
        if action == "start":
            self.has_started = True
            return self.cluster.start + self.cluster.task
        if node is None:
            is_next_lane = step.end - step.start > self.costs.fresh + self.cluster.task / 2
            self.worker = None
            return self.costs.fresh + (self.cluster.task if is_next_lane else 0.0)
        found = self.tree.nodes[node]
        if action in {"compute", "load", "restore", "take"}:
            self.worker = node
        if action == "checkpoint":
            self.memory.add(node)
        if action in {"take", "evict"}:
            self.memory.drop(node)
        forked = self.costs.checkpoint + self.costs.checkpoint_per_byte * found.size
        seconds: dict[str, Seconds] = {
            "compute": found.cost + self.cluster.cell,
            "checkpoint": forked,
            "store": forked,
            "restore": self.costs.restore + self.costs.restore_per_byte * found.size,
            "take": self.costs.take,
            "evict": 0.0,
        }
        if action == "load":
            return found.size / self.cluster.bandwidth + self.cluster.load
        return seconds[action]

    def _refuse(self, at: int, step: HostStep, reason: str) -> NoReturn:
        what = f"{step.action} at {step.start:.12g} s: {reason}"
        # The actions of hosts are told in the reason; those of plans are fewer.
        raise InvalidPlan(what, at, PlanStep("compute", step.node), self.number)


def _same(one: Seconds, other: Seconds, scale: Seconds) -> bool:
    return abs(one - other) <= _NOISE * max(1.0, scale)


def _check_sum(simulation: Simulation) -> None:
    """Refuse hosts that take more than they share."""
    changes: list[tuple[Seconds, int]] = []
    for run in simulation.hosts:
        before = 0
        for step in run.steps:
            changes.append((step.end, step.held_bytes - before))
            before = step.held_bytes
        if run.lost is not None:
            changes.append((run.lost, -before))
    heapq.heapify(changes)
    held = 0
    while changes:
        # What is freed at a time is free for what is taken then.
        time, change = heapq.heappop(changes)
        held += change
        if held > simulation.cluster.memory:
            raise InvalidPlan(f"all hosts take {held} bytes together at {time:.12g} s")


def _check_images(simulation: Simulation, images: Mapping[NodeId, StoredImage]) -> None:
    """Refuse images that nobody could have written, or not so early."""
    cluster = simulation.cluster
    for node, image in images.items():
        host = simulation.hosts[image.host]
        stores = [s.end for s in host.steps if s.action == "store" and s.node == node]
        if not any(_same(image.start, end, end) for end in stores):
            raise InvalidPlan(f"nobody has written the image of '{node}'")
        needed = cluster.store + image.size / cluster.bandwidth
        if not _same(image.ready - image.start, needed, image.ready):
            raise InvalidPlan(f"the image of '{node}' is in the store too early")
        if host.lost is not None and image.ready > host.lost:
            raise InvalidPlan(f"the host was lost before the image of '{node}' was written")
