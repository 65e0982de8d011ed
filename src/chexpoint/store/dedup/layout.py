"""Where each chunk of some contents is, and how they are put together from there.

Bytes are copied in runs as long as they come, straight from the pieces where those are mapped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chexpoint.store.dedup.chunks import count_of
from chexpoint.store.dedup.columns import damaged
from chexpoint.store.dedup.frames import Frames
from chexpoint.store.dedup.index import EMPTY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_LONG_RUN = 8
"""From so many chunks on, copying one run after another is faster than all chunks together."""

_TOGETHER_BYTES = 1 << 20
_POOLED_BYTES = 1 << 25


def spread(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return all numbers of some ranges, one range after another."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    return np.repeat(starts - (ends - lengths), lengths) + np.arange(total)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Source:
    """Bytes of chunks with addresses that follow one another."""

    start: int
    """The first address."""
    data: Frames | NDArray[np.uint8]

    @property
    def nbytes(self) -> int:
        """How many bytes there are; the last chunk may be short."""
        return self.data.nbytes


class Layout:
    """Contents that are described, but not put together yet."""

    def __init__(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.nbytes = 0
        self.at = np.empty(0, np.uint32)
        self.taken = 0
        self._sources: list[Source] = []

    def restart(self, data: Frames | NDArray[np.uint8], nbytes: int) -> None:
        """Forget all before, and give addresses to all chunks of some contents."""
        if data.nbytes != nbytes:
            raise damaged("it has more or less contents than it should")
        self.forget()
        self.add(data)
        self.nbytes = nbytes
        self.at = np.arange(self.taken, dtype=np.uint32)

    def forget(self) -> None:
        """Forget contents and addresses."""
        self.nbytes, self.taken = 0, 0
        self.at, self._sources = np.empty(0, np.uint32), []

    def add(self, data: Frames | NDArray[np.uint8]) -> None:
        """Give the next addresses to the chunks of a payload."""
        count = count_of(data.nbytes, self.chunk_bytes)
        if self.taken + count >= EMPTY:
            raise damaged("it has too many chunks")
        if count:
            self._sources.append(Source(start=self.taken, data=data))
        self.taken += count

    def resize(self, nbytes: int, changed: int) -> None:
        """Make room for contents, of which so many chunks will be given; the others stay."""
        count = count_of(nbytes, self.chunk_bytes)
        if count > len(self.at) + changed:
            raise damaged("it lacks chunks")
        if count > len(self.at):
            more = np.full(count - len(self.at), EMPTY, np.uint32)
            self.at = np.concatenate([self.at, more])
        elif count < len(self.at):
            self.at = self.at[:count].copy()
        self.nbytes = nbytes

    def change(
        self,
        new: NDArray[np.uint32],
        moved: NDArray[np.uint32],
        sources: NDArray[np.uint32],
        data: Frames | NDArray[np.uint8],
        nbytes: int,
    ) -> None:
        """Change contents: chunks that are in ``data``, and chunks that have addresses."""
        before = len(self.at)
        if len(moved) != len(sources):
            raise damaged("its columns do not go together")
        self.resize(nbytes, len(new) + len(moved))
        self._check_positions(new)
        self._check_positions(moved)
        if data.nbytes != self._length_of(new):
            raise damaged("it has more or less new chunks than it should")
        first = self.taken
        self.add(data)
        if len(sources) and int(sources.max()) >= self.taken:
            raise damaged("it uses a chunk that is nowhere")
        self.at[new] = np.arange(first, self.taken, dtype=np.uint32)
        self.at[moved] = sources
        if (self.at[before:] == EMPTY).any():
            raise damaged("it lacks chunks")

    @property
    def slow_bytes(self) -> int:
        """How many bytes of all that have addresses take long to read."""
        data = [each.data for each in self._sources]
        return sum(each.slow_bytes for each in data if isinstance(each, Frames))

    def parts(self) -> Iterator[NDArray[np.uint8]]:
        """Yield the bytes of all chunks in the order of their addresses; no chunk is cut."""
        for source in self._sources:
            if isinstance(source.data, Frames) and source.data.form:
                yield from map(source.data.frame, range(source.data.count))
            else:
                yield _plain(source.data)

    def put_together(self) -> NDArray[np.uint8]:
        """Return the contents."""
        full, tail = divmod(self.nbytes, self.chunk_bytes)
        at = self.at[:full]
        places, pool = self._pool(at) if _is_scattered(at) else _NO_POOL
        pooled = places[at] if len(places) else np.full(full, -1)
        rest = np.flatnonzero(pooled < 0)
        runs = self._runs(rest)
        last = self._tail_source(tail) if tail else None
        try:
            contents = np.empty(self.nbytes, np.uint8)
        except (MemoryError, ValueError) as error:
            raise damaged("its contents do not fit into memory") from error
        for i, (source, mine) in enumerate(runs):
            if isinstance(source.data, Frames) and source.data.form:
                _copy_frames(contents, mine, source.data, self.chunk_bytes)
            else:
                # What lies in the gaps of the first is written over by all others.
                joined = _without_gaps(mine) if i == 0 else mine
                _copy_runs(contents, joined, _plain(source.data), self.chunk_bytes)
        if not len(rest):
            rows = contents[: full * self.chunk_bytes].view(pool.dtype)
            np.take(pool, pooled, out=rows, mode="clip")
        elif len(rest) < full:
            here = np.flatnonzero(pooled >= 0)
            _copy_rows(contents, here, pool.view(np.uint8), pooled[here], self.chunk_bytes)
        if last is not None:
            contents[full * self.chunk_bytes :] = last
        return contents

    def _pool(self, at: NDArray[np.uint32]) -> tuple[NDArray[np.int64], NDArray[np.void]]:
        """Return small payloads as one, and where each address is in it; -1 if it is not there.

        Contents that are much de-duplicated, or that changed often, have many short runs from many
        places: it is fastest to take them all from one.
        """
        size = self.chunk_bytes
        small = [each for each in self._sources if each.nbytes <= _pooled_bytes(each.data)]
        places = np.full(self.taken if small else 0, -1)
        is_used = np.zeros(len(places), np.bool_)
        if small:
            is_used[at] = True
        parts: list[NDArray[np.uint8]] = []
        count = 0
        for source in small:
            end = source.start + source.nbytes // size
            frames = source.data if isinstance(source.data, Frames) and source.data.form else None
            per_frame = frames.size // size if frames else max(end - source.start, 1)
            for number, first in enumerate(range(source.start, end, per_frame)):
                last = min(first + per_frame, end)
                if is_used[first:last].any():
                    data = frames.frame(number) if frames else _plain(source.data)
                    parts.append(data[: (last - first) * size])
                    places[first:last] = np.arange(count, count + last - first)
                    count += last - first
        pool = np.concatenate(parts) if parts else np.empty(0, np.uint8)
        return places, pool.view(f"V{size}")

    def _check_positions(self, positions: NDArray[np.uint32]) -> None:
        if not len(positions):
            return
        if int(positions[-1]) >= len(self.at) or not (positions[1:] > positions[:-1]).all():
            raise damaged("its positions do not ascend")

    def _length_of(self, positions: NDArray[np.uint32]) -> int:
        if not len(positions):
            return 0
        last = min(self.chunk_bytes, self.nbytes - int(positions[-1]) * self.chunk_bytes)
        return (len(positions) - 1) * self.chunk_bytes + last

    def _runs(self, rest: NDArray[np.int64]) -> list[tuple[Source, NDArray[np.int64]]]:
        """Return for each source its runs: rows of position, place in the source, and length."""
        if not len(rest):
            return []
        starts = np.array([each.start for each in self._sources], np.uint32)
        at = self.at[rest]
        is_start = np.ones(len(rest), np.bool_)
        is_start[1:] = (at[1:] - at[:-1] != 1) | (rest[1:] - rest[:-1] != 1)
        first = np.flatnonzero(is_start)
        ends = np.append(first[1:], len(rest))
        owners = np.searchsorted(starts, at[first], "right")
        crossing = owners != np.searchsorted(starts, at[ends - 1], "right")
        if crossing.any():
            # A run that goes on from the end of one source to the start of the next.
            inside = spread(first[crossing], (ends - first)[crossing])
            first = np.union1d(first, inside[np.isin(at[inside], starts)])
            ends = np.append(first[1:], len(rest))
            owners = np.searchsorted(starts, at[first], "right")
        order = np.argsort(owners, kind="stable")
        bounds = np.searchsorted(owners[order], np.arange(1, len(starts) + 2))
        found = []
        for i, source in enumerate(self._sources):
            mine = order[bounds[i] : bounds[i + 1]]
            rows = at[first[mine]].astype(np.int64) - source.start
            lengths = ends[mine] - first[mine]
            if len(mine) and (rows + lengths).max() > source.nbytes // self.chunk_bytes:
                raise damaged("it uses a short chunk for a full one")
            if len(mine):
                found.append((source, np.stack([rest[first[mine]], rows, lengths], axis=1)))
        return found

    def _tail_source(self, tail: int) -> NDArray[np.uint8]:
        """Return the bytes of the last chunk, which is short."""
        address = int(self.at[-1])
        source = next(each for each in reversed(self._sources) if each.start <= address)
        start = (address - source.start) * self.chunk_bytes
        if source.nbytes - start != tail:
            raise damaged("it uses a chunk of another length for its last")
        if isinstance(source.data, Frames) and source.data.form:
            return source.data.frame(source.data.count - 1)[-tail:]
        return _plain(source.data)[start:]


_NO_POOL = np.empty(0, np.int64), np.empty(0, np.void(1).dtype)


def _is_scattered(at: NDArray[np.uint32]) -> bool:
    """Tell whether chunks come from many places."""
    runs = 1 + int(np.count_nonzero(np.diff(at) != 1))
    return len(at) < _LONG_RUN * runs


def _pooled_bytes(data: Frames | NDArray[np.uint8]) -> int:
    """Return up to which size bytes are copied to one place first; only if they are compressed
    that costs nothing."""
    return _POOLED_BYTES if isinstance(data, Frames) and data.form else _POOLED_BYTES // 8


def _plain(data: Frames | NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return bytes that are not compressed."""
    return data.whole() if isinstance(data, Frames) else data


