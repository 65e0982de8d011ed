"""What the replay benchmark replays: versions that share a beginning, trees, many small ones.

A workload is versions by name, each a list of cells; the same text in the same place is the same
cell.  They are recorded for real, so that costs, sizes and lineages are measured ones.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from chexpoint.model import ExecutionTree, NodeId
from chexpoint.project import Batch, combinations, plan_versions, read_source

Versions = Mapping[str, Sequence[str]]

BURN = """\
def burn(n):
    x = 1
    for _ in range(n):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x"""
"""A loop of Python that takes a time in proportion to its argument."""


def loops_per_second() -> float:
    """Return how fast this machine burns just now: the median of five tries."""
    scope: dict[str, Any] = {}
    exec(BURN, scope)  # noqa: S102 - the very code that is timed
    rates = []
    for _ in range(5):
        started = time.perf_counter()
        scope["burn"](2_000_000)
        rates.append(2_000_000 / (time.perf_counter() - started))
    return sorted(rates)[2]


# ---------------------------------------------------------------- ten versions


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCell:
    """A cell that can also be written as a function: it says what it needs and what it makes."""

    name: str
    parent: str | None
    seconds: float
    needs: tuple[str, ...]
    makes: tuple[str, ...]
    body: str
    """With ``{loops}`` where it burns."""
    loops: int = 0

    @property
    def text(self) -> str:
        return self.body.format(loops=self.loops)


SET_UP = f"import numpy as np\n{BURN}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """Ten versions: 26 s of work if each is run by itself, 5.5 s if each cell is run once.

    All hold 40 MB from their first cell and 60 MB more from their second, which later cells only
    read: that is what tools that keep the results of cells are best at.  They part after the
    second, the third, and the fourth, and end with a cell of their own that shows a text.
    """

    cells: Mapping[str, WorkCell] = field(default_factory=dict)

    def path(self, leaf: str) -> list[WorkCell]:
        """Return the cells of a version."""
        found: list[WorkCell] = []
        at: str | None = leaf
        while at is not None:
            found.append(self.cells[at])
            at = self.cells[at].parent
        return found[::-1]

    @property
    def leaves(self) -> list[str]:
        return [name for name in self.cells if name.startswith("t")]

    @property
    def once_seconds(self) -> float:
        return sum(cell.seconds for cell in self.cells.values())

    @property
    def no_cache_seconds(self) -> float:
        return sum(cell.seconds for leaf in self.leaves for cell in self.path(leaf))

    def versions(self) -> Versions:
        """Return the versions as notebooks have them."""
        return {
            leaf: [SET_UP, *(cell.text for cell in path[:-1]), f"{path[-1].text}\nprint(text)"]
            for leaf, path in ((leaf, self.path(leaf)) for leaf in self.leaves)
        }


_LEVELS = {
    "a": ("clean", 0.5, "int(data[:100_000].sum()) * 2"),
    "b": ("clean", 0.4, "int(data[:100_000].sum()) * 3"),
    "a1": ("a", 0.3, "level_a + 1"),
    "a2": ("a", 0.7, "level_a * level_a"),
    "b1": ("b", 0.3, "level_b // 2"),
}
_TAILS = {"a1": 3, "a2": 2, "b1": 2, "b": 3}


def _work_cells() -> Iterator[WorkCell]:
    yield WorkCell(
        name="load",
        parent=None,
        seconds=1.0,
        needs=(),
        makes=("raw", "mark_load"),
        body="raw = np.arange(5_000_000, dtype=float)\nmark_load = burn({loops})",
    )
    yield WorkCell(
        name="clean",
        parent="load",
        seconds=0.7,
        needs=("raw", "mark_load"),
        makes=("data", "mark_clean"),
        body="data = np.resize(raw, 7_500_000) % 1000\nmark_clean = mark_load + burn({loops})",
    )
    for name, (parent, seconds, value) in _LEVELS.items():
        base = "data" if parent == "clean" else f"level_{parent}"
        yield WorkCell(
            name=name,
            parent=parent,
            seconds=seconds,
            needs=(base, f"mark_{parent}"),
            makes=(f"level_{name}", f"mark_{name}"),
            body=f"level_{name} = {value}\nmark_{name} = mark_{parent} + burn({{loops}})",
        )
    parents = [parent for parent, count in _TAILS.items() for _ in range(count)]
    for number, parent in enumerate(parents):
        yield WorkCell(
            name=f"t{number}",
            parent=parent,
            seconds=0.16,
            needs=("data", f"level_{parent}", f"mark_{parent}"),
            makes=("text",),
            body=f"mark = mark_{parent} + burn({{loops}})\n"
            f"text = f't{number} {{{{mark}}}} {{{{level_{parent} + int(data[-{number + 1}])}}}}'",
        )


def ten_versions(scale: float = 1.0) -> Study:
    """Return the ten versions; each cell takes its seconds on this machine, arrays included."""
    rate = loops_per_second()
    scope: dict[str, Any] = {}
    exec(SET_UP, scope)  # noqa: S102 - our own cells
    scope["burn"] = lambda _: 0
    found: dict[str, WorkCell] = {}
    for cell in _work_cells():
        took = 0.0
        for _ in range(2):  # the first time is for fresh memory, which the cells have as well
            started = time.perf_counter()
            exec(cell.text, scope)  # noqa: S102 - our own cells
            took = max(took, time.perf_counter() - started)
        wanted = cell.seconds * scale
        found[cell.name] = replace(cell, seconds=wanted, loops=int(rate * max(wanted - took, 0.0)))
    return Study(cells=found)


def run_once(study: Study) -> tuple[float, dict[str, str]]:
    """Run each cell once in this process; return the seconds, and the text of each version.

    Cells never change what an earlier one has made, so one namespace serves all versions.
    """
    scope: dict[str, Any] = {}
    texts = {}
    started = time.perf_counter()
    exec(SET_UP, scope)  # noqa: S102 - our own cells
    for cell in study.cells.values():
        exec(cell.text, scope)  # noqa: S102 - our own cells
        if "text" in cell.makes:
            texts[cell.name] = f"{scope['text']}\n"
    return time.perf_counter() - started, texts


# ---------------------------------------------------------------- trees


SPIN = """\
import time
def spin(began, seconds):
    while time.process_time() < began + seconds:
        for _ in range(2000):
            pass"""
"""A loop that ends when so much CPU time has passed, however fast the machine is."""
_SPINS = re.compile(r"^spin\(began, ([0-9.]+)\)$", re.MULTILINE)


def nominal_seconds(source: str) -> float:
    """Return the CPU time that a cell of a tree takes."""
    found = _SPINS.search(source)
    return float(found[1]) if found else 0.0


def tree_versions(tree: ExecutionTree, *, cost_scale: float, size_scale: float) -> Versions:
    """Return versions whose cells compute and hold memory as the nodes of a tree say."""
    ends = [node for node in tree.nodes if not tree.children(node)]
    return {
        f"v-{end}": [SPIN, *(_tree_cell(tree, n, cost_scale, size_scale) for n in path(tree, end))]
        for end in ends
    }


def path(tree: ExecutionTree, node: NodeId | None) -> list[NodeId]:
    """Return the nodes that lead to one, it included."""
    found: list[NodeId] = []
    while node is not None:
        found.append(node)
        node = tree.nodes[node].parent
    return found[::-1]


def _tree_cell(tree: ExecutionTree, node: NodeId, cost_scale: float, size_scale: float) -> str:
    here = tree.nodes[node]
    size = int(here.size * size_scale)
    # A repeated byte is written to every page; the old state is let go of first.
    return (
        f"began = time.process_time()\nheld = None\nheld = b'\\1' * {size}\n"
        f"spin(began, {here.cost * cost_scale:.4f})\nprint('{node}', len(held))"
    )


# ---------------------------------------------------------------- many versions


SHARED_BY_LEVEL = (1, 2, 5, 10, 25, 50, 100, 250, 500, 500)
"""How many cells there are in each place, if there are 500 versions."""


def many_versions(count: int) -> Versions:
    """Return versions of ten small cells that share beginnings of different lengths."""
    found = {}
    for number in range(count):
        cells = ["total, table = 0, {}"]
        for level, wanted in enumerate(SHARED_BY_LEVEL[1:], start=1):
            group = number * max(1, wanted * count // 500) // count
            cells.append(f"total += {group}\ntable[{level}] = 'x' * {group + 1}\nprint(total)")
        found[f"run-{number:03}"] = cells
    return found


# ---------------------------------------------------------------- recording


def notebook(cells: Sequence[str]) -> dict[str, Any]:
    """Return a notebook with these cells."""
    return {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {"kernelspec": {"name": "stock", "display_name": "stock"}},
        "cells": [
            {
                "cell_type": "code",
                "id": f"cell-{number}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": source,
            }
            for number, source in enumerate(cells)
        ],
    }


def write_notebooks(folder: Path, versions: Versions) -> list[Path]:
    """Write each version as a notebook; return the files."""
    paths = []
    for name, cells in versions.items():
        paths.append(folder / f"{name}.ipynb")
        paths[-1].write_text(json.dumps(notebook(cells)), encoding="utf-8")
    return paths


def record(folder: Path, versions: Versions) -> None:
    """Record versions in a project folder."""
    sources = [read_source(path) for path in write_notebooks(folder, versions)]
    with Batch() as batch:
        for task in plan_versions(sources, combinations([]), folder=folder):
            run = batch.record(task)
            if run.status != "ok":
                raise RuntimeError(f"{task.name}: {run.cells[-1].error}")
