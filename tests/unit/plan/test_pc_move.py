"""The default planner, on trees where it has to do what the published ones do not."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chexpoint.model import ExecutionTree, HeldState, NodeId, Plan, StepCosts
from chexpoint.plan import check_plan, plan
from chexpoint.plan.chains import ChainPlanner
from chexpoint.plan.frontier import FrontierPlanner
from chexpoint.plan.problem import Problem
from chexpoint.plan.services import Services
from tests.support.trees import node


def parking_tree() -> ExecutionTree:
    """Return a tree in which it pays to hold a state while its siblings are replayed.

    Below ``a``, which is as large as ``c1``, ``c2`` and ``e``, there are ``b``, which is small,
    and ``e``.  Only one of the large ones can be held at a time, and ``b`` beside it.
    """
    return ExecutionTree(
        [
            node("a", None, 10.0, 8),
            node("b", "a", 5.0, 2),
            *(node(name, "b", 5.0, 8) for name in ("c1", "c2")),
            *(node(f"d{end}", f"c{end[0]}", 0.0, 9) for end in ("11", "12", "21", "22")),
            node("e", "a", 5.0, 8),
            *(node(name, "e", 0.0, 9) for name in ("f1", "f2")),
        ]
    )


def test_a_state_is_parked_while_others_are_replayed() -> None:
    tree = parking_tree()
    found = plan(tree, 10)
    moments = check_plan(tree, found)
    assert found.cost == sum(at.cost for at in tree.nodes.values()) == 30.0
    assert any({"b", "e"} <= set(moment.held) for moment in moments)


@pytest.mark.parametrize("planner", ["none", "lfu", "prp-v1", "prp-v2", "pc"])
def test_no_published_planner_parks(planner: str) -> None:
    assert plan(parking_tree(), 10, planner=planner).cost > 30.0


def test_no_chain_of_checkpoints_does_what_parking_does() -> None:
    problem = Problem(parking_tree(), 10)
    assert problem.price(FrontierPlanner(Services(problem)).moves()) == 35.0
    assert problem.price(ChainPlanner(problem).moves()) == 35.0


def test_the_last_child_takes_the_checkpoint_and_has_its_memory() -> None:
    """There is room for one state only, and yet nothing is computed twice."""
    tree = ExecutionTree(
        [
            node("a", None, 10.0, 5),
            node("short", "a"),
            node("b", "a", 10.0, 5),
            *(node(name, "b") for name in ("b1", "b2")),
        ]
    )
    found = plan(tree, 5)
    check_plan(tree, found)
    assert found.cost == 23.0
    assert ("take", "a") in found.steps
    assert found.steps.index(("take", "a")) < found.steps.index(("checkpoint", "b"))


def test_a_take_may_come_after_other_versions() -> None:
    """Both other children of ``a`` are served before ``b`` takes it."""
    tree = ExecutionTree(
        [
            node("a", None, 10.0, 5),
            *(node(name, "a") for name in ("x", "y")),
            node("b", "a", 10.0, 5),
            *(node(name, "b") for name in ("b1", "b2")),
        ]
    )
    found = plan(tree, 5)
    check_plan(tree, found)
    assert found.cost == 24.0
    taken = found.steps.index(("take", "a"))
    assert {"x", "y"} == {step.node for step in found.steps[2:taken] if step.action == "compute"}


def test_the_last_restore_is_a_take() -> None:
    found = plan(parking_tree())
    assert not _evicted_after_restore(found)
    assert "take" in {step.action for step in found.steps}


def test_the_last_restore_is_none_if_a_take_costs_more() -> None:
    costs = StepCosts(take=1.0)
    found = plan(parking_tree(), costs=costs)
    check_plan(parking_tree(), found, costs=costs)
    assert found.cost == 30.0
    assert _evicted_after_restore(found)


def test_what_is_in_memory_at_the_start_is_not_checkpointed_again() -> None:
    """Here every plan that is tried would do so, to take it later."""
    tree = ExecutionTree(
        [
            node("a", None, 1.0, 0),
            node("b", "a", 0.0, 5, delta=1),
            node("b1", "b", 0.0, 2),
            node("b2", "b", 3.0, 0),
        ]
    )
    held = (HeldState(node=NodeId("b")),)
    costs = StepCosts(restore=1.0)
    found = plan(tree, 2, held=held, costs=costs)
    check_plan(tree, found, held=held, costs=costs)
    assert found.cost <= 4.0


def test_states_that_share_memory_are_held_together_where_they_fit() -> None:
    rows = [("a", None, 4), ("b", "a", 4), ("b1", "b", 0), ("b2", "b", 0), ("a1", "a", 0)]
    alone = ExecutionTree([node(name, parent, 5.0, size) for name, parent, size in rows])
    shared = ExecutionTree(
        [node(name, parent, 5.0, size, 1 if parent else None) for name, parent, size in rows]
    )
    for tree, peak in ((alone, 4), (shared, 5)):
        found = plan(tree, 5)
        moments = check_plan(tree, found)
        assert found.cost == 25.0
        assert max(moment.held_bytes for moment in moments) <= peak


def _evicted_after_restore(found: Plan) -> bool:
    return any(
        (before.action, after.action) == ("restore", "evict") and before.node == after.node
        for before, after in pairwise(found.steps)
    )
