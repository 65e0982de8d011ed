"""The memory of arrays: which of them share it, and the parts that hold it.

An array is stored as a view of a *span*, a range of addresses.  Spans that overlap become one
block, so that arrays that share memory still do when they come back, whichever library made them.
"""

from __future__ import annotations

import contextlib
import ctypes
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pickle import PickleBuffer
from typing import Any

SMALL_BYTES = 4096
"""What is smaller stays in the stream: a part of its own would cost more than it saves."""

_LARGE_BYTES = 1 << 20
"""To copy what is smaller takes less than to write a stream again."""

# Where pandas' arrays keep their memory.
_ARRAYS = ("_ndarray", "_data", "_mask", "_left", "_right")

Span = tuple[int, int]
"""First address, and the one after the last."""


class Block:
    """A span of the process's memory; whoever owns it is kept alive by ``owner``."""

    __slots__ = ("end", "owner", "start")

    def __init__(self, start: int, end: int, owner: object) -> None:
        self.start = start
        self.end = end
        self.owner = owner

    def view(self) -> memoryview:
        """Return the bytes, without a copy; the view keeps their owner alive."""
        kind = ctypes.c_ubyte * (self.end - self.start)
        found: Any = kind.from_address(self.start)
        found.owner = self.owner
        return memoryview(found).cast("B")


@dataclass(slots=True, eq=False)
class Memory:
    """The blocks and parts of one stream."""

    joined: list[Span] = field(default_factory=list)
    """Spans that are known to be shared, ascending: whatever lies in one is a view of it."""
    spans: list[Span] = field(default_factory=list)
    """Spans of all arrays that were seen."""
    parts: list[Any] = field(default_factory=list)
    """Buffers, in the order in which the stream wants them; arrays of a device among them."""
    blocks: dict[Span, Block] = field(default_factory=dict)
    exporters: dict[int, object] = field(default_factory=dict)
    """Objects of unknown libraries whose memory an array shows, by id."""
    tracked: dict[int | Span, int] = field(default_factory=dict)
    """Ids and spans of arrays that pandas copies before it writes to one of those who share them;
    with the number of the list of those."""
    owned: dict[int, list[Span]] = field(default_factory=dict)
    """Where large arrays lie that are to be copied when they are loaded, by their ids: once for
    each that has them."""

    def block(self, start: int, end: int, owner: object) -> Block:
        """Return the block in which a span lies."""
        self.spans.append((start, end))
        span = self.joined_span(start, end) or (start, end)
        known = self.blocks.get(span)
        if known is None:
            known = self.blocks[span] = Block(*span, owner)
        return known

    def joined_span(self, start: int, end: int) -> Span | None:
        """Return the shared span in which another lies, if there is one."""
        place = bisect_right(self.joined, (start, 1 << 64)) - 1
        is_inside = place >= 0 and end <= self.joined[place][1]
        return self.joined[place] if is_inside else None

    def track(self, values: Any, key: int) -> bool:
        """Note an array of pandas; tell whether it lies in memory that is known to be shared."""
        self.tracked[id(values)] = key
        is_joined = False
        for part in (values, *(getattr(values, name, None) for name in _ARRAYS)):
            base = part
            while base is not None and hasattr(base, "__array_interface__"):
                self.tracked[id(base)] = key
                base = getattr(base, "base", None)
            if type(part).__name__ == "ndarray" and part.size:
                from numpy.lib.array_utils import byte_bounds

                span = byte_bounds(part)
                self.tracked[span] = key
                is_joined = is_joined or self.joined_span(*span) is not None
        return is_joined

    def own(self, values: Any) -> None:
        """Note an array that is to be copied when it is loaded, unless that costs little.

        Of arrays of objects, and those of other libraries, it is not seen who shares them.
        """
        if type(values).__name__ != "ndarray" or values.dtype.hasobject:
            return
        if values.nbytes >= _LARGE_BYTES and values.flags.writeable:
            from numpy.lib.array_utils import byte_bounds

            self.owned.setdefault(id(values), []).append(byte_bounds(values))

    def keep(self, buffer: PickleBuffer) -> bool:
        """Take a buffer out of the stream, or tell that it is to stay: pickle's callback."""
        with memoryview(buffer) as view:
            if view.nbytes < SMALL_BYTES or not view.contiguous:
                return True
        self.parts.append(buffer.raw())
        return False


def lone_arrays(memories: Collection[Memory]) -> frozenset[int]:
    """Return the ids of arrays that need not be copied when streams are loaded together.

    Others share them, but none of those is in the streams.
    """
    joined = overlaps([span for each in memories for span in each.spans])
    found: dict[int, list[Span]] = {}
    for memory in memories:
        for number, spans in memory.owned.items():
            found.setdefault(number, []).extend(spans)
    hulls = Memory(joined)
    return frozenset(
        number
        for number, spans in found.items()
        if len(spans) == 1 and hulls.joined_span(*spans[0]) is None
    )


@contextlib.contextmanager
def small_pages() -> Iterator[None]:
    """Let arrays that are made meanwhile have pages of the usual size.

    NumPy asks for huge ones.  Where memory is not at hand, as on many virtual machines, these can
    take longer to get than all of the reading or writing.
    """
    import numpy as np

    core: Any = getattr(np, "_core", None) or getattr(np, "core", None)
    switch = getattr(core.multiarray, "_set_madvise_hugepage", None)
    if switch is None:  # it is NumPy's own affair, and may go
        yield
        return
    was_huge = switch(False)
    try:
        yield
    finally:
        switch(was_huge)


def overlaps(spans: list[Span]) -> list[Span]:
    """Return the hulls of spans that overlap another one, ascending.

    Examples
    --------
    >>> overlaps([(0, 4), (2, 8), (8, 9), (20, 30), (20, 30)])
    [(0, 8), (20, 30)]
    """
    hulls: list[Span] = []
    start = end = count = 0
    for low, high in sorted(span for span in spans if span[0] < span[1]):
        if count and low < end:
            end = max(end, high)
            count += 1
            continue
        if count > 1:
            hulls.append((start, end))
        start, end, count = low, high, 1
    return [*hulls, (start, end)] if count > 1 else hulls
