"""Which variables share objects or memory: numbers only, so that nothing is kept alive.

A number stays that of its object as long as the variable is what it was; whoever has changed a
variable must tell its new footprint before anything is asked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import combinations

from chexpoint.engine.variable_facts import Facts
from chexpoint.image import Footprint, Groups

Group = frozenset[str]
Owner = tuple[str, int]
"""A variable, and the number of pandas' list of those who share what it has, or 0."""


class Sharing:
    """The groups of a namespace."""

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        """The group of each variable."""
        self._owners: dict[int, tuple[Owner, ...]] = {}
        """Who has an object."""

    def of(self, names: Iterable[str]) -> set[str]:
        """Return the names, and all others in their groups."""
        return {each for name in names for each in self.groups.get(name, (name,))}

    def drop(self, name: str, facts: Facts | None) -> None:
        """Forget where a variable lies."""
        self.groups.pop(name, None)
        for number, _ in _numbers(facts.print if facts else Footprint()):
            left = tuple(owner for owner in self._owners.get(number, ()) if owner[0] != name)
            if left:
                self._owners[number] = left
            else:
                self._owners.pop(number, None)

    def place(
        self, names: set[str], facts: Mapping[str, Facts], is_closed: Callable[[str], bool]
    ) -> None:
        """Find the groups again after some variables were dropped.

        Parameters
        ----------
        names
            Those that were dropped, with each all others that were in its group.
        facts
            Of all variables.
        is_closed
            Tells whether nothing outside of a variable refers to what is in it.
        """
        joint = Groups(facts)
        for group in set(self.groups.values()):
            kept = [name for name in group if name in facts and name not in names]
            for other in kept[1:]:
                joint.join(kept[0], other)
        for name in sorted(names & facts.keys()):
            for one, other in self._meet(name, facts[name].print):
                joint.join(one, other)
        if any(facts[name].print.spans for name in names & facts.keys()):
            for one, other in shared_memory(facts):
                joint.join(one, other)
        for one, other in _entangled(facts, is_closed):
            joint.join(one, other)
        self.groups = {name: frozenset(group) for group in joint.all() for name in group}

    def _meet(self, name: str, lies: Footprint) -> Iterator[tuple[str, str]]:
        """Make a variable an owner of its objects; yield the others that have one of them."""
        alone: dict[int, tuple[Owner, ...]] = {}
        for number, key in _numbers(lies):
            own = alone.setdefault(key, ((name, key),))
            others = self._owners.get(number)
            self._owners[number] = own if others is None else others + own
            for other, its in others or ():
                # What pandas knows to be shared it copies before it is written.
                if key == 0 or its != key:
                    yield other, name


def _numbers(lies: Footprint) -> Iterator[tuple[int, int]]:
    for number in lies.ids:
        yield number, 0
    yield from lies.tracked


def _entangled(
    facts: Mapping[str, Facts], is_closed: Callable[[str], bool]
) -> Iterator[tuple[str, str]]:
    """Yield pairs of variables that may share something, as far as anybody knows."""
    for name in [name for name, each in facts.items() if each.is_entangled]:
        for other, its in facts.items():
            is_somewhere = bool(its.print.ids or its.print.spans or its.print.tracked)
            if other != name and (its.is_entangled or (is_somewhere and not is_closed(other))):
                yield name, other


def shared_memory(facts: Mapping[str, Facts]) -> Iterator[tuple[str, str]]:
    """Yield pairs of variables whose arrays overlap in memory."""
    spans = sorted((*span, name) for name, each in facts.items() for span in each.print.spans)
    for cluster in _clusters(spans):
        if len(cluster) > _PAIRS:
            keys = {key for _, _, key, _ in cluster}
            if keys == {0} or len(keys) > 1:
                yield from ((cluster[0][3], name) for _, _, _, name in cluster[1:])
            continue
        for (low, high, its, other), (start, end, key, name) in combinations(cluster, 2):
            if name != other and low < end and start < high and (key == 0 or its != key):
                yield other, name


_PAIRS = 64
_Named = tuple[int, int, int, str]


def _clusters(spans: Iterable[_Named]) -> Iterator[list[_Named]]:
    """Yield spans together that overlap, where not all are kept apart by pandas."""
    cluster: list[_Named] = []
    end = 0
    for span in spans:
        if cluster and span[0] >= end:
            if len(cluster) > 1:
                yield cluster
            cluster = []
        cluster.append(span)
        end = max(end, span[1]) if len(cluster) > 1 else span[1]
    if len(cluster) > 1:
        yield cluster


def joined_spans(prints: Iterable[Footprint]) -> list[tuple[int, int]]:
    """Return the memory that several arrays show, ascending, but for what pandas keeps apart."""
    spans = sorted((*span, "") for each in prints for span in each.spans)
    return [
        (cluster[0][0], max(end for _, end, _, _ in cluster))
        for cluster in _clusters(spans)
        if len({key for _, _, key, _ in cluster}) > 1 or cluster[0][2] == 0
    ]
