"""What recording, listing and drawing many versions costs, as JSON.

python tests/bench/versions.py            1,000 versions of 33 cells
python tests/bench/versions.py --quick    100 versions
python tests/bench/versions.py --keep DIR leaves the project in DIR

Versions share prefixes: each begins with cells of an earlier one and goes on with its own.  Each
cell has a lineage of about 2 KB, and outputs; those that were run before are recalled.  Seconds are
by the clock, the median of some rounds; those of fresh processes include starting Python, whose
share is the baseline.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellRecord,
    Effect,
    Event,
    Input,
    NodeId,
    Output,
    to_json,
)
from chexpoint.project import Project

CELLS = 33
VERSIONS, QUICK_VERSIONS = 1000, 100
SESSION = "bench"

Row = dict[str, Any]


# ---------------------------------------------------------------- cells


def digits(rng: random.Random) -> str:
    return f"{rng.getrandbits(128):032x}"


def audit(rng: random.Random) -> CellAudit:
    """Return what a cell does that reads a few files and writes one."""
    names = [f"./data/part-{rng.randrange(10_000):05}.parquet" for _ in range(6)]
    return CellAudit(
        inputs=tuple(Input(kind="file", name=name, digests=(digits(rng),)) for name in names),
        effects=(Effect(path="./out.csv", kind="written", digest=digits(rng), size_bytes=10_000),),
        events=tuple(Event("0", "read", name, digits(rng)) for name in names),
        environment_reads=40,
        interrupts=rng.randrange(5),
    )


def outputs(rng: random.Random) -> tuple[Output, ...]:
    """Return a printed table, and now and then a picture that is too large for the catalog."""
    text = "".join(f"{n:3} {rng.random():.6f}\n" for n in range(30))
    shown: list[Output] = [{"output_type": "stream", "name": "stdout", "text": text}]
    if rng.randrange(50) == 0:
        data = {"image/png": digits(rng) * 3000, "text/plain": "<Figure size 640x480>"}
        shown.append({"output_type": "display_data", "data": data, "metadata": {}})
    return tuple(shown)


def after(rng: random.Random, parent: CellLineage | None, count: int) -> CellRecord:
    """Return the run of a new cell."""
    lineage = CellLineage(
        node=NodeId(digits(rng)),
        parent=parent.node if parent is not None else NodeId("f" * 32),
        code=digits(rng),
        strict=digits(rng),
        number=parent.number + 1 if parent is not None else 1,
        execution_count=count,
        source=f"model = fit(frame, alpha={rng.random()})  # {digits(rng)}\n" * 6,
        audit=audit(rng),
        seconds=rng.random() * 10,
        size_bytes=rng.randrange(2**32),
    )
    return CellRecord(lineage=lineage, outputs=outputs(rng), cell_id=digits(rng)[:8])


@dataclass(frozen=True, slots=True)
class Written:
    """A cell in the catalog."""

    record: CellRecord
    execution: int


def continued(rng: random.Random, shared: Sequence[Written]) -> list[CellRecord]:
    """Return the runs that make a version of cells that ran before."""
    found: list[CellRecord] = []
    last = shared[-1].record.lineage if shared else None
    for count in range(len(shared) + 1, CELLS + 1):
        found.append(after(rng, last, count))
        last = found[-1].lineage
    return found


def add_version(
    project: Project, name: str, shared: Sequence[Written], runs: Sequence[CellRecord]
) -> list[Written]:
    """Record one version that begins with cells that ran before."""
    version = project.new_version(name, session=SESSION, origin="paper.ipynb")
    for cell in shared:
        source, ident = cell.record.lineage.source, cell.record.cell_id
        project.recall(version, cell.execution, source=source, cell_id=ident)
    added = [Written(run, project.record(run, session=SESSION, version=version)) for run in runs]
    return [*shared, *added]


def build(project: Project, versions: int) -> list[list[Written]]:
    """Record versions that share what an earlier one began with."""
    rng = random.Random(0)
    paths: list[list[Written]] = []
    for n in range(versions):
        shared = rng.choice(paths)[: rng.randrange(CELLS)] if paths else []
        paths.append(add_version(project, f"run-{n % 50}", shared, continued(rng, shared)))
    return paths


# ---------------------------------------------------------------- clocks


def timed(action: Callable[[], object]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def row(seconds: Sequence[float], bar: float | None, baseline: float | None = None) -> Row:
    """Show the median of some rounds, and the least and the most of them."""
    median = statistics.median(seconds)
    shown: Row = {
        "seconds": round(median, 4),
        "least": round(min(seconds), 4),
        "most": round(max(seconds), 4),
    }
    if bar is not None:
        shown |= {"bar": bar, "ratio": round(median / bar, 3)}
    if baseline is not None:
        shown["baseline"] = round(baseline, 4)
    return shown


def in_fresh_process(code: str, folder: Path) -> dict[str, Any]:
    """Run code in a process of its own; return what it printed, and the seconds it took."""
    started = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)], capture_output=True, text=True, check=True
    )
    return {**json.loads(done.stdout or "{}"), "process": time.perf_counter() - started}


LOAD = """
import json, sys, time
from chexpoint.project import Project
project = Project.at(sys.argv[1])
started = time.perf_counter()
tree, versions = project.tree(), project.versions()
print(json.dumps({"seconds": time.perf_counter() - started, "nodes": len(tree),
                  "versions": len(versions)}))
