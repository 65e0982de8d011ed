"""The optimum whatever steps cost and whatever is there: best-first search step by step.

States are (where the worker is, what is held, which versions are done).  A checkpoint is evicted
only to make room for another one, and then as little as possible, because an eviction costs nothing
and what is held never harms.
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Iterator
from typing import NamedTuple

from chexpoint.model import Seconds
from chexpoint.plan.emission import tidied
from chexpoint.plan.moves import with_cheap_takes
from chexpoint.plan.problem import FRESH, Move, Problem

_NOISE = 1e-10


class _State(NamedTuple):
    worker: int
    held: frozenset[int]
    done: frozenset[int]


_Step = tuple[_State, Seconds, tuple[Move, ...]]


def search_worker(
    problem: Problem, *, deadline: float, known: Seconds
) -> tuple[list[Move] | None, Seconds]:
    """Return the cheapest plan if it is cheaper than what is known, and a lower bound."""
    return _WorkerSearch(problem).run(deadline, known)


class _WorkerSearch:
    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._leaves = frozenset(problem.leaves)
        self._below: list[frozenset[int]] = self._versions_below()
        ways = [problem.costs.fresh, *problem.loads.values()]
        if any(problem.children[node] for node in range(1, len(problem))):
            inner = [node for node in range(1, len(problem)) if problem.children[node]]
            ways += [problem.costs.take, *(problem.restore_cost(node) for node in inner)]
        self._going_back = min(ways)

    def run(self, deadline: float, known: Seconds) -> tuple[list[Move] | None, Seconds]:
        origin: dict[_State, tuple[_State | None, tuple[Move, ...]]] = {}
        paid: dict[_State, Seconds] = {}
        count = itertools.count()
        line: list[tuple[Seconds, int, _State]] = []
        for state, moves in self._starts():
            origin[state], paid[state] = (None, moves), 0.0
            heapq.heappush(line, (self._bound(state), next(count), state))
        while line:
            estimate, _, state = heapq.heappop(line)
            cost = paid[state]
            if estimate >= known * (1 - _NOISE):
                break
            if estimate > cost + self._bound(state) + _NOISE * known:
                continue  # reached in a cheaper way since
            if state.done == self._leaves:
                return self._plan(state, origin), cost
            if time.monotonic() > deadline:
                return None, estimate
            for after, price, moves in self._steps(state):
                reached = cost + price
                if reached < paid.get(after, math.inf):
                    estimate = reached + self._bound(after)
                    if estimate < known * (1 - _NOISE):
                        paid[after], origin[after] = reached, (state, moves)
                        heapq.heappush(line, (estimate, next(count), after))
        return None, known

    def _plan(
        self, end: _State, origin: dict[_State, tuple[_State | None, tuple[Move, ...]]]
    ) -> list[Move]:
        parts = []
        at: _State | None = end
        while at is not None:
            at, moves = origin[at]
            parts.append(moves)
        return with_cheap_takes(
            self.problem, tidied(self.problem, [m for part in reversed(parts) for m in part])
        )

    def _versions_below(self) -> list[frozenset[int]]:
        below: list[set[int]] = [set() for _ in range(len(self.problem))]
        for node in range(len(self.problem) - 1, FRESH, -1):
            if not self.problem.children[node]:
                below[node].add(node)
            below[self.problem.parent[node]] |= below[node]
        return [frozenset(versions) for versions in below]

    def _bound(self, state: _State) -> Seconds:
        """Return what is surely to be paid: what must be computed, once, and going back for it."""
        problem = self.problem
        there = {*state.held, *problem.loads, state.worker}
        total, needed = [], set()
        for node in range(len(problem) - 1, FRESH, -1):
            if node in needed or (node in self._leaves and node not in state.done):
                total.append(problem.cost[node])
                if problem.parent[node] not in there:
                    needed.add(problem.parent[node])
        left = len(self._leaves) - len(state.done)
        if self._below[state.worker] - state.done:
            left -= 1  # the worker may go on to one of them
        return math.fsum(total) + self._going_back * left

    def _starts(self) -> Iterator[tuple[_State, tuple[Move, ...]]]:
        for kept in self._rooms(frozenset(self.problem.held), None):
            evicted = sorted(set(self.problem.held) - kept, reverse=True)
            moves = tuple(Move("evict", node) for node in evicted)
            yield _State(FRESH, kept, frozenset()), moves

    def _steps(self, state: _State) -> Iterator[_Step]:
        worker, held, done = state
        for child in self.problem.children[worker]:
            if self._below[child] - done:
                after = done | {child} if child in self._leaves else done
                yield (
                    _State(child, held, after),
                    self.problem.cost[child],
                    (Move("compute", child),),
                )
        if worker != FRESH and worker not in held and len(self._below[worker] - done) > 1:
            yield from self._checkpoints(state)
        yield from self._ways_back(state)

    def _checkpoints(self, state: _State) -> Iterator[_Step]:
        worker, held, done = state
        for kept in self._rooms(held, worker):
            evicted = sorted(held - kept, reverse=True)
            moves = (*(Move("evict", node) for node in evicted), Move("checkpoint", worker))
            price = self.problem.checkpoint_cost(worker)
            yield _State(worker, kept | {worker}, done), price, moves

    def _ways_back(self, state: _State) -> Iterator[_Step]:
        problem = self.problem
        worker, held, done = state
        for node in {*held, *problem.loads, FRESH} - {worker}:
            if not self._below[node] - done:
                continue
            is_free = node == FRESH or node in held
            price = problem.restore_cost(node) if is_free else problem.loads[node]
            yield _State(node, held, done), price, (Move("restore", node),)
            if node in held and problem.costs.take < price:
                left = held - {node}
                if problem.bytes_of(left) <= problem.budget:
                    yield _State(node, left, done), problem.costs.take, (Move("take", node),)

    def _rooms(self, held: frozenset[int], more: int | None) -> Iterator[frozenset[int]]:
        """Yield the largest parts of what is held beside which there is room for one more."""
        budget = self.problem.budget
        own = frozenset(() if more is None else (more,))
        found: list[frozenset[int]] = []
        for count in range(len(held) + 1):
            for evicted in itertools.combinations(sorted(held), count):
                kept = held.difference(evicted)
                if any(kept <= other for other in found):
                    continue
                if self.problem.bytes_of(kept | own) <= budget and self._is_orderly(held, evicted):
                    found.append(kept)
                    yield kept

    def _is_orderly(self, held: frozenset[int], evicted: tuple[int, ...]) -> bool:
        """Return whether evicting the deepest first never takes more than there is.

        What is shared with an evicted checkpoint counts for those that are left.
        """
        if self.problem.bytes_of(held) > self.problem.budget:
            return True  # at the start, where nothing but evictions helps
        for node in reversed(evicted):
            held = held - {node}
            if self.problem.bytes_of(held) > self.problem.budget:
                return False
        return True