def _without_gaps(runs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return fewer and longer runs, which copy what is between them as well."""
    if not len(runs):
        return runs
    position, row, length = runs.T
    gap = position[1:] - (position + length)[:-1]
    is_apart = (np.diff(position - row) != 0) | (gap > _LONG_RUN)
    first = np.append(0, np.flatnonzero(is_apart) + 1)
    last = np.append(first[1:], len(runs)) - 1
    lengths = (position + length)[last] - position[first]
    return np.stack([position[first], row[first], lengths], axis=1)


def _copy_runs(
    contents: NDArray[np.uint8], runs: NDArray[np.int64], source: NDArray[np.uint8], size: int
) -> None:
    is_long = runs[:, 2] >= _LONG_RUN
    target, data = contents.data, source.data
    for position, row, length in (runs[is_long] * size).tolist():
        target[position : position + length] = data[row : row + length]
    short = runs[~is_long]
    if len(short):
        positions, rows = spread(short[:, 0], short[:, 2]), spread(short[:, 1], short[:, 2])
        _copy_rows(contents, positions, source, rows, size)


def _copy_frames(
    contents: NDArray[np.uint8], runs: NDArray[np.int64], frames: Frames, size: int
) -> None:
    runs = runs[np.argsort(runs[:, 1], kind="stable")]
    positions, rows = spread(runs[:, 0], runs[:, 2]), spread(runs[:, 1], runs[:, 2])
    if not (rows[1:] >= rows[:-1]).all():
        order = np.argsort(rows, kind="stable")
        positions, rows = positions[order], rows[order]
    per_frame = frames.size // size
    numbers = rows // per_frame
    cuts = np.flatnonzero(np.diff(numbers)) + 1
    for start, stop in zip([0, *cuts.tolist()], [*cuts.tolist(), len(rows)], strict=True):
        number = int(numbers[start])
        frame = frames.frame(number)
        _copy_rows(contents, positions[start:stop], frame, rows[start:stop] % per_frame, size)


def _is_run(numbers: NDArray[np.int64]) -> bool:
    """Tell whether numbers follow one another."""
    return len(numbers) > 0 and bool((np.diff(numbers) == 1).all())


def _copy_rows(
    contents: NDArray[np.uint8],
    positions: NDArray[np.int64],
    source: NDArray[np.uint8],
    rows: NDArray[np.int64],
    size: int,
) -> None:
    if _is_run(positions) and _is_run(rows):
        start, first = int(positions[0]) * size, int(rows[0]) * size
        nbytes = len(rows) * size
        contents[start : start + nbytes] = source[first : first + nbytes]
        return
    kind = f"V{size}"
    target = contents[: len(contents) // size * size].view(kind)
    data = source[: len(source) // size * size].view(kind)
    # In steps, so that what lies between stays in the cache.
    step = max(_TOGETHER_BYTES // size, 1)
    for start in range(0, len(rows), step):
        target[positions[start : start + step]] = data[rows[start : start + step]]
