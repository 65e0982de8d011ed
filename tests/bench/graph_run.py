"""Runs the workloads of the benchmark of the experiment graph, each in a process of its own."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexpoint.errors import ChexError
from chexpoint.graph import Ledger
from chexpoint.project import Project
from chexpoint.store import store_key
from tests.bench.graph_workloads import Workload
from tests.bench.hindsight_run import CHEX, Failed, run

Row = dict[str, Any]

GRAPH = "graph.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A graph in a folder of its own, so that what it takes can be measured."""

    folder: Path
    is_used: bool = True
    """Whether there is one at all."""
    keep: str = ""
    """What it stores; empty for what is usual."""
    budget_bytes: int | None = None

    def environment(self) -> dict[str, str]:
        """Return the settings."""
        settings = {"CHEX_GRAPH": str(self.folder / GRAPH) if self.is_used else "off"}
        if self.keep:
            settings["CHEX_GRAPH_KEEP"] = self.keep
        if self.budget_bytes is not None:
            settings["CHEX_GRAPH_BUDGET"] = str(self.budget_bytes)
        return settings

    def stored_bytes(self) -> int:
        """Return what the contents take on the disk, without the database."""
        files = [path for path in self.folder.rglob("*") if path.is_file()]
        return sum(path.stat().st_size for path in files if not path.name.startswith(GRAPH))

    def artifact_bytes(self) -> int:
        """Return how large all artifacts are together, stored or not."""
        if not self.is_used:
            return 0
        ledger = Ledger.open(str(self.folder / GRAPH), key=store_key())
        try:
            return sum(each.group.size_bytes for each in ledger.graph().artifacts.values())
        finally:
            ledger.close()


def no_graph(folder: Path) -> Graph:
    """Return what stands for a graph where there is to be none."""
    return Graph(folder=folder, is_used=False)


def plain(work: Workload, folder: Path) -> Row:
    """Run a workload with plain Python."""
    _write(work, folder)
    done = run([sys.executable, f"{work.name}.py"], folder)
    return {"wall_s": done.wall_s, "printed": done.printed}


def record(work: Workload, folder: Path, graph: Graph) -> Row:
    """Run a workload under ``chex record``; return its seconds and what it printed.

    ``cells_s`` is the sum over its cells, ``version_s`` is that of the version with all that
    happens before, between and after them, and ``wall_s`` that of the whole command.
    """
    _write(work, folder)
    graph.folder.mkdir(parents=True, exist_ok=True)
    options = ["--reuse"] if graph.is_used else []
    command = [*CHEX, "record", *options, "--project", ".", "--json", f"{work.name}.py"]
    done = run(command, folder, env=graph.environment())
    try:
        (version,) = json.loads(done.printed)["versions"]
        cells = version["cells"]
        if version["status"] != "ok":
            raise Failed(f"{work.name}: {cells[-1]['error']}")
        row = {
            "cells_s": sum(cell["seconds"] for cell in cells),
            "version_s": version["seconds"],
            "wall_s": done.wall_s,
            "cells": len(cells),
            "reused": sum(bool(cell.get("reused")) for cell in cells),
            "printed": printed_by(folder, version["label"]),
        }
    except (ValueError, KeyError, IndexError) as error:
        raise Failed(f"chex record printed no result: {done.printed[:200]!r}") from error
    return row


def printed_by(folder: Path, label: str) -> str:
    """Return what the cells of a version printed, as it is recorded."""
    project = Project.at(folder)
    try:
        outputs = [
            output
            for cell in project.cells(project.version(label))
            for output in project.outputs(cell.execution)
        ]
    except ChexError as error:
        raise Failed(f"{label}: {error}") from error
    finally:
        project.close()
    texts = [each["text"] for each in outputs if each.get("name") == "stdout"]
    return "".join(text if isinstance(text, str) else "".join(text) for text in texts)


def total(rows: Sequence[Row], key: str) -> float:
    """Return the sum over some runs."""
    return float(sum(row[key] for row in rows))


def _write(work: Workload, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{work.name}.py").write_text(work.text, encoding="utf-8")
