"""Diffs that were made with the engine for devices restore every checkpoint, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from chexpoint.store import Deduplicator, restore
from chexpoint.store.dedup.analysis import Method
from tests.support.cuda.checks import contents
from tests.support.cuda.emulator import EmulatedDevice

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("method", ["ours", "full", "basic", "list", "tree"])
def test_every_checkpoint_is_restored(
    monkeypatch: pytest.MonkeyPatch, library: Path, method: Method
) -> None:
    monkeypatch.setattr(
        "chexpoint.store.cuda.differ.CupyDevice", lambda: EmulatedDevice(library, seed=6)
    )
    dedup = Deduplicator(engine="cuda", method=method, chunk_bytes=64)
    states = [
        {"a": one, "b": other}
        for one, other in zip(contents(1, 64, 301), contents(2, 64, 77), strict=True)
    ]
    diffs = [dedup.checkpoint(state).data for state in states]
    for number, state in enumerate(states):
        found = restore(diffs, number)
        assert {name: data.tobytes() for name, data in found.items()} == {
            name: data.tobytes() for name, data in state.items()
        }
