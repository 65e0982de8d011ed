"""How `store.py` measures: CPU-seconds beside a plain copy, least of several rounds."""

from __future__ import annotations

import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Row = dict[str, Any]
Bytes = NDArray[np.uint8]

MIB = 2**20


def bar(what: str, value: float, limit: float, sense: Literal["least", "most"], **more: Any) -> Row:
    """Return a row: what was measured, the bar, and whether it is met."""
    met = value >= limit if sense == "least" else value <= limit
    return {"what": what, "value": round(value, 4), "bar": limit, "sense": sense, "met": met} | more


def say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def cpu(action: Callable[[], object]) -> float:
    """Return the CPU-seconds that all threads of this process spent on something."""
    started = time.process_time()
    action()
    return time.process_time() - started


class Copying:
    """A plain copy of an array, timed beside what is compared with it."""

    def __init__(self, nbytes: int) -> None:
        self._from = np.ones(nbytes, np.uint8)
        self._to = np.zeros(nbytes, np.uint8)
        self.seconds = float("inf")
        self.nbytes = nbytes

    def round(self) -> None:
        self.seconds = min(self.seconds, cpu(lambda: np.copyto(self._to, self._from)))

    @property
    def gb_per_s(self) -> float:
        return self.nbytes / self.seconds / 1e9


def as_bytes(array: NDArray[Any]) -> Bytes:
    """Return the bytes of an array, without a copy."""
    return array.reshape(-1).view(np.uint8)


def joined(buffers: Iterable[Any]) -> bytes:
    return b"".join(bytes(each) for each in buffers)


def size(buffers: Iterable[Any]) -> int:
    return sum(memoryview(each).nbytes for each in buffers)


def is_equal(restored: Bytes, truth: NDArray[Any]) -> bool:
    return bool(np.array_equal(restored, as_bytes(truth)))


def least(rounds: Sequence[Sequence[float]]) -> list[float]:
    """Return the least of each column."""
    return [min(column) for column in zip(*rounds, strict=True)]


def held_and_peak(action: Callable[[], object]) -> tuple[int, int]:
    """Return how much memory Python and NumPy hold for what something returns, and needed most."""
    gc.collect()
    tracemalloc.start()
    try:
        made = action()
        gc.collect()
        held, peak = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held, peak
