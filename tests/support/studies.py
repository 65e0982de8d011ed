"""Small projects with recorded versions, for the tests of replay."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chexpoint.model import Replay, ReplayProgress
from chexpoint.project import (
    Batch,
    Project,
    ProjectFiles,
    combinations,
    plan_versions,
    read_source,
    recording_of,
)
from chexpoint.replay import Replayer


def write_notebook(
    path: Path, sources: Sequence[str], tags: Mapping[int, Sequence[str]] | None = None
) -> Path:
    """Write a notebook; its cells have the ids ``cell-0``, ``cell-1``, and so on."""
    cells: list[dict[str, Any]] = [
        {
            "cell_type": "code",
            "id": f"cell-{at}",
            "source": source,
            "metadata": {"tags": list(tags[at])} if tags and at in tags else {},
            "outputs": [],
            "execution_count": None,
        }
        for at, source in enumerate(sources)
    ]
    content = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def record(folder: Path, versions: Mapping[str, Sequence[str]]) -> Project:
    """Record versions, each of a notebook of its name, and return their project."""
    files = [
        write_notebook(folder / f"{name}.ipynb", sources) for name, sources in versions.items()
    ]
    tasks = plan_versions([read_source(file) for file in files], combinations([]))
    with Batch(timeout_s=120) as batch:
        for task in tasks:
            batch.record(task)
    return Project.at(folder)


def replay(project: Project, *labels: str, **options: Any) -> Replay:
    """Replay versions of a project, all if none is named."""
    recording = recording_of(project, labels or None)
    return Replayer(recording, ProjectFiles(project), **options).run()


class Events:
    """Keeps what happens in a replay."""

    def __init__(self) -> None:
        self.all: list[ReplayProgress] = []

    def __call__(self, progress: ReplayProgress) -> None:
        self.all.append(progress)

    def of(self, kind: str) -> list[ReplayProgress]:
        return [event for event in self.all if event.kind == kind]


def statuses(replay: Replay) -> dict[str, list[str]]:
    """Return the status of each cell of each version; empty for those that were not reached."""
    return {
        label: [replay.cells[node].status if node in replay.cells else "" for node in version.path]
        for label, version in replay.recording.labels.items()
    }
