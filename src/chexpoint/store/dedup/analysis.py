"""What looking at an array finds out: which of its chunks are new, and which moved.

An engine (`jit`, `plain`, `cuda`) looks; nothing else depends on where the bytes are.  All engines
return the same values for the same contents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from chexpoint.store.dedup.chunks import Gathered

PaperMethod = Literal["full", "basic", "list", "tree"]
Method = Literal["full", "basic", "list", "tree", "ours"]

BLOCK_BYTES = 65536
"""What one digest of the contents covers; chunks are smaller, and what is de-duplicated."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Analysis:
    """How an array differs from its last contents.  Chunks that are in neither list are unchanged.

    Chunks have ids: running numbers, in the order in which a series saw each content first.
    """

    nbytes: int
    chunk_bytes: int
    new: NDArray[np.uint32]
    """Positions of chunks that the series never had, ascending; their ids follow the last one."""
    moved: NDArray[np.uint32]
    """Positions of chunks that are not what was there before, but were somewhere; ascending."""
    sources: NDArray[np.uint32]
    """For each of them the id of the chunk that it equals."""
    payload: NDArray[np.uint8] | Gathered
    """The new chunks one after another; the last chunk of an array may be short."""
    root: bytes
    """Digest of the contents: XXH3-128 of the digests of all blocks, then of the length."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Regions:
    """What the published methods find out: regions of a Merkle tree, named by their nodes.

    Level ``k`` of the tree is an array of its own, half as long as the one below, rounded up, until
    one node is left; node ``j`` of it covers the chunks from ``j << k`` up to ``(j + 1) << k``.
    Nodes are numbered through, level 0 (the chunks) first.  Only nodes that cover ``1 << k``
    chunks, all of which exist, take part: a node without a right child is no region.

    Both lists are in the order of the first chunk of each region.  Where a content was seen several
    times, the source is the first: the oldest checkpoint, and the lowest node in it; its number is
    that in the tree of its own checkpoint, which may be larger or smaller than this one.

    * ``full``: both lists are empty, the payload is everything.
    * ``basic``: `first` names every chunk that is not what was there before; nothing is shifted.
    * ``list``: `first` and `shifted` name single chunks.
    * ``tree``: regions of Algorithm 1 of the paper that lie in no larger one.  A node is a first
      region if both its children are; all these are remembered.  Then a node is a shifted one if
      both its children are, and its digest is remembered.  At the first checkpoint all nodes that
      take part are remembered, whatever they are: it is complete, so any of them may be a source.
    """

    nbytes: int
    chunk_bytes: int
    first: NDArray[np.uint32]
    """Regions of chunks that were never seen."""
    shifted: NDArray[np.uint32]
    """Regions that were seen elsewhere, or in another checkpoint."""
    source_nodes: NDArray[np.uint32]
    source_checkpoints: NDArray[np.uint32]
    payload: NDArray[np.uint8]
    """The chunks of the first regions, in order of position."""


class Differ(Protocol):
    """Looks at one array again and again, and remembers what it saw.

    It is made with ``method`` and ``chunk_bytes`` (a power of two, at most `BLOCK_BYTES`), and has
    its own memory.  The size of the array may change from look to look: chunks are compared by
    position, and those that were not there before are changed.

    The first look finds every chunk new, except those that repeat an earlier one.  Among equal
    chunks that are seen for the first time together, the one with the lowest position is new.
    """

    def analyse(self, data: object) -> Analysis:
        """Return what has changed since the last look; a differ of method ``ours``."""

    def regions(self, data: object) -> Regions:
        """Return the same as the published methods describe it."""
