"""Plans for engines side by side: which versions each of them replays, with how much memory.

Engines are process trees of their own.  They share no checkpoints, so each computes again what
leads to its versions, and each has a share of the budget.  What a way to divide versions costs is
first estimated, on the trace of one plan for all of them: computing some versions in that plan's
way costs what their paths in the trace cost together.  Only a few divisions, those with the best
estimates and what is near to them, are planned for.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from heapq import heappop, heappush, nsmallest
from time import monotonic
from typing import NamedTuple

from chexpoint.errors import InvalidValue
from chexpoint.model import (
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    Schedule,
    Seconds,
    StepCosts,
)
from chexpoint.plan.problem import FRESH, Move, Problem
from chexpoint.plan.solving import solve
from chexpoint.plan.time_limit import Trace, timed, trace_of

_LARGE = 10_000
"""With more nodes than this, one division is planned for."""


_PATIENCE = 64
"""End the search when so many divisions in a row were no better."""

_DETOUR = 1.25
"""Also go on from divisions that take longer than the best one by this factor."""


def schedule(
    tree: ExecutionTree,
    budget: float,
    workers: int,
    *,
    planner: str,
    costs: StepCosts | None,
    held: Iterable[HeldState] = (),
    seconds: Seconds,
    leaves: Iterable[NodeId] | None = None,
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
        engines = _Engines(tree, whole, states, planner, until)
        found = engines.best(alone, lanes)
        if _rounded(max(plan.cost for plan in found)) < _rounded(alone.cost):
            plans = found
    return Schedule(lanes=tuple(plans), budget=budget, single=alone.cost)


def _is_count(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int) and value >= 1


class _Lane(NamedTuple):
    """A plan for some leaves, which is the same for all shares in a range."""

    plan: Plan
    peak: float
    """The bytes that it takes; with a share of no more it is the same."""
    share: float
    """The largest share for which it is known to be the same."""


Parts = tuple[frozenset[int], ...]
"""The leaves of each engine."""


class _Division(NamedTuple):
    """Which leaves each engine has, and what it does."""

    parts: Parts
    lanes: tuple[_Lane, ...]

    @property
    def badness(self) -> list[Seconds]:
        """What orders divisions, the best first: the longest lane, then the next one."""
        return sorted((_rounded(lane.plan.cost) for lane in self.lanes), reverse=True)


class _Engines:
    """Ways to divide the versions, and what the planner makes of them."""

    def __init__(
        self,
        tree: ExecutionTree,
        whole: Problem,
        held: tuple[HeldState, ...],
        planner: str,
        until: float,
    ) -> None:
        self.tree = tree
        self.whole = whole
        self.held = held
        self.planner = planner
        self.until = until
        self.budget = _whole_bytes(whole.budget)
        # A number and not the clock alone, so that the same question has the same answer.
        self.tries = min(500, 20_000 // len(whole))
        self._known: dict[tuple[frozenset[int], bool], list[_Lane]] = {}

    def best(self, alone: Plan, workers: int) -> list[Plan]:
        """Return the plans of the best division that was found."""
        share = _whole_bytes(self.whole.budget / workers)
        as_alone = _Sketch(trace_of(self.whole, _moves(self.whole, alone)))
        if len(self.whole) > _LARGE:
            parts = self._holder_first(as_alone.divided(workers)[0])
            return [self._lane(part, share, part is parts[0]).plan for part in parts]
        problem = self._problem(self.whole.leaves, share, self.held)
        sketch = _Sketch(trace_of(self.whole, _moves(problem, self._solved(problem))))
        starts = map(self._holder_first, sketch.divided(workers) + as_alone.divided(workers))
        found = self._improved(starts, sketch, workers, self._lower_bound(alone, workers))
        return self._with_room(found) if found else [alone]

    def _with_room(self, division: _Division) -> list[Plan]:
        """Return the plans of a division, with what is left of the budget dealt out to all."""
        room = self.budget - sum(lane.peak for lane in division.lanes)
        more = room if math.isinf(room) else room // len(division.lanes)
        plans = []
        for number, (part, lane) in enumerate(zip(*division, strict=True)):
            other = self._lane(part, lane.peak + more, number == 0)
            best = other if other.plan.cost < lane.plan.cost else lane
            plans.append(replace(best.plan, budget=lane.peak + more))
        return plans

    # ------------------------------------------------------------ divisions

    def _improved(
        self, starts: Iterator[Parts], sketch: _Sketch, workers: int, least: Seconds
    ) -> _Division | None:
        """Return the best division that is found from some on by small changes.

        Always the best one so far that has changes left is changed next.
        """
        best: _Division | None = None
        seen: set[frozenset[frozenset[int]]] = set()
        queue = [([-math.inf], 0, starts)]
        in_vain = 0
        while queue and in_vain < _PATIENCE and (best is None or best.badness[0] > least):
            parts = next(queue[0][2], None)
            if parts is None:
                heappop(queue)
            elif frozenset(parts) not in seen:
                seen.add(frozenset(parts))
                if best and (self.tries <= 0 or monotonic() > self.until):
                    break
                most = _DETOUR * best.badness[0] if best else math.inf
                in_vain += 1
                if found := self._shared_out(parts, most):
                    heappush(queue, (found.badness, len(seen), _changes(found, sketch, workers)))
                    if best is None or found.badness < best.badness:
                        best, in_vain = found, 0
        return best

    def _shared_out(self, parts: Parts, most: Seconds = math.inf) -> _Division | None:
        """Return a division with the split of the budget that is best for it.

        Each lane has all of the budget at first.  As long as they have too much together, the one
        that is the earliest done with less has less: so none has less than it needs to be done at
        the time when the last one will be.

        Parameters
        ----------
        most
            Return None if the last lane is not done by then.
        """
        lanes = [self._lane(part, self.budget, part is parts[0]) for part in parts]
        while sum(lane.peak for lane in lanes) > self.budget:
            if _rounded(max(lane.plan.cost for lane in lanes)) > most:
                return None
            less = {
                number: self._lane(part, self._less_than(lane.peak), number == 0)
                for number, (part, lane) in enumerate(zip(parts, lanes, strict=True))
                if lane.peak > 0
            }
            first = min(less, key=lambda number: less[number].plan.cost)
            lanes[first] = less[first]
        longest = max(range(len(lanes)), key=lambda number: lanes[number].plan.cost)
        room = self.budget - sum(lane.peak for lane in lanes)
        more = self._lane(parts[longest], lanes[longest].peak + room, longest == 0)
        if more.plan.cost < lanes[longest].plan.cost:
            lanes[longest] = more
        return _Division(parts, tuple(lanes))

    def _less_than(self, peak: float) -> float:
        """Return the next smaller share to try."""
        nodes = len(self.whole)
        if nodes <= 24:
            return peak - 1
        return peak * 7 // 8 if nodes <= 100 else peak * 3 // 4 if nodes <= 1000 else peak // 2

    def _holder_first(self, parts: Iterable[frozenset[int]]) -> Parts:
        """Return parts, first the one for which the states in memory are worth most."""
        whole = self.whole
        some = [part for part in parts if part]
        worth = [0.0] * len(some)
        for node in whole.held:
            below = _leaves_below(whole, node)
            for number, part in enumerate(some):
                if not part.isdisjoint(below):
                    worth[number] += whole.way(FRESH, node)
        first = max(range(len(some)), key=worth.__getitem__)
        return (some[first], *some[:first], *some[first + 1 :])

    # ------------------------------------------------------------ plans

    def _lane(self, part: frozenset[int], share: float, is_first: bool) -> _Lane:
        """Return the plan of one engine."""
        has_held = is_first and bool(self.whole.held)
        known = self._known.setdefault((part, has_held), [])
        for lane in known:
            if lane.peak <= share <= lane.share:
                return lane
        held = tuple(state for state in self.held if has_held or state.load is not None)
        problem = self._problem(sorted(part), share, held)
        plan = self._solved(problem)
        peak = 0.0
        if not math.isinf(share):
            peak = max(
                (moment.bytes for moment in timed(problem, _moves(problem, plan))), default=0
            )
        self.tries -= 1
        known.append(_Lane(plan, min(peak, share), share))
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
        return _rounded(max(work / workers, longest))


def _changes(division: _Division, sketch: _Sketch, workers: int) -> Iterator[Parts]:
    """Yield divisions in which the longest lane has other versions, the most promising first.

    Some are moved to another lane, which may be new, or exchanged for some of another lane.
    """
    costs = [lane.plan.cost for lane in division.lanes]
    longest = max(range(len(costs)), key=costs.__getitem__)
    parts = division.parts
    if len(parts) < workers:
        parts, costs = (*parts, frozenset()), [*costs, 0.0]
    counts = [sketch.counts(part) for part in parts]
    found: list[tuple[Seconds, int, int, int]] = []
    for lane, cost in enumerate(costs):
        if lane != longest:
            there = sketch.transfers(counts[longest], counts[lane])
            back = sketch.transfers(counts[lane], counts[longest])
            for estimate, node, other in _exchanges(costs[longest], cost, there, back):
                found.append((estimate, lane, node, other))
    for _, lane, node, other in nsmallest(100, found):
        given = parts[longest] & sketch.leaves_below(node)
        taken = parts[lane] & sketch.leaves_below(other) if other else frozenset()
        changed = list(parts)
        changed[longest] = changed[longest] - given | taken
        changed[lane] = changed[lane] - taken | given
        yield tuple(part for part in changed if part)


def _exchanges(
    long: Seconds, short: Seconds, there: Iterable[_Transfer], back: Iterable[_Transfer]
) -> Iterator[tuple[Seconds, int, int]]:
    """Yield when the later of two lanes is done if some versions are moved there, and some back."""

    def later(one: _Transfer, other: _Transfer) -> Seconds:
        return max(long - one.saved + other.added, short + one.added - other.saved)

    nothing = _Transfer(0, 0.0, 0.0)
    # The best of each kind only, as there may be a thousand of them.
    some = [nothing, *nsmallest(50, back, key=lambda other: other.added)]
    for one in nsmallest(50, there, key=lambda one: later(one, nothing)):
        for other in some:
            yield later(one, other), one.node, other.node


def _moves(problem: Problem, plan: Plan) -> list[Move]:
    number = {node: number for number, node in enumerate(problem.ids)}
    return [Move(action, number[node]) for action, node in plan.steps]


def _leaves_below(problem: Problem, node: int) -> frozenset[int]:
    found = []
    waiting = [node]
    while waiting:
        at = waiting.pop()
        waiting += problem.children[at]
        if not problem.children[at]:
            found.append(at)
    return frozenset(found)


def _whole_bytes(value: float) -> float:
    """Return a number of bytes rounded down, as sizes are whole numbers and shares must add up."""
    return value if math.isinf(value) else math.floor(value)


def _rounded(value: Seconds) -> Seconds:
    """Return a sum so that it is the same whatever order its parts were added in."""
    return float(f"{value:.9g}")


# ---------------------------------------------------------------- estimates


class _Transfer(NamedTuple):
    """What it means to move all that one part has below a node to another part."""

    node: int
    saved: Seconds
    """What the first part does not cost any more."""
    added: Seconds
    """What the other one costs in addition."""


class _Sketch:
    """A trace as far as it branches, numbered in preorder: what leads to versions costs once."""

    def __init__(self, trace: Trace) -> None:
        children = trace.children(trace.ends)
        leaf = {place: leaf for leaf, place in trace.ends.items()}
        self.parent = [-1]
        self.cost = [0.0]
        self.leaf = [FRESH]
        """The leaf that each is; FRESH if it is none."""
        waiting = [(place, 0) for place in reversed(children[0])]
        while waiting:
            place, parent = waiting.pop()
            cost = trace.cost[place]
            while len(children[place]) == 1:
                (place,) = children[place]
                cost += trace.cost[place]
            self.parent.append(parent)
            self.cost.append(cost)
            self.leaf.append(leaf.get(place, FRESH))
            number = len(self.parent) - 1
            waiting += [(child, number) for child in reversed(children[place])]
        self.end = [number + 1 for number in range(len(self.parent))]
        """The number after the last one below each."""
        for node in range(len(self.parent) - 1, 0, -1):
            parent = self.parent[node]
            self.end[parent] = max(self.end[parent], self.end[node])

    def leaves_below(self, node: int) -> frozenset[int]:
        return frozenset(leaf for leaf in self.leaf[node : self.end[node]] if leaf != FRESH)

    def counts(self, part: frozenset[int]) -> list[int]:
        """Return how many leaves of a part are below each node, itself included."""
        found = [int(leaf in part) for leaf in self.leaf]
        for node in range(len(found) - 1, 0, -1):
            found[self.parent[node]] += found[node]
        return found

    def cost_of(self, counts: Sequence[int]) -> Seconds:
        """Return what computing whatever leads to leaves of a part costs."""
        return math.fsum(cost for cost, count in zip(self.cost, counts, strict=True) if count)

    def transfers(self, source: Sequence[int], target: Sequence[int]) -> Iterator[_Transfer]:
        """Yield what may be moved from a part with some counts to another one."""
        saved = [cost if count else 0.0 for cost, count in zip(self.cost, source, strict=True)]
        added = [0.0 if count else cost for cost, count in zip(saved, target, strict=True)]
        for node in range(len(saved) - 1, 0, -1):
            saved[self.parent[node]] += saved[node]
            added[self.parent[node]] += added[node]
        above = [0.0] * len(saved)
        missing = [0.0] * len(saved)
        for node in range(1, len(saved)):
            parent = self.parent[node]
            if source[node] == source[parent]:
                above[node] = above[parent] + self.cost[parent]
            if not target[parent]:
                missing[node] = missing[parent] + self.cost[parent]
            if source[node]:
                yield _Transfer(node, saved[node] + above[node], added[node] + missing[node])

    # ------------------------------------------------------------ divisions

    def divided(self, workers: int) -> list[list[frozenset[int]]]:
        """Return divisions of the leaves, the one with the best estimate first."""
        starts = (self._cut(workers), self._dealt(workers))
        found = {tuple(self._balanced(parts)): None for parts in starts}
        return sorted((list(parts) for parts in found), key=self._makespan)

    def _makespan(self, parts: Sequence[frozenset[int]]) -> Seconds:
        return max(self.cost_of(self.counts(part)) for part in parts)

    def _cut(self, workers: int) -> list[frozenset[int]]:
        """Return ranges of the leaves, so that the longest is as short as possible."""
        low, high = 0.0, math.fsum(self.cost)
        best = [self.leaves_below(0)]
        for _ in range(50):
            middle = (low + high) / 2
            ranges = self._ranges(middle)
            if len(ranges) <= workers:
                best, high = ranges, middle
            else:
                low = middle
        return best + [frozenset()] * (workers - len(best))

    def _ranges(self, most: Seconds) -> list[frozenset[int]]:
        """Return ranges of leaves each of which costs so much at most, if a single one does not."""
        path = [0.0] * len(self.cost)
        found: list[list[int]] = []
        total, last = math.inf, 0
        for node in range(1, len(self.cost)):
            path[node] = path[self.parent[node]] + self.cost[node]
            if self.leaf[node] == FRESH:
                continue
            common = last
            while not common <= node < self.end[common]:
                common = self.parent[common]
            total += path[node] - path[common]
            if total > most:
                found.append([])
                total = path[node]
            found[-1].append(self.leaf[node])
            last = node
        return [frozenset(part) for part in found]

    def _dealt(self, workers: int) -> list[frozenset[int]]:
        """Return parts to which subtrees were dealt out, the longest first."""
        saved = list(self.cost)
        children: list[list[int]] = [[] for _ in saved]
        for node in range(len(saved) - 1, 0, -1):
            saved[self.parent[node]] += saved[node]
            children[self.parent[node]].append(node)
        units = [(-saved[0], 0)]
        single: list[tuple[Seconds, int]] = []
        while units and len(units) + len(single) < 8 * workers:
            cost, node = heappop(units)
            if not children[node]:
                single.append((cost, node))
            for child in children[node]:
                heappush(units, (-saved[child], child))
        parts: list[set[int]] = [set() for _ in range(workers)]
        used: list[set[int]] = [{0} for _ in range(workers)]
        costs = [0.0] * workers
        for cost, node in sorted(units + single):
            after = []
            for lane in range(workers):
                at, total = self.parent[node], costs[lane] - cost
                while at not in used[lane] and at > 0:
                    total += self.cost[at]
                    at = self.parent[at]
                after.append(total)
            lane = min(range(workers), key=after.__getitem__)
            costs[lane] = after[lane]
            parts[lane] |= self.leaves_below(node)
            at = self.parent[node]
            while at > 0 and at not in used[lane]:
                used[lane].add(at)
                at = self.parent[at]
        return [frozenset(part) for part in parts]

    def _balanced(self, parts: list[frozenset[int]]) -> list[frozenset[int]]:
        """Return parts from which no subtree can be moved so that the longest lane gets shorter."""
        parts = list(parts)
        for _ in range(20 + 100_000 // len(self.cost)):
            counts = [self.counts(part) for part in parts]
            costs = [self.cost_of(count) for count in counts]
            longest = max(range(len(parts)), key=costs.__getitem__)
            best = costs[longest], -1, -1
            for lane, cost in enumerate(costs):
                if lane == longest:
                    continue
                for node, saved, added in self.transfers(counts[longest], counts[lane]):
                    best = min(best, (max(costs[longest] - saved, cost + added), lane, node))
            _, lane, node = best
            if _rounded(best[0]) >= _rounded(costs[longest]):
                break
            moved = parts[longest] & self.leaves_below(node)
            parts[longest] -= moved
            parts[lane] |= moved
        return parts
