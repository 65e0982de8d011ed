"""The published methods: basic, list and tree.

Tree is Algorithm 1 of Tan and others, "Scalable Incremental Checkpointing using GPU-Accelerated
De-Duplication" (ICPP 2023), with levels as arrays of their own: what their program computes in one
array is right only for counts that are powers of two.  See `Regions` for what is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from chexpoint.store.dedup.analysis import Method, Regions
from chexpoint.store.dedup.chunks import gather
from chexpoint.store.dedup.engines import hash_rows
from chexpoint.store.dedup.index import EMPTY

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.dedup.engines import Memory

_FIXED, _FIRST, _SHIFTED, _MIXED = range(4)


class Landmarks:
    """Where each digest of an index was seen first: checkpoint and node."""

    __slots__ = ("checkpoint", "checkpoints", "leaves", "nodes")

    def __init__(self) -> None:
        self.checkpoint = 0
        self.leaves = np.empty((0, 2), np.uint64)
        self.nodes = np.empty(0, np.uint32)
        self.checkpoints = np.empty(0, np.uint32)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return self.leaves.nbytes + self.nodes.nbytes + self.checkpoints.nbytes

    def add(self, nodes: NDArray[np.uint32]) -> None:
        """Remember the nodes of the digests that the index has just got, in order."""
        self.nodes = np.concatenate([self.nodes, nodes])
        numbers = np.full(len(nodes), self.checkpoint, np.uint32)
        self.checkpoints = np.concatenate([self.checkpoints, numbers])


class Looker(Protocol):
    """What of a differ is used here."""

    method: Method
    chunk_bytes: int
    engine: str
    memory: Memory

    @property
    def landmarks(self) -> Landmarks: ...


def level_counts(count: int) -> list[int]:
    """Return how many nodes each level of the tree over this many chunks has."""
    counts = [count]
    while counts[-1] > 1:
        counts.append(-(-counts[-1] // 2))
    return counts


def find_regions(contents: NDArray[np.uint8], differ: Looker) -> Regions:
    """Return the regions of contents, and remember them."""
    leaves = hash_rows(contents, differ.chunk_bytes, differ.engine)
    marks = differ.landmarks
    labels = _changed(leaves, marks.leaves)
    if differ.method == "basic":
        first = np.flatnonzero(labels != _FIXED).astype(np.uint32)
        shifted = ids = np.empty(0, np.uint32)
    else:
        first, shifted, ids = _named(differ, leaves, labels)
    marks.leaves = leaves
    found = Regions(
        nbytes=len(contents),
        chunk_bytes=differ.chunk_bytes,
        first=first,
        shifted=shifted,
        source_nodes=marks.nodes[ids],
        source_checkpoints=marks.checkpoints[ids],
        payload=gather(contents, np.flatnonzero(labels == _FIRST), differ.chunk_bytes),
    )
    marks.checkpoint += 1
    return found


def _changed(leaves: NDArray[np.uint64], before: NDArray[np.uint64]) -> NDArray[np.uint8]:
    labels = np.full(len(leaves), _FIRST, np.uint8)
    both = min(len(leaves), len(before))
    labels[:both][(leaves[:both] == before[:both]).all(axis=1)] = _FIXED
    return labels


def _named(
    differ: Looker, leaves: NDArray[np.uint64], labels: NDArray[np.uint8]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return first and shifted regions, and the ids of what the latter equal; set the labels."""
    index, marks = differ.memory.index, differ.landmarks
    changed = np.flatnonzero(labels != _FIXED)
    ids, is_new = index.add(leaves[changed])
    marks.add(changed[is_new].astype(np.uint32))
    labels[changed[~is_new]] = _SHIFTED
    all_ids = np.full(len(leaves), EMPTY, np.uint32)
    all_ids[changed] = ids
    if differ.method == "list":
        shifted = np.flatnonzero(labels == _SHIFTED).astype(np.uint32)
        return np.flatnonzero(labels == _FIRST).astype(np.uint32), shifted, all_ids[shifted]
    levels = _climb(differ, leaves, labels, all_ids)
    return _topmost(len(leaves), levels)


