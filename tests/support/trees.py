"""Small execution trees at random, and what the best plan for them costs, found the long way."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random

from hypothesis import strategies as st

from chexpoint.model import (
    Bytes,
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    Seconds,
    StepCosts,
    TreeNode,
    Version,
)
from chexpoint.plan.problem import Problem

FREE = StepCosts()

# Whole numbers of seconds, so that sums do not depend on their order.
seconds = st.integers(0, 9).map(float)
some_bytes = st.integers(0, 9)
some_costs = st.builds(StepCosts, **dict.fromkeys(StepCosts.__slots__, seconds))


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that a plan depends on."""

    tree: ExecutionTree
    budget: float = math.inf
    costs: StepCosts = FREE
    held: tuple[HeldState, ...] = ()

    @property
    def problem(self) -> Problem:
        return Problem(self.tree, self.budget, costs=self.costs, held=self.held)


# ---------------------------------------------------------------- making trees


def node(
    name: str,
    parent: str | None,
    cost: Seconds = 1.0,
    size: Bytes = 1,
    delta: Bytes | None = None,
    last_run: float = 0.0,
) -> TreeNode:
    return TreeNode(
        id=NodeId(name),
        parent=None if parent is None else NodeId(parent),
        cost=cost,
        size=size,
        delta=delta,
        last_run=last_run,
    )


def leaves_of(tree: ExecutionTree) -> tuple[NodeId, ...]:
    return tuple(at for at in tree.nodes if not tree.children(at))


def recorded(nodes: list[TreeNode]) -> ExecutionTree:
    """Return a tree with a version for each leaf, so that it may have several first cells."""
    tree = ExecutionTree(nodes)
    return ExecutionTree(
        nodes,
        [
            Version(name=leaf, path=tuple(at.id for at in tree.path(leaf)))
            for leaf in leaves_of(tree)
        ],
    )


def deep_chain(length: int) -> ExecutionTree:
    """Return cells in a row, the last of which has a sibling."""
    row = [node(f"n{at:05}", f"n{at - 1:05}" if at else None) for at in range(length - 1)]
    return ExecutionTree([*row, node("end", row[-2].id)])


def star(leaves: int) -> ExecutionTree:
    return ExecutionTree([node("hub", None), *(node(f"n{at}", "hub") for at in range(leaves))])


def caterpillar(length: int) -> ExecutionTree:
    """Return cells in a row each of which has a leaf."""
    row = [node(f"n{at:05}", f"n{at - 1:05}" if at else None) for at in range(length)]
    return ExecutionTree([*row, *(node(f"leaf{at}", joint.id) for at, joint in enumerate(row))])


@st.composite
def trees(
    draw: st.DrawFn, *, most: int = 12, with_deltas: bool = True, roots: int = 2
) -> ExecutionTree:
    """Draw a tree of some nodes; of what changed, nothing or anything may be known."""
    deltas = st.none() | some_bytes if with_deltas and draw(st.booleans()) else st.none()
    nodes: list[TreeNode] = []
    for number in range(draw(st.integers(1, most))):
        first = number and roots <= sum(at.parent is None for at in nodes)
        parents = [*([] if first else [None]), *(at.id for at in nodes)]
        parent = draw(st.sampled_from(parents))
        numbers = draw(seconds), draw(some_bytes), draw(deltas)
        nodes.append(node(f"n{number:02}", parent, *numbers))
    return recorded(nodes)


@st.composite
def held_states(draw: st.DrawFn, tree: ExecutionTree, most: int = 3) -> tuple[HeldState, ...]:
    """Draw states that are there at the start, in memory or elsewhere."""
    nodes = draw(st.lists(st.sampled_from(list(tree.nodes)), unique=True, max_size=most))
    return tuple(HeldState(node=at, load=draw(st.none() | seconds)) for at in nodes)


def budgets(tree: ExecutionTree) -> st.SearchStrategy[float]:
    """Draw from nothing to more than enough, small ones more often."""
    enough = sum(at.size for at in tree.nodes.values()) + 1
    return st.integers(0, min(20, enough)) | st.integers(0, enough) | st.just(math.inf)


@st.composite
def plain_cases(draw: st.DrawFn, *, most: int = 12, with_deltas: bool = True) -> Case:
    """Draw a case in which only computing costs, and nothing is there at the start."""
    tree = draw(trees(most=most, with_deltas=with_deltas))
    return Case(tree=tree, budget=draw(budgets(tree)))


@st.composite
def cases(draw: st.DrawFn, *, most: int = 12, most_held: int = 3) -> Case:
    """Draw any case, also with more in memory than the budget allows."""
    tree = draw(trees(most=most))
    return Case(
        tree=tree,
        budget=draw(budgets(tree)),
        costs=draw(st.just(FREE) | some_costs),
        held=draw(held_states(tree, most_held)),
    )


