"""What one kernel tells the experiment graph, and what it wants to be stored of a cell."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from chexpoint.engine import Chosen, Pass
from chexpoint.lineage import Step
from chexpoint.model import (
    Artifact,
    ArtifactId,
    CellAudit,
    CellLineage,
    CellRecord,
    CellVariables,
    Digest,
    ImageInfo,
    ImageName,
    KeepStrategy,
    NodeId,
    OperationId,
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

    def cell(
        self, writes: str, *, reads: str = "", deleted: str = "", seconds: float = 10.0
    ) -> Chosen:
        """Record a cell that makes something large."""
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
            seconds=seconds,
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


def test_what_is_not_stored_yet_is_wanted_as_long_as_it_is_there(kernel: Kernel) -> None:
    first = names(kernel.cell("found table"))
    assert first.items() <= names(kernel.cell("other", reads="found table")).items()
    kernel.graphing.kept(first["found"], None, "the disk is nearly full")
    now = names(kernel.cell("other", reads="table other"))
    assert now["table"] == first["table"]
    assert "found" not in now, "it was tried"
    assert names(kernel.cell("table", reads="table"))["table"] != first["table"]


def test_writing_costs_what_is_new_and_as_long_as_was_measured(kernel: Kernel) -> None:
    graphing = kernel.graphing

    def price(*parts: tuple[str, int]) -> float:
        group = VariableGroup(
            names=("x",), kinds=("array",), size_bytes=sum(size for _, size in parts), parts=parts
        )
        found = Artifact(id=ArtifactId("x"), operation=OperationId("o"), group=group)
        return graphing._writing_s(found, {Digest("known")})

    large = 500_000_000
    guess = price(("new", large))
    assert price(("known", large)) < guess / 4, "what is there is only looked at"
    assert price(("known", large), ("new", large)) > guess
    first = names(kernel.cell("found"))["found"]
    info = ImageInfo(
        name=ImageName("i"), time=0.0, seconds=60.0, state_bytes=10**6, stored_bytes=10**6
    )
    graphing.kept(first, info, "")
    slower = price(("new", large))
    assert slower > 2 * guess
    # What was there already says nothing about writing.
    second = names(kernel.cell("table", seconds=10_000.0))["table"]
    graphing.kept(second, replace(info, name=ImageName("j"), seconds=600.0, stored_bytes=10), "")
    assert price(("new", large)) == slower


@pytest.mark.parametrize(
    ("later", "is_brought"),
    [(None, True), ((), False), (("y = table",), False), (("f = lambda: rows",), True)],
)
def test_only_what_later_cells_name_is_brought_beside_what_a_cell_needs(
    kernel: Kernel, later: tuple[str, ...] | None, is_brought: bool
) -> None:
    root = kernel.at
    kernel.cell("rows", seconds=0.1)
    table = names(kernel.cell("table"))["table"]
    stored = ImageInfo(
        name=ImageName("i"), time=0.0, seconds=0.1, state_bytes=10**6, stored_bytes=10**6
    )
    kernel.graphing.kept(table, stored, "")
    way = kernel.graphing.way("x = table", kernel.at, root, later=later)
    assert way is not None
    last = way.moves[-1]
    assert isinstance(last, Pass)
    assert ("rows" not in last.step.absent) is is_brought
