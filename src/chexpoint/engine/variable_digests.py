"""Digests of the arrays in a value; those that are known already are not read again."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from chexpoint.engine.variable_tables import Span
from chexpoint.image import Dump
from chexpoint.model import Bytes, Digest, Seconds

HASH_RATE = 3e9
"""Bytes of arrays that are read in a second, at least."""

LARGE_BYTES = 1 << 20
"""It is worth knowing where an array of this size lies."""

_SLICE = 8 << 20

Held = Callable[[], Mapping[Span, Digest]]
"""Returns what is known of memory."""


class _Clock:
    """Tells the CPU time of this thread.

    Not the time of day: on a busy machine that would run out for the least things.  Asking the
    system takes long on some, so that the time of day is used for a few milliseconds.
    """

    def __init__(self) -> None:
        self._asked = self._told = 0.0

    def __call__(self) -> float:
        now = time.perf_counter()
        if now - self._asked > _STALE_S:
            self._asked, self._told = now, time.thread_time()
        return self._told + now - self._asked


_STALE_S = 0.01
clock = _Clock()


class TooMuch(Exception):
    """There is no time to read the rest of a value."""


class TimedFile(io.BytesIO):
    """Takes a stream until its time is up."""

    def __init__(self, seconds: Seconds) -> None:
        super().__init__()
        self.end = clock() + seconds

    def check(self) -> None:
        """Raise if the time is up."""
        if clock() > self.end:
            raise TooMuch

    def write(self, data: Any) -> int:
        """Take some of the stream."""
        self.check()
        return super().write(data)


@dataclass(frozen=True, slots=True)
class Digested:
    """What is known of the contents of a value."""

    whole: Digest = ""
    """Empty if not all of it was read."""
    parts: tuple[tuple[Digest, Bytes], ...] = ()
    """Digests and sizes of its arrays, as far as they are known."""
    places: tuple[tuple[Span, Digest], ...] = ()
    """Where the large ones lie."""


def digested(written: Dump, file: TimedFile, held: Held) -> Digested:
    """Return the digests of arrays and of all, as far as there is time.

    Parameters
    ----------
    held
        Asked only about large values.
    """
    sizes = [int(part.nbytes) for part in written.parts]
    spans = [_span_of(part) if part.nbytes >= LARGE_BYTES else None for part in written.parts]
    known = held() if any(spans) else {}
    found = [known.get(span, "") if span is not None else "" for span in spans]
    unread = sum(size for size, digest in zip(sizes, found, strict=True) if not digest)
    is_whole = clock() + unread / HASH_RATE <= file.end
    if is_whole:
        try:
            for at, part in enumerate(written.parts):
                found[at] = found[at] or _digest_of(memoryview(part), file)
        except (TooMuch, TypeError):  # arrays of a device are no memory
            is_whole = False
    parts = tuple((digest, size) for digest, size in zip(found, sizes, strict=True) if digest)
    whole = xxhash.xxh3_128(written.data)
    for digest, size in parts if is_whole else ():
        whole.update(f"{digest}{size}".encode())
    places = zip(spans, found, strict=True)
    return Digested(
        whole.hexdigest() if is_whole else "",
        parts,
        tuple((span, digest) for span, digest in places if span is not None and digest),
    )


def _span_of(part: Any) -> Span | None:
    """Return where a buffer lies; None if it cannot be told."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None:
        return None
    try:
        start = numpy.frombuffer(part, numpy.uint8).__array_interface__["data"][0]
    except (TypeError, ValueError, BufferError):
        return None
    return start, start + int(part.nbytes)


def _digest_of(view: memoryview, file: TimedFile) -> Digest:
    if view.nbytes <= _SLICE:
        file.check()
        return xxhash.xxh3_128_hexdigest(view)
    state = xxhash.xxh3_128()
    for start in range(0, view.nbytes, _SLICE):
        state.update(view[start : start + _SLICE])
        file.check()
    return state.hexdigest()