"""
NOTHING = "import chexpoint.project"


# ---------------------------------------------------------------- rows


def load(project: Project, rounds: int) -> Row:
    """The tree and the list of versions, in a fresh process."""
    baseline = min(in_fresh_process(NOTHING, project.folder)["process"] for _ in range(rounds))
    found = [in_fresh_process(LOAD, project.folder) for _ in range(rounds)]
    shown = row([each["process"] for each in found], 2.0, baseline)
    counts = {"nodes": found[0]["nodes"], "versions": found[0]["versions"]}
    return shown | counts | {"without_start": round(min(each["seconds"] for each in found), 4)}


def additions(project: Project, paths: list[list[Written]], rounds: int) -> dict[str, Row]:
    """One more version: all of its cells run, half of them recalled, all of them recalled."""
    found = {}
    for label, count in (("all_run", 0), ("half_recalled", CELLS // 2), ("all_recalled", CELLS)):
        seconds = []
        for n in range(rounds):
            shared = paths[n][:count]
            runs = continued(random.Random(f"{label} {n}"), shared)
            seconds.append(timed(partial(add_version, project, "more", shared, runs)))
        found[label] = row(seconds, 0.05)
    return found


def transaction(folder: Path, rounds: int) -> Row:
    """What SQLite takes for as many transactions of one row of 2 KB, for comparison."""
    connection = sqlite3.connect(folder / "plain.sqlite", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE plain (text TEXT)")

    def write() -> None:
        for _ in range(CELLS + 1):
            connection.execute("INSERT INTO plain VALUES (?)", ("x" * 2048,))

    seconds = [timed(write) for _ in range(rounds)]
    connection.close()
    return row(seconds, None)


def lookups(project: Project, paths: list[list[Written]], rounds: int) -> dict[str, Row]:
    """What a kernel and a user ask for, one thing at a time."""
    middle = paths[-1][CELLS // 2].record.lineage.node
    version = project.versions()[-1]
    actions: dict[str, Callable[[], object]] = {
        "runs_after": lambda: project.runs_after(middle, ""),
        "runs_after_root": lambda: project.runs_after(NodeId("f" * 32), ""),
        "way_to_node": lambda: project.way_to(paths[-1][-1].record.lineage.node),
        "cells": lambda: project.cells(version),
        "version": lambda: project.version("run-7"),
    }
    return {
        name: row([timed(action) for _ in range(rounds)], None) for name, action in actions.items()
    }


def drawing(project: Project, rounds: int) -> Row | str:
    """The picture of the whole tree, if there is something to draw it with."""
    if importlib.util.find_spec("chexpoint.view") is None:
        return "chexpoint.view is not there"
    from chexpoint import view

    draw = getattr(view, "tree_svg", None)
    if draw is None:
        return "chexpoint.view.tree_svg is not there"
    tree = project.tree()
    return row([timed(lambda: draw(tree)) for _ in range(rounds)], 2.0)


def sizes(project: Project, paths: list[list[Written]]) -> Row:
    """Bytes on disk, and how many the lineages would take if nothing were kept once."""
    texts = [json.dumps(to_json(cell.record.lineage)) for cell in paths[0]]
    folder = project.path.parent
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {
        "catalog_bytes": sum(path.stat().st_size for path in folder.glob("catalog*")),
        "output_files": sum(1 for path in files if path.parent.parent.name == "outputs"),
        "lineage_bytes_of_a_cell": sum(map(len, texts)) // len(texts),
    }


def measure(folder: Path, versions: int, rounds: int) -> Row:
    project = Project.at(folder)
    started = time.perf_counter()
    paths = build(project, versions)
    result: Row = {"build_seconds": round(time.perf_counter() - started, 2)}
    project.close()
    result["sizes"] = sizes(project, paths)
    result["load"] = load(project, rounds)
    result["add_version"] = additions(project, paths, rounds)
    result["add_version"]["plain_sqlite"] = transaction(folder, rounds)
    result["lookups"] = lookups(project, paths, rounds)
    result["drawing"] = drawing(project, rounds)
    project.close()
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--keep", metavar="DIR")
    options = parser.parse_args()
    versions, rounds = (QUICK_VERSIONS, 5) if options.quick else (VERSIONS, 15)
    if options.keep:
        os.makedirs(options.keep)
        result = measure(Path(options.keep), versions, rounds)
    else:
        with tempfile.TemporaryDirectory() as folder:
            result = measure(Path(folder), versions, rounds)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
