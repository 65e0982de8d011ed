"""Contents as rows of bytes, cut into chunks by position."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chexpoint.errors import InvalidValue
from chexpoint.store.dedup.analysis import BLOCK_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray


def as_bytes(data: Any) -> NDArray[np.uint8]:
    """Return a buffer as an array of its bytes, without a copy if it is C-contiguous."""
    if isinstance(data, np.ndarray):
        return np.ascontiguousarray(data).reshape(-1).view(np.uint8)
    try:
        view = memoryview(data)
        return np.frombuffer(view if view.contiguous else view.tobytes(), np.uint8)
    except (TypeError, ValueError, BufferError) as error:
        raise InvalidValue(
            f"'{type(data).__name__}' has no bytes to store; give an array or a buffer."
        ) from error


def check_chunk_bytes(chunk_bytes: int) -> None:
    """Raise `InvalidValue` unless chunks of this size fit into blocks."""
    if not 16 <= chunk_bytes <= BLOCK_BYTES or chunk_bytes & (chunk_bytes - 1):
        raise InvalidValue(
            f"chunk_bytes is {chunk_bytes}; it must be a power of two from 16 to {BLOCK_BYTES}."
        )


def count_of(nbytes: int, size: int) -> int:
    """Return how many chunks or blocks of a size there are, with the short one at the end."""
    return -(-nbytes // size)


class Gathered:
    """The chunks at some positions, ascending, one after another.

    They stay where they are until they are asked for: to copy large contents takes longer than to
    read them, where memory is not at hand.
    """

    __slots__ = ("_contents", "_positions", "_size", "nbytes")

    def __init__(
        self, contents: NDArray[np.uint8], positions: NDArray[np.integer], chunk_bytes: int
    ) -> None:
        self._contents = contents
        self._positions = positions
        self._size = chunk_bytes
        count = len(positions)
        ends_short = count and int(positions[-1]) == len(contents) // chunk_bytes
        self.nbytes = count * chunk_bytes - (-len(contents) % chunk_bytes if ends_short else 0)

    def __len__(self) -> int:
        return self.nbytes

    def __getitem__(self, part: slice) -> NDArray[np.uint8]:
        start, stop, _ = part.indices(self.nbytes)
        first, last = start // self._size, count_of(stop, self._size)
        found = gather(self._contents, self._positions[first:last], self._size)
        return found[start - first * self._size : stop - first * self._size]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[np.uint8]:
        return self[:]

    def tobytes(self) -> bytes:
        """Return all bytes."""
        return self[:].tobytes()

    def buffers(self) -> list[memoryview]:
        """Return the bytes where they are, as runs."""
        cuts = np.flatnonzero(np.diff(self._positions) != 1) + 1
        parts = np.split(self._positions, cuts) if len(self._positions) else []
        return [gather(self._contents, each, self._size).data for each in parts]


def gather(
    contents: NDArray[np.uint8], positions: NDArray[np.integer], chunk_bytes: int
) -> NDArray[np.uint8]:
    """Return the chunks at some positions, ascending, one after another.

    Without a copy if they lie so already.
    """
    if not len(positions):
        return contents[:0]
    first, last = int(positions[0]), int(positions[-1])
    if last - first + 1 == len(positions):
        return contents[first * chunk_bytes : (last + 1) * chunk_bytes]
    full = len(contents) // chunk_bytes
    rows = contents[: full * chunk_bytes].view(f"V{chunk_bytes}")
    if last < full:
        found: NDArray[np.uint8] = rows[positions].view(np.uint8)
        return found
    tail = contents[full * chunk_bytes :]
    return np.concatenate([rows[positions[:-1]].view(np.uint8), tail])