class _Level:
    """One level of the tree: nodes that cover chunks that all exist."""

    __slots__ = ("digests", "ids", "labels")

    def __init__(
        self,
        digests: NDArray[np.uint64],
        labels: NDArray[np.uint8],
        ids: NDArray[np.uint32],
    ) -> None:
        self.digests, self.labels, self.ids = digests, labels, ids


def _climb(
    differ: Looker,
    leaves: NDArray[np.uint64],
    labels: NDArray[np.uint8],
    ids: NDArray[np.uint32],
) -> list[_Level]:
    """Return all levels.  First regions are remembered on all of them before any is shifted."""
    levels = [_Level(leaves, labels, ids)]
    while len(levels[-1].labels) > 1:
        levels.append(_parents(differ, levels[-1]))
    offsets = np.cumsum([0, *level_counts(len(leaves))])
    index, marks = differ.memory.index, differ.landmarks
    is_start = marks.checkpoint == 0
    for level, offset in zip(levels[1:], offsets[1:], strict=False):
        wanted = np.flatnonzero(level.labels == _FIRST)
        _, is_new = index.add(level.digests[wanted])
        marks.add((wanted[is_new] + offset).astype(np.uint32))
    for k in range(1, len(levels)):
        level, below = levels[k], levels[k - 1].labels
        pairs = below[: 2 * len(level.labels)].reshape(-1, 2)
        both = np.flatnonzero((pairs == _SHIFTED).all(axis=1))
        level.digests[both] = _hash_pairs(differ, levels[k - 1].digests, both)
        level.ids[both] = index.find(level.digests[both])
        if is_start:
            rest = np.flatnonzero(level.labels != _FIRST)
            found, is_new = index.add(level.digests[rest])
            marks.add((rest[is_new] + offsets[k]).astype(np.uint32))
            level.ids[rest[~is_new]] = found[~is_new]
        level.labels[both[level.ids[both] != EMPTY]] = _SHIFTED
    return levels


def _parents(differ: Looker, below: _Level) -> _Level:
    count = len(below.labels) // 2
    pairs = below.labels[: 2 * count].reshape(-1, 2)
    labels = np.full(count, _MIXED, np.uint8)
    labels[(pairs == _FIXED).all(axis=1)] = _FIXED
    labels[(pairs == _FIRST).all(axis=1)] = _FIRST
    digests = np.zeros((count, 2), np.uint64)
    is_start = differ.landmarks.checkpoint == 0
    wanted = np.arange(count) if is_start else np.flatnonzero(labels == _FIRST)
    digests[wanted] = _hash_pairs(differ, below.digests, wanted)
    return _Level(digests, labels, np.full(count, EMPTY, np.uint32))


def _hash_pairs(
    differ: Looker, below: NDArray[np.uint64], wanted: NDArray[np.int64]
) -> NDArray[np.uint64]:
    pairs = below[: len(below) // 2 * 2].reshape(-1, 4)[wanted]
    return hash_rows(pairs.reshape(-1).view(np.uint8), 32, differ.engine)


def _topmost(
    count: int, levels: list[_Level]
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return regions that lie in no larger one, each kind in the order of positions."""
    offsets = np.cumsum([0, *level_counts(count)])
    rows: list[NDArray[np.int64]] = []
    for k, level in enumerate(levels):
        is_region = (level.labels == _FIRST) | (level.labels == _SHIFTED)
        above = levels[k + 1].labels if k + 1 < len(levels) else np.empty(0, np.uint8)
        is_inner = np.repeat((above == _FIRST) | (above == _SHIFTED), 2)
        is_region[: len(is_inner)] &= ~is_inner
        nodes = np.flatnonzero(is_region)
        kinds = level.labels[nodes]
        rows.append(np.stack([nodes << k, nodes + offsets[k], kinds, level.ids[nodes]], axis=1))
    table = np.concatenate(rows)
    table = table[np.argsort(table[:, 0], kind="stable")]
    first, shifted = table[table[:, 2] == _FIRST], table[table[:, 2] == _SHIFTED]
    return (
        first[:, 1].astype(np.uint32),
        shifted[:, 1].astype(np.uint32),
        shifted[:, 3].astype(np.uint32),
    )
