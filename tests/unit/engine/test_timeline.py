"""The user's place, the worker's place, and the way from one to the other."""

from __future__ import annotations

from dataclasses import replace

from chexpoint.engine.gallery import Picture
from chexpoint.engine.timeline import Load, Pass, Route, Timeline
from chexpoint.lineage import Step
from chexpoint.model import Checkpoint, CheckpointId, ImageName, NodeId, PathCell


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
    assert way(route) == ["other"]
    bad = [held("c1"), replace(held("c2"), bad=True), held("c3")]
    assert timeline.route(bad).checkpoint == "c1"
    timeline.forget(CheckpointId("c1"))
    route = timeline.route(bad)
    assert route.is_fresh
    assert way(route) == ["a", "other"]


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
        (following, *_) = timeline.way
        assert isinstance(following, Step)
        assert following.source == cell.source
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


def image(step: Step, *, needs: int = 0, size: int = 0) -> Picture:
    return Picture(name=ImageName(f"of {step.node}"), step=step, needs=needs, state_bytes=size)


def way(route: Route) -> list[str]:
    return [
        each.image if isinstance(each, Load) else each.source
        for each in route.cells
        if not isinstance(each, Pass)
    ]


def test_an_image_is_loaded_if_that_is_quicker_than_running_its_cells() -> None:
    timeline = Timeline()
    timeline.go([A, B, C])
    at_b = image(Step.recalled(Step.recalled(Step(None), A), B))
    assert way(timeline.route([], [at_b])) == ["of AB", "c"]
    # Two seconds of cells are quicker than ten gigabytes.
    assert way(timeline.route([], [replace(at_b, state_bytes=10 * 10**9)])) == ["a", "b", "c"]


def test_what_an_image_lacks_is_computed_before_it_is_loaded() -> None:
    timeline = Timeline()
    timeline.go([A, B, C])
    at_c = image(timeline.place, needs=1)
    assert way(timeline.route([], [at_c])) == ["a", "of ABC"]
    assert way(timeline.route([], [replace(at_c, needs=3)])) == ["a", "b", "c"]


def test_a_state_that_depends_on_chance_is_loaded_at_any_price() -> None:
    timeline = Timeline()
    lucky = known("l", "L", taint="once")
    timeline.go([lucky])
    huge = image(timeline.place, size=10**13)
    assert way(timeline.route([], [huge])) == ["of L"]


def test_a_checkpoint_is_nearer_than_any_image() -> None:
    timeline = Timeline()
    ran(timeline, A, B)
    timeline.mark(CheckpointId("c1"))
    at_b = image(timeline.worker)
    ran(timeline, C)
    timeline.go([A, B])
    assert timeline.route([held("c1")], [at_b]) == Route(CheckpointId("c1"), False, ())
