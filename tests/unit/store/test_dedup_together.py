"""Frames that several threads compress are those that one compresses."""

from __future__ import annotations

import concurrent.futures
import threading
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chexpoint.store.dedup import decode
from chexpoint.store.dedup.frames import write_frames
from chexpoint.store.dedup.series import Series

if TYPE_CHECKING:
    from numpy.typing import NDArray


@pytest.fixture
def numbers() -> NDArray[np.uint8]:
    drawn = np.random.default_rng(1).integers(0, 40, 3_000_001)
    return drawn.astype(np.float32).view(np.uint8)


def test_threads_change_nothing_and_end(numbers: NDArray[np.uint8]) -> None:
    before = threading.active_count()
    alone = write_frames(numbers, 16384, 4)
    assert write_frames(numbers, 16384, 4, threads=4) == alone
    assert threading.active_count() == before
    piece = b"".join(Series(chunk_bytes=16384, engine="plain", threads=4).encode(numbers))
    assert len(piece) < len(numbers) / 2
    assert (decode([piece]) == numbers).all()


def test_a_system_that_allows_no_threads_only_takes_longer(
    numbers: NDArray[np.uint8], monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = write_frames(numbers, 16384, 4)

    def refuse(_: int) -> object:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(concurrent.futures, "ThreadPoolExecutor", refuse)
    assert write_frames(numbers, 16384, 4, threads=4) == alone
