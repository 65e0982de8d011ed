"""What a series remembers: the digest of every chunk that it ever had, found by content.

Digests lie in the order of their ids.  A table of open addressing leads from a digest to its id;
its slots are u32, because the digest is looked up in the row.  Both the loops here, which treat all
digests of a look together, and those of `jit`, which treat one after another, work on the same
arrays, so that a series can change its engine at any time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Place = Callable[[NDArray[np.uint64], NDArray[np.uint32], int], None]
    """Puts the ids of so many digests into empty slots."""

EMPTY = 0xFFFFFFFF
"""A slot without an id; so there are never more ids than this."""

_LOAD = 0.75
_GROWTH = 1.25
_FEW = 16
"""Among so many times more, digests are found without a table."""


class Index:
    """Ids of digests."""

    __slots__ = ("count", "digests", "is_settled", "slots")

    def __init__(self) -> None:
        self.count = 0
        self.digests = np.empty((64, 2), np.uint64)
        self.slots = np.full(128, EMPTY, np.uint32)
        self.is_settled = True
        """Whether all ids are in the table; few digests are found without it."""

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return self.digests.nbytes + self.slots.nbytes

    def make_room(self, more: int, place: Place | None = None) -> None:
        """Grow, so that this many digests can be added; call it before adding any."""
        wanted = self.count + more
        if wanted >= EMPTY:
            raise OverflowError("too many chunks for one series")
        if wanted > len(self.digests):
            # Room for all of a first look at once, and then a quarter more each time.
            size = max(wanted, int(len(self.digests) * _GROWTH))
            digests = np.empty((size, 2), np.uint64)
            digests[: self.count] = self.digests[: self.count]
            self.digests = digests
        if self.is_settled and wanted > len(self.slots) * _LOAD:
            size = max(int(wanted / _LOAD) + 1, int(len(self.slots) * _GROWTH))
            self.slots = np.full(size, EMPTY, np.uint32)
            if place is None:
                self._place(np.arange(self.count, dtype=np.uint32))
            else:
                place(self.digests, self.slots, self.count)

    def find(self, digests: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Return the id of each digest, `EMPTY` where there is none."""
        if not self.is_settled:
            if len(digests) * _FEW < self.count:
                return self._find_few(digests)
            self.settle()
        found = np.full(len(digests), EMPTY, np.uint32)
        left = np.arange(len(digests))
        slots = self._first_slots(digests)
        while len(left):
            ids = self.slots[slots]
            used = ids != EMPTY
            left, slots, ids = left[used], slots[used], ids[used]
            same = (self.digests[ids] == digests[left]).all(axis=1)
            found[left[same]] = ids[same]
            left, slots = left[~same], self._next(slots[~same])
        return found

    def add(self, digests: NDArray[np.uint64]) -> tuple[NDArray[np.uint32], NDArray[np.bool_]]:
        """Return the id of each digest, and whether it is new; equal ones get one id, in order."""
        ids = self.find(digests)
        missing = np.flatnonzero(ids == EMPTY)
        # Stable, so that the first of equal digests is the one that is new.
        order = missing[np.lexsort((digests[missing, 1], digests[missing, 0]))]
        ordered = digests[order]
        starts = np.ones(len(order), np.bool_)
        starts[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
        is_new = np.zeros(len(digests), np.bool_)
        is_new[order[starts]] = True
        first = np.flatnonzero(is_new)
        self.make_room(len(first))
        ids[first] = np.arange(self.count, self.count + len(first), dtype=np.uint32)
        ids[order] = ids[order[starts]][np.cumsum(starts) - 1]
        self.digests[self.count : self.count + len(first)] = digests[first]
        self.count += len(first)
        if self.is_settled:
            self._place(ids[first])
        return ids, is_new

    def replace(self, digests: NDArray[np.uint64]) -> None:
        """Forget all, and know these instead, which all differ; their ids begin with 0.

        The table is made when it is needed: a process that looks once may not need it.
        """
        self.count, self.digests = len(digests), digests
        self.slots = np.empty(0, np.uint32)
        self.is_settled = False

    def settle(self, place: Place | None = None) -> None:
        """Make the table, if there is none."""
        if self.is_settled:
            return
        self.is_settled = True
        self.slots = np.full(int(self.count / _LOAD) + 128, EMPTY, np.uint32)
        if place is None:
            self._place(np.arange(self.count, dtype=np.uint32))
        else:
            place(self.digests, self.slots, self.count)

    def _find_few(self, digests: NDArray[np.uint64]) -> NDArray[np.uint32]:
        """Find few digests among many: each that is known is looked for among the few."""
        wanted = np.unique(digests[:, 1])
        known = self.digests[: self.count, 1]
        at = np.searchsorted(wanted, known)
        at[at == len(wanted)] = 0
        hits = np.flatnonzero(wanted[at] == known) if len(wanted) else np.empty(0, np.int64)
        pairs = map(tuple, self.digests[hits].tolist())
        ids = dict(zip(pairs, hits.tolist(), strict=True))
        found = [ids.get((high, low), EMPTY) for high, low in digests.tolist()]
        return np.array(found, np.uint32)

    def _place(self, ids: NDArray[np.uint32]) -> None:
        """Put ids that are not there yet into slots."""
        slots = self._first_slots(self.digests[ids])
        while len(ids):
            free = self.slots[slots] == EMPTY
            self.slots[slots[free]] = ids[free]
            # Of several ids that want one slot, one has it now.
            placed = self.slots[slots] == ids
            ids, slots = ids[~placed], self._next(slots[~placed])

    def _first_slots(self, digests: NDArray[np.uint64]) -> NDArray[np.int64]:
        return (((digests[:, 1] >> 32) * len(self.slots)) >> 32).astype(np.int64)

    def _next(self, slots: NDArray[np.int64]) -> NDArray[np.int64]:
        slots = slots + 1
        slots[slots == len(self.slots)] = 0
        return slots
