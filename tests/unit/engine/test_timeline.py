"""The user's place, the worker's place, and the way from one to the other."""

from __future__ import annotations

from dataclasses import replace

from chexpoint.engine.timeline import Timeline
from chexpoint.lineage import Step
from chexpoint.model import Checkpoint, CheckpointId, NodeId, PathCell


def known(source: str, node: str, taint: str = "") -> PathCell:
    return PathCell(
        node=NodeId(node),
        parent=NodeId(""),
        taint=taint,
        source=source,
        seconds=1.0,
        execution_count=1,
    )


def held(name: str) -> Checkpoint:
    return Checkpoint(
        id=CheckpointId(name),
        name=None,
        parent=None,
        pid=1,
        execution_count=0,
        cost_s=0.0,
        size_bytes=0,
        uses=0,
    )


A, B, C = known("a", "A"), known("b", "AB"), known("c", "ABC")


def ran(timeline: Timeline, *cells: PathCell) -> list[Step]:
    """Have the worker run cells, whose lineage is known at once."""
    steps = []
    for cell in cells:
        step = Step.recalled(timeline.worker, cell)
        timeline.run(step)
        steps.append(step)
    return steps


def test_a_cell_that_runs_moves_both() -> None:
    timeline = Timeline()
    (step,) = ran(timeline, A)
    assert timeline.place is timeline.worker is step
    assert timeline.is_there


def test_a_cell_that_is_recalled_moves_the_place_alone() -> None:
    timeline = Timeline()
    root = timeline.worker
    step = Step.recalled(timeline.place, A)
    timeline.advance(step)
    assert timeline.place is step
    assert timeline.worker is root
    assert not timeline.is_there
    route = timeline.route([])
    assert (route.checkpoint, route.is_fresh, route.cells) == (None, False, (step,))


def test_the_nearest_checkpoint_on_the_way_is_taken_and_no_other() -> None:
    timeline = Timeline()
    timeline.mark(CheckpointId("c1"))
    ran(timeline, A)
    timeline.mark(CheckpointId("c2"))
    ran(timeline, B)
    timeline.mark(CheckpointId("c3"))
    timeline.go([A, known("other", "AO")])
    checkpoints = [held("c1"), held("c2"), held("c3")]
    route = timeline.route(checkpoints)
    assert route.checkpoint == "c2"
    assert [step.source for step in route.cells] == ["other"]
    bad = [held("c1"), replace(held("c2"), bad=True), held("c3")]
    assert timeline.route(bad).checkpoint == "c1"
    timeline.forget(CheckpointId("c1"))
    route = timeline.route(bad)
    assert route.is_fresh
    assert [step.source for step in route.cells] == ["a", "other"]


def test_a_state_that_hangs_on_chance_is_only_reached_through_its_own_checkpoint() -> None:
    timeline = Timeline()
    ran(timeline, known("lucky", "L", taint="first lot"))
    timeline.mark(CheckpointId("c1"))
    ran(timeline, B)
    timeline.go([known("lucky", "L", taint="first lot")])
    assert timeline.route([held("c1")]).checkpoint == "c1"
    timeline.go([known("lucky", "L", taint="second lot")])
    assert timeline.route([held("c1")]).checkpoint is None


def test_a_touched_state_is_no_longer_the_recorded_one() -> None:
    timeline = Timeline()
    (step,) = ran(timeline, A)
    timeline.go([A])
    was_there = timeline.is_there
    step.touch()
    assert (was_there, timeline.is_there) == (True, False)
    assert timeline.route([]).is_fresh


def test_the_way_ends_where_the_place_was() -> None:
    timeline = Timeline()
    timeline.go([A, B])
    timeline.set_out(timeline.route([]))
    for cell in (A, B):
        assert timeline.way[0].source == cell.source
        timeline.passed(Step.recalled(timeline.worker, cell))
    timeline.join()
    assert timeline.is_there
    assert [step.source for step in timeline.place.path()[1:]] == ["a", "b"]


def test_a_worker_that_comes_back_does_not_move_a_place_that_was_ahead() -> None:
    timeline = Timeline()
    timeline.mark(CheckpointId("c1"))
    timeline.go([A, B])
    timeline.restored(CheckpointId("c1"))
    assert [step.source for step in timeline.place.path()[1:]] == ["a", "b"]
    ran(timeline, C)
    timeline.fresh()
    assert timeline.place.parent is None
