"""The door to the planners: what it refuses, and that nothing is too long, wide or short for it."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, HeldState, NodeId
from chexpoint.plan import PLANNERS, judge_plan, plan
from tests.support.trees import caterpillar, deep_chain, node, recorded, star

each_planner = pytest.mark.parametrize("planner", PLANNERS)

FORK = ExecutionTree([node("a", None, 5.0, 4), node("b", "a"), node("c", "a")])


def refusal(message: str) -> pytest.RaisesExc[InvalidValue]:
    return pytest.raises(InvalidValue, match=re.escape(message))


# ---------------------------------------------------------------- bad trees


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        (ExecutionTree(), "the tree has no nodes"),
        (
            ExecutionTree([node("a", None), node("b", "c"), node("c", "b")]),
            "of the tree is its own ancestor",
        ),
        (ExecutionTree([node("a", "a")]), "node 'a' of the tree is its own ancestor"),
        (ExecutionTree([node("a", None), node("b", None)]), "two roots, 'a' and 'b'"),
        (
            ExecutionTree([node("a", None), node("b", "lost")]),
            "the parent 'lost' of node 'b' is not in the tree",
        ),
        (ExecutionTree([node("a", None, -1.0)]), "cost of node 'a' is not a number >= 0: -1.0"),
        (ExecutionTree([node("a", None, math.nan)]), "cost of node 'a' is not a number >= 0: nan"),
        (ExecutionTree([node("a", None, math.inf)]), "cost of node 'a' is not a number >= 0: inf"),
        (ExecutionTree([node("a", None, 1.0, -1)]), "size of node 'a' is not a number >= 0: -1"),
        (
            ExecutionTree([node("a", None, 1.0, 1, -1)]),
            "delta of node 'a' is not a number >= 0: -1",
        ),
    ],
)
@each_planner
def test_a_tree_that_is_none_is_refused(tree: ExecutionTree, message: str, planner: str) -> None:
    with refusal(message):
        plan(tree, 10, planner=planner)


@each_planner
def test_a_tree_with_several_first_cells_can_be_planned_if_it_has_versions(planner: str) -> None:
    tree = recorded([node("a", None), node("a1", "a"), node("a2", "a"), node("b", None, 7.0)])
    found = plan(tree, 1, planner=planner)
    judge_plan(tree, found)
    assert set(found.versions) == {"a1", "a2", "b"}


# ---------------------------------------------------------------- other bad input


@pytest.mark.parametrize("budget", [-1, -0.5, math.nan, -math.inf])
def test_a_budget_that_is_none_is_refused(budget: float) -> None:
    with refusal(f"the budget is not a number of bytes >= 0: {budget!r}"):
        plan(FORK, budget)


def test_a_planner_that_there_is_not_is_refused_and_all_that_there_are_are_named() -> None:
    with refusal("there is no planner 'best': none, lfu, prp-v1, prp-v2, pc, pc-move, exact"):
        plan(FORK, planner="best")


def test_a_version_that_there_is_not_is_refused() -> None:
    with refusal("there is no node 'd' in the tree"):
        plan(FORK, versions=[NodeId("b"), NodeId("d")])


def test_no_versions_at_all_are_refused() -> None:
    with refusal("no version was given"):
        plan(FORK, versions=[])


@pytest.mark.parametrize("load", [None, 1.0])
def test_a_state_of_a_node_that_there_is_not_is_refused(load: float | None) -> None:
    with refusal("a state of node 'd' is held, which is not in the tree"):
        plan(FORK, held=[HeldState(node=NodeId("d"), load=load)])


def test_a_state_that_is_held_twice_is_refused() -> None:
    with refusal("the state of node 'a' is held twice"):
        plan(FORK, held=[HeldState(node=NodeId("a")), HeldState(node=NodeId("a"), load=1.0)])


def test_several_workers_within_a_time_are_refused() -> None:
    with refusal("either for several workers or within a time, not both"):
        plan(FORK, workers=2, within=5.0)  # type: ignore[call-overload]


@pytest.mark.parametrize("workers", [0, -1])
def test_less_than_one_worker_is_refused(workers: int) -> None:
    with refusal(str(workers)):
        plan(FORK, workers=workers)


@pytest.mark.parametrize("seconds", [-1.0, math.nan])
def test_a_time_limit_that_is_none_is_refused(seconds: float) -> None:
    with refusal(f"the time limit is not a number of seconds >= 0: {seconds!r}"):
        plan(FORK, seconds=seconds)


# ---------------------------------------------------------------- part of a tree


@each_planner
def test_only_the_versions_that_are_asked_for_are_replayed(planner: str) -> None:
    found = plan(FORK, planner=planner, versions=[NodeId("c")])
    assert found.versions == ("c",)
    assert found.cost == found.no_cache_cost == 6.0


# ---------------------------------------------------------------- too little


@each_planner
def test_a_budget_smaller_than_any_state_gives_the_plan_without_memory_and_a_note(
    planner: str,
) -> None:
    found = plan(FORK, 3, planner=planner)
    judge_plan(FORK, found)
    assert found.cost == found.no_cache_cost == 12.0
    assert [note for note in found.notes if "the budget is smaller than any state" in note]


def test_a_budget_in_which_a_state_fits_has_no_note() -> None:
    assert plan(FORK, 4).notes == ()


@each_planner
def test_no_time_at_all_is_enough_for_a_plan(planner: str) -> None:
    tree = caterpillar(40)
    found = plan(tree, 3, planner=planner, seconds=0)
    judge_plan(tree, found)
    assert found.cost <= found.no_cache_cost


# ---------------------------------------------------------------- too much


each_shape = pytest.mark.parametrize(
    "make",
    [lambda: deep_chain(5_000), lambda: star(2_000), lambda: caterpillar(1_000)],
    ids=["chain", "star", "caterpillar"],
)


@pytest.mark.slow
@each_shape
@each_planner
def test_trees_that_are_long_or_wide_are_planned(
    make: Callable[[], ExecutionTree], planner: str
) -> None:
    tree = make()
    found = plan(tree, 50, planner=planner, seconds=5.0)
    judge_plan(tree, found)
    assert found.lower_bound <= found.cost <= found.no_cache_cost


@pytest.mark.slow
@each_shape
@pytest.mark.parametrize("planner", [name for name in PLANNERS if name != "none"])
def test_trees_that_are_long_or_wide_are_gone_through_once_with_all_memory(
    make: Callable[[], ExecutionTree], planner: str
) -> None:
    tree = make()
    found = plan(tree, planner=planner)
    judge_plan(tree, found)
    assert found.cost == len(tree)
