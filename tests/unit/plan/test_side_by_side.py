"""Engines side by side: who has which versions, and how much of the budget."""

from __future__ import annotations

import math

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, HeldState, NodeId, Schedule, StepCosts, TreeNode
from chexpoint.plan.check import check_plan, check_schedule
from chexpoint.plan.problem import Problem
from chexpoint.plan.samples import KINDS, sample_tree
from chexpoint.plan.side_by_side import schedule
from chexpoint.plan.solving import solve

PLANNER = "pc-move"
GB = 1024**3


def tree_of(**nodes: tuple[str | None, float, int]) -> ExecutionTree:
    """Return a tree of nodes with a parent, a cost and a size."""
    return ExecutionTree(
        TreeNode(
            id=NodeId(name), parent=None if parent is None else NodeId(parent), cost=cost, size=size
        )
        for name, (parent, cost, size) in nodes.items()
    )


TWINS = tree_of(
    a=(None, 1, 4), b=("a", 10, 4), c=("b", 5, 1), d=("b", 5, 1), e=("a", 10, 4), f=("e", 12, 1)
)
"""Two subtrees that take about equally long."""

LOPSIDED = tree_of(
    a=(None, 0, 0),
    b=("a", 10, 6),
    c=("b", 1, 1),
    d=("b", 1, 1),
    e=("b", 1, 1),
    f=("a", 10, 6),
    g=("f", 2, 1),
)
"""One subtree needs a checkpoint, the other one none."""


def lanes(found: Schedule) -> set[frozenset[str]]:
    return {frozenset(lane.versions) for lane in found.lanes}


@pytest.mark.parametrize("workers", [0, -1, 1.5, True, "2", None, math.nan])
def test_a_number_of_workers_that_is_none_is_refused(workers: int) -> None:
    with pytest.raises(InvalidValue, match="workers is not a whole number >= 1"):
        schedule(TWINS, 10, workers, planner=PLANNER, costs=None, seconds=5)


def test_one_worker_does_what_the_planner_says() -> None:
    found = schedule(TWINS, 10, 1, planner=PLANNER, costs=None, seconds=5)
    assert found.lanes == (solve(Problem(TWINS, 10), PLANNER, seconds=5),)
    assert found.makespan == found.single


def test_two_workers_have_a_subtree_each() -> None:
    found = schedule(TWINS, 10, 2, planner=PLANNER, costs=None, seconds=5)
    check_schedule(TWINS, found)
    assert lanes(found) == {frozenset("cd"), frozenset("f")}
    assert (found.single, found.makespan, found.work) == (43, 23, 44)


def test_a_single_path_has_one_lane_with_the_whole_budget() -> None:
    row = tree_of(a=(None, 1, 1), b=("a", 2, 1), c=("b", 3, 1))
    found = schedule(row, 7, 4, planner=PLANNER, costs=None, seconds=5)
    assert [(lane.versions, lane.budget) for lane in found.lanes] == [(("c",), 7)]
    assert found.makespan == 6


def test_there_are_not_more_lanes_than_versions() -> None:
    found = schedule(TWINS, math.inf, 50, planner=PLANNER, costs=None, seconds=5)
    check_schedule(TWINS, found)
    assert len(found.lanes) <= 3
    assert found.makespan == 23


def test_versions_that_cost_nothing_are_left_to_one_engine() -> None:
    free = tree_of(a=(None, 0, 0), b=("a", 0, 0), c=("a", 0, 0))
    found = schedule(free, 0, 2, planner=PLANNER, costs=None, seconds=5)
    assert len(found.lanes) == 1
    assert found.makespan == 0


def test_engines_that_would_all_do_the_same_first_are_not_used() -> None:
    """What leads to a version is as long as all there is to do for one engine."""
    found = schedule(
        tree_of(a=(None, 9, 1), b=("a", 0, 1), c=("a", 0, 1)),
        1,
        2,
        planner=PLANNER,
        costs=None,
        seconds=5,
    )
    assert len(found.lanes) == 1
    assert found.lanes[0].budget == 1


def test_the_budget_goes_to_the_lane_that_needs_it() -> None:
    found = schedule(LOPSIDED, 6, 2, planner=PLANNER, costs=None, seconds=5)
    check_schedule(LOPSIDED, found)
    assert lanes(found) == {frozenset("cde"), frozenset("g")}
    assert found.makespan == 13
    assert {lane.budget for lane in found.lanes} == {0, 6}


def test_an_infinite_budget_is_infinite_for_all() -> None:
    found = schedule(LOPSIDED, math.inf, 2, planner=PLANNER, costs=None, seconds=5)
    assert [lane.budget for lane in found.lanes] == [math.inf, math.inf]


def test_states_in_memory_are_for_the_first_lane_only() -> None:
    held = (HeldState(node=NodeId("f")),)
    found = schedule(LOPSIDED, 12, 2, planner=PLANNER, costs=None, held=held, seconds=5)
    first, second = found.lanes
    check_plan(LOPSIDED, first, held=held, leaves=first.versions)
    check_plan(LOPSIDED, second, leaves=second.versions)
    assert first.versions == ("g",)
    assert (first.cost, second.cost) == (2, 13)


def test_states_that_can_be_loaded_are_for_all_lanes() -> None:
    costs = StepCosts(fresh=1)
    held = tuple(HeldState(node=NodeId(node), load=3) for node in "bf")
    found = schedule(LOPSIDED, 0, 2, planner=PLANNER, costs=costs, held=held, seconds=5)
    check_schedule(LOPSIDED, found, costs=costs, held=held)
    assert sorted(lane.cost for lane in found.lanes) == [8, 9]


def test_only_the_versions_that_are_asked_for_are_planned() -> None:
    wanted = [NodeId("c"), NodeId("f")]
    found = schedule(TWINS, 0, 3, planner=PLANNER, costs=None, seconds=5, leaves=wanted)
    check_schedule(TWINS, found, leaves=wanted)
    assert lanes(found) == {frozenset("c"), frozenset("f")}


def test_an_unknown_planner_is_refused() -> None:
    with pytest.raises(InvalidValue, match="there is no planner 'magic'"):
        schedule(TWINS, 0, 2, planner="magic", costs=None, seconds=5)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [0, GB, math.inf])
@pytest.mark.parametrize("workers", [2, 3])
def test_samples_are_done_between_the_lower_bound_and_one_engine_alone(
    kind: str, budget: float, workers: int
) -> None:
    tree = sample_tree(kind, versions=8, length=5)
    found = schedule(tree, budget, workers, planner=PLANNER, costs=None, seconds=60)
    check_schedule(tree, found)
    alone = solve(Problem(tree, budget), PLANNER, seconds=60)
    longest = max(sum(node.cost for node in tree.path(leaf)) for leaf in alone.versions)
    assert max(alone.lower_bound / workers, longest) <= found.makespan * (1 + 1e-9)
    assert found.makespan <= found.single == alone.cost


def test_states_that_are_too_large_for_a_share_are_evicted() -> None:
    huge = tree_of(
        a=(None, 1, 0),
        b=("a", 9, 10**9),
        c=("b", 9, 1),
        d=("b", 9, 1),
        e=("a", 9, 1),
        f=("a", 9, 1),
    )
    held = (HeldState(node=NodeId("b")), HeldState(node=NodeId("c")))
    found = schedule(huge, 10**8, 2, planner=PLANNER, costs=None, held=held, seconds=60)
    first, second = found.lanes
    check_plan(huge, first, held=held, leaves=first.versions)
    check_plan(huge, second, leaves=second.versions)
    assert found.makespan == 28
