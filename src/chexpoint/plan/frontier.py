"""The cheapest plan that holds only states on the way to where the worker is.

Let x be held while s is the nearest checkpoint above it and b bytes were free before.  All that is
below x with nothing held in between is its *frontier*: versions, and checkpoints to come.  Each of
them is served in one of three ways:

* from x while x is held, and b less the marginal size of x is free;
* by *taking* x, at most one of them, and last: the checkpoint becomes the worker, so that its way
  begins at x and yet all of b is free;
* from s after x is gone, and all of b is free.

`_held` is the least cost of all that is below x if x is held, `_below` that of a part of the
frontier, beginning at a node.  Both are recursive and depend on x, s, and b alone, which is why the
published 2^h sets of checkpoints are not needed.

The tables of `chexpoint.plan.chains` do the same for large trees, except that there a child goes
one of the three ways as a whole.
"""

from __future__ import annotations

import math
from functools import cache
from typing import NamedTuple

from chexpoint.model import Seconds
from chexpoint.plan.emission import Emitter, tidied
from chexpoint.plan.problem import Move
from chexpoint.plan.services import Services


class _Frontier(NamedTuple):
    """Who is served how."""

    versions: list[int]
    """Candidates that are not held, whose versions are served from above."""
    now: list[int]
    taker: list[int]
    later: list[int]


class TooManyValues(Exception):
    """There are too many numbers of bytes that can be free."""


class FrontierPlanner:
    """The recursion for one problem.

    What is held in memory at the start is not its business.

    Parameters
    ----------
    most
        Give up after so many values.
    """

    def __init__(self, services: Services, *, most: float = math.inf) -> None:
        self.problem = services.problem
        self._services = services
        self._left = most
        # Memoised for this planner, and forgotten with it.
        self._held = cache(self._compute_held)
        self._below = cache(self._compute_below)

    def moves(self) -> list[Move]:
        """Return the plan."""
        emitter = Emitter(self.problem)
        for leaf in self._services.candidates[0].tails:
            emitter.compute(leaf)
        frontier = _Frontier([], [], [], [])
        for child in self._services.candidates[0].children:
            self._collect(frontier, child, 0, 0, self.problem.budget, may_take=False)
        self._emit(emitter, frontier, 0, 0, self.problem.budget)
        return tidied(self.problem, emitter.moves)

    # ------------------------------------------------------------ costs

    def _compute_held(self, x: int, s: int, b: float) -> Seconds:
        """Return the least cost of what is below x if x is held; infinite if there is no room."""
        self._left -= 1
        if self._left < 0:
            raise TooManyValues
        if self._services.size(x, s) > b:
            return math.inf
        children = self._services.candidates[x].children
        total = sum(self._below(child, x, s, b, False) for child in children)
        return self._services.holding(x) + total + self._taking(x, x, s, b)

    def _compute_below(self, y: int, x: int, s: int, b: float, may_take: bool) -> Seconds:
        """Return the least cost of the part of the frontier of x that begins at y."""
        return min(cost for cost, _ in self._ways(y, x, s, b, may_take))

    def _ways(self, y: int, x: int, s: int, b: float, may_take: bool) -> list[tuple[Seconds, str]]:
        """Return what can be done with y, the better first where they cost the same."""
        services = self._services
        room = b - (services.size(x, s) if x else 0)
        children = services.candidates[y].children
        through = services.tails(x, y) + sum(self._below(c, x, s, b, False) for c in children)
        if may_take:
            through += self._taking(y, x, s, b)
        ways = [
            (through, "through"),
            (services.service(x, y) + self._held(y, x, room), "now"),
            (services.service(s, y) + self._held(y, s, b), "later"),
        ]
        if may_take:
            ways.append((services.taking(x, y) + self._held(y, s, b), "taker"))
        return ways

    def _taking(self, y: int, x: int, s: int, b: float) -> Seconds:
        """Return what is gained, as a negative cost, if something below y takes x."""
        gain, _ = self._best_taker(y, x, s, b)
        return gain

    def _best_taker(self, y: int, x: int, s: int, b: float) -> tuple[Seconds, int]:
        best, taker = 0.0, 0
        for child in self._services.candidates[y].children:
            gain = self._below(child, x, s, b, True) - self._below(child, x, s, b, False)
            if gain < best:
                best, taker = gain, child
        return best, taker

    # ------------------------------------------------------------ the plan

    def _collect(
        self, frontier: _Frontier, y: int, x: int, s: int, b: float, *, may_take: bool
    ) -> None:
        """Add the part of the frontier of x that begins at y."""
        _, way = min(self._ways(y, x, s, b, may_take), key=lambda pair: pair[0])
        if way != "through":
            {"now": frontier.now, "later": frontier.later, "taker": frontier.taker}[way].append(y)
            return
        frontier.versions.append(y)
        taker = self._best_taker(y, x, s, b)[1] if may_take else 0
        for child in self._services.candidates[y].children:
            self._collect(frontier, child, x, s, b, may_take=child == taker)

    def _emit(self, emitter: Emitter, frontier: _Frontier, x: int, s: int, b: float) -> None:
        """Serve a frontier."""
        candidates, services = self._services.candidates, self._services
        for y in frontier.versions:
            for leaf in candidates[y].tails:
                emitter.compute(leaf)
        for y in frontier.now:
            self._emit_held(emitter, y, x, b - (services.size(x, s) if x else 0))
        if frontier.taker:
            emitter.take(candidates[x].node)
        elif x:
            emitter.evict(candidates[x].node)
        for y in (*frontier.taker, *frontier.later):
            self._emit_held(emitter, y, s, b)

    def _emit_held(self, emitter: Emitter, x: int, s: int, b: float) -> None:
        """Compute and hold x, and serve all that is below it."""
        candidate = self._services.candidates[x]
        emitter.reach(candidate.node)
        emitter.checkpoint(candidate.node)
        for leaf in candidate.tails:
            emitter.compute(leaf)
        frontier = _Frontier([], [], [], [])
        taker = self._best_taker(x, x, s, b)[1]
        for child in candidate.children:
            self._collect(frontier, child, x, s, b, may_take=child == taker)
        self._emit(emitter, frontier, x, s, b)
