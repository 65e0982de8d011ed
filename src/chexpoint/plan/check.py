"""The judge of plans: Definition 2 of the CHEX paper, step by step.

It shares no code with the planners, so that what is wrong in one is not wrong in the other.  The
rules are those of the paper with three more: the checkpoint itself may become the live worker
(``take``), a checkpoint takes only what has changed since the nearest one above it, and some
states may be there before the plan begins.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import get_args

from chexpoint.errors import InvalidPlan, InvalidValue
from chexpoint.model import (
    Action,
    Bytes,
    ExecutionTree,
    HeldState,
    Moment,
    NodeId,
    Plan,
    PlanStep,
    Schedule,
    Seconds,
    StepCosts,
    format_size,
)

_ACTIONS = frozenset(get_args(Action))

# Sums of the same numbers in another order differ by this much and no more.
_NOISE = 1e-9


def check_plan(
    tree: ExecutionTree,
    plan: Plan,
    *,
    costs: StepCosts | None = None,
    held: Iterable[HeldState] = (),
    leaves: Iterable[NodeId] | None = None,
) -> tuple[Moment, ...]:
    """Return how things are after each step of a plan that is right.

    Parameters
    ----------
    tree
        Its leaves are the versions.
    costs
        What the steps other than computing cost; nothing if not given.
    held
        What is there before the plan begins.
    leaves
        The plan is for these only; for all versions if none are given.  As for a planner, one that
        leads to another is not a version of its own, and states that lead to none are not looked
        at.

    Raises
    ------
    InvalidPlan
        If a step cannot be done, takes too much memory, or the plan as a whole is not what it says.
    InvalidValue
        If the tree, ``held`` or ``leaves`` are wrong.

    Notes
    -----
    Each moment has a tuple of what is held, its own if that has changed: a plan that holds much for
    long takes the square of its length.  `judge_plan` does not.
    """
    found: list[Moment] = []
    for step, time, world in _done(tree, plan, costs=costs, held=held, leaves=leaves):
        is_same = bool(found) and step.action in {"compute", "restore"}
        moment = Moment(
            step=step,
            time=time,
            worker=world.worker,
            held=found[-1].held if is_same else tuple(world.memory),
            held_bytes=world.memory.bytes,
        )
        found.append(moment)
    return tuple(found)


def judge_plan(
    tree: ExecutionTree,
    plan: Plan,
    *,
    costs: StepCosts | None = None,
    held: Iterable[HeldState] = (),
    leaves: Iterable[NodeId] | None = None,
) -> None:
    """Refuse a plan that is wrong; see `check_plan`, which also returns how things are."""
    for _ in _done(tree, plan, costs=costs, held=held, leaves=leaves):
        pass


def check_schedule(
    tree: ExecutionTree,
    schedule: Schedule,
    *,
    costs: StepCosts | None = None,
    held: Iterable[HeldState] = (),
    leaves: Iterable[NodeId] | None = None,
) -> tuple[tuple[Moment, ...], ...]:
    """Return how things are after each step of each lane of a schedule that is right.

    Parameters
    ----------
    held
        What is there before it begins: what is in memory, for the first lane, because engines do
        not share it, and what can be loaded, for all.  See `check_plan`, also for the others.

    Raises
    ------
    InvalidPlan
        If a lane is wrong, a version is in no lane or in two, the lanes share more than there is,
        or they take longer than one engine alone.
    """
    if not schedule.lanes:
        raise InvalidPlan("the schedule has no lanes")
    states = tuple(held)
    loadable = tuple(state for state in states if state.load is not None)
    _check_lanes(schedule, _ends(tree, part_of(tree, leaves)))
    found = []
    for number, lane in enumerate(schedule.lanes):
        own = (*lane.versions, *lane.left_out)
        there = loadable if number else states
        try:
            found.append(check_plan(tree, lane, costs=costs, held=there, leaves=own))
        except InvalidPlan as wrong:
            raise InvalidPlan(wrong.reason, wrong.number, wrong.step, number) from None
    shares = math.fsum(lane.budget for lane in schedule.lanes)
    if not _at_most(shares, schedule.budget):
        raise InvalidPlan("the shares of its lanes: " + _excess(shares, schedule.budget))
    if not _at_most(schedule.makespan, schedule.single):
        raise InvalidPlan(
            f"its lanes take {schedule.makespan:.12g} s, "
            f"and one engine alone {schedule.single:.12g} s"
        )
    return tuple(found)


def _done(
    tree: ExecutionTree,
    plan: Plan,
    *,
    costs: StepCosts | None,
    held: Iterable[HeldState],
    leaves: Iterable[NodeId] | None,
) -> Iterator[tuple[PlanStep, Seconds, _World]]:
    """Yield each step when it is done, the time, and the world as it is until the next step."""
    part = part_of(tree, leaves)
    ends = _ends(tree, part)
    world = _World(tree, costs or StepCosts(), states_of(part, tree, held))
    counted = ends | {node for node in tree.nodes if not tree.children(node)}
    reached: dict[NodeId, None] = {}
    time = 0.0
    is_clearing = True  # what was held at the start may be too much, until the plan has evicted it
    for number, step in enumerate(plan.steps):
        objection = world.objection(step)
        if objection:
            raise InvalidPlan(objection, number, step)
        time += world.do(step)
        is_clearing = is_clearing and step.action == "evict"
        if not (world.memory.bytes <= plan.budget or is_clearing):
            raise InvalidPlan(_excess(world.memory.bytes, plan.budget), number, step)
        if step.action == "compute" and step.node in counted:
            reached[step.node] = None
        yield step, time, world
    _check_versions(plan, ends, tuple(reached))
    _check_cost(plan, time)


class _World:
    """The live worker and the states that it can go back to."""

    def __init__(self, tree: ExecutionTree, costs: StepCosts, held: Iterable[HeldState]) -> None:
        self.worker: NodeId | None = None
        self.memory = Memory(tree)
        self._tree = tree
        self._costs = costs
        self._loads: dict[NodeId, Seconds] = {}
        for state in held:
            if state.load is None:
                self.memory.add(state.node)
            else:
                self._loads[state.node] = state.load

    def objection(self, step: PlanStep) -> str:
        """Return why a step cannot be done now; nothing if it can."""
        action, node = step
        if action not in _ACTIONS:
            return f"there is no action '{action}'"
        if node is None:
            return "" if action == "restore" else f"there is nothing to {action}"
        if node not in self._tree.nodes:
            return f"node '{node}' is not in the tree"
        return self._objection_to(action, node)

    def _objection_to(self, action: Action, node: NodeId) -> str:
        if action == "compute":
            return self._unless_worker_is(self._tree.nodes[node].parent)
        if action == "checkpoint":
            held = f"a checkpoint of '{node}' is in memory already" if node in self.memory else ""
            return self._unless_worker_is(node) or held
        if node in self.memory or (action == "restore" and node in self._loads):
            return ""
        return f"no checkpoint of '{node}' is in memory"

    def do(self, step: PlanStep) -> Seconds:
        """Do a step that can be done and return what it costs."""
        action, node = step
        if action == "restore" or node is None:  # nothing else is of none
            self.worker = node
            return self._restore_cost(node)
        if action == "compute":
            self.worker = node
            return self._tree.nodes[node].cost
        if action == "checkpoint":
            self.memory.add(node)
            size = self._tree.nodes[node].size
            return self._costs.checkpoint + self._costs.checkpoint_per_byte * size
        self.memory.drop(node)
        if action == "evict":
            return 0.0
        self.worker = node
        return self._costs.take

    def _restore_cost(self, node: NodeId | None) -> Seconds:
        if node is None:
            return self._costs.fresh
        if node in self.memory:
            size = self._tree.nodes[node].size
            return self._costs.restore + self._costs.restore_per_byte * size
        return self._loads[node]

    def _unless_worker_is(self, place: NodeId | None) -> str:
        if self.worker == place:
            return ""
        at, needed = ("fresh" if node is None else f"at '{node}'" for node in (self.worker, place))
        return f"the worker is {at} and not {needed}"


class Memory:
    """Checkpoints in memory, the oldest first, and the bytes that they take together.

    Each takes what has changed since the nearest one above it, its base.  Nodes are numbered in
    preorder: those below a node follow it without a gap, so that the bases that change with a
    checkpoint are found without a walk through the tree.
    """

    def __init__(self, tree: ExecutionTree) -> None:
        self.bytes: Bytes = 0
        self._held: dict[NodeId, int] = {}
        self._order = preorder(tree)
        self._number = {node: number for number, node in enumerate(self._order)}
        nodes = [tree.nodes[node] for node in self._order]
        self._size = [node.size for node in nodes]
        parents = [-1 if node.parent is None else self._number[node.parent] for node in nodes]
        # Sums of deltas from the first cell on; the last one, also -1, is of the fresh worker.
        self._grown = [0] * (len(nodes) + 1)
        for number, node in enumerate(nodes):
            delta = node.size if node.delta is None else node.delta
            self._grown[number] = self._grown[parents[number]] + delta
        self._end = list(range(1, len(nodes) + 1))
        """One more than the last number below each."""
        for number in range(len(nodes) - 1, -1, -1):
            if (parent := parents[number]) >= 0:
                self._end[parent] = max(self._end[parent], self._end[number])
        self._there: list[int] = []
        """The numbers of those held, in order."""
        self._base: dict[int, int] = {}
        """Of each one held; -1 is none."""

    def __contains__(self, node: NodeId) -> bool:
        return node in self._held

    def __iter__(self) -> Iterator[NodeId]:
        return iter(self._held)

    def add(self, node: NodeId) -> None:
        number = self._held[node] = self._number[node]
        self._base[number] = self._nearest_above(number)
        at = bisect_left(self._there, number)
        self._rebase(self._next_below(at, number), number)
        self._there.insert(at, number)
        self.bytes += self._marginal(number)

    def drop(self, node: NodeId) -> None:
        number = self._held.pop(node)
        self.bytes -= self._marginal(number)
        at = bisect_left(self._there, number)
        del self._there[at]
        self._rebase(self._next_below(at, number), self._base.pop(number))

    def bytes_of(self, node: NodeId) -> Bytes:
        """Return what a checkpoint takes in addition to its base."""
        return self._marginal(self._number[node])

    def above(self, node: NodeId) -> Iterator[NodeId]:
        """Yield the checkpoints above a node, the nearest first."""
        number = self._nearest_above(self._number[node])
        while number >= 0:
            yield self._order[number]
            number = self._base[number]

    def _nearest_above(self, number: int) -> int:
        # The one before it in preorder is above it, or else below all that are.
        at = bisect_left(self._there, number)
        base = self._there[at - 1] if at else -1
        while base >= 0 and self._end[base] <= number:
            base = self._base[base]
        return base

    def _next_below(self, at: int, number: int) -> list[int]:
        """Return those held, from a place on, that are below a node and have none between."""
        found = []
        while at < len(self._there) and self._there[at] < self._end[number]:
            found.append(self._there[at])
            at = bisect_left(self._there, self._end[self._there[at]], at)
        return found

    def _marginal(self, number: int) -> Bytes:
        return min(self._size[number], self._grown[number] - self._grown[self._base[number]])

    def _rebase(self, numbers: Iterable[int], base: int) -> None:
        for number in numbers:
            self.bytes -= self._marginal(number)
            self._base[number] = base
            self.bytes += self._marginal(number)


def preorder(tree: ExecutionTree) -> list[NodeId]:
    """Return the nodes of a tree, each followed by all that are below it.

    Raises
    ------
    InvalidValue
        If no way leads to a node.
    """
    order: list[NodeId] = []
    waiting = list(tree.children(None))
    while waiting:
        order.append(waiting.pop())
        waiting.extend(tree.children(order[-1]))
    if len(order) < len(tree):
        lost = min(set(tree.nodes) - set(order))
        raise InvalidValue(f"no way leads from a fresh worker to node '{lost}' of the tree")
    return order


def part_of(tree: ExecutionTree, leaves: Iterable[NodeId] | None) -> set[NodeId]:
    """Return the nodes that lead to the given ones, these included."""
    if leaves is None:
        return set(tree.nodes)
    found: set[NodeId] = set()
    for leaf in leaves:
        if leaf not in tree.nodes:
            raise InvalidValue(f"there is no node '{leaf}' in the tree")
        at: NodeId | None = leaf
        while at is not None and at in tree.nodes and at not in found:
            found.add(at)
            at = tree.nodes[at].parent
    return found


def _ends(tree: ExecutionTree, part: set[NodeId]) -> set[NodeId]:
    """Return the nodes of a part of the tree that lead to no other of it."""
    return part - {parent for node in part if (parent := tree.nodes[node].parent) is not None}


def states_of(part: set[NodeId], tree: ExecutionTree, held: Iterable[HeldState]) -> list[HeldState]:
    """Return the states that are held of a part of the tree."""
    found: dict[NodeId, HeldState] = {}
    for state in held:
        if state.node not in tree.nodes:
            raise InvalidValue(f"a state of node '{state.node}' is held, which is not in the tree")
        if state.node in found:
            raise InvalidValue(f"the state of node '{state.node}' is held twice")
        found[state.node] = state
    return [state for node, state in found.items() if node in part]


def _check_versions(plan: Plan, ends: set[NodeId], reached: tuple[NodeId, ...]) -> None:
    """Refuse a plan that does not replay what it says, or not all."""
    replayed = set(reached)
    for node in plan.left_out:
        if node not in ends:
            raise InvalidPlan(f"'{node}' is left out, but it is no version")
        if node in replayed:
            raise InvalidPlan(f"version '{node}' is left out, but it is replayed")
    if len(set(plan.left_out)) < len(plan.left_out):
        raise InvalidPlan("a version is left out twice")
    missing = ends - replayed - set(plan.left_out)
    if missing:
        more = f", nor {len(missing) - 1} more" if len(missing) > 1 else ""
        raise InvalidPlan(f"version '{min(missing)}' is not replayed{more}")
    if plan.versions != reached:
        at = next(
            (n for n, (a, b) in enumerate(zip(plan.versions, reached, strict=False)) if a != b),
            min(len(plan.versions), len(reached)),
        )
        said, is_so = (
            f"'{nodes[at]}'" if at < len(nodes) else "none" for nodes in (plan.versions, reached)
        )
        raise InvalidPlan(f"version {at} that it replays is {is_so}, and it says {said}")


def _check_cost(plan: Plan, cost: Seconds) -> None:
    """Refuse a plan that does not cost what it says."""
    if not math.isclose(plan.cost, cost, rel_tol=_NOISE):
        raise InvalidPlan(f"it costs {cost:.12g} s, and it says {plan.cost:.12g} s")
    if not _at_most(plan.lower_bound, cost):
        raise InvalidPlan(
            f"it costs {cost:.12g} s, less than its lower bound of {plan.lower_bound:.12g} s"
        )


def _check_lanes(schedule: Schedule, ends: set[NodeId]) -> None:
    """Refuse a schedule that does not have each version in one lane."""
    lane_of: dict[NodeId, int] = {}
    for number, lane in enumerate(schedule.lanes):
        for node in (*lane.versions, *lane.left_out):
            if node not in ends:
                raise InvalidPlan(f"'{node}' is no version", lane=number)
            if lane_of.setdefault(node, number) != number:
                raise InvalidPlan(f"version '{node}' is in lane {lane_of[node]} too", lane=number)
    missing = ends - set(lane_of)
    if missing:
        raise InvalidPlan(f"version '{min(missing)}' is in no lane")


def _at_most(value: float, limit: float) -> bool:
    """Whether a value is no more than a limit; false if one is not a number."""
    return value <= limit or math.isclose(value, limit, rel_tol=_NOISE)


def _excess(taken: float, budget: float) -> str:
    return (
        f"{format_size(taken)} are taken, "
        f"{format_size(taken - budget)} more than the budget of {format_size(budget)}"
    )
