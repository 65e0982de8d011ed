"""How much time a choice of stored artifacts saves, by exact plans.

Each artifact is taken to be wanted by itself, as often as it occurred.  What that takes is the cost
of the best plan: which operations to run and what to load.  Mostly the plan is plain, because each
artifact at the end of the way back takes less to load than its operation alone; the exact cut is
asked for the others only.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chexpoint.graph.ancestry import Ancestry
from chexpoint.graph.planning import plan_reuse
from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReuseProblem
from chexpoint.model import Seconds

# Cells in exact plans for one question; half a second or so.  Beyond that the plain plan counts.
_MOST_CELLS = 50_000

# Plans that are kept for the next choice, which is mostly the same for most operations.
_MOST_KNOWN = 50_000


@dataclass(frozen=True, slots=True)
class _Plain:
    """What it takes to run an operation if all is loaded that the way back comes to."""

    run: int
    """The operations, as a set."""
    seconds: Seconds
    """What they take."""
    loaded: frozenset[int]
    price: Seconds
    """What the best plan takes, which may be another one."""


class Savings:
    """The time that stored artifacts save; artifacts are numbers of an `Ancestry`."""

    def __init__(self, ancestry: Ancestry, loads: Mapping[int, Seconds]) -> None:
        """Ask about artifacts that are or may be stored.

        Parameters
        ----------
        loads
            What loading each of them takes.
        """
        self._ancestry = ancestry
        self._loads = loads
        self._wanted = [_wanted(ancestry, number) for number in range(len(ancestry.artifacts))]
        self._bit = {artifact: 1 << bit for bit, artifact in enumerate(loads)}
        self._above = ancestry.above(self._bit)
        self._known: dict[tuple[int, int], _Plain] = {}
        self._cells_left = _MOST_CELLS

    def saved_s(self, stored: Iterable[int]) -> Seconds:
        """Return what is saved if these are stored, against storing none."""
        ancestry, kept = self._ancestry, frozenset(stored)
        prices = self._prices(kept)
        saved = [
            self._wanted[artifact] * (ancestry.total[operation] - price)
            for operation, price in prices.items()
            for artifact in ancestry.made[operation]
        ]
        for artifact in kept:
            maker = ancestry.maker[artifact]
            if maker >= 0:
                price = prices.get(maker, ancestry.total[maker])
                saved.append(self._wanted[artifact] * max(0.0, price - self._loads[artifact]))
        return math.fsum(saved)

    def _prices(self, stored: frozenset[int]) -> dict[int, Seconds]:
        """Return what running each operation takes, with what must be run or loaded before it."""
        mask = sum(self._bit[each] for each in stored)
        plans: dict[int, _Plain] = {}
        for operation, above in self._above.items():
            key = (operation, above & mask)
            if key[1]:
                plan = self._known.get(key) or self._plan(operation, stored, plans)
                plans[operation] = plan
                if len(self._known) < _MOST_KNOWN:
                    self._known[key] = plan
        return {operation: plan.price for operation, plan in plans.items()}

    def _plan(self, operation: int, stored: frozenset[int], plans: Mapping[int, _Plain]) -> _Plain:
        """Return what an operation takes, from what those before it take."""
        ancestry = self._ancestry
        before, loaded = [], set()
        for read in ancestry.reads[operation]:
            if self._is_loaded(read, stored, plans):
                loaded.add(read)
            else:
                before.append(ancestry.maker[read])
                if before[-1] in plans:
                    loaded |= plans[before[-1]].loaded
        run, seconds = ancestry.union(
            operation,
            before,
            lambda each: plans[each].run if each in plans else ancestry.needs[each],
            lambda each: plans[each].seconds if each in plans else ancestry.total[each],
        )
        ends = frozenset(each for each in loaded if not run >> ancestry.maker[each] & 1)
        price = seconds + math.fsum(self._loads[each] for each in ends)
        if not self._is_plain(ends) and self._cells_left > 0:
            problem = self._problem(operation, stored, plans)
            self._cells_left -= len(problem.cells)
            exact = ancestry.seconds[operation] + plan_reuse(problem).seconds
            price = min(price, exact)
        return _Plain(run, seconds, ends, price)

    def _is_loaded(
        self, artifact: int, stored: frozenset[int], plans: Mapping[int, _Plain]
    ) -> bool:
        """Return whether loading takes less than computing, if nothing else is wanted."""
        if artifact not in stored:
            return False
        maker = self._ancestry.maker[artifact]
        price = plans[maker].price if maker in plans else self._ancestry.total[maker]
        return self._loads[artifact] < price

    def _is_plain(self, loaded: Iterable[int]) -> bool:
        """Return whether no operation could replace loads and take less, even by itself."""
        by_maker: dict[int, Seconds] = {}
        for each in loaded:
            maker = self._ancestry.maker[each]
            by_maker[maker] = by_maker.get(maker, 0.0) + self._loads[each]
        return all(load <= self._ancestry.seconds[maker] for maker, load in by_maker.items())

    def _problem(
        self, operation: int, stored: frozenset[int], plans: Mapping[int, _Plain]
    ) -> ReuseProblem:
        """Return the question of how to get what an operation reads."""
        ancestry = self._ancestry
        region = self._region(operation, stored, plans)
        # The first cell stands for all that is not worth running.
        cell = {each: place for place, each in enumerate(sorted(region), start=1)}
        read_by = [*ancestry.reads[operation], *(r for c in cell for r in ancestry.reads[c])]
        place = {read: number for number, read in enumerate(dict.fromkeys(read_by))}
        cells = [CellCost(NEVER)]
        for each in cell:
            reads = tuple(place[read] for read in ancestry.reads[each])
            cells.append(CellCost(ancestry.seconds[each], reads))
        artifacts = [
            ArtifactCost(
                cell.get(ancestry.maker[each], 0),
                self._loads[each] if self._is_loaded(each, stored, plans) else NEVER,
            )
            for each in place
        ]
        targets = frozenset(place[read] for read in ancestry.reads[operation])
        return ReuseProblem(tuple(cells), tuple(artifacts), targets)

    def _region(
        self, operation: int, stored: frozenset[int], plans: Mapping[int, _Plain]
    ) -> set[int]:
        """Return the operations before one that may be worth running."""
        ancestry = self._ancestry
        region: set[int] = set()
        waiting = [operation]
        while waiting:
            for read in ancestry.reads[waiting.pop()]:
                maker = ancestry.maker[read]
                if maker in region:
                    continue
                loaded = (
                    each for each in ancestry.made[maker] if self._is_loaded(each, stored, plans)
                )
                if self._is_loaded(read, stored, plans) and self._is_plain(loaded):
                    continue
                region.add(maker)
                waiting.append(maker)
        return region


def _wanted(ancestry: Ancestry, artifact: int) -> int:
    """Return how often an artifact is wanted: states of the process are not, for themselves."""
    found = ancestry.artifacts[artifact]
    is_state = all(name.startswith(":") for name in found.group.names)
    return 0 if is_state else max(found.frequency, 0)
