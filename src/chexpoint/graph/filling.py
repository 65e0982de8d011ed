"""The order in which artifacts are stored: Algorithm 1 of the seed paper, step by step.

Derakhshan et al., "Optimizing Machine Learning Workloads in Collaborative Environments", SIGMOD
2020, section 5.  With f the frequency, s the size, C_r the recreation cost, C_l the load cost and p
the potential of an artifact, its utility is 0 if C_l >= C_r, else

    alpha * p / sum(p) + (1 - alpha) * r / sum(r),   r = f * C_r / s.

Here everything in r is *marginal*, that is, if those taken before are stored: s is the bytes that
the artifact adds, and C_r what computing it takes from what is there, of which C_l is taken off,
because what is next to something stored saves almost nothing.  f counts how often it would be
loaded: for itself, and for all that was computed from it and is not stored.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from chexpoint.graph.ancestry import Ancestry, members
from chexpoint.graph.shelf import Shelf, Sizes
from chexpoint.graph.utility import LoadRates
from chexpoint.model import Artifact, Bytes, Digest, Seconds

STAY = 1.1
"""What is stored stays unless something else is better by this factor."""


@dataclass(frozen=True, slots=True)
class Filling:
    """Artifacts in the order in which they are taken; any beginning of it is a choice."""

    items: tuple[int, ...]
    sizes: tuple[Bytes, ...]
    """What the first one takes, the first two, and so on."""
    is_complete: bool
    """Whether all that is worth storing is in it."""

    def within(self, budget: Bytes) -> frozenset[int]:
        """Return as many of the first as take no more than a budget."""
        return frozenset(
            item for item, size in zip(self.items, self.sizes, strict=True) if size <= budget
        )


class Candidates:
    """Artifacts that can be stored, and what each is worth."""

    def __init__(
        self,
        ancestry: Ancestry,
        items: Sequence[int],
        *,
        base: Collection[int],
        stored: Collection[int],
        alpha: float,
        rates: LoadRates,
        write_s: Callable[[Artifact], Seconds] = lambda _: 0.0,
    ) -> None:
        """Get to know the candidates.

        Parameters
        ----------
        base
            Artifacts that can be loaded whatever is chosen.
        stored
            Which of the candidates are stored now.
        write_s
            What storing one of the others takes, which it must save as well.
        """
        self.ancestry = ancestry
        self.sizes = Sizes(ancestry)
        self.items = tuple(items)
        self.stored = frozenset(stored)
        self.write_s = {n: write_s(ancestry.artifacts[n]) for n in {*items} - self.stored}
        self.load_s = {
            n: rates.load_s(ancestry.artifacts[n]) + self.write_s.get(n, 0.0)
            for n in (*items, *base)
        }
        """What loading takes, after writing if need be."""
        # A number that a cell computes at once is not worth loading, although it is there.
        self.base = frozenset(n for n in base if self.load_s[n] < ancestry.recreation(n))
        self._base_s = {n: self.load_s[n] for n in self.base}
        self._numbers = (*self.items, *sorted(self.base))
        self._bits = {number: 1 << bit for bit, number in enumerate(self._numbers)}
        self._all = self.set_of(self.items)
        self._always = self.set_of(self.base)
        self._above = ancestry.above(self._bits)
        self._below = self._find_below()
        self._readers: dict[int, list[int]] = {}
        self._next: list[set[int]] = [set() for _ in ancestry.operations]
        for operation, reads in enumerate(ancestry.reads):
            for read in reads:
                self._readers.setdefault(read, []).append(operation)
                self._next[ancestry.maker[read]].add(operation)
        self._makers = {ancestry.maker[number] for number in self._numbers}
        self._made_wanted = [sum(map(self._wanted, made)) for made in ancestry.made]
        self._gains: dict[tuple[int, int], Seconds] = {}
        self._loads: dict[tuple[int, int], int] = {}
        self._alpha = alpha
        self.holders: dict[Digest, list[int]] = {}
        for item in self.items:
            for digest in dict(ancestry.artifacts[item].group.parts):
                self.holders.setdefault(digest, []).append(item)

    def _find_below(self) -> dict[int, int]:
        """Return for each candidate the set of those that were computed from it."""
        found: dict[int, int] = {}
        for item in self.items:
            for bit in members(self._above.get(self.ancestry.maker[item], 0) & self._all):
                above = self._numbers[bit]
                found[above] = found.get(above, 0) | self._bits[item]
        return found

    @cached_property
    def _best(self) -> dict[int, float]:
        # Scores are said to be between 0 and 1; others are taken for the nearest.
        potentials = self.ancestry.potentials()
        return {n: min(max(potentials[n] or 0.0, 0.0), 1.0) for n in self.items}

    @cached_property
    def _all_best(self) -> float:
        return math.fsum(self._best.values()) or 1.0

    @cached_property
    def _all_rates(self) -> float:
        shelf = Shelf(self.sizes)
        rates = [self.worth_s(n, 0) / max(shelf.added(n), 1) for n in self.items]
        return math.fsum(rates) or 1.0

    def set_of(self, items: Iterable[int]) -> int:
        """Return candidates as a set of bits."""
        return sum(self._bits[each] for each in items)

    def gain_s(self, item: int, kept: int) -> Seconds:
        """Return what loading an artifact saves at most if some others, a set, are kept."""
        maker = self.ancestry.maker[item]
        key = (item, (kept | self._always) & self._above.get(maker, 0))
        if key not in self._gains:
            again = self.ancestry.recreation(item)
            if key[1]:
                loadable = (self._numbers[bit] for bit in members(key[1] & self._all))
                loads = self._base_s | {each: self.load_s[each] for each in loadable}
                again = self.ancestry.marginal(
                    item, loads, lambda each: bool(self._above.get(each, 0) & key[1])
                )
            self._gains[key] = again - self.load_s[item]
        return self._gains[key]

    def loads(self, item: int, kept: int) -> int:
        """Return how often an artifact would be loaded if some others are kept."""
        ancestry, kept = self.ancestry, kept | self._always
        found = self._wanted(item)
        visited: set[int] = set()
        waiting = list(self._readers.get(item, ()))
        while waiting:
            operation = waiting.pop()
            if operation in visited:
                continue
            visited.add(operation)
            if operation not in self._makers:
                # Nothing that it made can be kept.
                found += self._made_wanted[operation]
                waiting += self._next[operation]
                continue
            for made in ancestry.made[operation]:
                if not self._bits.get(made, 0) & kept:
                    found += self._wanted(made)
                    waiting += self._readers.get(made, ())
        return found

    def _wanted(self, artifact: int) -> int:
        return max(self.ancestry.artifacts[artifact].frequency, 0)

    def worth_s(self, item: int, kept: int) -> Seconds:
        """Return what an artifact saves altogether; nothing if that is not more than 0."""
        gain = self.gain_s(item, kept)
        if gain <= 0:
            return 0.0
        key = (item, kept & self._below.get(item, 0))
        if key not in self._loads:
            self._loads[key] = self.loads(item, kept)
        return self._loads[key] * gain

    def utility(self, item: int, worth_s: Seconds, size_bytes: Bytes) -> float:
        """Return what an artifact is worth beside others; 0 if it saves nothing."""
        if worth_s <= 0:
            return 0.0
        return self.blend(item, worth_s / max(size_bytes, 1) / self._all_rates)

    def blend(self, item: int, rate: float) -> float:
        """Return what an artifact is worth, from its share of all that can be saved."""
        return self._alpha * self._best[item] / self._all_best + (1 - self._alpha) * rate


@dataclass(slots=True)
class _Run:
    """One pass over the candidates, the best first.

    Utilities are kept in a heap and brought up to date when they come to its top: those that are
    old are too high, because with more in store there is less to save.  An artifact gains by
    sharing arrays with one that is taken, and then it is entered anew.
    """

    candidates: Candidates
    shelf: Shelf
    taken: dict[int, Bytes] = field(default_factory=dict)
    kept: int = 0
    """The same as a set."""
    worths: dict[int, Seconds] = field(default_factory=dict)
    heap: list[tuple[float, int]] = field(default_factory=list)
    newest: dict[int, float] = field(default_factory=dict)

    def enter(self, item: int) -> None:
        key = self._key(item)
        if self.newest.get(item) != key:
            self.newest[item] = key
            heapq.heappush(self.heap, (key, item))

    def _key(self, item: int) -> float:
        utility = self.candidates.utility(item, self.worths[item], self.shelf.added(item))
        return -utility * (STAY if item in self.candidates.stored else 1)

    def next(self) -> int | None:
        """Return the best that is left, or None."""
        while self.heap:
            key, item = heapq.heappop(self.heap)
            if self.newest.get(item) != key:
                continue
            del self.newest[item]
            self.worths[item] = self.candidates.worth_s(item, self.kept)
            if self.worths[item] <= 0:
                continue  # and with more in store it will not be worth more
            if self.heap and self._key(item) > self.heap[0][0]:
                self.enter(item)
                continue
            return item
        return None

    def take(self, item: int) -> None:
        new = self.shelf.put(item)
        self.taken[item] = self.shelf.size_bytes
        self.kept |= self.candidates.set_of([item])
        others = {each for digest in new for each in self.candidates.holders[digest]}
        for each in sorted(others):
            if each not in self.taken and self.worths.get(each, 0.0) > 0:
                self.enter(each)

    def result(self, *, is_complete: bool) -> Filling:
        return Filling(tuple(self.taken), tuple(self.taken.values()), is_complete)


def fill(
    candidates: Candidates,
    budget: Bytes,
    *,
    first: Sequence[int] = (),
    most_bytes: float = math.inf,
) -> Filling:
    """Return artifacts in the order of their marginal utility, until one does not fit.

    A smaller budget gives a beginning of what a greater one gives.

    Parameters
    ----------
    first
        These come first, in this order.
    most_bytes
        Artifacts that add more than this are passed over.
    """
    run = _Run(candidates, Shelf(candidates.sizes))
    for item in first:
        if run.shelf.size_bytes + run.shelf.added(item) > budget:
            return run.result(is_complete=False)
        run.take(item)
    for item in candidates.items:
        if item not in run.taken:
            run.worths[item] = candidates.worth_s(item, 0)
            run.enter(item)
    while (best := run.next()) is not None:
        added = run.shelf.added(best)
        if added > most_bytes:
            continue  # it is entered again when it comes to share arrays with others
        if run.shelf.size_bytes + added > budget:
            return run.result(is_complete=False)
        run.take(best)
    return run.result(is_complete=True)
