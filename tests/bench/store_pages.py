"""The part of `store.py` that measures page tracking: with the kernel, on live memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from chexpoint.store.dedup import Series, decode
from chexpoint.store.dedup.pages import PageTracker
from tests.bench.store_measure import Copying, Row, as_bytes, bar, cpu, is_equal, joined, least

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def tracked(
    name: str, states: list[NDArray[Any]], make: Callable[[], Series], rounds: int
) -> list[Row]:
    """Measure a lineage whose written pages are known; what protecting them costs is part of it."""
    copying = Copying(states[0].nbytes)
    times, costs, right = [], [], True
    for _ in range(rounds):
        with PageTracker() as tracker:
            spent, faults, is_right = _one_round(states, make(), tracker, copying)
        times.append(spent)
        costs.append(faults)
        right &= is_right
    steps = len(states) - 1
    mean = sum(least(times)) / steps
    more = {
        "gb_per_cpu_s": round(states[0].nbytes / mean / 1e9, 2),
        "faults_s": round(sum(least(costs)) / steps, 5),
        "seconds": round(mean, 5),
        "copy_s": round(copying.seconds, 5),
    }
    return [
        bar(f"{name}: with pages known, of a copy", copying.seconds / mean, 1.2, "least", **more),
        bar(f"{name}: right", float(right), 1.0, "least"),
    ]


def _one_round(
    states: list[NDArray[Any]], series: Series, tracker: PageTracker, copying: Copying
) -> tuple[list[float], list[float], bool]:
    """Return what each step took, what of it was writing to protected pages, and if it is right.

    The same is written to an array that nobody watches: what that takes is not counted.
    """
    watched, free = states[0].reshape(-1).copy(), states[0].reshape(-1).copy()
    chain = [joined(series.encode(as_bytes(watched)))]
    if not tracker.watch(watched):
        raise OSError("the memory of an array cannot be watched")
    times, faults = [], []
    for state in states[1:]:
        copying.round()
        where = np.flatnonzero(watched != state.reshape(-1))
        values = state.reshape(-1)[where]
        plain = cpu(lambda w=where, v=values: free.__setitem__(w, v))  # type: ignore[misc]
        armed = cpu(lambda w=where, v=values: watched.__setitem__(w, v))  # type: ignore[misc]
        pieces: list[Any] = []
        spent = cpu(
            lambda p=pieces: p.extend(  # type: ignore[misc]
                series.encode(as_bytes(watched), dirty=tracker.dirty(watched))
            )
        )
        chain.append(joined(pieces))
        faults.append(max(armed - plain, 0.0))
        times.append(spent + faults[-1])
    return times, faults, is_equal(decode(chain), states[-1])
