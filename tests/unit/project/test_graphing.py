"""What one kernel tells the experiment graph, and what it wants to be stored of a cell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from chexpoint.engine import Chosen
from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    CellAudit,
    CellLineage,
    CellRecord,
    CellVariables,
    KeepStrategy,
    NodeId,
    VariableGroup,
)
from chexpoint.project import Project
from chexpoint.project.graph_settings import GraphSettings
from chexpoint.project.graphing import Graphing


class Kernel:
    """Records cells of which only the variables matter."""

    def __init__(self, folder: Path, strategy: KeepStrategy = "storage-aware") -> None:
        self.project = Project.at(folder)
        settings = GraphSettings(
            ledger=str(folder / "graph.sqlite"), store=str(folder / "store"), strategy=strategy
        )
        self.graphing = Graphing(self.project, settings, tell=lambda _: None)
        self.graphing.is_used = True
        self.at = Step(None)
        self.at.node = NodeId("root")

    def cell(self, writes: str, *, reads: str = "", deleted: str = "") -> Chosen:
        """Record a cell that makes something large in ten seconds."""
        step = Step(self.at, source=f"cell {self.at.number + 1}")
        step.node = NodeId(f"n{step.number}")
        groups = (
            VariableGroup(names=(name,), kinds=("array",), size_bytes=10**6, digest=f"{step.node}")
            for name in writes.split()
        )
        step.record = CellLineage(
            node=step.node,
            parent=self.at.node or NodeId(""),
            code=step.source,
            strict="",
            number=step.number,
            execution_count=step.number,
            source=step.source,
            audit=CellAudit(),
            seconds=10.0,
            size_bytes=0,
            variables=CellVariables(
                reads=tuple(reads.split()), writes=tuple(groups), deleted=tuple(deleted.split())
            ),
        )
        self.at = step
        chosen = self.graphing.record(step, CellRecord(lineage=step.record))
        assert chosen is not None
        return chosen

    def close(self) -> None:
        self.graphing.close()
        self.project.close()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    made = Kernel(tmp_path)
    yield made
    made.close()


def names(chosen: Chosen) -> dict[str, ArtifactId]:
    return {name: artifact for artifact, group in chosen.groups for name in group}


def test_what_is_overwritten_before_a_cell_has_used_it_need_not_be_stored(kernel: Kernel) -> None:
    first = names(kernel.cell("found table"))
    assert first.keys() == {"found", "table"}
    # A cell that overwrites what it reads has used it.
    second = kernel.cell("found table", reads="table")
    assert second.unused == {first["found"]}
    third = kernel.cell("other", reads="found")
    assert third.unused == frozenset()
    assert kernel.cell("found").unused == frozenset(), "it was used"
    assert kernel.cell("x", deleted="other").unused == {names(third)["other"]}


def test_a_strategy_that_stores_all_stores_what_nobody_used(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path, "all")
    try:
        kernel.cell("found")
        assert kernel.cell("found").unused == frozenset()
    finally:
        kernel.close()


def test_why_something_was_not_stored_is_told_in_one_sentence(kernel: Kernel) -> None:
    found = names(kernel.cell("found"))["found"]
    kernel.graphing.kept(found, None, "the disk is nearly full.")
    assert kernel.graphing.told()["found"] == "Not stored: the disk is nearly full."
