"""Engines: where and how chunks are looked at.  All of them find the same.

* ``jit``: compiled loops, at the speed of memory.
* ``plain``: NumPy and xxhash, which come with CHEX; needs no compiler.
* ``cuda``: on the device; in `chexpoint.store.cuda`.
"""

from __future__ import annotations

import functools
import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import numpy as np

from chexpoint.errors import InvalidValue
from chexpoint.store.dedup.analysis import BLOCK_BYTES
from chexpoint.store.dedup.chunks import count_of
from chexpoint.store.dedup.digests import digests_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    from numpy.typing import NDArray

    from chexpoint.store.dedup.index import Index

Engine = Literal["auto", "jit", "plain", "cuda"]

JIT_FROM_BYTES = 256 * 10**6
"""From this size on it pays to import numba only for this."""

_BATCH_BLOCKS = 256
_MANY_CHUNKS = 1 << 18


class Found(NamedTuple):
    """What a look at some blocks found; positions ascend."""

    new: NDArray[np.uint32]
    moved: NDArray[np.uint32]
    sources: NDArray[np.uint32]


class Memory:
    """What a differ remembers of the last contents; the same for `jit` and `plain`."""

    __slots__ = ("blocks", "ids", "index", "nbytes")

    def __init__(self, index: Index) -> None:
        self.index = index
        self.nbytes = 0
        self.ids = np.empty(0, np.uint32)
        self.blocks = np.empty((0, 2), np.uint64)

    @property
    def size_bytes(self) -> int:
        """What it takes in memory."""
        return self.ids.nbytes + self.blocks.nbytes + self.index.size_bytes

    def resize(self, nbytes: int, chunk_bytes: int) -> int:
        """Make ids and blocks as long as contents need; return how many chunks have a digest."""
        known = min(len(self.ids), count_of(nbytes, chunk_bytes))
        if nbytes != self.nbytes:
            ids = np.empty(count_of(nbytes, chunk_bytes), np.uint32)
            ids[:known] = self.ids[:known]
            blocks = np.zeros((count_of(nbytes, BLOCK_BYTES), 2), np.uint64)
            kept = min(len(blocks), len(self.blocks))
            blocks[:kept] = self.blocks[:kept]
            self.nbytes, self.ids, self.blocks = nbytes, ids, blocks
        return known


def check_engine(engine: str) -> None:
    """Raise `InvalidValue` unless there is an engine of this name."""
    if engine not in get_args(Engine):
        raise InvalidValue(
            f"there is no engine '{engine}'; choose one of {', '.join(get_args(Engine))}."
        )


@functools.cache
def loops() -> ModuleType | None:
    """Return the compiled loops; None where there can be none."""
    if find_spec("numba") is None:
        return None
    try:
        module = import_module("chexpoint.store.dedup.jit")
        data = np.arange(1000, dtype=np.uint16).view(np.uint8)
        found = np.empty((count_of(len(data), 256), 2), np.uint64)
        # Hash something that is known before anything is trusted to it.
        module.hash_rows(data, 256, found)
    except Exception:  # Whatever numba cannot do here, the other engine can.
        return None
    return module if (found == digests_of(data, 256)).all() else None


def loops_for(engine: str, nbytes: int) -> ModuleType | None:
    """Return the compiled loops if an engine has them for contents of this size."""
    wanted = engine == "jit" or (
        engine == "auto" and ("numba" in sys.modules or nbytes >= JIT_FROM_BYTES)
    )
    return loops() if wanted else None


def hash_rows(data: NDArray[np.uint8], size: int, engine: str) -> NDArray[np.uint64]:
    """Return the digest of each piece of ``size`` bytes; the last may be short."""
    compiled = loops_for(engine, len(data))
    if compiled is None:
        return digests_of(data, size)
    found = np.empty((count_of(len(data), size), 2), np.uint64)
    compiled.hash_rows(_readable(data), size, found)
    return found


