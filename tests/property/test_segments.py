"""Segments cover what is wanted, begin where they can, and no split has a shorter longest one."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.hindsight.segments import expected_seconds, split
from chexpoint.model import BlockRecord, IterationRecord, LoopCheckpoint, LoopRecord, Segment

CHECKPOINTS = st.none() | st.just(LoopCheckpoint(leaves={}))
SECONDS = st.sampled_from([0.0, 0.001, 0.25, 1.0, 3.0, 10.0])


@st.composite
def iterations(draw: st.DrawFn) -> IterationRecord:
    blocks = tuple(
        BlockRecord(site=1, seconds=draw(SECONDS), checkpoint=draw(CHECKPOINTS))
        for _ in range(draw(st.integers(0, 2)))
    )
    rest = draw(SECONDS)
    return IterationRecord(
        seconds=rest + sum(block.seconds for block in blocks),
        start=draw(CHECKPOINTS),
        blocks=blocks,
    )


@st.composite
def loops(draw: st.DrawFn) -> LoopRecord:
    return LoopRecord(
        site=0,
        iterations=tuple(draw(st.lists(iterations(), min_size=1, max_size=8))),
        can_jump=draw(st.booleans()),
    )


@st.composite
def ranges(draw: st.DrawFn, loop: LoopRecord) -> tuple[int, int]:
    start = draw(st.integers(0, len(loop.iterations) - 1))
    return start, draw(st.integers(start + 1, len(loop.iterations)))


def first(loop: LoopRecord, start: int) -> int:
    """Return the nearest iteration that one can jump to."""
    if not loop.can_jump:
        return 0
    known = (i for i in range(start, 0, -1) if loop.iterations[i].start is not None)
    return next(known, 0)


def every_split(loop: LoopRecord, start: int, stop: int, workers: int) -> list[list[Segment]]:
    places = [i for i in range(start + 1, stop) if not loop.can_jump or first(loop, i) == i]
    return [
        [
            Segment(start=a, stop=b, first=first(loop, a), is_jump=first(loop, a) > 0)
            for a, b in pairwise([start, *inner, stop])
        ]
        for count in range(min(workers, len(places) + 1))
        for inner in combinations(places, count)
    ]


@given(data=st.data(), loop=loops(), workers=st.integers(1, 5), steps_into=st.booleans())
def test_split(data: st.DataObject, loop: LoopRecord, workers: int, steps_into: bool) -> None:
    start, stop = data.draw(ranges(loop))
    segments = split(loop, workers=workers, epochs=(start, stop), steps_into=steps_into)

    covered = [i for each in segments for i in range(each.start, each.stop)]
    assert covered == list(range(start, stop))
    assert 1 <= len(segments) <= workers
    for each in segments:
        assert each.start < each.stop
        assert each.first == first(loop, each.start)
        assert each.is_jump == (each.first > 0)
    assert all(loop.iterations[each.first].start or not each.first for each in segments)

    shortest = min(
        expected_seconds(loop, each, steps_into) for each in every_split(loop, start, stop, workers)
    )
    assert expected_seconds(loop, segments, steps_into) == pytest.approx(shortest, rel=1e-9)


@given(loop=loops(), workers=st.integers(1, 5), steps_into=st.booleans())
def test_more_workers_never_take_longer(loop: LoopRecord, workers: int, steps_into: bool) -> None:
    fewer = split(loop, workers=workers, epochs=None, steps_into=steps_into)
    more = split(loop, workers=workers + 1, epochs=None, steps_into=steps_into)
    assert expected_seconds(loop, more, steps_into) <= expected_seconds(loop, fewer, steps_into) * (
        1 + 1e-9
    )
