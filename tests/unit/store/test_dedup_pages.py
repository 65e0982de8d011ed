"""Pages that were written to, where the kernel can tell."""

from __future__ import annotations

import mmap
import os

import numpy as np
import pytest

from chexpoint.store.dedup import Series, decode
from chexpoint.store.dedup.pages import PageTracker

PAGE = mmap.PAGESIZE

needs_tracking = pytest.mark.skipif(
    bool(PageTracker.supported()), reason=PageTracker.supported() or "pages can be tracked"
)


@needs_tracking
def test_exactly_the_pages_that_were_written_are_dirty() -> None:
    data = np.frombuffer(mmap.mmap(-1, 4000 * PAGE), np.uint8)
    data[:] = 1
    with PageTracker() as tracker:
        assert tracker.watch(data)
        assert tracker.dirty(data) == []
        # More ranges than the kernel tells in one call.
        data[:: 2 * PAGE] = 2
        assert tracker.dirty(data) == [(i * PAGE, (i + 1) * PAGE) for i in range(0, 4000, 2)]
        assert tracker.dirty(data) == []


@needs_tracking
def test_ends_that_share_a_page_are_always_dirty() -> None:
    data = np.frombuffer(mmap.mmap(-1, 8 * PAGE), np.uint8)[100:-100]
    data[:] = 1
    with PageTracker() as tracker:
        assert tracker.watch(data)
        ends = [(0, PAGE - 100), (7 * PAGE - 100, 8 * PAGE - 200)]
        assert tracker.dirty(data) == ends
        data[3 * PAGE] = 2
        assert tracker.dirty(data) == [
            ends[0],
            (3 * PAGE - 100, 4 * PAGE - 100),
            ends[1],
        ]


@needs_tracking
def test_what_is_not_watched_or_smaller_than_a_page_is_dirty() -> None:
    data = np.zeros(10 * PAGE, np.uint8)
    with PageTracker() as tracker:
        assert tracker.dirty(data) == [(0, len(data))]
        small = data[10:20]
        assert tracker.watch(small)
        assert tracker.dirty(small) == [(0, 10)]


@needs_tracking
def test_pages_that_were_given_back_are_dirty() -> None:
    memory = mmap.mmap(-1, 8 * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    data = np.frombuffer(memory, np.uint8)
    data[:] = 1
    with PageTracker() as tracker:
        assert tracker.watch(data)
        memory.madvise(mmap.MADV_DONTNEED, 2 * PAGE, PAGE)
        assert (2 * PAGE, 3 * PAGE) in tracker.dirty(data)


@needs_tracking
def test_a_forked_child_takes_everything_for_dirty() -> None:
    data = np.frombuffer(mmap.mmap(-1, 8 * PAGE), np.uint8)
    data[:] = 1
    with PageTracker() as tracker:
        assert tracker.watch(data)
        child = os.fork()
        if not child:
            os._exit(tracker.dirty(data) != [(0, len(data))])
        assert os.waitpid(child, 0)[1] == 0


@needs_tracking
def test_a_series_looks_only_at_dirty_pages() -> None:
    data = np.frombuffer(mmap.mmap(-1, 300 * PAGE), np.uint8)
    data[:] = np.random.default_rng(0).integers(0, 256, len(data), np.uint8)
    series, chain = Series(engine="plain"), list[bytes]()
    with PageTracker() as tracker:
        assert tracker.watch(data)
        for place in (5, 100_000, len(data) - 1):
            chain.append(b"".join(series.encode(data, dirty=tracker.dirty(data))))
            assert decode(chain).tobytes() == data.tobytes()
            data[place] += 1
        chain.append(b"".join(series.encode(data, dirty=tracker.dirty(data))))
    assert decode(chain).tobytes() == data.tobytes()
