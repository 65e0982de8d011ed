"""Estimates of what engines side by side take, on the trace of one plan for all versions.

Computing some versions in that plan's way costs what their paths in the trace cost together.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappop, heappush, nsmallest
from typing import NamedTuple, TypeVar

from chexpoint.model import Seconds
from chexpoint.plan.problem import FRESH
from chexpoint.plan.trace import Trace

_Number = TypeVar("_Number", int, float)


def rounded(value: Seconds) -> Seconds:
    """Return a sum so that it is the same whatever order its parts were added in."""
    return float(f"{value:.9g}")


class _Part(NamedTuple):
    """Some of the leaves of a sketch."""

    counts: list[int]
    """How many of them are below each node, itself included."""
    is_bare: bool
    """Whether the engine has no memory for checkpoints."""


class _Transfer(NamedTuple):
    """What it means to move all that one part has below a node to another part."""

    node: int
    saved: Seconds
    """What the first part does not cost any more."""
    added: Seconds
    """What the other one costs in addition."""


class _Swap(NamedTuple):
    """Versions that the longest lane gives to another one, and what it may take for them."""

    later: Seconds
    """When the later of the two is done, about."""
    source: int
    target: int
    given: int
    """The node below which the longest lane gives all that it has."""
    taken: int
    """The node below which it takes all that the other lane has; 0 if it takes nothing."""

    def done(self, sketch: Sketch, parts: Sequence[frozenset[int]]) -> list[frozenset[int]]:
        """Return what parts are then."""
        found = list(parts)
        one, other = parts[self.source], parts[self.target]
        given = one & sketch.leaves_below(self.given)
        taken = other & sketch.leaves_below(self.taken) if self.taken else frozenset()
        found[self.source] = one - given | taken
        found[self.target] = other - taken | given
        return found


def _best_of(
    there: Iterable[_Transfer], back: Iterable[_Transfer], long: Seconds, short: Seconds
) -> Iterator[tuple[Seconds, int, int]]:
    """Yield when the later of two parts is done, with what is moved there and back."""
    nothing = _Transfer(0, 0.0, 0.0)

    def later(one: _Transfer, other: _Transfer) -> Seconds:
        return max(long - one.saved + other.added, short + one.added - other.saved)

    # The most promising of each kind only, as there may be thousands of them.
    taken = [nothing, *nsmallest(50, back, key=lambda other: other.added)]
    for one in nsmallest(50, there, key=lambda one: later(one, nothing)):
        for other in taken:
            yield later(one, other), one.node, other.node


class Sketch:
    """A trace as far as it branches, numbered in preorder.

    What leads to a version costs once, but an engine without memory pays for each version alone.
    """

    def __init__(self, trace: Trace, bare: Mapping[int, Seconds], slowdown: float) -> None:
        children = trace.children(trace.ends)
        leaf_at = {place: leaf for leaf, place in trace.ends.items()}
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
            self.cost.append(cost * slowdown)
            self.leaf.append(leaf_at.get(place, FRESH))
            number = len(self.parent) - 1
            waiting += [(child, number) for child in reversed(children[place])]
        self.bare = [bare.get(leaf, 0.0) for leaf in self.leaf]
        """What each leaf costs alone."""
        self.end = [number + 1 for number in range(len(self.parent))]
        """The number after the last one below each."""
        for node in range(len(self.parent) - 1, 0, -1):
            parent = self.parent[node]
            self.end[parent] = max(self.end[parent], self.end[node])

    def leaves_below(self, node: int) -> frozenset[int]:
        return frozenset(leaf for leaf in self.leaf[node : self.end[node]] if leaf != FRESH)

    def part(self, leaves: frozenset[int], *, is_bare: bool) -> _Part:
        counts = [int(leaf in leaves) for leaf in self.leaf]
        self._add_up(counts)
        return _Part(counts, is_bare)

    def cost_of(self, part: _Part) -> Seconds:
        costs = self.bare if part.is_bare else self.cost
        return math.fsum(cost for cost, count in zip(costs, part.counts, strict=True) if count)

    def transfers(self, source: _Part, target: _Part) -> Iterator[_Transfer]:
        """Yield what may be moved from a part to another one."""
        one, other = source.counts, target.counts
        saved = self._added_up(source, [bool(count) for count in one])
        added = self._added_up(target, [a > 0 and not b for a, b in zip(one, other, strict=True)])
        above = [0.0] * len(saved)
        missing = [0.0] * len(saved)
        for node in range(1, len(saved)):
            parent = self.parent[node]
            if one[node] == one[parent] and not source.is_bare:
                above[node] = above[parent] + self.cost[parent]
            if not other[parent] and not target.is_bare:
                missing[node] = missing[parent] + self.cost[parent]
            if one[node]:
                yield _Transfer(node, saved[node] + above[node], added[node] + missing[node])

    def swaps(self, parts: Sequence[_Part], costs: Sequence[Seconds]) -> Iterator[_Swap]:
        """Yield what may make the longest part shorter."""
        source = max(range(len(costs)), key=costs.__getitem__)
        for target in range(len(parts)):
            if target != source:
                there = self.transfers(parts[source], parts[target])
                back = self.transfers(parts[target], parts[source])
                for later, given, taken in _best_of(there, back, costs[source], costs[target]):
                    yield _Swap(later, source, target, given, taken)

    def _added_up(self, part: _Part, is_counted: Sequence[bool]) -> list[Seconds]:
        """Return what some nodes cost a part, for each node those below it together."""
        costs = self.bare if part.is_bare else self.cost
        found = [cost if is_so else 0.0 for cost, is_so in zip(costs, is_counted, strict=True)]
        self._add_up(found)
        return found

    def _add_up(self, values: list[_Number]) -> None:
        for node in range(len(values) - 1, 0, -1):
            values[self.parent[node]] += values[node]

    # ------------------------------------------------------------ divisions

    def divided(
        self, workers: int, with_memory: int
    ) -> list[tuple[Seconds, tuple[frozenset[int], ...]]]:
        """Return estimates and divisions of the leaves.

        Parameters
        ----------
        with_memory
            How many engines have memory; their parts come first.
        """
        is_bare = [lane >= with_memory for lane in range(workers)]
        starts = [self._cut(is_bare), *(self._dealt(is_bare, each) for each in (3, 8, 24))]
        return [self._balanced(parts, is_bare) for parts in starts]

    def _cut(self, is_bare: Sequence[bool]) -> list[frozenset[int]]:
        """Return ranges of the leaves, so that the longest is about as short as possible."""
        low, high = 0.0, math.fsum(self.cost)
        best = [self.leaves_below(0), *(frozenset[int]() for _ in is_bare[1:])]
        for _ in range(40):
            middle = (low + high) / 2
            ranges = self._ranges(middle, is_bare)
            if ranges:
                best, high = ranges, middle
            else:
                low = middle
        return best

    def _ranges(self, most: Seconds, is_bare: Sequence[bool]) -> list[frozenset[int]]:
        """Return ranges of leaves each of which costs so much at most; none if there is no way."""
        path = [0.0] * len(self.cost)
        found: list[list[int]] = [[]]
        total, last = 0.0, 0
        for node in range(1, len(self.cost)):
            path[node] = path[self.parent[node]] + self.cost[node]
            if self.leaf[node] == FRESH:
                continue
            while not last <= node < self.end[last]:
                last = self.parent[last]
            more = self.bare[node] if is_bare[len(found) - 1] else path[node] - path[last]
            while total + more > most:
                if len(found) == len(is_bare):
                    return []
                found.append([])
                total, more = 0.0, self.bare[node] if is_bare[len(found) - 1] else path[node]
            found[-1].append(self.leaf[node])
            total, last = total + more, node
        found += [[] for _ in is_bare[len(found) :]]
        return [frozenset(part) for part in found]

    def _dealt(self, is_bare: Sequence[bool], each: int) -> list[frozenset[int]]:
        """Return parts to which subtrees were dealt out, the longest first, about so many each."""
        parts: list[set[int]] = [set() for _ in is_bare]
        used: list[set[int]] = [{0} for _ in is_bare]
        costs = [0.0] * len(is_bare)
        for node, cost, bare in self._units(each * len(is_bare)):
            ways = [list(self._up(self.parent[node], nodes)) for nodes in used]
            after = [
                costs[lane] + (bare if is_so else cost + sum(self.cost[at] for at in ways[lane]))
                for lane, is_so in enumerate(is_bare)
            ]
            lane = min(range(len(after)), key=after.__getitem__)
            costs[lane] = after[lane]
            used[lane].update(ways[lane])
            parts[lane] |= self.leaves_below(node)
        return [frozenset(part) for part in parts]

    def _units(self, number: int) -> list[tuple[int, Seconds, Seconds]]:
        """Return about so many subtrees that have all leaves, and what they cost, longest first."""
        cost, bare = list(self.cost), list(self.bare)
        self._add_up(cost)
        self._add_up(bare)
        children: list[list[int]] = [[] for _ in cost]
        for node in range(1, len(cost)):
            children[self.parent[node]].append(node)
        units = [(-cost[0], 0)]
        single: list[tuple[Seconds, int]] = []
        while units and len(units) + len(single) < number:
            unit = heappop(units)
            if not children[unit[1]]:
                single.append(unit)
            for child in children[unit[1]]:
                heappush(units, (-cost[child], child))
        return [(node, cost[node], bare[node]) for _, node in sorted(units + single)]

    def _up(self, node: int, used: set[int]) -> Iterator[int]:
        """Yield a node and those above it, up to one that is used."""
        while node not in used:
            yield node
            node = self.parent[node]

    def _balanced(
        self, parts: Iterable[frozenset[int]], is_bare: Sequence[bool]
    ) -> tuple[Seconds, tuple[frozenset[int], ...]]:
        """Return parts from which no subtree can be moved so that the longest lane gets shorter.

        And how long that takes.
        """
        leaves = list(parts)
        found = [self.part(part, is_bare=bare) for part, bare in zip(leaves, is_bare, strict=True)]
        costs = [self.cost_of(part) for part in found]
        for _ in range(20 + 100_000 // len(self.cost)):
            for swap in nsmallest(10, self.swaps(found, costs)):
                changed = swap.done(self, leaves)
                pair = [
                    self.part(changed[lane], is_bare=is_bare[lane])
                    for lane in (swap.source, swap.target)
                ]
                # What is moved there and back may have something in common.
                after = [self.cost_of(part) for part in pair]
                if rounded(max(after)) < rounded(costs[swap.source]):
                    leaves = changed
                    found[swap.source], found[swap.target] = pair
                    costs[swap.source], costs[swap.target] = after
                    break
            else:
                break
        return max(costs), tuple(leaves)
