"""Work on many frames, by several threads where that pays: zstd lets others run meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_WORTH_BYTES = 8 << 20
"""Less is done before threads have started."""


def each(
    work: Callable[[Item], Result], items: Sequence[Item], *, nbytes: int, threads: int
) -> list[Result]:
    """Return what a function gives for each item, in their order; all threads have ended then.

    Parameters
    ----------
    nbytes
        How much data that is about.
    threads
        How many there may be; no more than there are cores.
    """
    threads = min(threads, len(os.sched_getaffinity(0)), len(items))
    if threads > 1 and nbytes >= _WORTH_BYTES:
        # Loaded here, because most processes never need it.
        from concurrent.futures import ThreadPoolExecutor

        try:
            with ThreadPoolExecutor(threads) as pool:
                return list(pool.map(work, items))
        except RuntimeError:  # the system allows no more threads
            pass
    return [work(item) for item in items]
