"""Turning decisions into moves: what every planner does once it knows what to hold.

The numbers of a problem are a preorder, so the subtree of a node is a range.  With that, the
nearest checkpoint above a node is found without walking up the tree.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Container, Iterable, Iterator, KeysView, Sequence
from typing import NamedTuple

from chexpoint.model import Bytes, Seconds
from chexpoint.plan.problem import FRESH, Move, Problem


def ends_of(problem: Problem) -> list[int]:
    """Return for each node the number after the last one of its subtree."""
    ends = [node + 1 for node in range(len(problem))]
    for node in range(len(problem) - 1, FRESH, -1):
        parent = problem.parent[node]
        ends[parent] = max(ends[parent], ends[node])
    return ends


def leaves_below(problem: Problem) -> list[int]:
    """Return how many versions lead through each node."""
    found = [0 if children else 1 for children in problem.children]
    for node in range(len(problem) - 1, FRESH, -1):
        found[problem.parent[node]] += found[node]
    return found


def nearest(problem: Problem, marked: Container[int]) -> list[int]:
    """Return the nearest marked node on the path to each node, itself included, or FRESH."""
    found = [FRESH] * len(problem)
    for node in range(1, len(problem)):
        found[node] = node if node in marked else found[problem.parent[node]]
    return found


class Memory:
    """The checkpoints in memory, and the bytes that they take together."""

    def __init__(self, problem: Problem, held: Iterable[int] = ()) -> None:
        self.problem = problem
        self.bytes: Bytes = 0
        self.ends = ends_of(problem)
        self._base: dict[int, int] = {}
        self._order: list[int] = []
        for node in held:
            self.hold(node)

    def __contains__(self, node: int) -> bool:
        return node in self._base

    @property
    def held(self) -> KeysView[int]:
        """The checkpoints, the oldest first."""
        return self._base.keys()

    def is_above(self, node: int, other: int) -> bool:
        """Return whether a node is an ancestor of another one, or that node."""
        return node <= other < self.ends[node]

    def base(self, node: int) -> int:
        """Return the nearest ancestor that is held, itself not included; FRESH if there is none."""
        if node in self._base:
            return self._base[node]
        before = bisect_left(self._order, node)
        # Those above the node are all above the one before it in preorder, or it is one of them.
        at = self._order[before - 1] if before else FRESH
        while not self.is_above(at, node):
            at = self._base[at]
        return at

    def above(self, node: int) -> Iterator[int]:
        """Yield what is held on the path to a node, itself included, the nearest first."""
        at = node if node in self._base else self.base(node)
        while at != FRESH:
            yield at
            at = self._base[at]

    def below(self, node: int) -> Iterator[int]:
        """Yield what is held below a node with nothing held in between."""
        at = bisect_right(self._order, node)
        while at < len(self._order) and self._order[at] < self.ends[node]:
            yield self._order[at]
            at = bisect_left(self._order, self.ends[self._order[at]], at)

    def added_by(self, node: int) -> Bytes:
        """Return what holding a node adds, or has added if it is held, to what others take."""
        marginal = self.problem.marginal
        base = self.base(node)
        shared = sum(marginal(low, base) - marginal(low, node) for low in self.below(node))
        return marginal(node, base) - shared

    def hold(self, node: int) -> None:
        self.bytes += self.added_by(node)
        base = self.base(node)
        for low in self.below(node):
            self._base[low] = node
        self._base[node] = base
        insort(self._order, node)

    def drop(self, node: int) -> None:
        self.bytes -= self.added_by(node)
        base = self._base[node]
        for low in self.below(node):
            self._base[low] = base
        del self._base[node]
        del self._order[bisect_left(self._order, node)]


class Emitter:
    """The live worker and what is held, and the moves that have brought them there.

    It begins as a plan does: with a fresh worker, and with what is held at the start, which may be
    more than the budget and is the planner's to evict.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.moves: list[Move] = []
        self.worker = FRESH
        self.memory = Memory(problem, problem.held)
        self._load_above = nearest(problem, problem.loads)

    @property
    def held(self) -> KeysView[int]:
        """The checkpoints in memory, the oldest first."""
        return self.memory.held

    @property
    def bytes(self) -> Bytes:
        """What they take together."""
        return self.memory.bytes

    def fits(self, node: int) -> bool:
        """Return whether there is room for one more checkpoint."""
        return self.bytes + self.memory.added_by(node) <= self.problem.budget

    # ------------------------------------------------------------ ways

    def way_back(self, node: int) -> tuple[int, Seconds]:
        """Return where the cheapest way back to a node begins, and what all of it costs.

        It begins at a state in memory, at one that can be loaded, or with a fresh worker.
        """
        problem = self.problem
        best, least = FRESH, problem.restore_cost(FRESH) + problem.way(FRESH, node)
        for states in (self._held_above(node), self._loads_above(node)):
            for at, going in states:
                way = problem.way(at, node)
                if way > least:
                    break  # and so is every way from further up
                # The nearest of equals: sums of costs are not exact.
                if way + going < least or (way + going == least and at > best):
                    best, least = at, way + going
        return best, least

    def approach(self, node: int) -> list[int]:
        """Bring the worker to where the cheapest way to a node begins.

        Returns
        -------
        list
            What is still to be computed, the node itself included.
        """
        start, cost = self.way_back(node)
        is_near = self.memory.is_above(self.worker, node)
        if is_near and self.problem.way(self.worker, node) <= cost:
            start = self.worker
        else:
            self.do(Move("restore", start))
        path = []
        while node != start:
            path.append(node)
            node = self.problem.parent[node]
        path.reverse()
        return path

    def reach(self, node: int) -> None:
        """Bring the worker to a node by the cheapest way."""
        for step in self.approach(node):
            self.do(Move("compute", step))

    def compute(self, node: int) -> None:
        """Compute a node, as a version that ends there must, even if its state is there."""
        self.reach(self.problem.parent[node])
        self.do(Move("compute", node))

    # ------------------------------------------------------------ steps

    def checkpoint(self, node: int) -> None:
        self.do(Move("checkpoint", node))

    def evict(self, node: int) -> None:
        self.do(Move("evict", node))

    def take(self, node: int) -> None:
        self.do(Move("take", node))

    def do(self, move: Move) -> None:
        """Make a move that is possible."""
        action, node = move
        if action == "checkpoint":
            self.memory.hold(node)
        elif action in {"take", "evict"}:
            self.memory.drop(node)
        if action not in {"checkpoint", "evict"}:
            self.worker = node
        self.moves.append(move)

    def _held_above(self, node: int) -> Iterator[tuple[int, Seconds]]:
        for at in self.memory.above(node):
            yield at, self.problem.restore_cost(at)

    def _loads_above(self, node: int) -> Iterator[tuple[int, Seconds]]:
        at = self._load_above[node]
        while at != FRESH:
            if at not in self.memory:  # what is in memory is restored from there
                yield at, self.problem.loads[at]
            at = self._load_above[self.problem.parent[at]]


