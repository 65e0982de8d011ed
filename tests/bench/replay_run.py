"""Replaying in the replay benchmark: what a run took, and what it is compared with."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from chexpoint.engine import Engine
from chexpoint.model import Recording, Replay
from chexpoint.project import Project, ProjectFiles, recording_of
from chexpoint.replay import Replayer

Row = dict[str, Any]


@contextmanager
def scratch() -> Iterator[Path]:
    """Yield a folder that is gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="chex-bench-") as folder:
        yield Path(folder)


def load() -> float:
    """Return how many processes wanted to run in the last minute."""
    return round(os.getloadavg()[0], 2)


def start_up_seconds(rounds: int = 5) -> float:
    """Return what an engine takes to start, to run a cell that does nothing, and to end."""
    found = []
    for _ in range(rounds):
        with scratch() as folder:
            started = time.perf_counter()
            engine = Engine(cwd=folder)
            engine.run("pass")
            engine.kill()
            found.append(time.perf_counter() - started)
    return statistics.median(found)


class Recorded:
    """A project folder with versions in it."""

    def __init__(self, folder: Path) -> None:
        self.project = Project.at(folder)
        self.recording: Recording = recording_of(self.project)

    @property
    def largest_bytes(self) -> int:
        return max(node.size for node in self.recording.tree.nodes.values())

    def versions(self) -> dict[str, list[str]]:
        """Return the cells of each version, as they were run."""
        cells = self.recording.cells
        return {
            label.replace("/", "-"): [cells[node].source for node in version.path]
            for label, version in self.recording.labels.items()
        }

    def replay(self, budget_bytes: float | None = None, workers: int = 1) -> Replay:
        """Replay all versions; by default, within the budget that users have who give none."""
        files = ProjectFiles(self.project)
        budget = None if budget_bytes is None else int(budget_bytes)
        return Replayer(self.recording, files, budget_bytes=budget, workers=workers).run()


def copied_inputs(source: Path, target: Path) -> None:
    """Copy what cells read, without notebooks and what was recorded."""
    ignored = shutil.ignore_patterns("*.ipynb", ".chex", "__pycache__")
    shutil.copytree(source, target, ignore=ignored, dirs_exist_ok=True)


def once_seconds(replay: Replay) -> float:
    """Return what all cells took, each counted once."""
    return sum(cell.seconds for cell in replay.cells.values())


def cell_seconds(replay: Replay) -> float:
    """Return what all cells took, those that were computed again as often as they were."""
    return sum(cell.seconds * cell.computed for cell in replay.cells.values())


def statuses(replay: Replay) -> dict[str, int]:
    return dict(Counter(cell.status for cell in replay.cells.values()))


def in_turns(ways: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, list[Any]]:
    """Do everything once in each round, the other way round in every second one."""
    found: dict[str, list[Any]] = {name: [] for name in ways}
    for number in range(rounds):
        for name in list(ways) if number % 2 == 0 else reversed(list(ways)):
            found[name].append(ways[name]())
    return found


def rounded(values: list[float]) -> list[float]:
    return [round(value, 3) for value in values]
