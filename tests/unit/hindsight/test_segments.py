"""How the iterations of a loop are shared among workers."""

from __future__ import annotations

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.hindsight.segments import expected_seconds, split
from chexpoint.model import BlockRecord, IterationRecord, LoopCheckpoint, LoopRecord, Segment

CHECKPOINT = LoopCheckpoint(leaves={})


def loop(
    seconds: list[float],
    *,
    starts: set[int] | None = None,
    blocks: set[int] | None = None,
    can_jump: bool = True,
) -> LoopRecord:
    """Return a loop whose iterations are one block each, with checkpoints here and there."""
    every = set(range(len(seconds)))
    starts = every if starts is None else starts
    blocks = every if blocks is None else blocks
    return LoopRecord(
        site=0,
        can_jump=can_jump,
        iterations=tuple(
            IterationRecord(
                seconds=each,
                start=CHECKPOINT if i in starts else None,
                blocks=(
                    BlockRecord(
                        site=1, seconds=each, checkpoint=CHECKPOINT if i in blocks else None
                    ),
                ),
            )
            for i, each in enumerate(seconds)
        ),
    )


def ranges(segments: tuple[Segment, ...]) -> list[tuple[int, int, int]]:
    return [(each.first, each.start, each.stop) for each in segments]


def test_one_worker_does_all() -> None:
    segments = split(loop([1.0] * 6), workers=1, epochs=None, steps_into=True)
    assert segments == (Segment(start=0, stop=6, first=0, is_jump=False),)


def test_workers_share_evenly() -> None:
    segments = split(loop([1.0] * 6), workers=2, epochs=None, steps_into=True)
    assert segments == (
        Segment(start=0, stop=3, first=0, is_jump=False),
        Segment(start=3, stop=6, first=3, is_jump=True),
    )
    assert expected_seconds(loop([1.0] * 6), segments, True) == pytest.approx(3.0, abs=0.1)


def test_balance_is_by_seconds() -> None:
    segments = split(loop([9.0, 1.0, 1.0, 1.0]), workers=2, epochs=None, steps_into=True)
    assert ranges(segments) == [(0, 0, 1), (1, 1, 4)]


def test_boundaries_are_at_checkpoints() -> None:
    record = loop([1.0] * 9, starts={2}, blocks=set())
    segments = split(record, workers=4, epochs=None, steps_into=True)
    assert ranges(segments) == [(0, 0, 2), (2, 2, 9)]


def test_range_begins_at_the_nearest_checkpoint() -> None:
    record = loop([1.0] * 9, starts={2, 6})
    segments = split(record, workers=2, epochs=(4, 8), steps_into=True)
    assert ranges(segments) == [(2, 4, 6), (6, 6, 8)]
    (segment,) = split(record, workers=1, epochs=(1, 2), steps_into=True)
    assert (segment.first, segment.is_jump) == (0, False)


def test_loop_that_cannot_be_jumped_is_walked() -> None:
    record = loop([10.0] * 8, can_jump=False)
    segments = split(record, workers=2, epochs=None, steps_into=True)
    assert ranges(segments) == [(0, 0, 4), (0, 4, 8)]
    assert not any(each.is_jump for each in segments)


def test_walking_that_costs_as_much_is_done_once() -> None:
    record = loop([10.0] * 8, can_jump=False, blocks=set())
    assert len(split(record, workers=4, epochs=None, steps_into=True)) == 1
    # What is skipped anyway takes no time to share.
    record = loop([10.0] * 8, can_jump=False)
    assert len(split(record, workers=4, epochs=None, steps_into=False)) == 1


def test_skipped_blocks_cost_little() -> None:
    record = loop([10.0] * 8)
    (segment,) = split(record, workers=1, epochs=None, steps_into=False)
    assert expected_seconds(record, [segment], False) < 1.0
    assert expected_seconds(record, [segment], True) > 79.0


def test_range_ends_with_the_record() -> None:
    assert ranges(split(loop([1.0] * 3), workers=1, epochs=(1, 99), steps_into=True)) == [(1, 1, 3)]


@pytest.mark.parametrize("epochs", [(3, 9), (2, 2), (2, 1), (-1, 2)])
def test_empty_range_is_refused(epochs: tuple[int, int]) -> None:
    with pytest.raises(InvalidValue, match="3 iterations were recorded, 0 to 2"):
        split(loop([1.0] * 3), workers=1, epochs=epochs, steps_into=True)


def test_loop_without_iterations() -> None:
    assert split(loop([]), workers=2, epochs=None, steps_into=True) == ()
    assert expected_seconds(loop([]), (), True) == 0.0
    with pytest.raises(InvalidValue, match="none was"):
        split(loop([]), workers=2, epochs=(0, 1), steps_into=True)


def test_no_workers_are_refused() -> None:
    with pytest.raises(InvalidValue, match="workers"):
        split(loop([1.0]), workers=0, epochs=None, steps_into=True)


def test_long_loops_are_split_at_once() -> None:
    segments = split(loop([0.01] * 20_000), workers=16, epochs=None, steps_into=True)
    assert [each.stop - each.start for each in segments] == [1250] * 16
