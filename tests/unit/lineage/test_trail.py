"""The path of cells to the present state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chexpoint.lineage.trail import Cell, Step, conclude_step, root_node
from chexpoint.model import CellAudit, CellLineage, Hint, Input, PathCell

ENVIRONMENT = "e0"


def cell(source: str = "x = 1", code: str = "c0de", count: int = 1) -> Cell:
    return Cell(
        source=source,
        code=code,
        execution_count=count,
        seconds=0.5,
        size_bytes=1000,
        status="ok",
        report={},
    )


def chain(length: int) -> list[Step]:
    steps = [Step(None)]
    for _ in range(length):
        steps.append(Step(steps[-1]))
    return steps


def test_steps_are_counted_from_the_root() -> None:
    assert [step.number for step in chain(3)] == [0, 1, 2, 3]


def test_a_step_follows_itself_and_what_is_before_it_but_nothing_else() -> None:
    root, one, two, three = chain(3)
    assert all(three.follows(step) for step in (root, one, two, three))
    assert not two.follows(three)
    other = Step(one)
    assert other.follows(one)
    assert not other.follows(two)  # of the same number, on another path
    assert not two.follows(other)
    assert not three.follows(other)
    assert not Step(None).follows(root)


def test_there_is_no_path_until_every_cell_on_it_is_recorded() -> None:
    root = Step(None)
    assert root.lineages() == ()
    one = Step(root)
    two = Step(one)
    assert two.path() == [root, one, two]
    assert two.lineages() is None
    first = conclude_step(one, cell("a"), CellAudit(), ENVIRONMENT)
    assert two.lineages() is None
    second = conclude_step(two, cell("b"), CellAudit(), ENVIRONMENT)
    assert two.lineages() == (first, second)
    assert first.parent == root_node(ENVIRONMENT)
    assert second.parent == first.node
    assert [first.number, second.number] == [1, 2]


def test_states_are_the_same_if_their_lineage_is_and_no_cell_was_left_to_chance() -> None:
    hinted = CellAudit(hints=(Hint(kind="random", what="it draws random numbers"),))
    root = Step(None)
    sure, again, lucky, unlucky = (Step(root) for _ in range(4))
    assert not sure.is_same_state(again)  # nothing is known yet
    assert sure.is_same_state(sure)
    for step, audit in ((sure, CellAudit()), (again, CellAudit()), (lucky, hinted)):
        conclude_step(step, cell("a"), audit, ENVIRONMENT)
    conclude_step(unlucky, cell("a"), hinted, ENVIRONMENT)
    assert sure.taint == again.taint == ""
    assert sure.is_same_state(again)
    assert lucky.node == unlucky.node
    assert not lucky.is_same_state(unlucky)
    after = [Step(lucky), Step(lucky), Step(unlucky)]
    for step in after:
        conclude_step(step, cell("b"), CellAudit(), ENVIRONMENT)
    assert after[0].is_same_state(after[1])
    assert not after[0].is_same_state(after[2])


def test_a_failed_cell_leads_to_a_state_of_its_own() -> None:
    failed = replace(cell("a"), status="error")
    steps = [Step(Step(None)), Step(Step(None))]
    for step in steps:
        conclude_step(step, failed, CellAudit(), ENVIRONMENT)
    assert steps[0].has_failed
    assert not steps[0].is_same_state(steps[1])


def test_a_recalled_step_is_the_state_of_the_run_it_recalls() -> None:
    step = Step(Step(None), source="x = 1")
    record = conclude_step(step, cell("a"), CellAudit(), ENVIRONMENT)
    known = PathCell(
        node=record.node,
        parent=record.parent,
        taint="",
        source="x = 1",
        seconds=2.0,
        execution_count=1,
        execution=7,
    )
    recalled = Step.recalled(Step(None), known, record)
    assert recalled.is_same_state(step)
    assert recalled.lineages() == (record,)
    assert (recalled.seconds, recalled.execution, recalled.has_failed) == (2.0, 7, False)


def lineage_of(audit: CellAudit, code: str = "c0de", packages: str = ENVIRONMENT) -> CellLineage:
    return conclude_step(Step(Step(None)), cell(code=code), audit, packages)


def test_a_node_is_its_environment_its_code_and_its_inputs() -> None:
    read = CellAudit(inputs=(Input(kind="file", name="./a", digests=("d1",)),))
    other = CellAudit(inputs=(Input(kind="file", name="./a", digests=("d2",)),))
    nodes = [
        lineage_of(CellAudit()).node,
        lineage_of(CellAudit(), code="other").node,
        lineage_of(CellAudit(), packages="other").node,
        lineage_of(read).node,
        lineage_of(other).node,
    ]
    assert len(set(nodes)) == len(nodes)
    assert lineage_of(read).node == nodes[3]
    assert lineage_of(CellAudit(gaps=("x",), environment_reads=5)).node == nodes[0]


def test_the_environment_of_the_root_is_that_from_before_its_first_cell() -> None:
    root = Step(None)
    root.packages = "before"
    lineage = conclude_step(Step(root), cell(), CellAudit(), "after")
    assert lineage.parent == root_node("before")


def test_the_root_itself_is_no_cell() -> None:
    with pytest.raises(ValueError, match="root"):
        conclude_step(Step(None), cell(), CellAudit(), ENVIRONMENT)
