"""What a plan computes, as a tree: each computation below the one whose state it goes on from.

What is computed twice is there twice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from chexpoint.model import Seconds
from chexpoint.plan.emission import Memory
from chexpoint.plan.problem import FRESH, Move, Problem


class _Moment(NamedTuple):
    """How things are after a move."""

    move: Move
    time: Seconds
    bytes: float
    """What is held; nothing while all that was done is to evict; infinity if it is held twice."""


def timed(problem: Problem, moves: Iterable[Move]) -> Iterator[_Moment]:
    """Yield moves with the time when they are done, and the bytes that are held then."""
    memory = Memory(problem, problem.held)
    time = 0.0
    has_begun = False
    for move in moves:
        action, node = move
        has_begun = has_begun or action != "evict"
        if action == "compute":
            time += problem.cost[node]
        elif action == "restore":
            is_there = node == FRESH or node in memory
            time += problem.restore_cost(node) if is_there else problem.loads[node]
        elif action == "checkpoint" and node in memory:
            yield _Moment(move, time, math.inf)
            return
        elif action == "checkpoint":
            memory.hold(node)
            time += problem.checkpoint_cost(node)
        else:
            memory.drop(node)
            time += problem.costs.take if action == "take" else 0.0
        yield _Moment(move, time, memory.bytes if has_begun else 0)


class Trace(NamedTuple):
    """What a plan computes, each computation after the one whose state it goes on from."""

    node: list[int]
    """The node of each place; the first is the fresh worker."""
    parent: list[int]
    """The place that each goes on from; -1 for the first."""
    cost: list[Seconds]
    """With what going back to that state and keeping the new one cost."""
    how: list[Literal["compute", "load", "held"]]
    """How the worker gets there; a state that was held at the start is there already."""
    ends: dict[int, int]
    """The places of the leaves."""

    def add(
        self, node: int, parent: int, cost: Seconds, how: Literal["compute", "load", "held"]
    ) -> int:
        self.node.append(node)
        self.parent.append(parent)
        self.cost.append(cost)
        self.how.append(how)
        return len(self.node) - 1

    def children(self, leaves: Iterable[int]) -> list[list[int]]:
        """Return the places after each place, as far as they lead to some leaves."""
        needed = {0}
        found: list[list[int]] = [[] for _ in self.node]
        for leaf in leaves:
            at = self.ends[leaf]
            while at not in needed:
                needed.add(at)
                found[self.parent[at]].append(at)
                at = self.parent[at]
        for places in found:
            places.sort()
        return found


def _nothing_done() -> Trace:
    return Trace(node=[FRESH], parent=[-1], cost=[0.0], how=["held"], ends={})


def trace_of(problem: Problem, moves: Iterable[Move]) -> Trace:
    """Return the trace of a plan."""
    trace = _nothing_done()
    copies = {node: trace.add(node, 0, 0.0, "held") for node in problem.held}
    at, back = 0, 0.0
    for action, node in moves:
        if action == "compute":
            at = trace.add(node, at, problem.cost[node] + back, "compute")
            back = 0.0
            if not problem.children[node]:
                trace.ends.setdefault(node, at)
        elif action == "checkpoint":
            copies[node] = at
            trace.cost[at] += problem.checkpoint_cost(node)
        elif action == "restore" and node == FRESH:
            at, back = 0, problem.costs.fresh
        elif action == "restore" and node not in copies:
            at, back = trace.add(node, 0, problem.loads[node], "load"), 0.0
        elif action == "restore":
            at, back = copies[node], problem.restore_cost(node)
        else:
            copy = copies.pop(node)
            if action == "take":
                at, back = copy, problem.costs.take
    return trace


def each_once(problem: Problem) -> Trace:
    """Return the trace of a plan that computes each node once, as if there were memory for it.

    No plan for any of the leaves costs less than their paths in it.
    """
    trace = _nothing_done()
    there = {*problem.held, *problem.loads}
    for node in range(1, len(problem)):
        parent = problem.parent[node]
        trace.add(node, FRESH if parent in there else parent, problem.cost[node], "compute")
    trace.ends.update((leaf, leaf) for leaf in problem.leaves)
    return trace
