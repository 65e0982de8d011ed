"""The path of cells to the present state."""

from __future__ import annotations

import pytest

from chexpoint.lineage.trail import Cell, Step, Trail, conclude_step, root_node
from chexpoint.model import CellAudit, CellLineage, Input

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


def test_a_restore_goes_back_and_the_next_cell_starts_another_path() -> None:
    trail = Trail()
    trail.position = one = trail.next_step()
    trail.mark("c1")
    trail.position = two = trail.next_step()
    trail.go("c1")
    assert trail.position is one
    again = trail.next_step()
    assert again.number == two.number
    assert not again.follows(two)


def test_a_cell_that_only_starts_does_not_move_the_position() -> None:
    trail = Trail()
    before = trail.position
    trail.next_step()
    assert trail.position is before


def test_a_fresh_interpreter_is_a_root_but_checkpoints_stay() -> None:
    trail = Trail()
    trail.position = one = trail.next_step()
    trail.mark("c1")
    trail.fresh()
    assert trail.position.parent is None
    assert trail.path() == ()
    trail.go("c1")
    assert trail.position is one


def test_an_unknown_checkpoint_leads_to_a_root() -> None:
    trail = Trail()
    trail.position = trail.next_step()
    trail.mark("c1")
    trail.forget("c1")
    trail.forget("c1")
    trail.go("c1")
    assert trail.position.parent is None


def test_there_is_no_path_until_every_cell_on_it_is_recorded() -> None:
    trail = Trail()
    assert trail.path() == ()
    found: list[CellLineage] = []
    steps = []
    for _ in range(2):
        trail.position = trail.next_step()
        steps.append(trail.position)
    assert trail.path() is None
    found.append(conclude_step(steps[0], cell("a"), CellAudit(), ENVIRONMENT))
    assert trail.path() is None
    found.append(conclude_step(steps[1], cell("b"), CellAudit(), ENVIRONMENT))
    assert trail.path() == tuple(found)
    assert found[0].parent == root_node(ENVIRONMENT)
    assert found[1].parent == found[0].node
    assert [lineage.number for lineage in found] == [1, 2]


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
