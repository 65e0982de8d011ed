"""The planner that proves the optimum."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest

from chexpoint.model import ExecutionTree, HeldState, NodeId, StepCosts
from chexpoint.plan import bin_packing_tree, check_plan, plan, sample_tree
from tests.support.trees import Case, least_cost, node


@pytest.mark.slow
@pytest.mark.parametrize(
    ("items", "bin_size", "bins", "fits"),
    [
        ([1], 1, 1, True),
        ([2, 2], 4, 1, True),
        ([3, 2], 4, 1, False),
        ([3, 2], 4, 2, True),
        ([3, 3, 2], 4, 2, False),
        ([3, 1, 2], 3, 2, True),
        ([2, 2, 2], 3, 2, False),
    ],
)
def test_the_gadget_of_theorem_1_is_decided_right(
    items: Sequence[int], bin_size: int, bins: int, fits: bool
) -> None:
    tree, budget, target = bin_packing_tree(items, bin_size, bins)
    found = plan(tree, budget, planner="exact")
    check_plan(tree, found)
    assert found.is_optimal
    assert (found.cost <= target) == fits


def test_a_plan_that_is_proven_has_no_notes() -> None:
    found = plan(sample_tree("ci", nodes=12), 1024**3, planner="exact")
    assert found.is_optimal
    assert found.lower_bound == found.cost
    assert found.notes == ()


@pytest.mark.parametrize("costs", [StepCosts(), StepCosts(restore=1.0)])
def test_without_time_there_is_a_plan_a_bound_and_how_far_off_it_may_be(costs: StepCosts) -> None:
    tree = sample_tree("an", nodes=150)
    found = plan(tree, 1024**3, planner="exact", costs=costs, seconds=0.001)
    check_plan(tree, found, costs=costs)
    assert 0 < found.lower_bound < found.cost
    assert not found.is_optimal
    above = (found.cost / found.lower_bound - 1) * 100
    assert any(f"at most {above:.1f} % above the optimum" in note for note in found.notes)


def test_a_restore_is_not_made_a_take_that_costs_more() -> None:
    tree = ExecutionTree([node("a", None, 5.0), node("b", "a"), node("c", "a")])
    costs = StepCosts(take=1.0)
    found = plan(tree, planner="exact", costs=costs)
    assert found.cost == 7.0
    assert "take" not in {step.action for step in found.steps}


def test_a_state_that_costs_more_to_load_than_to_compute_is_not_loaded() -> None:
    tree = ExecutionTree([node("a", None, 5.0), node("b", "a"), node("c", "b")])
    cheap = HeldState(node=NodeId("b"), load=1.0)
    dear = HeldState(node=NodeId("b"), load=100.0)
    assert plan(tree, 0, planner="exact", held=[cheap]).cost == 2.0
    assert plan(tree, 0, planner="exact", held=[dear]).cost == 7.0


def test_too_much_in_memory_at_the_start_is_evicted_but_for_what_saves_most() -> None:
    tree = ExecutionTree(
        [
            node("root", None, 0.0, 0),
            *(node("cheap", "root", 1.0, 4), node("c1", "cheap"), node("c2", "cheap")),
            *(node("dear", "root", 9.0, 4), node("d1", "dear"), node("d2", "dear")),
        ]
    )
    held = tuple(HeldState(node=NodeId(name)) for name in ("cheap", "dear"))
    found = plan(tree, 4, planner="exact", held=held)
    check_plan(tree, found, held=held)
    assert found.steps[0] == ("evict", "cheap")
    assert found.cost == least_cost(Case(tree=tree, budget=4, held=held)) == 5.0


def test_a_version_alone_costs_its_cells() -> None:
    found = plan(ExecutionTree([node("only", None, 3.0)]), math.inf, planner="exact")
    assert (found.cost, found.steps) == (3.0, (("compute", "only"),))
    assert found.is_optimal
