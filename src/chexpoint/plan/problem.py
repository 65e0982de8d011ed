"""What a planner is given: the tree by numbers, the budget, what steps cost, what is there.

Node 0 is the fresh worker, and numbers are a preorder: a subtree is a range that begins with its
root.  Siblings are in an order that depends on what their subtrees are like and not on what they
are called, so that no planner can depend on names.

The symbols of the paper: T is the tree, B the budget, delta_i is ``cost[i]``, sz_i is ``size[i]``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from chexpoint.errors import InvalidValue
from chexpoint.model import (
    Action,
    Bytes,
    ExecutionTree,
    HeldState,
    NodeId,
    PlanStep,
    Seconds,
    StepCosts,
    TreeNode,
)

_Number = TypeVar("_Number", int, float)

FRESH = 0
"""The fresh worker: the parent of the first cells."""


class Move(NamedTuple):
    """A step of a plan, by the number of its node."""

    action: Action
    node: int


class Problem:
    """A tree by numbers; never changed.

    Parameters
    ----------
    tree
        Its leaves are the versions.
    budget
        Bytes that checkpoints in memory may take; infinity is no limit.
    leaves
        Plan for these only; for all if none are given.

    Raises
    ------
    InvalidValue
        If the tree is none, with the node that is wrong.
    """

    def __init__(
        self,
        tree: ExecutionTree,
        budget: float,
        *,
        costs: StepCosts | None = None,
        held: Iterable[HeldState] = (),
        leaves: Iterable[NodeId] | None = None,
    ) -> None:
        if not budget >= 0:  # also if it is not a number
            raise InvalidValue(f"the budget is not a number of bytes >= 0: {budget!r}")
        self.budget = budget
        self.costs = costs or StepCosts()
        nodes = _wanted(tree, leaves)
        states = _states_of(tree, nodes, held)
        order = _canonical_order(nodes, {state.node: state for state in states})
        number = {node.id: i for i, node in enumerate(order, start=1)}
        self.ids: tuple[NodeId | None, ...] = (None, *(node.id for node in order))
        self.parent: tuple[int, ...] = (
            -1,
            *(FRESH if node.parent is None else number[node.parent] for node in order),
        )
        self.cost: tuple[Seconds, ...] = (0.0, *(node.cost for node in order))
        self.size: tuple[Bytes, ...] = (0, *(node.size for node in order))
        self.delta: tuple[Bytes, ...] = (
            0,
            *(node.size if node.delta is None else node.delta for node in order),
        )
        children: list[list[int]] = [[] for _ in self.parent]
        for node, parent in enumerate(self.parent[1:], start=1):
            children[parent].append(node)
        self.children: tuple[tuple[int, ...], ...] = tuple(map(tuple, children))
        self.held: tuple[int, ...] = tuple(
            sorted(number[state.node] for state in states if state.load is None)
        )
        """What is in memory at the start."""
        self.loads: Mapping[int, Seconds] = {
            number[state.node]: state.load for state in states if state.load is not None
        }
        """What can be loaded from elsewhere at any time, and what that costs."""
        self.grown: tuple[Bytes, ...] = self._sums(self.delta)
        """Bytes that were changed on the way to each node."""
        self._paths = self._sums(self.cost)

    def variant(
        self,
        *,
        budget: float | None = None,
        costs: StepCosts | None = None,
        held: Iterable[int] | None = None,
        loads: Mapping[int, Seconds] | None = None,
    ) -> Problem:
        """Return the same problem with something else given."""
        other = copy.copy(self)
        other.budget = self.budget if budget is None else budget
        other.costs = self.costs if costs is None else costs
        other.held = self.held if held is None else tuple(sorted(held))
        other.loads = self.loads if loads is None else dict(loads)
        return other

    def __len__(self) -> int:
        return len(self.parent)

    @property
    def leaves(self) -> tuple[int, ...]:
        """The ends of the versions."""
        return tuple(node for node in range(1, len(self)) if not self.children[node])

    # ------------------------------------------------------------ bytes

    def marginal(self, node: int, base: int) -> Bytes:
        """Return what a checkpoint of a node takes if one of an ancestor, or none (0), is held.

        Processes that copy on write share what has not changed since.
        """
        return min(self.size[node], self.grown[node] - self.grown[base])

    def bytes_of(self, held: Iterable[int]) -> Bytes:
        """Return what checkpoints take together: each what it adds to the nearest one above it."""
        states = set(held)
        total = 0
        for node in states:
            base = self.parent[node]
            while base > FRESH and base not in states:
                base = self.parent[base]
            total += self.marginal(node, max(base, FRESH))
        return total

    # ------------------------------------------------------------ seconds

    def way(self, start: int, end: int) -> Seconds:
        """Return what computing from an ancestor, itself not included, down to a node costs."""
        return self._paths[end] - self._paths[start]

    def checkpoint_cost(self, node: int) -> Seconds:
        return self.costs.checkpoint + self.costs.checkpoint_per_byte * self.size[node]

    def restore_cost(self, node: int) -> Seconds:
        """Return what restoring a checkpoint in memory costs, or starting afresh."""
        if node == FRESH:
            return self.costs.fresh
        return self.costs.restore + self.costs.restore_per_byte * self.size[node]

    def price(self, moves: Sequence[Move]) -> Seconds:
        """Return what moves cost together."""
        held = set(self.held)
        prices = []
        for action, node in moves:
            if action == "compute":
                prices.append(self.cost[node])
            elif action == "checkpoint":
                held.add(node)
                prices.append(self.checkpoint_cost(node))
            elif action == "restore":
                in_memory = node == FRESH or node in held
                prices.append(self.restore_cost(node) if in_memory else self.loads[node])
            else:
                held.discard(node)
                if action == "take":
                    prices.append(self.costs.take)
        return math.fsum(prices)

    def no_cache_cost(self) -> Seconds:
        """Return what replaying each version from its first cell costs."""
        leaves = self.leaves
        paths = math.fsum(self._paths[leaf] for leaf in leaves)
        return paths + self.costs.fresh * (len(leaves) - 1)

    def each_once_cost(self) -> Seconds:
        """Return a bound: the cost of every node that must be computed, once."""
        there = {*self.held, *self.loads}
        needed = [False] * len(self)
        for node in range(len(self) - 1, FRESH, -1):
            needed[node] = needed[node] or not self.children[node]
            if needed[node] and self.parent[node] not in there:
                needed[self.parent[node]] = True
        return math.fsum(self.cost[node] for node in range(1, len(self)) if needed[node])

    def steps(self, moves: Iterable[Move]) -> tuple[PlanStep, ...]:
        """Return moves as the steps of a plan."""
        return tuple(PlanStep(action, self.ids[node]) for action, node in moves)

    def _sums(self, values: Sequence[_Number]) -> tuple[_Number, ...]:
        """Return the sums of values along the path to each node."""
        found = list(values)
        for node in range(1, len(found)):
            found[node] = found[self.parent[node]] + values[node]
        return tuple(found)


class Solution(NamedTuple):
    """What a planner returns."""

    moves: list[Move]
    lower_bound: Seconds = 0.0
    """What it has proven; nothing if 0."""
    notes: tuple[str, ...] = ()


class Planner(Protocol):
    """Anything that plans."""

    def __call__(self, problem: Problem, *, seconds: Seconds) -> Solution:
        """Return a plan for a problem, the best that can be found in about the time given."""
        ...


def _wanted(tree: ExecutionTree, leaves: Iterable[NodeId] | None) -> list[TreeNode]:
    """Return the nodes to plan for, each after its parent."""
    if not tree.nodes:
        raise InvalidValue("the tree has no nodes: there is nothing to replay")
    for node in tree.nodes.values():
        _refuse_bad_numbers(node)
        if node.parent is not None and node.parent not in tree.nodes:
            raise InvalidValue(f"the parent '{node.parent}' of node '{node.id}' is not in the tree")
    order = _in_order(tree)
    if leaves is None:
        return [tree.nodes[node] for node in order]
    kept: set[NodeId] = set()
    for leaf in leaves:
        if leaf not in tree.nodes:
            raise InvalidValue(f"there is no node '{leaf}' in the tree")
        kept.update(node.id for node in tree.path(leaf))
    if not kept:
        raise InvalidValue("no version was given: there is nothing to replay")
    return [tree.nodes[node] for node in order if node in kept]


def _in_order(tree: ExecutionTree) -> list[NodeId]:
    """Return all nodes, each after its parent."""
    first = tree.children(None)
    # Recorded versions begin in a fresh interpreter, each with a first cell of its own.
    if len(first) > 1 and not tree.versions:
        raise InvalidValue(
            f"the tree has two roots, '{first[0]}' and '{first[1]}'. "
            "Give them a common parent with cost 0 and size 0."
        )
    order: list[NodeId] = []
    waiting = list(first)
    while waiting:
        at = waiting.pop()
        order.append(at)
        waiting.extend(tree.children(at))
    if len(order) < len(tree):
        lost = next(iter(set(tree.nodes) - set(order)))
        raise InvalidValue(f"node '{lost}' of the tree is its own ancestor")
    return order


def _refuse_bad_numbers(node: TreeNode) -> None:
    for name, value in (("cost", node.cost), ("size", node.size), ("delta", node.delta)):
        if value is not None and not 0 <= value < math.inf:
            raise InvalidValue(f"{name} of node '{node.id}' is not a number >= 0: {value!r}")


def _states_of(
    tree: ExecutionTree, nodes: Sequence[TreeNode], held: Iterable[HeldState]
) -> list[HeldState]:
    """Return what is held of the nodes that are planned for."""
    planned = {node.id for node in nodes}
    found: dict[NodeId, HeldState] = {}
    for state in held:
        if state.node not in tree.nodes:
            raise InvalidValue(f"a state of node '{state.node}' is held, which is not in the tree")
        if state.node in found:
            raise InvalidValue(f"the state of node '{state.node}' is held twice")
        found[state.node] = state
    return [state for state in found.values() if state.node in planned]


def _canonical_order(
    nodes: Sequence[TreeNode], states: Mapping[NodeId, HeldState]
) -> list[TreeNode]:
    """Return nodes in preorder, siblings by what their subtrees are like, the smaller first.

    After Aho, Hopcroft and Ullman's test of isomorphism: subtrees of equal height are ranked by
    their root's numbers and the ranks of its children.
    """
    children: dict[NodeId | None, list[TreeNode]] = {}
    for node in nodes:
        children.setdefault(node.parent, []).append(node)
    height: dict[NodeId, int] = {}
    levels: list[list[TreeNode]] = []
    for node in reversed(nodes):
        height[node.id] = 1 + max((height[c.id] for c in children.get(node.id, ())), default=-1)
        while len(levels) <= height[node.id]:
            levels.append([])
        levels[height[node.id]].append(node)
    rank: dict[NodeId, tuple[int, int]] = {}
    for level, members in enumerate(levels):
        keys = {}
        for node in members:
            below = children.get(node.id, [])
            below.sort(key=lambda child: rank[child.id])
            state = states.get(node.id)
            there = -2.0 if state is None else -1.0 if state.load is None else state.load
            delta = node.size if node.delta is None else node.delta
            keys[node.id] = (node.cost, node.size, delta, there, [rank[c.id] for c in below])
        place = -1
        before = None
        for node in sorted(members, key=lambda node: keys[node.id]):
            if keys[node.id] != before:
                place += 1
                before = keys[node.id]
            rank[node.id] = level, place
    order = []
    waiting = sorted(children[None], key=lambda node: rank[node.id], reverse=True)
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting.extend(reversed(children.get(node.id, ())))
    return order
