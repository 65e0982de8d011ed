"""How much room artifacts take on the disk.

An array that several of them hold is stored once.  How far contents can be compressed is known only
once they are stored: one that is turns out to take what it added to the store, and others are taken
to shrink as those have done.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from chexpoint.graph.ancestry import Ancestry
from chexpoint.model import Bytes, Digest, VariableGroup

# Before much is stored, nothing is said to shrink much.
_FULL_BYTES = 4_000_000


class Sizes:
    """What the arrays of each artifact take; artifacts are numbers of an `Ancestry`."""

    def __init__(self, ancestry: Ancestry) -> None:
        self._groups = [each.group for each in ancestry.artifacts]
        self._shares: dict[Digest, float] = {}
        """How far arrays shrank, for those that are stored."""
        self._rests: dict[int, float] = {}
        """The same for what is no array."""
        self._known: dict[int, tuple[Bytes, Mapping[Digest, Bytes]]] = {}
        stored = [
            (number, each.stored.stored_bytes)
            for number, each in enumerate(ancestry.artifacts)
            if each.stored is not None and each.stored.image and each.stored.stored_bytes > 0
        ]
        # What shares arrays with others was mostly stored in the order in which it was computed.
        stored.sort(key=lambda each: (ancestry.maker[each[0]], each[0]))
        before = after = _FULL_BYTES
        for number, stored_bytes in stored:
            group = self._groups[number]
            new = {digest: size for digest, size in group.parts if digest not in self._shares}
            whole = _rest(group) + sum(new.values())
            share = min(1.0, stored_bytes / max(whole, 1))
            self._shares |= dict.fromkeys(new, share)
            self._rests[number] = share
            before += whole
            after += min(stored_bytes, whole)
        self._usual = after / before

    def of(self, item: int) -> tuple[Bytes, Mapping[Digest, Bytes]]:
        """Return what an artifact takes without its arrays, and what each of these takes."""
        if item not in self._known:
            group = self._groups[item]
            parts = {
                digest: math.ceil(size * self._shares.get(digest, self._usual))
                for digest, size in group.parts
            }
            rest = math.ceil(_rest(group) * self._rests.get(item, self._usual))
            self._known[item] = rest, parts
        return self._known[item]

    def together(self, items: Iterable[int]) -> Bytes:
        """Return what some artifacts take together."""
        shelf = Shelf(self)
        for item in items:
            shelf.put(item)
        return shelf.size_bytes


def _rest(group: VariableGroup) -> Bytes:
    return max(0, group.size_bytes - sum(size for _, size in group.parts))


class Shelf:
    """What artifacts take together, one after the other."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes = sizes
        self._held: set[Digest] = set()
        self.size_bytes: Bytes = 0

    def added(self, item: int) -> Bytes:
        """Return what an artifact would add."""
        rest, parts = self._sizes.of(item)
        return rest + sum(size for digest, size in parts.items() if digest not in self._held)

    def put(self, item: int) -> set[Digest]:
        """Take an artifact in, and return which of its arrays are new."""
        self.size_bytes += self.added(item)
        new = self._sizes.of(item)[1].keys() - self._held
        self._held |= new
        return new
