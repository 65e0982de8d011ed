"""``chex demo`` in the real kernel."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.slow


def demo(*options: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does."""
    return subprocess.run(
        [sys.executable, "-m", "chexpoint", "demo", *options],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )


def test_demo_restores_faster_than_it_computes() -> None:
    result = demo("--json")
    assert result.stderr == ""
    assert result.returncode == 0
    data = json.loads(result.stdout)
    assert data["restored"] is True
    assert len(data["restore_seconds"]) == 2
    assert max(data["restore_seconds"]) < data["compute_seconds"]


def test_demo_shows_every_cell_and_the_saving() -> None:
    result = demo()
    assert result.stderr == ""
    assert result.returncode == 0
    lines = result.stdout.splitlines()
    for kind in ("compute", "checkpoint", "restore", "status"):
        assert [line for line in lines if line.startswith(kind)]
    assert "the state was the same" in lines[-1]
