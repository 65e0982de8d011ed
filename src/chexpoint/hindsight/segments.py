"""Which iterations of a main loop each worker replays: the longest share is as short as can be.

An iteration that is reported is *worked* on; one that is only on the way there is *walked*
through, with the blocks skipped that have a checkpoint.  Where the record allows to jump, a share
begins at a checkpoint, and the state at its end can be compared with the next one.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from chexpoint.errors import InvalidValue
from chexpoint.model import IterationRecord, LoopRecord, Seconds, Segment

_STEP_S = 0.001
"""What an iteration costs apart from what it computes."""
_SKIP_S = 0.005
"""What it costs to skip a block, or to jump: a checkpoint is read and put back."""


def split(
    loop: LoopRecord, *, workers: int, epochs: tuple[int, int] | None, steps_into: bool
) -> tuple[Segment, ...]:
    """Return the segments in which iterations are best replayed side by side.

    Parameters
    ----------
    workers
        The most segments there may be.  There are fewer if more would not end sooner, or if there
        are too few checkpoints to begin at.
    epochs
        The first iteration that is wanted, and the one after the last; None for all.
    steps_into
        Whether the blocks of these iterations are computed, and not skipped.

    Raises
    ------
    InvalidValue
        If no recorded iteration is wanted.

    Notes
    -----
    The longest segment is as short as any split allows, in expected seconds, and with it the
    number of segments is the smallest.  To begin later never makes it longer to get to the same
    end; so for a given limit it is best to make each segment as long as the limit allows, and the
    smallest limit that does is found by bisection.
    """
    if workers < 1:
        raise InvalidValue(f"workers is a number from 1 on, not {workers}.")
    start, stop = _wanted(len(loop.iterations), epochs)
    if start == stop:
        return ()
    costs = _Costs(loop, steps_into=steps_into)
    places = [start, *(i for i in range(start + 1, stop) if costs.is_place(i)), stop]
    best = [start, stop]
    if workers > 1:
        best = _shortest(places, costs, workers)
    return tuple(costs.segment(begin, end) for begin, end in pairwise(best))


def expected_seconds(loop: LoopRecord, segments: Sequence[Segment], steps_into: bool) -> Seconds:
    """Return how long the longest of some segments will take."""
    costs = _Costs(loop, steps_into=steps_into)
    return max((costs.of(each.start, each.stop) for each in segments), default=0.0)


def _wanted(count: int, epochs: tuple[int, int] | None) -> tuple[int, int]:
    if epochs is None:
        return 0, count
    start, stop = epochs
    if start < 0 or start >= min(stop, count):
        there_are = f"{count} iterations were recorded, 0 to {count - 1}" if count else "none was"
        raise InvalidValue(
            f"no iteration is in {start}:{stop}: {there_are}. Write the first one and the one"
            " after the last, such as 0:10."
        )
    return start, min(stop, count)


class _Costs:
    """What segments of a loop are expected to cost."""

    def __init__(self, loop: LoopRecord, *, steps_into: bool) -> None:
        walked = [_walking(each) for each in loop.iterations]
        worked = [
            max(walk, each.seconds + _STEP_S) if steps_into else walk
            for each, walk in zip(loop.iterations, walked, strict=True)
        ]
        self._walked = list(accumulate(walked, initial=0.0))
        self.worked = list(accumulate(worked, initial=0.0))
        self._loop = loop
        # The nearest place at or before each iteration that one can jump to.
        self._first = list(accumulate(map(self._jump, range(len(walked))), max))

    def _jump(self, i: int) -> int:
        can_jump = self._loop.can_jump and self._loop.iterations[i].start is not None
        return i if can_jump else 0

    def is_place(self, i: int) -> bool:
        """Return whether a segment may begin there, apart from the first one."""
        return not self._loop.can_jump or self._first[i] == i

    def way(self, start: int) -> Seconds:
        """Return what it costs to get to an iteration."""
        first = self._first[start]
        return self._walked[start] - self._walked[first] + (_SKIP_S if first else 0.0)

    def of(self, start: int, stop: int) -> Seconds:
        """Return what a segment costs."""
        return self.way(start) + self.worked[stop] - self.worked[start]

    def segment(self, start: int, stop: int) -> Segment:
        first = self._first[start]
        return Segment(start=start, stop=stop, first=first, is_jump=first > 0)


def _walking(iteration: IterationRecord) -> Seconds:
    """Return what an iteration costs whose blocks are skipped where that is possible."""
    skipped = [block.seconds for block in iteration.blocks if block.checkpoint is not None]
    left = max(0.0, iteration.seconds - math.fsum(skipped))
    return left + _STEP_S + _SKIP_S * len(skipped)


def _shortest(places: Sequence[int], costs: _Costs, workers: int) -> list[int]:
    """Return the places at which the segments of the best split begin, and the end."""
    best = [places[0], places[-1]]
    low, high = 0.0, costs.of(*best)
    sums = [costs.worked[place] for place in places]
    while low < (middle := (low + high) / 2) < high:
        found = list(_packed(places, sums, costs, middle, workers))
        longest = max(costs.of(begin, end) for begin, end in pairwise(found))
        if found[-1] == places[-1] and longest <= middle:
            best, high = found, longest
        else:
            low = middle
    return best


def _packed(
    places: Sequence[int], sums: Sequence[float], costs: _Costs, limit: Seconds, workers: int
) -> Iterator[int]:
    """Return where segments begin and end, each as long as a limit allows, or a step longer."""
    at = 0
    yield places[0]
    for _ in range(workers):
        if at == len(places) - 1:
            return
        start = places[at]
        at = max(at + 1, bisect_right(sums, limit - costs.way(start) + costs.worked[start]) - 1)
        yield places[at]
