"""Differs on the CPU, and how any differ is made."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast, get_args

import numpy as np

from chexpoint.errors import InvalidValue
from chexpoint.store.dedup.analysis import BLOCK_BYTES, Analysis, Differ, Method, Regions
from chexpoint.store.dedup.chunks import Gathered, as_bytes, check_chunk_bytes, count_of
from chexpoint.store.dedup.digests import digests_of, root_of
from chexpoint.store.dedup.engines import Memory, check_engine, hash_rows, look
from chexpoint.store.dedup.index import EMPTY, Index
from chexpoint.store.dedup.regions import Landmarks, find_regions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from chexpoint.store.dedup.layout import Layout


def make_differ(method: str, chunk_bytes: int, engine: str) -> Differ:
    """Return a differ that has seen nothing yet.

    Raises
    ------
    InvalidValue
        If there is no such method or engine, or chunks cannot have this size.
    """
    if method not in get_args(Method):
        raise InvalidValue(
            f"there is no method '{method}'; choose one of {', '.join(get_args(Method))}."
        )
    check_chunk_bytes(chunk_bytes)
    check_engine(engine)
    if engine == "cuda":
        module = import_module("chexpoint.store.cuda")
        return cast("Differ", module.CudaDiffer(method=method, chunk_bytes=chunk_bytes))
    return HostDiffer(method=cast("Method", method), chunk_bytes=chunk_bytes, engine=engine)


class HostDiffer:
    """A differ whose array is in main memory; see `Differ`."""

    def __init__(self, *, method: Method, chunk_bytes: int, engine: str) -> None:
        self.method = method
        self.chunk_bytes = chunk_bytes
        self.engine = engine
        self.memory = Memory(Index())
        self._landmarks = Landmarks()

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return self.memory.size_bytes + self._landmarks.size_bytes

    def analyse(self, data: object, dirty: Sequence[tuple[int, int]] | None = None) -> Analysis:
        """Return what has changed since the last look.

        Parameters
        ----------
        data
            A C-contiguous buffer.
        dirty
            If it is known: ranges of bytes outside of which nothing has changed.
        """
        contents = as_bytes(data)
        wanted = self._wanted(len(contents), dirty)
        found = look(contents, self.chunk_bytes, self.memory, wanted, self.engine)
        return Analysis(
            nbytes=len(contents),
            chunk_bytes=self.chunk_bytes,
            new=found.new,
            moved=found.moved,
            sources=found.sources,
            payload=Gathered(contents, found.new, self.chunk_bytes),
            root=root_of(self.memory.blocks, len(contents)),
        )

    def regions(self, data: object) -> Regions:
        """Return what has changed as the published methods describe it."""
        contents = as_bytes(data)
        size = self.chunk_bytes
        if self.method == "full":
            none = np.empty(0, np.uint32)
            found = Regions(
                nbytes=len(contents),
                chunk_bytes=size,
                first=none,
                shifted=none,
                source_nodes=none,
                source_checkpoints=none,
                payload=contents,
            )
        else:
            found = find_regions(contents, self)
        return found

    def forget(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Forget chunks that are not in the last contents; they are numbered anew, in order.

        Return the ids that they had, and the position of the first chunk with each.
        """
        memory = self.memory
        first = np.full(memory.index.count, EMPTY, np.uint32)
        # Backwards: of several numbers for one place, the last is kept.
        first[memory.ids[::-1]] = np.arange(len(memory.ids), dtype=np.uint32)[::-1]
        kept = np.flatnonzero(first != EMPTY).astype(np.uint32)
        numbers = np.empty(memory.index.count, np.uint32)
        numbers[kept] = np.arange(len(kept), dtype=np.uint32)
        memory.ids = numbers[memory.ids]
        memory.index.replace(memory.index.digests[kept])
        return kept, first[kept]

    def know(self, contents: NDArray[np.uint8], layout: Layout) -> NDArray[np.uint32]:
        """Remember contents, and all chunks that have addresses; return those of the ids."""
        index = self.memory.index
        parts = [
            index.add(hash_rows(part, self.chunk_bytes, self.engine)) for part in layout.parts()
        ]
        ids = np.concatenate([each[0] for each in parts]) if parts else np.empty(0, np.uint32)
        is_new = np.concatenate([each[1] for each in parts]) if parts else np.empty(0, np.bool_)
        self.memory.nbytes = len(contents)
        self.memory.ids = ids[layout.at]
        self.memory.blocks = digests_of(contents, BLOCK_BYTES)
        return np.flatnonzero(is_new).astype(np.uint32)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return what it remembers, as `set_state` takes it."""
        memory, marks = self.memory, self._landmarks
        return {
            "nbytes": np.array([memory.nbytes, marks.checkpoint], np.uint64),
            "ids": memory.ids,
            "blocks": memory.blocks,
            "digests": memory.index.digests[: memory.index.count],
            "leaves": marks.leaves,
            "nodes": marks.nodes,
            "checkpoints": marks.checkpoints,
        }

    def set_state(self, state: dict[str, NDArray[Any]]) -> None:
        """Remember what another differ did."""
        memory, marks = self.memory, self._landmarks
        memory.nbytes, marks.checkpoint = map(int, state["nbytes"])
        memory.ids, memory.blocks = state["ids"], state["blocks"]
        memory.index.replace(state["digests"])
        marks.leaves, marks.nodes = state["leaves"], state["nodes"]
        marks.checkpoints = state["checkpoints"]

    @property
    def landmarks(self) -> Landmarks:
        """Where the published methods saw each digest first."""
        return self._landmarks

    def _wanted(self, nbytes: int, dirty: Sequence[tuple[int, int]] | None) -> NDArray[np.int64]:
        """Return the blocks that may have changed."""
        total = count_of(nbytes, BLOCK_BYTES)
        if dirty is None or not self.memory.nbytes:
            return np.arange(total)
        ranges = [*dirty]
        if nbytes != self.memory.nbytes:
            # The block with the end of the shorter contents, and all after it.
            ranges.append((max(min(nbytes, self.memory.nbytes) - 1, 0), nbytes))
        marked = np.zeros(total, np.bool_)
        for start, stop in ranges:
            if stop > start:
                marked[start // BLOCK_BYTES : count_of(min(stop, nbytes), BLOCK_BYTES)] = True
        return np.flatnonzero(marked)