def look(
    data: NDArray[np.uint8],
    chunk_bytes: int,
    memory: Memory,
    wanted: NDArray[np.int64],
    engine: str,
) -> Found:
    """Bring what is remembered up to date, and return how it differs from before.

    Parameters
    ----------
    data, chunk_bytes
        The contents now, and how to cut them.
    memory
        Of the contents before.
    wanted
        Blocks to look at, ascending.  All others must be what they were.
    engine
        One that runs on the CPU.
    """
    known = memory.resize(len(data), chunk_bytes)
    compiled = loops_for(engine, len(data))
    # Growing step by step would place every id several times.
    memory.index.make_room(len(memory.ids) - known, compiled.place if compiled else None)
    batches = [
        wanted[start : start + _BATCH_BLOCKS] for start in range(0, len(wanted), _BATCH_BLOCKS)
    ]
    if compiled is not None:
        memory.index.settle(compiled.place)
        parts = [_look_jit(compiled, data, chunk_bytes, memory, known, each) for each in batches]
    else:
        parts = list(_look_plain(data, chunk_bytes, memory, known, batches))
    if not parts:
        none = np.empty(0, np.uint32)
        return Found(none, none, none)
    return Found(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _look_jit(
    compiled: ModuleType,
    data: NDArray[np.uint8],
    chunk_bytes: int,
    memory: Memory,
    known: int,
    wanted: NDArray[np.int64],
) -> Found:
    index = memory.index
    most = len(wanted) * (BLOCK_BYTES // chunk_bytes)
    index.make_room(most, compiled.place)
    found = np.empty((3, most), np.uint32)
    news, moves = compiled.look(
        _readable(data),
        (chunk_bytes, BLOCK_BYTES),
        wanted,
        known,
        memory.ids,
        memory.blocks,
        (index.digests, index.slots, index.count),
        found,
    )
    index.count += news
    return Found(found[0, :news].copy(), found[1, :moves].copy(), found[2, :moves].copy())


def _look_plain(
    data: NDArray[np.uint8],
    chunk_bytes: int,
    memory: Memory,
    known: int,
    batches: list[NDArray[np.int64]],
) -> Iterator[Found]:
    waiting: list[tuple[NDArray[np.uint32], NDArray[np.uint64]]] = []
    for number, batch in enumerate(batches, 1):
        waiting.append(_changed_chunks(data, chunk_bytes, memory, known, batch))
        # All that changed is looked up at once, unless that is very much.
        if number == len(batches) or sum(len(each) for each, _ in waiting) >= _MANY_CHUNKS:
            where = np.concatenate([each for each, _ in waiting])
            ids, is_new = memory.index.add(np.concatenate([each for _, each in waiting]))
            memory.ids[where] = ids
            waiting.clear()
            yield Found(where[is_new], where[~is_new], ids[~is_new])


def _changed_chunks(
    data: NDArray[np.uint8],
    chunk_bytes: int,
    memory: Memory,
    known: int,
    wanted: NDArray[np.int64],
) -> tuple[NDArray[np.uint32], NDArray[np.uint64]]:
    """Return positions and digests of the chunks that are not what they were."""
    # Blocks first: Python hashes large pieces about as fast as memory is, and small ones slowly.
    size = BLOCK_BYTES
    digests = np.concatenate(
        [digests_of(data[each * size : (each + 1) * size], size) for each in wanted.tolist()]
    )
    changed = wanted[(digests != memory.blocks[wanted]).any(axis=1)]
    memory.blocks[wanted] = digests
    per_block = size // chunk_bytes
    positions, found = [np.empty(0, np.int64)], [np.empty((0, 2), np.uint64)]
    for block in changed.tolist():
        chunks = digests_of(data[block * size : (block + 1) * size], chunk_bytes)
        here = np.arange(block * per_block, block * per_block + len(chunks))
        had = here[here < known]
        differs = np.ones(len(here), np.bool_)
        before = memory.index.digests[memory.ids[had]]
        differs[: len(had)] = (before != chunks[: len(had)]).any(axis=1)
        positions.append(here[differs])
        found.append(chunks[differs])
    return np.concatenate(positions).astype(np.uint32), np.concatenate(found)


def _readable(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return an array that compiled loops take for the same type, whether it is writable or not."""
    if not data.flags.writeable:
        return data
    view = data.view()
    view.flags.writeable = False
    return view