# ---------------------------------------------------------------- other names, other orders


def renamed(case: Case, rng: Random) -> Case:
    """Return a case with other names in another order, and siblings run in another order."""
    old = list(case.tree.nodes)
    numbers = rng.sample(range(1000), len(old))
    names = {at: NodeId(f"x{number:03}") for at, number in zip(old, numbers, strict=True)}
    nodes = [
        replace(
            at,
            id=names[at.id],
            parent=None if at.parent is None else names[at.parent],
            last_run=rng.random(),
        )
        for at in case.tree.nodes.values()
    ]
    held = [replace(state, node=names[state.node]) for state in case.held]
    rng.shuffle(nodes)
    rng.shuffle(held)
    return replace(case, tree=recorded(nodes), held=tuple(held))


def shape_of(case: Case, plan: Plan) -> list[tuple[object, ...]]:
    """Return the steps of a plan with all that is known of their nodes instead of names.

    Nodes that cannot be told apart but by name may stand for each other.
    """
    loads = {state.node: state.load for state in case.held}

    def looks(at: TreeNode) -> tuple[object, ...]:
        delta = at.size if at.delta is None else at.delta
        return at.cost, at.size, delta, at.id in loads, loads.get(at.id)

    return [
        (step.action, *(() if step.node is None else map(looks, case.tree.path(step.node))))
        for step in plan.steps
    ]


# ---------------------------------------------------------------- the long way

_State = tuple[NodeId | None, frozenset[NodeId], frozenset[NodeId]]
"""Where the worker is, what is in memory, and which versions are done."""


def least_cost(case: Case) -> Seconds:
    """Return what the best plan costs: Dijkstra's search over all that a worker can do.

    No thought is given to what is of use, except that no end of a version is checkpointed: it leads
    nowhere and makes nothing else smaller.
    """
    world = _World(case)
    paid: dict[_State, Seconds] = dict.fromkeys(world.starts(), 0.0)
    count = itertools.count()
    line = [(0.0, next(count), state) for state in paid]
    heapq.heapify(line)
    while line:
        cost, _, state = heapq.heappop(line)
        if cost > paid[state]:
            continue
        if state[2] == world.leaves:
            return cost
        for after, price in world.steps(state):
            if cost + price < paid.get(after, math.inf):
                paid[after] = cost + price
                heapq.heappush(line, (cost + price, next(count), after))
    raise AssertionError("versions that cannot be reached")


class _World:
    """What can be done, and what it costs."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.tree = case.tree
        self.leaves = frozenset(leaves_of(case.tree))
        self.loads: Mapping[NodeId, Seconds] = {
            state.node: state.load for state in case.held if state.load is not None
        }
        self._bytes: dict[frozenset[NodeId], Bytes] = {}

    def starts(self) -> Iterator[_State]:
        """Yield the states after evictions that come before anything else."""
        there = [state.node for state in self.case.held if state.load is None]
        for count in range(len(there) + 1):
            for kept in itertools.combinations(there, count):
                if self.fits(frozenset(kept)):
                    yield None, frozenset(kept), frozenset()

    def steps(self, state: _State) -> Iterator[tuple[_State, Seconds]]:
        """Yield what can be done next, and its cost."""
        worker, held, done = state
        costs = self.case.costs
        for child in self.tree.children(worker):
            yield (child, held, done | ({child} & self.leaves)), self.tree.nodes[child].cost
        yield (None, held, done), costs.fresh
        for at in held:
            size = self.tree.nodes[at].size
            yield (at, held, done), costs.restore + costs.restore_per_byte * size
            if self.fits(held - {at}):
                yield (at, held - {at}, done), costs.take
                yield (worker, held - {at}, done), 0.0
        for at in self.loads.keys() - held:
            yield (at, held, done), self.loads[at]
        if worker is not None and worker not in held | self.leaves and self.fits(held | {worker}):
            size = self.tree.nodes[worker].size
            price = costs.checkpoint + costs.checkpoint_per_byte * size
            yield (worker, held | {worker}, done), price

    def fits(self, held: frozenset[NodeId]) -> bool:
        if held not in self._bytes:
            self._bytes[held] = sum(self._bytes_of(at, held) for at in held)
        return self._bytes[held] <= self.case.budget

    def _bytes_of(self, at: NodeId, held: frozenset[NodeId]) -> Bytes:
        """Return what a state takes: what has changed since the nearest one held above it."""
        changed = 0
        for step in reversed(self.tree.path(at)):
            if step.id != at and step.id in held:
                break
            changed += step.size if step.delta is None else step.delta
        return min(self.tree.nodes[at].size, changed)
