"""Whatever is recorded, in whatever order, every version comes back cell by cell."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellRecord,
    ExecutionTree,
    Hint,
    NodeId,
    Output,
    PathCell,
    Taint,
    TreeNode,
    Version,
)
from chexpoint.project import Project

ROOT = NodeId("0" * 32)
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
TEXTS = ["", "x = 1", "x = 1  # caf\xe9", "\udcff\x00\n'"]


@dataclass(frozen=True, slots=True)
class Shown:
    """A cell of a version, as it must come back."""

    cell: PathCell
    outputs: tuple[Output, ...]
    lineage: CellLineage
    parent_taint: Taint


@dataclass(slots=True)
class History:
    """What is done to a catalog, and what must be in it: the model that it is compared with."""

    folder: Path
    project: Project = field(init=False)
    versions: dict[int, list[Shown]] = field(default_factory=dict)
    listed: dict[int, Version] = field(default_factory=dict)
    trees: list[ExecutionTree] = field(default_factory=list)
    runs: list[Shown] = field(default_factory=list)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.project = Project(self.folder, clock=self.tick)

    def tick(self) -> float:
        self.now += 1.0
        return self.now

    def begin(self, name: str, path: Sequence[Shown], origin: str) -> int:
        cells = [shown.cell for shown in path]
        parameters = (("origin", origin),)
        if cells:
            ident = self.project.branch(
                name, cells, session="s", origin=origin, parameters=parameters
            )
        else:
            ident = self.project.new_version(
                name, session="s", origin=origin, parameters=parameters
            )
        number = 1 + sum(version.name == name for version in self.listed.values())
        self.versions[ident] = [
            replace(shown, cell=replace(shown.cell, is_reused=True)) for shown in path
        ]
        self.listed[ident] = Version(
            name=name, number=number, created=self.now, origin=origin, parameters=parameters
        )
        return ident

    def run(self, version: int | None, draw: Draw) -> None:
        """Run a cell after the last of a version, or after the root."""
        before = self.versions[version][-1:] if version is not None else []
        lineage, taint = draw.cell(before[0] if before else None, len(self.runs))
        record = CellRecord(
            lineage=lineage,
            taint=taint,
            parent_taint=before[0].cell.taint if before else "",
            outputs=draw.outputs(),
            cell_id=draw.text(),
        )
        execution = self.project.record(record, session="s", version=version)
        cell = PathCell(
            node=lineage.node,
            parent=lineage.parent,
            taint=taint,
            source=lineage.source,
            seconds=lineage.seconds,
            execution_count=lineage.execution_count,
            status=lineage.status,
            execution=execution,
            cell_id=record.cell_id,
        )
        shown = Shown(cell, record.outputs, lineage, record.parent_taint)
        self.runs.append(shown)
        if version is not None:
            self.versions[version].append(shown)
        self.trees.append(ExecutionTree([tree_node(lineage, self.now)]))

    def recall(self, version: int, shown: Shown, draw: Draw) -> None:
        source, cell_id = draw.text(), draw.text()
        self.project.recall(version, shown.cell.execution, source=source, cell_id=cell_id)
        cell = replace(shown.cell, source=source, cell_id=cell_id, is_reused=True)
        self.versions[version].append(replace(shown, cell=cell))

    def expected(self) -> list[tuple[Version, list[Shown]]]:
        """Return the versions that must be listed."""
        return [
            (
                replace(
                    self.listed[ident],
                    path=tuple(shown.cell.node for shown in path),
                    status=path[-1].cell.status,
                ),
                path,
            )
            for ident, path in self.versions.items()
            if path
        ]


def tree_node(lineage: CellLineage, now: float) -> TreeNode:
    return TreeNode(
        id=lineage.node,
        parent=None if lineage.parent == ROOT else lineage.parent,
        cell=lineage.source,
        cost=lineage.seconds,
        size=lineage.size_bytes,
        execution_count=lineage.execution_count,
        status=lineage.status,
        doubt=lineage.doubt(),
        last_run=now,
    )


class Draw:
    """Draws cells."""

    def __init__(self, data: st.DataObject) -> None:
        self._data = data

    def number(self, count: int) -> int:
        return self._data.draw(st.integers(0, count - 1))

    def text(self) -> str:
        return self._data.draw(st.sampled_from(TEXTS))

    def outputs(self) -> tuple[Output, ...]:
        count = self._data.draw(st.sampled_from([0, 1, 1, 70_000]))
        return ({"output_type": "stream", "name": "stdout", "text": "\udcff" * count},)[:count]

    def cell(self, before: Shown | None, seed: int) -> tuple[CellLineage, Taint]:
        """Return a cell after another one, of few codes, so that nodes meet again."""
        parent = before.lineage.node if before is not None else ROOT
        number = before.lineage.number + 1 if before is not None else 1
        code = self.number(3)
        is_doubtful = self.number(4) == 0
        hints = (Hint(kind="time", what="reads the clock"),) if is_doubtful else ()
        lineage = CellLineage(
            node=NodeId(f"{parent[:16].strip('0')}{code + 1}".ljust(32, "0")),
            parent=parent,
            code=f"c{code}",
            strict=f"5{seed}",
            number=number,
            execution_count=seed,
            source=self.text(),
            audit=CellAudit(hints=hints, interrupts=seed),
            seconds=seed / 7,
            size_bytes=seed * 1000,
            status="error" if self.number(8) == 0 else "ok",
        )
        before_taint = before.cell.taint if before is not None else ""
        return lineage, f"t{seed}" if lineage.doubt() else before_taint


def step(history: History, draw: Draw) -> None:
    """Do one thing that a kernel may do."""
    versions = list(history.versions)
    action = draw.number(8)
    if not versions or action == 0:
        history.begin(["a", "b"][draw.number(2)], (), draw.text())
    elif action == 1:
        path = history.versions[versions[draw.number(len(versions))]]
        history.begin(["a", "b"][draw.number(2)], path[: draw.number(len(path) + 1)], draw.text())
    elif action == 2 and history.runs:
        shown = history.runs[draw.number(len(history.runs))]
        history.recall(versions[draw.number(len(versions))], shown, draw)
    elif action == 3:
        history.run(None, draw)
    else:
        history.run(versions[draw.number(len(versions))], draw)


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_every_version_comes_back_and_the_tree_is_the_merge_of_all(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        history = History(Path(folder))
        draw = Draw(data)
        for _ in range(data.draw(st.integers(1, 25))):
            step(history, draw)
        history.project.close()
        check(history, Project.at(folder))


def mean_costs(trees: Sequence[ExecutionTree]) -> dict[NodeId, float]:
    """Return what cells take, of runs that came to the same end as the last one did."""
    runs: dict[NodeId, list[TreeNode]] = {}
    costs: dict[NodeId, float] = {}
    for node in (node for tree in trees for node in tree.nodes.values()):
        before = runs.setdefault(node.id, [])
        if before and before[-1].status == node.status:
            costs[node.id] += (node.cost - costs[node.id]) / min(len(before) + 1, 8)
        else:
            costs[node.id] = node.cost
        before.append(node)
    return costs


def check(history: History, project: Project) -> None:
    expected = history.expected()
    assert project.versions() == tuple(version for version, _ in expected)
    for version, path in expected:
        assert project.version(f"{version.name}@{version.number}") == version
        assert project.cells(version) == tuple(shown.cell for shown in path)
    for shown in history.runs:
        assert project.outputs(shown.cell.execution) == shown.outputs
        assert project.lineage(shown.cell.execution) == shown.lineage
    # Each run and each version is a tree of its own; merged in any order, they are all there is.
    parts = [*history.trees, *(ExecutionTree((), [version]) for version, _ in expected)]
    whole = project.tree()
    # But for their costs, which are means over all runs.
    costs = mean_costs(history.trees)
    for order in (parts, reversed(parts)):
        merged = reduce(ExecutionTree.merge, order, ExecutionTree())
        nodes = (replace(node, cost=costs[node.id]) for node in merged.nodes.values())
        assert whole == ExecutionTree(nodes, merged.versions)
    for version, path in expected:
        if is_whole(path):
            label = f"{version.name}@{version.number}"
            assert project.way_to(label) == tuple(shown.cell for shown in path)


def is_whole(path: Sequence[Shown]) -> bool:
    """Return whether each cell of a version goes on from the one before it."""
    before = (ROOT, "", 0)
    for shown in path:
        if (shown.lineage.parent, shown.parent_taint, shown.lineage.number - 1) != before:
            return False
        before = (shown.cell.node, shown.cell.taint, shown.lineage.number)
    return True
