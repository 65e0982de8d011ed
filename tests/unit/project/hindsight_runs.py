"""Folders of runs, written by hand as the format has them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from chexpoint.project import Project
from tests.unit.project.examples import cell, record

_MOMENTS = itertools.count(5000)

SET_UP = "import random\nw = 0"
TRAINING = """\
for epoch in range(4):
    for x in range(3):
        w += x
    print(w)"""
PROBED = """\
for epoch in range(4):
    for x in range(3):
        w += x
    print(w)
    print("twice", 2 * w)"""
INNER = """\
for epoch in range(4):
    for x in range(3):
        w += x
        print("step", w)
    print(w)"""

SITES = (
    {"site": 0, "line": 1, "kind": "for", "label": "epoch", "names": ["epoch", "x", "w", "range"]},
    {"site": 1, "line": 2, "kind": "for", "label": "x", "within": 0, "names": ["x", "w", "range"]},
)


def events(iterations: int = 4, *, n: int = 0, is_complete: bool = True) -> list[dict[str, Any]]:
    """Return what the training says while it runs: each iteration takes a second."""
    found: list[dict[str, Any]] = [{"e": "loop", "n": n, "site": 0, "can_jump": True}]
    for i in range(iterations):
        checkpoint = {"w": f"loop.r.{i}"} if i else None
        found += [
            {"e": "iter", "n": n, "i": i, "t": float(i), "ck": checkpoint},
            {"e": "block", "n": n, "i": i, "b": 0, "site": 1, "s": 0.9, "ck": None},
            {
                "e": "log",
                "n": n,
                "at": [i],
                "labels": [["epoch", i]],
                "line": 4,
                "via": "print",
                "name": "print",
                "value": 3 * (i + 1),
            },
        ]
    if is_complete:
        found.append({"e": "end", "n": n, "i": iterations, "how": "end", "t": float(iterations)})
    return found


def write_run(
    folder: Path,
    run: str,
    *,
    source: str = TRAINING,
    story: Sequence[Mapping[str, Any]] | None = None,
    images: Sequence[str] = ("loop.r.1", "loop.r.2", "loop.r.3"),
    **head: Any,
) -> Path:
    """Write the folder of a run."""
    path = folder / run
    path.mkdir(parents=True)
    fields = {"format": 1, "run": run, "source": source, "time": 1.0, "sites": SITES, **head}
    (path / "run.json").write_text(json.dumps(fields))
    lines = events() if story is None else story
    (path / "events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    saved = ({"image": image, "digests": {}, "bytes": 8, "seconds": 0.1} for image in images)
    (path / "saved.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in saved))
    return path


def trained(
    folder: Path,
    name: str = "base",
    *,
    cells: Sequence[str] = (SET_UP, TRAINING),
    digits: str = "a",
) -> Project:
    """Record a version whose last cell is the training; return its project."""
    # Moments after all runs that tests write.
    project = Project(folder, clock=lambda: next(_MOMENTS) / 1000)
    version = project.new_version(name, session=name, origin="train.ipynb")
    parent = "00"
    for count, source in enumerate(cells, start=1):
        node = f"{digits}{count}"
        lineage = cell(node, parent, count, source=source)
        record(project, lineage, name, version=version)
        parent = node
    write_run(
        folder / ".chex" / "loops",
        f"run-{name}",
        source=cells[-1],
        session=name,
        execution_count=len(cells),
    )
    return project
