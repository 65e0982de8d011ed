"""The persistent root policy of the CHEX paper, section 5.1, Algorithm 1.

Versions are replayed depth first.  A cell is checkpointed when it is first computed and stays till
all of its subtree is done, so the memory in use at a node is what the checkpoints on the path to it
take.  Which cells these are, S in the paper, is decided greedily, one after the other.

Let a node be wanted by each version that must be computed from it, or from what is computed from
it, and by each checkpoint likewise, as far as no other checkpoint is in between.  With a checkpoint
of a node that is wanted k times the worker comes k - 1 times from there and not from further up.
This is what `DFSCost` sums up, and it is found without going through the tree for each candidate:
a new checkpoint changes only what is above and below it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from time import monotonic

import numpy as np

from chexpoint.model import Bytes, Seconds
from chexpoint.plan.emission import Emitter, Memory, tidied, ways_without_memory, worth_keeping
from chexpoint.plan.problem import FRESH, Move, Problem, Solution


def plan_prp_v1(problem: Problem, *, seconds: Seconds) -> Solution:
    """Hold the cells that save most, one after the other, while there is one that saves something.

    Notes
    -----
    In the printed `DFSCost` the sum over children is overwritten, and a node that is not held is
    paid for twice: once for each child, and again in the cost of computing each child from the
    nearest checkpoint.  Meant, and done here, is the cost of the plan.

    O(n) for each cell that is held, and O(n |S|) in all, where the paper needs O(n^3).
    """
    return _plan(problem, seconds, per_byte=False)


def plan_prp_v2(problem: Problem, *, seconds: Seconds) -> Solution:
    """Hold the cells that make the plan cheapest for their bytes, while there is one that fits.

    Notes
    -----
    The ratio is the cost of the whole plan over the bytes of the cell, as in section 5.1 and in
    what the authors' code reaches; so large states come first, and also such that save nothing.
    Only those that make the plan more expensive are not taken.  See `plan_prp_v1` for the rest.
    """
    return _plan(problem, seconds, per_byte=True)


def _plan(problem: Problem, seconds: Seconds, *, per_byte: bool) -> Solution:
    """Return the better of the plans that keep what is held at the start and that do not."""
    starts = {worth_keeping(problem), ()}
    solutions = []
    for kept in sorted(starts, reverse=True):
        until = monotonic() + seconds / len(starts)
        greedy = _Greedy(problem, kept, per_byte=per_byte)
        is_done = greedy.run(until)
        notes = () if is_done else ("the time limit was reached: fewer cells are held than fit",)
        moves = _moves(problem, greedy.chosen, kept)
        solutions.append(Solution(moves, notes=notes))
    return min(solutions, key=lambda solution: problem.price(solution.moves))


def _moves(problem: Problem, chosen: Collection[int], kept: Collection[int]) -> list[Move]:
    emitter = Emitter(problem)
    for node in problem.held:
        if node not in kept:
            emitter.evict(node)
    ends = emitter.memory.ends
    held: list[int] = []
    for node in range(1, len(problem)):
        while held and ends[held[-1]] <= node:
            emitter.evict(held.pop())
        if node in kept:
            held.append(node)
        elif node in chosen:
            emitter.reach(node)
            emitter.checkpoint(node)
            held.append(node)
        elif not problem.children[node]:
            emitter.compute(node)
    return tidied(problem, emitter.moves)


class _Greedy:
    """The cells chosen so far, and what each other one would save.

    States that are kept from the start are there without being chosen.
    """

    def __init__(self, problem: Problem, kept: Collection[int], *, per_byte: bool) -> None:
        self.problem = problem
        self.chosen: set[int] = set()
        self._per_byte = per_byte
        self._chains = _Chains(problem, kept)
        self._ends = self._chains.memory.ends
        nodes = range(len(problem))
        self._path = np.array([problem.way(FRESH, node) for node in nodes], dtype=float)
        self._grown = np.array(_sums_of_deltas(problem), dtype=float)
        self._restore = np.array([problem.restore_cost(node) for node in nodes], dtype=float)
        self._checkpoint = np.array([problem.checkpoint_cost(node) for node in nodes], dtype=float)
        ways = ways_without_memory(problem, kept)
        self._way = np.array(ways, dtype=float)
        """What a worker pays to come back to each node."""
        self._sources = _sources(problem, ways)
        """Nothing above them is wanted for what is below them."""
        self._wanted = np.array(_wanted(problem, self._sources), dtype=float)
        self._is_open = np.array([bool(below) for below in problem.children])
        self._is_open[[FRESH, *kept]] = False
        self._bytes = np.maximum(problem.size, 1.0)  # states of no size need no budget, nor a ratio
        self._saved = np.empty(len(problem))
        self._ratio = np.empty(len(problem))
        self._update(slice(None))
        for node in (FRESH, *kept):
            self._share(node)
        self._cost = sum(ways[problem.parent[leaf]] + problem.cost[leaf] for leaf in problem.leaves)

    def run(self, until: float) -> bool:
        """Choose while there is time; return whether there was enough."""
        while (node := self._best()) is not None:
            if monotonic() > until:
                return False
            if self._chains.fits(node):
                self._choose(node)
            else:  # nor will it when more is held
                self._is_open[node] = False
                self._saved[node] = -math.inf
        return True

    def _best(self) -> int | None:
        if self._per_byte:
            np.subtract(self._cost, self._saved, out=self._ratio)
            np.divide(self._ratio, self._bytes, out=self._ratio)
            node = int(self._ratio.argmin())
        else:
            node = int(self._saved.argmax())
        # When nothing is left that saves something, the rest makes no difference.
        return node if self._saved[node] > 0 or self._saved.max() > 0 else None

    def _choose(self, node: int) -> None:
        self._cost -= float(self._saved[node])
        self._is_open[node] = False
        self.chosen.add(node)
        self._chains.add(node)
        self._want_once(node)
        subtree = slice(node, self._ends[node])
        ways = self._path[subtree] + (self._restore[node] - self._path[node])
        np.minimum(self._way[subtree], ways, out=self._way[subtree])
        self._update(subtree)
        self._share(node)

    def _want_once(self, node: int) -> None:
        """What is above a node is now wanted once for it, and not for all that is below it."""
        fewer = self._wanted[node] - 1
        above = []
        at = node
        while fewer and at != FRESH and at not in self._sources:
            at = self.problem.parent[at]
            above.append(at)
        self._sources.add(node)
        self._wanted[above] -= fewer
        self._update(above)

    def _share(self, node: int) -> None:
        """What is below a node takes what has changed since, if it is held."""
        below = slice(node + 1, self._ends[node])
        grown = np.maximum(self._grown[below] - self._grown[node], 1.0)
        np.minimum(self._bytes[below], grown, out=self._bytes[below])

    def _update(self, part: slice | list[int]) -> None:
        """Find what holding some nodes would save."""
        shorter = self._way[part] - self._restore[part]
        saved = (self._wanted[part] - 1) * shorter - self._checkpoint[part]
        # What costs more than it saves now does so later too: others only make it save less.
        is_open = self._is_open[part] & (self._wanted[part] > 0) & (saved >= 0)
        self._saved[part] = np.where(is_open, saved, -math.inf)


class _Chains:
    """What is held along each path, and whether there is room for more.

    All bytes of what is kept from the start are set aside.  It may be anywhere, not only on the
    path to where the worker is.
    """

    def __init__(self, problem: Problem, kept: Collection[int]) -> None:
        self.problem = problem
        self.memory = Memory(problem, kept)
        self._room = problem.budget - self.memory.bytes
        self._kept = frozenset(kept)
        self._deep: dict[int, Bytes] = {}
        """The most bytes of a path below what is held."""

    def fits(self, node: int) -> bool:
        if math.isinf(self._room):
            return True
        base = self.memory.base(node)
        above = sum(self._weight(at, self.memory.base(at)) for at in self.memory.above(node))
        return above + self._weight(node, base) + self._deepest(node) <= self._room

    def add(self, node: int) -> None:
        self._deep[node] = self._deepest(node)
        self.memory.hold(node)
        at = node
        while (base := self.memory.base(at)) != FRESH:
            deep = self._weight(at, base) + self._deep.get(at, 0)
            if deep <= self._deep.get(base, 0):
                break
            self._deep[base] = deep
            at = base

    def _deepest(self, node: int) -> Bytes:
        below = self.memory.below(node)
        return max((self._weight(low, node) + self._deep.get(low, 0) for low in below), default=0)

    def _weight(self, node: int, base: int) -> Bytes:
        return 0 if node in self._kept else self.problem.marginal(node, base)


def _sources(problem: Problem, ways: Sequence[Seconds]) -> set[int]:
    """Return the nodes that are reached from a state of their own."""
    return {
        node
        for node in range(1, len(problem))
        if ways[node] < ways[problem.parent[node]] + problem.cost[node]
    }


def _wanted(problem: Problem, sources: Collection[int]) -> list[int]:
    """Return how often each node is wanted if nothing is chosen."""
    found = [0 if below else 1 for below in problem.children]
    for node in range(len(problem) - 1, FRESH, -1):
        if node not in sources:
            found[problem.parent[node]] += found[node]
    return found


def _sums_of_deltas(problem: Problem) -> list[Bytes]:
    found = list(problem.delta)
    for node in range(1, len(problem)):
        found[node] += found[problem.parent[node]]
    return found
