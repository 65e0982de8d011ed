"""The most versions that can be replayed in a given time, those that are soon done first.

What a plan computes is a tree again, its trace: each computation is below the one whose state it
goes on from, and what is computed twice is there twice.  To replay some versions only, in the
plan's way, costs at most what their paths in the trace cost together, each computation once; the
budget is no question any more.  So the most versions that a plan can reach in a given time, with
whatever is not needed for them left out, are a knapsack on a tree.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import accumulate
from time import monotonic

import numpy as np
import numpy.typing as npt

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, HeldState, NodeId, Plan, Seconds, StepCosts
from chexpoint.plan.problem import FRESH, Move, Problem
from chexpoint.plan.rows import moves_of, rows_by_urgency, rows_of
from chexpoint.plan.solving import solve
from chexpoint.plan.trace import Trace, each_once, timed, trace_of

_KNAPSACK_LEAVES = 3000
"""The knapsack's time and memory grow with the square of the versions; beyond, be greedy."""


def most_versions(
    tree: ExecutionTree,
    budget: float,
    within: Seconds,
    *,
    planner: str,
    costs: StepCosts | None,
    held: Iterable[HeldState] = (),
    seconds: Seconds,
    leaves: Iterable[NodeId] | None = None,
) -> Plan:
    """Return a plan for as many versions as can be replayed in a given time.

    There are never fewer than the beginning of the planner's plan for all of them reaches in that
    time, nor than the cheapest ones replayed one after the other without checkpoints.

    Parameters
    ----------
    within
        What the plan may cost.
    planner
        The planner that is asked, for all versions first and then for some of them.
    seconds
        How long to search.
    leaves
        Choose from these only; from all versions if none are given.

    Raises
    ------
    InvalidValue
        If the time is not a number that is at least 0, or a `Problem` would refuse the rest.
    """
    if not _is_time(within):
        raise InvalidValue(f"the time to replay in is not a number of seconds >= 0: {within!r}")
    states = tuple(held)
    whole = Problem(tree, budget, costs=costs, held=states, leaves=leaves)
    search = _Search(tree, whole, states, within, planner, seconds)
    if search.full.cost <= within:
        return search.full
    return search.finished(search.best())


def _is_time(value: object) -> bool:
    return not isinstance(value, bool) and isinstance(value, int | float) and value >= 0


