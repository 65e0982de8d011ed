"""Columns: rows of u32 numbers in the metadata of a piece, and the reader of all metadata."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from chexpoint.errors import StoreDamaged

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEAD = struct.Struct("<BBHII")
_DIFFERENCES, _PLANES = 1, 2
_ALL_WAYS = 65536
"""Up to so many numbers all transforms are tried; beyond, the one that is best for most."""
_SAMPLE = 4096
"""They are tried on so many of them."""


def damaged(why: str) -> StoreDamaged:
    """Return the error that says that a piece is not well-formed."""
    return StoreDamaged(f"a piece is damaged: {why}.")


class Reader:
    """Reads metadata from front to back; whatever is missing is damage."""

    def __init__(self, data: memoryview) -> None:
        self._left = data

    def take(self, nbytes: int) -> memoryview:
        """Return the next bytes."""
        if nbytes > len(self._left):
            raise damaged("its metadata ends too early")
        found, self._left = self._left[:nbytes], self._left[nbytes:]
        return found

    def unpack(self, record: struct.Struct) -> tuple[int, ...]:
        """Return the numbers of the next record."""
        return record.unpack(self.take(record.size))

    def numbers(self, count: int) -> NDArray[np.uint32]:
        """Return the next plain u32 numbers."""
        return np.frombuffer(self.take(4 * count), "<u4")

    def end(self) -> None:
        """Check that nothing is left."""
        if len(self._left):
            raise damaged("its metadata goes on after the end")


def write_column(numbers: NDArray[np.uint32]) -> bytes:
    """Return a column, in the smallest of its forms."""
    from chexpoint.store.dedup.zstd import compressor

    if not len(numbers):
        return _HEAD.pack(0, 0, 0, 0, 0)
    if len(numbers) <= _ALL_WAYS:
        fast, level = compressor(1), 9
        sample = numbers[:_SAMPLE]
        best = min(range(4), key=lambda each: len(fast(_transformed(sample, each))))
    else:
        best, level = _DIFFERENCES | _PLANES, 1
    packed = compressor(level)(_transformed(numbers, best))
    if len(packed) < 4 * len(numbers):
        return _HEAD.pack(best, 1, 0, len(numbers), len(packed)) + packed
    return _HEAD.pack(0, 0, 0, len(numbers), 4 * len(numbers)) + _transformed(numbers, 0)


def read_column(reader: Reader) -> NDArray[np.uint32]:
    """Return the numbers of the next column."""
    transforms, is_packed, zero, count, stored = reader.unpack(_HEAD)
    if transforms > 3 or is_packed > 1 or zero:
        raise damaged("a column has an unknown form")
    data: memoryview | bytes = reader.take(stored)
    if is_packed:
        from chexpoint.store.dedup.zstd import MOST_DENSE, decompress

        if 4 * count > (stored + 1) * MOST_DENSE:
            raise damaged("a column claims too many numbers")
        data = decompress(data, 4 * count)
    if len(data) != 4 * count:
        raise damaged("a column has another length than it should")
    if transforms & _PLANES:
        rows = np.zeros((count, 4), np.uint8)
        for i, plane in enumerate(np.frombuffer(data, np.uint8).reshape(4, count)):
            # Most numbers are small, and looking is faster than copying.
            if plane.any():
                rows[:, i] = plane
        numbers = rows.reshape(-1).view("<u4")
    else:
        numbers = np.frombuffer(data, "<u4")
    if transforms & _DIFFERENCES:
        return np.cumsum(numbers, dtype=np.uint32)
    return numbers.astype(np.uint32, copy=False)


def _transformed(numbers: NDArray[np.uint32], transforms: int) -> bytes:
    made = numbers
    if transforms & _DIFFERENCES:
        made = np.diff(numbers, prepend=np.uint32(0))
    made = made.astype("<u4", copy=False)
    if transforms & _PLANES:
        return made.view(np.uint8).reshape(-1, 4).T.tobytes()
    return made.tobytes()
