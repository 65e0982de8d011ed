"""From ids, which a differ gives, to addresses, which pieces have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Addresses:
    """Addresses of ids: those of some ids one by one, and a fixed distance for all after them."""

    __slots__ = ("table", "taken")

    def __init__(self, table: NDArray[np.uint32] | None = None, taken: int = 0) -> None:
        self.table = np.empty(0, np.uint32) if table is None else table
        self.taken = taken
        """How many addresses were taken when the table was made."""

    def of(self, ids: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """Return the addresses of ids."""
        if not len(self.table):
            return ids + np.uint32(self.taken) if self.taken else ids
        # Modulo 2**32: there may be fewer addresses than ids.
        found = ids + np.uint32((self.taken - len(self.table)) % 2**32)
        early = ids < len(self.table)
        found[early] = self.table[ids[early]]
        return found
