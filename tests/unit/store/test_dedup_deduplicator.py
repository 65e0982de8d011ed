"""One consolidated diff for several arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from chexpoint.errors import InvalidValue, StoreDamaged, StoreTooNew
from chexpoint.store.dedup import Deduplicator, restore

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.mark.parametrize("method", ["full", "basic", "list", "tree", "ours"])
def test_all_arrays_of_every_checkpoint_come_back(method: str) -> None:
    rng = np.random.default_rng(0)
    deduplicator = Deduplicator(method=method, chunk_bytes=64)
    states: list[dict[str, NDArray[np.generic]]] = [
        {"a": rng.random(1000), "b": np.zeros((30, 7), np.int32)},
        {"a": rng.random(1000)},
        {"a": rng.random(900), "b": np.ones((30, 7), np.int32), "c": np.empty(0)},
        {},
        {"b": np.ones((30, 8), np.int32), "é": rng.random(3)},
    ]
    diffs = [deduplicator.checkpoint(state) for state in states]
    data = [diff.data for diff in diffs]
    assert [diff.number for diff in diffs] == [0, 1, 2, 3, 4]
    for number, (state, diff) in enumerate(zip(states, diffs, strict=True)):
        found = restore(data, number)
        assert {name: each.tobytes() for name, each in found.items()} == {
            name: each.tobytes() for name, each in state.items()
        }
        assert diff.nbytes == sum(each.nbytes for each in state.values())
        assert diff.stored_bytes == len(diff.data)
    assert restore(data).keys() == states[-1].keys()


def test_unchanged_arrays_cost_almost_nothing() -> None:
    arrays = {f"layer {i}": np.random.default_rng(i).random(10_000) for i in range(10)}
    deduplicator = Deduplicator()
    first, second = deduplicator.checkpoint(arrays), deduplicator.checkpoint(arrays)
    assert first.stored_bytes > first.nbytes / 2
    assert second.stored_bytes < 2000
    assert deduplicator.index_bytes < 0.25 * first.nbytes


def test_there_is_no_checkpoint_beyond_the_last() -> None:
    data = [Deduplicator().checkpoint({"a": b"abc"}).data]
    for number in (1, -2):
        with pytest.raises(InvalidValue, match="there is no checkpoint"):
            restore(data, number)


def test_missing_and_exchanged_diffs_are_damage() -> None:
    deduplicator = Deduplicator()
    data = [deduplicator.checkpoint({"a": bytes([i] * 10)}).data for i in range(3)]
    for wrong in ([data[0], data[2]], data[1:], [data[1], data[0], data[2]], [b"", data[1]]):
        with pytest.raises(StoreDamaged):
            restore(wrong)


def test_a_newer_diff_says_so() -> None:
    data = bytearray(Deduplicator().checkpoint({"a": b"abc"}).data)
    data[4] = 2
    with pytest.raises(StoreTooNew, match="upgrade CHEX"):
        restore([data])


def test_a_flipped_bit_of_a_diff_is_damage() -> None:
    data = Deduplicator().checkpoint({"a": bytes(range(150)), "b": b"x"}).data
    for place in range(len(data) * 8):
        wrong = bytearray(data)
        wrong[place // 8] ^= 1 << place % 8
        with pytest.raises((StoreDamaged, StoreTooNew)):
            restore([wrong])


def test_small_changes_everywhere_are_stored_bit_by_bit_if_the_last_arrays_are_there() -> None:
    random = np.random.default_rng(0)
    first = random.integers(0, 1 << 16, 1 << 16, dtype=np.uint16)
    second = first ^ (random.random(len(first)) < 0.1).astype(np.uint16)
    with_it, without = Deduplicator(), Deduplicator()
    diffs = [with_it.checkpoint({"x": first}).data]
    diffs.append(with_it.checkpoint({"x": second}, previous={"x": first}).data)
    without.checkpoint({"x": first})
    assert len(diffs[1]) * 4 < without.checkpoint({"x": second}).stored_bytes
    for number, array in enumerate((first, second)):
        assert restore(diffs, number)["x"].tobytes() == array.tobytes()