# ---------------------------------------------------------------- what is there at the start


def ways_without_memory(problem: Problem, held: Container[int] = ()) -> list[Seconds]:
    """Return what a worker pays to get to each node from states that stay where they are.

    These are the fresh worker, the states that can be loaded, and those in memory that are given.
    What the ends of versions are is never gone back to.
    """
    found = [problem.restore_cost(FRESH)] * len(problem)
    for node in range(1, len(problem)):
        found[node] = found[problem.parent[node]] + problem.cost[node]
        if not problem.children[node]:
            continue
        if node in held:
            found[node] = min(found[node], problem.restore_cost(node))
        elif node in problem.loads:
            found[node] = min(found[node], problem.loads[node])
    return found


def worth_keeping(problem: Problem) -> tuple[int, ...]:
    """Return what to keep of what is held at the start: what saves most, as far as it fits."""
    if not problem.held:
        return ()
    ways = ways_without_memory(problem)
    versions = leaves_below(problem)
    saved = {
        node: versions[node] * (ways[node] - problem.restore_cost(node))
        for node in problem.held
        if problem.children[node]
    }
    memory = Memory(problem)
    for node in sorted(saved, key=lambda node: (-saved[node], node)):
        if saved[node] > 0 and memory.bytes + memory.added_by(node) <= problem.budget:
            memory.hold(node)
    return tuple(sorted(memory.held))


# ---------------------------------------------------------------- tidiness


def tidied(problem: Problem, moves: Sequence[Move]) -> list[Move]:
    """Return moves that hold nothing in vain.

    No state is held that is never gone back to, and none for longer than till the worker last goes
    back to it.  But a checkpoint may make others smaller, even if it is of no other use: if the
    rest does not fit without it, the moves stay as they are.
    """
    in_vain: set[int] = set()
    evictions: dict[int, list[Move]] = {}
    for span in _spans(problem, moves):
        if span.last < 0:
            in_vain.add(span.begin)
        if (span.last >= 0 or span.begin < 0) and not span.is_taken:
            evictions.setdefault(span.last, []).append(Move("evict", span.node))
    tidy = evictions.get(-1, [])
    for i, move in enumerate(moves):
        if move.action != "evict" and i not in in_vain:
            tidy.append(move)
        tidy += evictions.get(i, ())
    return tidy if _is_within_budget(problem, tidy) else list(moves)


class _Span(NamedTuple):
    """How long a state is in memory, by the numbers of moves; -1 is before the first one."""

    node: int
    begin: int
    last: int = -1
    """When the worker goes back to it for the last time, if ever."""
    is_taken: bool = False


def _spans(problem: Problem, moves: Sequence[Move]) -> list[_Span]:
    found: list[_Span] = []
    there = {node: _Span(node, -1) for node in problem.held}
    for i, (action, node) in enumerate(moves):
        if action == "checkpoint":
            there[node] = _Span(node, i)
        elif action == "restore" and node in there:
            there[node] = there[node]._replace(last=i)
        elif action == "take":
            found.append(there.pop(node)._replace(last=i, is_taken=True))
        elif action == "evict":
            found.append(there.pop(node))
    return [*found, *there.values()]


def _is_within_budget(problem: Problem, moves: Sequence[Move]) -> bool:
    memory = Memory(problem, problem.held)
    has_begun = False
    for action, node in moves:
        has_begun = has_begun or action != "evict"
        if action == "checkpoint":
            memory.hold(node)
        elif action in {"take", "evict"}:
            memory.drop(node)
        if has_begun and memory.bytes > problem.budget:
            return False
    return True
