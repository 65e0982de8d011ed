"""Staging memory: slots do not overlap, are reused, and a fork has none of them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.hindsight.writing.arena import ALIGNMENT, PAGE, Arena, Slots, aligned

TOTAL = 40 * PAGE


def mapped() -> list[str]:
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    return [line for line in maps.splitlines() if "chex-staging" in line]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("take"), st.integers(0, 15 * PAGE)),
            st.tuples(st.just("give"), st.integers(0, 100)),
        ),
        max_size=60,
    )
)
def test_slots_never_overlap_and_all_come_back(orders: list[tuple[str, int]]) -> None:
    slots = Slots(TOTAL)
    taken: dict[int, int] = {}
    for what, number in orders:
        if what == "take":
            start = slots.take(number)
            if start is not None:
                end = start + aligned(max(number, 1), PAGE)
                assert end <= TOTAL
                assert start % ALIGNMENT == 0
                assert all(end <= s or s + n <= start for s, n in taken.items())
                taken[start] = end - start
            else:
                # There is no room only if something else is there.
                assert taken
        elif taken:
            start = sorted(taken)[number % len(taken)]
            del taken[start]
            slots.give(start)
        assert slots.taken_bytes == sum(taken.values())
    for start in taken:
        slots.give(start)
    assert slots.take(TOTAL) == 0


def test_memory_is_reused_from_the_start() -> None:
    arena = Arena(10 * PAGE)
    first, second = arena.take(3 * PAGE), arena.take(100)
    assert (first, second) == (0, 3 * PAGE)
    assert arena.take(7 * PAGE) is None
    arena.give(0)
    assert arena.take(2 * PAGE) == 0
    assert arena.present_bytes == 4 * PAGE
    arena.close()


def test_arena_goes_without_a_trace() -> None:
    before = os.listdir("/proc/self/fd")
    arena = Arena(5 * PAGE)
    assert mapped()
    with arena.memory.lent(0, 10) as view:
        view[:] = b"0123456789"
    arena.close()
    assert not mapped()
    assert os.listdir("/proc/self/fd") == before


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("first", [0, 64])
def test_whoever_keeps_memory_does_not_crash(library: str, first: int) -> None:
    arena = Arena(5 * PAGE)
    kept: Any
    with arena.memory.lent(0, PAGE) as view:
        part = view if first == 0 else view[first:]
        kept = (
            np.frombuffer(part, np.uint8)
            if library == "numpy"
            else torch.frombuffer(part, dtype=torch.uint8)
        )
        del part
        kept[:] = 1
    arena.close()
    assert not mapped()
    assert kept.sum() == 0
    kept[:] = 2


def test_fork_has_no_mapping() -> None:
    arena = Arena(5 * PAGE)
    pid = os.fork()
    if pid == 0:
        arena.abandon()
        os._exit(1 if mapped() else 0)
    assert os.waitpid(pid, 0)[1] == 0
    # What the child did is of no concern here.
    with arena.memory.lent(0, 4) as view:
        view[:] = b"abcd"
    arena.close()
