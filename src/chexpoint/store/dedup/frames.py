"""Frames: the payload of a piece, compressed where that pays, and readable part by part."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chexpoint.store.dedup.chunks import Gathered, count_of
from chexpoint.store.dedup.columns import Reader, damaged, read_column, write_column
from chexpoint.store.dedup.together import each

if TYPE_CHECKING:
    from numpy.typing import NDArray

FRAME_BYTES = 262144
WORTH, WORTH_LARGE = 1.1, 2.0
"""How many times smaller a sample must become for frames to be compressed: a little; or much, if it
is so many bytes that the time to read them counts."""

_HEAD = struct.Struct("<B3sIQ")
_ROTATED = 16
_FORMS = (1, 2, 4, 8, _ROTATED | 2, _ROTATED | 4, _ROTATED | 8)
_SAMPLE_BYTES = 4096
_SAMPLES = 8
_SMALL_BYTES = 1 << 20


def shuffled(data: NDArray[np.uint8], form: int) -> list[NDArray[np.uint8]]:
    """Return bytes in parts: the first of every element, the second of every element, and so on.

    Elements that are rotated have their highest bit at the lowest place: then the exponent of a
    number with a sign is one byte.  Bytes after the last whole element stay at the end.
    """
    width = form & ~_ROTATED
    if width == 1:
        return [data]
    whole = len(data) // width * width
    elements = data[:whole].view(f"<u{width}")
    if form & _ROTATED:
        elements = (elements << 1) | (elements >> (8 * width - 1))
    planes = np.ascontiguousarray(elements.view(np.uint8).reshape(-1, width).T)
    return [*planes, data[whole:]] if whole < len(data) else [*planes]


def unshuffled(data: NDArray[np.uint8], form: int) -> NDArray[np.uint8]:
    """Return what `shuffled` was given, from its parts one after another."""
    width = form & ~_ROTATED
    if width == 1:
        return data
    whole = len(data) // width * width
    made = np.empty(len(data), np.uint8)
    rows = made[:whole].reshape(-1, width)
    for i, plane in enumerate(data[:whole].reshape(width, -1)):
        rows[:, i] = plane
    made[whole:] = data[whole:]
    if form & _ROTATED:
        elements = made[:whole].view(f"<u{width}")
        elements[:] = (elements >> 1) | (elements << (8 * width - 1))
    return made


def sample_of(data: NDArray[np.uint8] | Gathered) -> NDArray[np.uint8]:
    """Return some of the data, from all over it, and the same each time."""
    if len(data) <= _SAMPLES * _SAMPLE_BYTES:
        return data[:]
    # Starting at multiples of 64, so that elements stay whole.
    starts = np.linspace(0, len(data) - _SAMPLE_BYTES, _SAMPLES).astype(np.int64) // 64 * 64
    return np.concatenate([data[start : start + _SAMPLE_BYTES] for start in starts.tolist()])


def best_form(sample: NDArray[np.uint8]) -> tuple[int, float]:
    """Return the form in which a sample becomes smallest, and how many times smaller."""
    sizes = {form: len(_packed(sample, form, 1)) for form in _FORMS}
    form = min(sizes, key=lambda each: sizes[each])
    return form, len(sample) / sizes[form]


def choose_form(payload: NDArray[np.uint8] | Gathered, *, is_large: bool) -> int:
    """Return the form in which a payload is worth to be compressed; 0 if it is not."""
    if len(payload) < 64:
        return 0
    form, gain = best_form(sample_of(payload))
    return form if gain > (WORTH_LARGE if is_large else WORTH) else 0


def write_frames(
    payload: NDArray[np.uint8] | Gathered, chunk_bytes: int, form: int, *, threads: int = 1
) -> tuple[bytes, list[bytes | memoryview]]:
    """Return metadata and buffers of a payload.

    Parameters
    ----------
    payload
        The bytes.
    chunk_bytes
        No chunk lies in two frames.
    form
        Of its elements; 0 not to compress it.
    threads
        How many may compress.
    """
    size = chunk_bytes * max(FRAME_BYTES // chunk_bytes, 1)
    head = _HEAD.pack(form, bytes(3), size, len(payload))
    if not form:
        if isinstance(payload, Gathered):
            return head, [*payload.buffers()]
        return head, [payload.data] if len(payload) else []
    level = 3 if len(payload) <= _SMALL_BYTES else 1

    def made(start: int) -> bytes | memoryview:
        frame = payload[start : start + size]
        packed = _packed(frame, form, level)
        return packed if len(packed) < len(frame) else frame.data

    starts = range(0, len(payload), size)
    stored = each(made, starts, nbytes=len(payload), threads=threads)
    return head + write_column(np.array([len(each) for each in stored], np.uint32)), stored


def _packed(data: NDArray[np.uint8], form: int, level: int) -> bytes:
    from chexpoint.store.dedup.zstd import compress_parts

    parts = [each.data for each in shuffled(data, form)]
    return compress_parts(parts, 0 if form & _ROTATED else level)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """A payload that can be read part by part."""

    nbytes: int
    """How many bytes it gives."""
    size: int
    form: int
    """Of its elements; 0 if the bytes are stored as they are."""
    starts: NDArray[np.int64]
    """Where each frame is stored, and where the last ends."""
    stored: memoryview

    def whole(self) -> NDArray[np.uint8]:
        """Return the bytes as they are stored; only if they are not compressed."""
        return np.frombuffer(self.stored, np.uint8)

    def frame(self, number: int) -> NDArray[np.uint8]:
        """Return the bytes of one frame."""
        from chexpoint.store.dedup.zstd import decompress

        data = self.stored[int(self.starts[number]) : int(self.starts[number + 1])]
        nbytes = min(self.size, self.nbytes - number * self.size)
        if len(data) == nbytes:
            return np.frombuffer(data, np.uint8)
        return unshuffled(np.frombuffer(decompress(data, nbytes), np.uint8), self.form)

    @property
    def slow_bytes(self) -> int:
        """How many bytes take long to read, for the little that they are compressed."""
        return self.nbytes if self.form and WORTH_LARGE * len(self.stored) > self.nbytes else 0

    @property
    def count(self) -> int:
        """How many frames there are."""
        return count_of(self.nbytes, self.size)


def read_frames(reader: Reader, payload: memoryview, chunk_bytes: int) -> Frames:
    """Return the frames that metadata describes."""
    from chexpoint.store.dedup.zstd import MOST_DENSE

    form, zeros, size, nbytes = _HEAD.unpack(reader.take(_HEAD.size))
    if form not in {0, *_FORMS} or any(zeros) or not size or size % chunk_bytes:
        raise damaged("its frames have an unknown form")
    if form:
        lengths = read_column(reader)
        starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
        if len(lengths) != count_of(nbytes, size) or nbytes > (len(payload) + 1) * MOST_DENSE:
            raise damaged("its frames do not fit its length")
    else:
        starts = np.array([0, nbytes], np.int64) if nbytes < 1 << 62 else np.zeros(1, np.int64)
    if starts[-1] != len(payload):
        raise damaged("its payload has another length than it should")
    return Frames(nbytes=nbytes, size=size, form=form, starts=starts, stored=payload)
