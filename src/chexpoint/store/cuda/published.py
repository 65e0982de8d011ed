"""The published methods on a device: full, basic, list and tree."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np

from chexpoint.store.cuda.buffer import Consolidated
from chexpoint.store.cuda.chunks import ANY, CHANGED, MOVED, NEW, Chunks
from chexpoint.store.cuda.table import grown
from chexpoint.store.dedup.analysis import PaperMethod, Regions
from chexpoint.store.dedup.chunks import count_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.cuda.device import DeviceArray

_NONE: NDArray[np.uint32] = np.empty(0, np.uint32)


class Published:
    """Looks at chunks as one of the published methods does."""

    def __init__(self, chunks: Chunks, method: PaperMethod) -> None:
        self._chunks = chunks
        self._method = method
        # Where each known digest was first: its node, and by the first number of each checkpoint
        # the checkpoint.
        self._origins = chunks.device.empty(0, "u4")
        self._bases: list[int] = []

    def regions(self, data: DeviceArray) -> tuple[bytes, Regions]:
        """Return the root of contents, and what has changed since the last look."""
        if self._method == "full":
            return self._full(data)
        if self._method == "basic":
            return self._basic(data)
        return self._seen(data)

    def _full(self, data: DeviceArray) -> tuple[bytes, Regions]:
        chunks, device = self._chunks, self._chunks.device
        chunks.look_at_blocks(data)
        root = device.empty(2, "u8")
        chunks.write_root(root)
        return device.to_host(root).tobytes(), Regions(
            nbytes=len(data),
            chunk_bytes=chunks.chunk_bytes,
            first=_NONE,
            shifted=_NONE,
            source_nodes=_NONE,
            source_checkpoints=_NONE,
            payload=device.to_host(data),
        )

    def _basic(self, data: DeviceArray) -> tuple[bytes, Regions]:
        chunks = self._chunks
        count = chunks.look(data, count_of(len(data), chunks.chunk_bytes))
        changed = chunks.select(chunks.labels, CHANGED)
        buffer = Consolidated(chunks.device, {"first": count}, count * chunks.chunk_bytes)
        changed.write(buffer["first"])
        chunks.write_root(buffer["root"])
        chunks.gather(buffer["first"], buffer["payload"])
        arrived = buffer.to_host()
        first = arrived.column("first")
        return arrived.root, Regions(
            nbytes=chunks.nbytes,
            chunk_bytes=chunks.chunk_bytes,
            first=first,
            shifted=_NONE,
            source_nodes=_NONE,
            source_checkpoints=_NONE,
            payload=arrived.payload(chunks.gathered_bytes(first)),
        )

    def _seen(self, data: DeviceArray) -> tuple[bytes, Regions]:
        chunks = self._chunks
        levels = level_sizes(count_of(len(data), chunks.chunk_bytes))
        if self._method == "list":
            levels = levels[:1]
        changed = chunks.look(data, sum(levels))
        leaves = chunks.labels[: chunks.count]
        # Of the nodes above the chunks, all may be remembered.
        chunks.resolve(changed, room=sum(levels[1:]))
        marks = self._climb(levels) if len(levels) > 1 else chunks.labels
        self._remember(levels)
        return self._collect(leaves, marks, levels)

    def _climb(self, levels: list[int]) -> DeviceArray:
        """Label the nodes above the chunks; return the labels of those that name a region."""
        chunks, launch = self._chunks, self._chunks.device.launch
        tree = chunks.digests, chunks.labels
        starts = offsets_of(levels)
        is_start = not self._bases
        for level in range(1, len(levels)):
            below, here = starts[level - 1], starts[level]
            where = level, below, levels[level - 1], here, levels[level]
            launch("fold_new", levels[level], *tree, *where, int(is_start))
        chunks.insert(ANY if is_start else NEW, levels[0], sum(levels))
        for level in range(1, len(levels)):
            below, here = starts[level - 1], starts[level]
            where = level, below, levels[level - 1], here, levels[level]
            table = chunks.table.arguments
            launch("fold_moved", levels[level], *tree, *where, *table, chunks.slot_of)
        marks = chunks.device.empty(sum(levels), "u1")
        for level in range(len(levels)):
            here, above = starts[level], starts[level + 1]
            launch("mark_regions", levels[level], chunks.labels, here, levels[level], above, marks)
        return marks

    def _remember(self, levels: list[int]) -> None:
        """Number what the table has got, and note where it was seen."""
        chunks, device = self._chunks, self._chunks.device
        claims = chunks.labels
        if not self._bases and len(levels) > 1:
            claims = device.empty(sum(levels), "u1")
            device.launch(
                "mark_claims",
                sum(levels),
                *(chunks.table.slots, chunks.slot_of, chunks.labels, sum(levels), claims),
            )
        selection = chunks.select(claims, NEW)
        nodes = device.empty(chunks.read_counts()[NEW], "u4")
        selection.write(nodes)
        self._bases.append(chunks.table.count)
        chunks.table.publish(nodes, chunks.digests, chunks.slot_of)
        if chunks.table.count > len(self._origins):
            size = max(chunks.table.count, int(len(self._origins) * 1.25))
            self._origins = grown(device, self._origins, size, kept=self._bases[-1], dtype="u4")
        if len(nodes):
            device.copy(self._origins[self._bases[-1] : chunks.table.count], nodes)

    def _collect(
        self, leaves: DeviceArray, marks: DeviceArray, levels: list[int]
    ) -> tuple[bytes, Regions]:
        chunks, device = self._chunks, self._chunks.device
        new_chunks = chunks.select(leaves, NEW)
        news = chunks.read_counts()[NEW]
        first, moved = chunks.select(marks, NEW), chunks.select(marks, MOVED)
        counts = chunks.read_counts()
        firsts, moves = counts[NEW], counts[MOVED]
        columns = {"first": firsts, "shifted": moves, "numbers": moves, "nodes": moves}
        buffer = Consolidated(device, {**columns, "new": news}, news * chunks.chunk_bytes)
        new_chunks.write(buffer["new"])
        first.write(buffer["first"])
        moved.write(buffer["shifted"])
        chunks.look_up(buffer["shifted"], buffer["numbers"])
        device.launch("take", moves, self._origins, buffer["numbers"], moves, buffer["nodes"])
        chunks.write_root(buffer["root"])
        chunks.gather(buffer["new"], buffer["payload"])
        arrived = buffer.to_host()
        shifted = arrived.column("shifted")
        order = np.argsort(positions_of(shifted, levels))
        numbers = arrived.column("numbers")[order]
        first_nodes = arrived.column("first")
        return arrived.root, Regions(
            nbytes=chunks.nbytes,
            chunk_bytes=chunks.chunk_bytes,
            first=first_nodes[np.argsort(positions_of(first_nodes, levels))],
            shifted=shifted[order],
            source_nodes=arrived.column("nodes")[order],
            source_checkpoints=checkpoints_of(numbers, self._bases),
            payload=arrived.payload(chunks.gathered_bytes(arrived.column("new"))),
        )


def level_sizes(count: int) -> list[int]:
    """Return how many nodes each level over this many chunks has."""
    sizes = [count]
    while sizes[-1] > 1:
        sizes.append(-(-sizes[-1] // 2))
    return sizes


def offsets_of(levels: list[int]) -> list[int]:
    """Return the number of the first node of each level, and that of a level above the last."""
    return [0, *itertools.accumulate(levels)]


def positions_of(nodes: NDArray[np.uint32], levels: list[int]) -> NDArray[np.int64]:
    """Return the first chunk of each node."""
    starts = np.array(offsets_of(levels)[:-1], np.int64)
    level = np.searchsorted(starts, nodes, side="right") - 1
    return (nodes.astype(np.int64) - starts[level]) << level


def checkpoints_of(numbers: NDArray[np.uint32], bases: list[int]) -> NDArray[np.uint32]:
    """Return the checkpoint in which each number was given."""
    return (np.searchsorted(bases, numbers, side="right") - 1).astype(np.uint32)