class _Search:
    """Plans that are done in time, found by trial and error."""

    def __init__(
        self,
        tree: ExecutionTree,
        whole: Problem,
        held: tuple[HeldState, ...],
        within: Seconds,
        planner: str,
        seconds: Seconds,
    ) -> None:
        self.tree = tree
        self.whole = whole
        self.held = held
        self.within = within
        self.planner = planner
        self.until = monotonic() + seconds
        # A number and not the clock alone, so that the same question has the same answer.
        self.tries = 0 if len(whole) > 20_000 else min(200, max(6, 20_000 // len(whole)))
        self.number = {node: number for number, node in enumerate(whole.ids)}
        self.full = solve(whole, planner, seconds=seconds / 2)
        self._tried: set[frozenset[int]] = set()

    def best(self) -> Plan:
        """Return a plan for the most versions that were found."""
        best = max(self._in_time(self.full), self._one_by_one(), key=_goodness)
        if self.tries:
            at_best = Choices(each_once(self.whole), self.within)
            as_planned = Choices(trace_of(self.whole, self._moves(self.full)), math.inf)
            best = self._halved(best, at_best.most, (at_best, as_planned))
            best = self._grown(best, at_best.most)
        return best

    def finished(self, plan: Plan) -> Plan:
        """Return a plan with its versions in the best order, and what is known about them."""
        if not plan.versions:
            note = f"no version can be replayed in {self.within:.12g} s"
            return replace(plan, notes=(*plan.notes, note))
        plan = self._soonest_first(plan)
        alone = self._problem(self.number[node] for node in plan.versions)
        return replace(
            plan,
            lower_bound=min(plan.cost, max(plan.lower_bound, alone.each_once_cost())),
            no_cache_cost=alone.no_cache_cost(),
        )

    # ------------------------------------------------------------ which versions

    def _halved(self, best: Plan, most: int, families: Sequence[Choices]) -> Plan:
        """Return the best plan for so many versions as are chosen first, found by bisection."""
        high = most
        while len(best.versions) < high:
            middle = (len(best.versions) + high + 1) // 2
            best = self._tried_with(best, middle, families)
            if len(best.versions) < middle:
                high = middle - 1
        # More versions cost more as a rule, but not always.
        for number in range(high + 1, min(high + 3, most) + 1):
            best = self._tried_with(best, number, families)
        return best

    def _tried_with(self, best: Plan, number: int, families: Sequence[Choices]) -> Plan:
        for family in families:
            if number <= family.most:
                best = max(best, self._attempt(family.leaves(number)), key=_goodness)
        return best

    def _grown(self, best: Plan, most: int) -> Plan:
        """Return a plan that one more version to choose from does not make better."""
        before = None
        while best is not before and len(best.versions) < most:
            before = best
            chosen = {self.number[node] for node in best.versions}
            for leaf in self._by_what_they_add(chosen):
                best = max(best, self._attempt({*chosen, leaf}), key=_goodness)
                if best is not before or not self._may_go_on():
                    break
        return best

    def _by_what_they_add(self, chosen: Collection[int]) -> list[int]:
        """Return the other leaves, those that have most in common with the chosen ones first."""
        whole = self.whole
        near = {FRESH, *whole.held, *whole.loads}
        for leaf in chosen:
            at = leaf
            while at not in near:
                near.add(at)
                at = whole.parent[at]

        def added(leaf: int) -> Seconds:
            at = whole.parent[leaf]
            while at not in near:
                at = whole.parent[at]
            return whole.way(at, leaf)

        return sorted((leaf for leaf in whole.leaves if leaf not in chosen), key=added)

    # ------------------------------------------------------------ plans

    def _may_go_on(self) -> bool:
        return self.tries > 0 and monotonic() < self.until

    def _attempt(self, leaves: Iterable[int]) -> Plan:
        """Return a plan that is done in time for these leaves, or for some of them."""
        chosen = frozenset(leaves)
        if chosen in self._tried or not chosen or not self._may_go_on():
            return self._plan([])
        self._tried.add(chosen)
        self.tries -= 1
        some = self._problem(chosen)
        left = max(0.0, self.until - monotonic())
        found = solve(some, self.planner, seconds=left / 4)
        moves = [*self._evictions({self.number[node] for node in some.ids}), *self._moves(found)]
        return self._in_time(
            replace(self._plan(moves), lower_bound=found.lower_bound, notes=found.notes)
        )

    def _one_by_one(self) -> Plan:
        """Return a plan that replays the cheapest versions without checkpoints."""
        whole = self.whole
        cheapest = sorted(whole.leaves, key=lambda leaf: whole.way(FRESH, leaf))
        times = accumulate(whole.way(FRESH, leaf) + whole.costs.fresh for leaf in cheapest)
        limit = self.within + whole.costs.fresh
        chosen = [leaf for leaf, time in zip(cheapest, times, strict=True) if time <= limit]
        if not chosen:
            return self._plan([])
        alone = solve(
            Problem(self.tree, 0, costs=whole.costs, leaves=self._names(chosen)),
            "none",
            seconds=0.0,
        )
        plain = self._plan([*self._evictions(()), *self._moves(alone)])
        return max(self._in_time(plain), self._attempt(chosen), key=_goodness)

    def _in_time(self, plan: Plan) -> Plan:
        """Return a plan, or as much of it as is done in time."""
        if plan.cost <= self.within:
            return plan
        moves = self._moves(plan)
        is_end = set(self.whole.leaves)
        ends = [n for n, (do, node) in enumerate(moves, 1) if do == "compute" and node in is_end]
        reached = bisect_right(ends, self.within, key=lambda end: self.whole.price(moves[:end]))
        found = self._plan(moves[: ends[reached - 1]] if reached else [])
        trace = trace_of(self.whole, moves)
        choice = Choices(trace, self.within)
        if choice.most > reached:
            rows = rows_of(trace, choice.leaves(choice.most))
            part = self._plan(moves_of(self.whole, trace, rows))
            if part.cost <= self.within and self._finish(part) < math.inf:
                found = part
        return replace(found, notes=plan.notes)

    def _soonest_first(self, plan: Plan) -> Plan:
        """Return the plan with its rows in the order in which versions are done early."""
        trace = trace_of(self.whole, self._moves(plan))
        leaves = [self.number[node] for node in plan.versions]
        best = plan
        for order in (rows_of(trace, leaves), rows_by_urgency(trace, leaves)):
            other = self._plan(moves_of(self.whole, trace, order))
            if other.cost <= plan.cost and self._finish(other) < self._finish(best):
                best = replace(other, lower_bound=plan.lower_bound, notes=plan.notes)
        return best

    def _finish(self, plan: Plan) -> Seconds:
        """Return the sum of the times at which versions are done; infinity if the plan is wrong."""
        ends = {self.number[node] for node in plan.versions}
        total = 0.0
        for moment in timed(self.whole, self._moves(plan)):
            if not moment.bytes <= self.whole.budget:
                return math.inf
            if moment.move.action == "compute" and moment.move.node in ends:
                ends.remove(moment.move.node)
                total += moment.time
        return total

    def _plan(self, moves: Sequence[Move]) -> Plan:
        """Return moves as a plan that leaves out what they do not reach."""
        whole = self.whole
        computed = dict.fromkeys(node for action, node in moves if action == "compute")
        steps = whole.steps(moves)
        return Plan(
            planner=self.planner,
            budget=whole.budget,
            cost=whole.price(moves),
            lower_bound=0.0,
            no_cache_cost=0.0,
            steps=steps,
            versions=self._names(node for node in computed if not whole.children[node]),
            left_out=self._names(leaf for leaf in whole.leaves if leaf not in computed),
        )

    def _problem(self, leaves: Iterable[int]) -> Problem:
        """Return the problem of replaying some leaves only."""
        whole = self.whole
        names = self._names(leaves)
        return Problem(self.tree, whole.budget, costs=whole.costs, held=self.held, leaves=names)

    def _evictions(self, needed: Collection[int]) -> list[Move]:
        """Return moves that evict what is in memory at the start and not needed."""
        return [Move("evict", node) for node in self.whole.held if node not in needed]

    def _moves(self, plan: Plan) -> list[Move]:
        return [Move(action, self.number[node]) for action, node in plan.steps]

    def _names(self, nodes: Iterable[int]) -> tuple[NodeId, ...]:
        return tuple(name for node in nodes if (name := self.whole.ids[node]) is not None)


def _goodness(plan: Plan) -> tuple[int, Seconds]:
    """Return what orders plans that are done in time: the best last."""
    return len(plan.versions), -plan.cost


# ---------------------------------------------------------------- which versions


class Choices:
    """For each number of versions those of a trace that cost least together.

    A knapsack on a tree: how many to choose below a place is how many to choose below each of its
    children.  Where there are too many versions for that they are chosen greedily.
    """

    def __init__(self, trace: Trace, within: Seconds) -> None:
        self._children = trace.children(trace.ends)
        self._leaf = {place: leaf for leaf, place in trace.ends.items()}
        self._splits: dict[int, npt.NDArray[np.int64]] = {}
        self._greedy: list[int] = []
        if len(trace.ends) > _KNAPSACK_LEAVES:
            rows = rows_by_urgency(trace, trace.ends)
            times = accumulate(row.cost for row in rows)
            self.most = sum(time <= within for time in times)
            self._greedy = [self._leaf[row.places[-1]] for row in rows]
        else:
            self.most = self._filled(trace, within)

    def leaves(self, number: int) -> list[int]:
        """Return so many leaves, at most as many as there are choices for."""
        if self._greedy:
            return self._greedy[:number]
        found = []
        waiting = [(0, number)]
        while waiting:
            place, wanted = waiting.pop()
            if wanted and place in self._leaf:
                found.append(self._leaf[place])
            elif wanted:
                first, *others = self._children[place]
                for child in reversed(others):
                    part = int(self._splits[child][wanted])
                    waiting.append((child, part))
                    wanted -= part
                waiting.append((first, wanted))
        return found

    def _filled(self, trace: Trace, within: Seconds) -> int:
        """Fill the tables, and return for how many versions there is time."""
        tables: dict[int, npt.NDArray[np.float64]] = {}
        for place in range(len(trace.node) - 1, -1, -1):
            if place in self._leaf:
                table = np.zeros(2)
            elif self._children[place]:
                first, *others = self._children[place]
                table = tables.pop(first)
                for child in others:
                    table, self._splits[child] = _merged(table, tables.pop(child))
            else:
                continue
            table[1:] += trace.cost[place]
            tables[place] = table[: np.searchsorted(table, within, side="right")]
        return len(tables[0]) - 1


def _merged(
    one: npt.NDArray[np.float64], other: npt.NDArray[np.float64]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Return the least sums of an entry of each for each sum of their places.

    And which place of the other that is.
    """
    least = np.full(len(one) + len(other) - 1, math.inf)
    place = np.zeros(len(least), dtype=np.int64)
    is_other_short = len(other) < len(one)
    short, long = (other, one) if is_other_short else (one, other)
    for n, cost in enumerate(short):
        part = slice(n, n + len(long))
        sums = long + cost
        is_less = sums < least[part]
        least[part][is_less] = sums[is_less]
        place[part][is_less] = n if is_other_short else np.flatnonzero(is_less)
    return least, place
