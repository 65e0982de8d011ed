"""Plans for engines side by side: which versions each of them replays, with how much memory.

Engines are process trees of their own.  They share no checkpoints, so each computes again what
leads to its versions, and each has a share of the budget; or all of it, if they are on hosts with
memory of their own.  What a way to divide versions costs is
first estimated, on the trace of one plan for all of them: computing some versions in that plan's
way costs what their paths in the trace cost together.  Only a few divisions, those with the best
estimates and what is near to them, are planned for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from heapq import heappop, heappush, nsmallest
from time import monotonic
from typing import NamedTuple

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, HeldState, NodeId, Plan, Schedule, Seconds, StepCosts
from chexpoint.plan.emission import ends_of, ways_without_memory
from chexpoint.plan.problem import FRESH, Move, Problem
from chexpoint.plan.sketch import Sketch, rounded
from chexpoint.plan.solving import solve
from chexpoint.plan.trace import timed, trace_of

_SMALL = 24
"""Up to so many nodes, all shares of the budget that make a difference are tried."""

_MIDDLE = 1_000
"""Up to so many nodes, shares are fitted to each division."""

_LARGE = 10_000
"""Beyond so many nodes, one division is planned for."""

_PATIENCE = 64
"""End the search when so many divisions in a row were no better."""

_DETOUR = 1.25
"""Also go on from divisions that take longer than the best one by this factor."""


def schedule(  # noqa: PLR0913 - all but three have to be named, and few ever are
    tree: ExecutionTree,
    budget: float,
    workers: int,
    *,
    planner: str,
    costs: StepCosts | None,
    held: Iterable[HeldState] = (),
    seconds: Seconds,
    leaves: Iterable[NodeId] | None = None,
    is_shared: bool = True,
) -> Schedule:
    """Return plans for at most so many engines, the last of which is done as early as was found.

    That is never later than one engine alone would be; if more of them do not help there is one
    lane, with the whole budget.

    Parameters
    ----------
    workers
        The engines there are.
    planner
        The planner that is asked for each lane.
    held
        What is there before.  What is in memory belongs to the first lane; what can be loaded, to
        all.
    seconds
        How long to search.
    leaves
        Plan for these only; for all versions if none are given.
    is_shared
        Whether the budget is for all lanes together; else it is for each of them.

    Raises
    ------
    InvalidValue
        If there are no workers, or a `Problem` would refuse the rest.
    """
    if not _is_count(workers):
        raise InvalidValue(f"the number of workers is not a whole number >= 1: {workers!r}")
    states = tuple(held)
    whole = Problem(tree, budget, costs=costs, held=states, leaves=leaves)
    until = monotonic() + seconds
    alone = solve(whole, planner, seconds=seconds / 2)
    lanes = min(workers, len(whole.leaves))
    plans: Sequence[Plan] = [alone]
    if lanes > 1:
        engines = _Engines(tree, whole, states, planner, until, is_shared=is_shared)
        found = engines.best(alone, lanes)
        if rounded(max(plan.cost for plan in found)) < rounded(alone.cost):
            plans = found
    together = budget if is_shared else budget * len(plans)
    return Schedule(lanes=tuple(plans), budget=together, single=alone.cost)


def _is_count(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and value >= 1


class _Lot(NamedTuple):
    """What an engine is given: leaves, and a share of the budget."""

    leaves: frozenset[int]
    share: float


class _Lane(NamedTuple):
    """A plan for some leaves, which is the same for all shares in a range."""

    plan: Plan
    peak: float
    """The bytes that it takes; with a share of no more it is the same."""
    share: float
    """The largest share for which it is known to be the same."""


class _Division(NamedTuple):
    """What each engine is given, and what it does."""

    lots: tuple[_Lot, ...]
    lanes: tuple[_Lane, ...]

    @property
    def badness(self) -> list[Seconds]:
        """What orders divisions, the best first: the longest lane, then the next one."""
        return sorted((rounded(lane.plan.cost) for lane in self.lanes), reverse=True)


class _Engines:
    """Ways to divide the versions, and what the planner makes of them."""

    def __init__(
        self,
        tree: ExecutionTree,
        whole: Problem,
        held: tuple[HeldState, ...],
        planner: str,
        until: float,
        *,
        is_shared: bool,
    ) -> None:
        self.tree = tree
        self.whole = whole
        self.held = held
        self.planner = planner
        self.until = until
        self.budget = _whole_bytes(whole.budget)
        self.is_shared = is_shared and not math.isinf(self.budget)
        """Whether what one lane holds is not there for the others."""
        # A number and not the clock alone, so that the same question has the same answer.
        self.tries = min(500, 12_000 // len(whole))
        self._known: dict[tuple[frozenset[int], bool], list[_Lane]] = {}

    def best(self, alone: Plan, workers: int) -> list[Plan]:
        """Return the plans of the best division that was found."""
        sketches = self._sketches(alone, workers)
        starts = [
            (estimate, self._lots(parts, number))
            for number, sketch in sketches.items()
            for estimate, parts in sketch.divided(workers, number)
        ]
        starts.sort(key=lambda start: start[0])
        if len(self.whole) <= _LARGE:
            self.tries = max(self.tries, 3 * workers)
        found = self._improved([lots for _, lots in starts], sketches, alone, workers)
        return self._with_room(found) if found else [alone]

    def _sketches(self, alone: Plan, workers: int) -> Mapping[int, Sketch]:
        """Return sketches by the number of engines that share the budget, the others having none.

        With little memory it may be best to give all of it to one, and none to the others.
        """
        whole = self.whole
        ways = ways_without_memory(whole)
        bare = {leaf: ways[whole.parent[leaf]] + whole.cost[leaf] for leaf in whole.leaves}

        def sketch(plan: Plan, slowdown: float = 1.0) -> Sketch:
            return Sketch(trace_of(whole, _moves(whole, plan)), bare, slowdown)

        if not self.is_shared:
            return {workers: sketch(alone)}
        found = {1: sketch(alone)}
        for number in (*(2**n for n in range(1, (workers - 1).bit_length())), workers):
            share = self.budget // number
            if len(whole) > _LARGE:
                found[number] = sketch(alone, self._slowdown(share))
            else:
                found[number] = sketch(self._solved(self._problem(whole.leaves, share, self.held)))
        return found

    def _slowdown(self, share: float) -> float:
        """Return about how much longer a plan takes with a share of the budget, from a sample."""
        leaves = self.whole.leaves
        start = max(0, len(leaves) // 2 - 250)
        less, all_of_it = (
            self._solved(self._problem(leaves[start : start + 500], share, self.held)).cost
            for share in (share, self.budget)
        )
        return less / all_of_it if all_of_it else 1.0

    def _lots(self, parts: Sequence[frozenset[int]], number: int) -> tuple[_Lot, ...]:
        """Return parts, the first of which share the budget, as lots.

        First of all comes the one for which the states in memory are worth most.
        """
        whole = self.whole
        share = _whole_bytes(self.budget / number) if self.is_shared else self.budget
        lots = [_Lot(part, share if n < number else 0.0) for n, part in enumerate(parts) if part]
        worth = [0.0] * len(lots)
        ends = ends_of(whole) if whole.held else []
        for node in whole.held:
            below = range(node, ends[node])
            for n, lot in enumerate(lots):
                if lot.share and not lot.leaves.isdisjoint(below):
                    worth[n] += whole.way(FRESH, node)
        first = max(range(len(lots)), key=worth.__getitem__)
        return (lots[first], *lots[:first], *lots[first + 1 :])

    def _with_room(self, division: _Division) -> list[Plan]:
        """Return the plans of a division, with what is left of the budget dealt out to all."""
        if len(self.whole) > _MIDDLE or not self.is_shared:
            return [
                replace(lane.plan, budget=lot.share) for lot, lane in zip(*division, strict=True)
            ]
        more = (self.budget - sum(lane.peak for lane in division.lanes)) // len(division.lanes)
        plans = []
        for number, (lot, lane) in enumerate(zip(*division, strict=True)):
            other = self._lane(lot.leaves, lane.peak + more, number == 0)
            best = other if other.plan.cost < lane.plan.cost else lane
            plans.append(replace(best.plan, budget=lane.peak + more))
        return plans

    # ------------------------------------------------------------ divisions

    def _improved(
        self,
        starts: Iterable[tuple[_Lot, ...]],
        sketches: Mapping[int, Sketch],
        alone: Plan,
        workers: int,
    ) -> _Division | None:
        """Return the best division that is found from some on by small changes.

        Always the best one so far that has changes left is changed next.
        """
        least = self._lower_bound(alone, workers)
        best: _Division | None = None
        seen: set[frozenset[object]] = set()
        queue = [([-math.inf], 0, iter(starts))]
        in_vain = 0
        while queue and in_vain < _PATIENCE and (best is None or best.badness[0] > least):
            lots = next(queue[0][2], None)
            if lots is None:
                heappop(queue)
                continue
            # Where shares are fitted to the leaves it does not matter which they were.
            is_fitted = len(self.whole) <= _MIDDLE
            key = frozenset(lot.leaves if is_fitted else lot for lot in lots)
            if key in seen:
                continue
            seen.add(key)
            if best and self._is_over(best.badness[0] < rounded(alone.cost)):
                break
            in_vain += 1
            found = self._planned(lots, _DETOUR * best.badness[0] if best else math.inf)
            if found:
                changes = _changes(found, sketches, workers, self._left_by(found))
                heappush(queue, (found.badness, len(seen), changes))
                if best is None or found.badness < best.badness:
                    best, in_vain = found, 0
        return best

    def _left_by(self, division: _Division) -> float:
        """Return the share that one more lane could have."""
        taken = sum(lot.share for lot in division.lots) if self.is_shared else 0.0
        return self.budget - taken

    def _is_over(self, is_of_use: bool) -> bool:
        """Whether to end the search, for which there are more tries if it was of no use yet."""
        return monotonic() > self.until or (self.tries <= 0 and is_of_use)

    def _planned(self, lots: tuple[_Lot, ...], most: Seconds) -> _Division | None:
        """Return what comes of lots.

        In a tree that is not too large, other shares of the budget are tried for them, and each
        lane as the first, if it matters who has what is in memory.

        Parameters
        ----------
        most
            Return None if the last lane is not done by then.
        """
        found = []
        lanes = [self._lane(*lot, number == 0) for number, lot in enumerate(lots)]
        if rounded(max(lane.plan.cost for lane in lanes)) <= most:
            found.append(_Division(lots, tuple(lanes)))
        if len(self.whole) <= _MIDDLE:
            for first in range(len(lots) if self.whole.held else 1):
                order = (lots[first], *lots[:first], *lots[first + 1 :])
                if fitted := self._shared_out(order, most):
                    found.append(fitted)
        return min(found, key=lambda division: division.badness, default=None)

    def _shared_out(self, lots: tuple[_Lot, ...], most: Seconds) -> _Division | None:
        """Return lots with the shares of the budget that are best for them.

        Each lane has all of the budget at first.  As long as they have too much together, the one
        that is the earliest done with less has less: so none has less than it needs to be done at
        the time when the last one will be.
        """
        lanes = [self._lane(lot.leaves, self.budget, n == 0) for n, lot in enumerate(lots)]
        while self.is_shared and sum(lane.peak for lane in lanes) > self.budget:
            is_late = rounded(max(lane.plan.cost for lane in lanes)) > most
            if is_late or monotonic() > self.until:
                return None
            less = {
                number: self._lane(lot.leaves, self._less_than(lane.peak), number == 0)
                for number, (lot, lane) in enumerate(zip(lots, lanes, strict=True))
                if lane.peak > 0
            }
            first = min(less, key=lambda number: less[number].plan.cost)
            lanes[first] = less[first]
        if not self.is_shared:
            whole = (_Lot(lot.leaves, self.budget) for lot in lots)
            return _Division(tuple(whole), tuple(lanes))
        longest = max(range(len(lanes)), key=lambda number: lanes[number].plan.cost)
        room = self.budget - sum(lane.peak for lane in lanes)
        more = self._lane(lots[longest].leaves, lanes[longest].peak + room, longest == 0)
        if more.plan.cost < lanes[longest].plan.cost:
            lanes[longest] = more
        shares = [lane.peak for lane in lanes]
        fitted = (_Lot(lot.leaves, share) for lot, share in zip(lots, shares, strict=True))
        return _Division(tuple(fitted), tuple(lanes))

    def _less_than(self, peak: float) -> float:
        """Return the next smaller share to try."""
        return peak - 1 if len(self.whole) <= _SMALL else peak * 3 // 4

    # ------------------------------------------------------------ plans

    def _lane(self, leaves: frozenset[int], share: float, is_first: bool) -> _Lane:
        """Return the plan of one engine."""
        has_held = is_first and bool(self.whole.held)
        known = self._known.setdefault((leaves, has_held), [])
        for lane in known:
            if lane.peak <= share <= lane.share:
                return lane
        held = tuple(state for state in self.held if has_held or state.load is not None)
        problem = self._problem(sorted(leaves), share, held)
        plan = self._solved(problem)
        peak = 0.0
        if not math.isinf(share):
            steps = timed(problem, _moves(problem, plan))
            peak = max((moment.bytes for moment in steps), default=0)
        self.tries -= 1
        known.append(_Lane(plan, peak, share))
        return known[-1]

    def _problem(self, leaves: Iterable[int], share: float, held: Iterable[HeldState]) -> Problem:
        names = [name for leaf in leaves if (name := self.whole.ids[leaf]) is not None]
        return Problem(self.tree, share, costs=self.whole.costs, held=held, leaves=names)

    def _solved(self, problem: Problem) -> Plan:
        left = max(0.0, self.until - monotonic())
        return solve(problem, self.planner, seconds=left / 4)

    def _lower_bound(self, alone: Plan, workers: int) -> Seconds:
        """Return a time before which the engines cannot all be done."""
        whole = self.whole
        there = {FRESH, *whole.held, *whole.loads}
        longest = 0.0
        for leaf in whole.leaves:
            at = whole.parent[leaf]
            while at not in there:
                at = whole.parent[at]
            longest = max(longest, whole.way(at, leaf))
        # One engine could do what all do, and begin afresh between.
        work = alone.lower_bound - whole.costs.fresh * (workers - 1)
        return rounded(max(work / workers, longest))


def _changes(
    division: _Division, sketches: Mapping[int, Sketch], workers: int, rest: float
) -> Iterator[tuple[_Lot, ...]]:
    """Yield lots of which the longest lane has other versions, the most promising first.

    Some are moved to another lane, which may be new, or exchanged for some of another lane.

    Parameters
    ----------
    rest
        The share that a new lane can have.
    """
    costs = [lane.plan.cost for lane in division.lanes]
    lots = division.lots
    if len(lots) < workers:
        lots, costs = (*lots, _Lot(frozenset(), rest)), [*costs, 0.0]
    with_memory = sum(lot.share > 0 for lot in lots)
    sketch = sketches[min(sketches, key=lambda number: abs(number - with_memory))]
    parts = [sketch.part(lot.leaves, is_bare=not lot.share) for lot in lots]
    for swap in nsmallest(100, sketch.swaps(parts, costs)):
        changed = swap.done(sketch, [lot.leaves for lot in lots])
        yield tuple(
            _Lot(leaves, lot.share) for leaves, lot in zip(changed, lots, strict=True) if leaves
        )


def _moves(problem: Problem, plan: Plan) -> list[Move]:
    number = {node: number for number, node in enumerate(problem.ids)}
    return [Move(action, number[node]) for action, node in plan.steps]


def _whole_bytes(value: float) -> float:
    """Return a number of bytes rounded down, as sizes are whole numbers and shares must add up."""
    return value if math.isinf(value) else math.floor(value)
