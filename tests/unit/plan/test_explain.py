"""An explanation says what is computed again and what each checkpoint saves."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from chexpoint.errors import InvalidPlan
from chexpoint.model import CheckpointUse, HeldState, NodeId, Plan, StepCosts
from chexpoint.plan.check import check_plan
from chexpoint.plan.problem import Problem
from chexpoint.plan.reasons import explain
from chexpoint.plan.solving import solve
from tests.unit.plan.test_check import (
    FIGURE_1,
    FIGURE_6,
    FIRST,
    GROWING,
    NO_CACHE,
    RIGHT,
    SECOND,
    THIRD,
    TREE,
    ids,
    in_memory,
    plan_of,
)


def test_an_explanation_has_the_moments_of_the_plan() -> None:
    found = explain(TREE, RIGHT)
    assert found.plan is RIGHT
    assert found.moments == check_plan(TREE, RIGHT)
    assert found.peak_bytes == 30


def test_a_wrong_plan_is_not_explained() -> None:
    with pytest.raises(InvalidPlan, match="it costs 31 s"):
        explain(TREE, replace(RIGHT, cost=30))


@pytest.mark.parametrize(
    ("plan", "computed", "again"),
    [
        (NO_CACHE, 26, {"a": 5, "c": 4, "f": 3, "i": 2}),
        (FIRST, 17, {"i": 2}),
        (SECOND, 19, {"a": 2, "c": 2, "f": 2}),
        (THIRD, 16, {}),
    ],
)
def test_what_figure_7_computes_again(plan: Plan, computed: int, again: dict[str, int]) -> None:
    found = explain(FIGURE_6, plan)
    assert found.recomputed == again
    assert found.computed == computed
    assert found.cells_in_versions == 26
    assert found.each_once_cost == 95


def test_the_checkpoint_of_figure_1_saves_eleven_minutes() -> None:
    plan = plan_of(
        "compute a b, checkpoint b, restore b, compute c, restore -, compute a d e",
        cost=26,
        versions="c e",
    )
    [use] = explain(FIGURE_1, plan).uses
    assert use == CheckpointUse(
        node=NodeId("b"), step=2, restores=1, is_taken=False, bytes=1, saved=11
    )


def test_a_checkpoint_saves_the_way_from_the_nearest_one_above_it() -> None:
    """b saves one computation of b, a all but those that b saves."""
    a, b = explain(TREE, RIGHT).uses
    assert a == CheckpointUse(
        node=NodeId("a"), step=1, restores=1, is_taken=True, bytes=10, saved=1
    )
    assert b == CheckpointUse(
        node=NodeId("b"), step=3, restores=1, is_taken=False, bytes=20, saved=2
    )


def test_savings_are_less_what_going_back_and_the_checkpoint_cost() -> None:
    costs = StepCosts(
        checkpoint=0.25,
        checkpoint_per_byte=0.5,
        restore=0.125,
        restore_per_byte=0.0625,
        take=0.75,
        fresh=32,
    )
    cost = 31 + (0.25 + 5) + (0.25 + 10) + (0.125 + 1.25) + 0.75
    a, b = explain(TREE, replace(RIGHT, cost=cost), costs=costs).uses
    assert a.saved == pytest.approx((32 + 1) - 0.75 - 5.25)
    assert b.saved == pytest.approx((0.125 + 0.625 + 2) - 1.375 - 10.25)


def test_the_next_best_way_may_begin_farther_above_than_the_nearest_checkpoint() -> None:
    """If the nearest one is so large that restoring it takes longer than computing it."""
    plan = plan_of(
        "compute a, checkpoint a, compute b, checkpoint b, compute c, checkpoint c, take c",
        cost=7,
        versions="c",
        left_out="d e",
    )
    uses = explain(TREE, plan, costs=StepCosts(restore_per_byte=1, fresh=100)).uses
    assert [(use.node, use.saved) for use in uses] == [("a", 0), ("b", 0), ("c", 10 + 2 + 4)]


def test_a_checkpoint_that_is_never_used_is_a_loss() -> None:
    plan = plan_of("compute a, checkpoint a, compute e", cost=19, versions="e", left_out="c d")
    [use] = explain(TREE, plan, costs=StepCosts(checkpoint=2)).uses
    assert (use.restores, use.saved) == (0, -2)


def test_a_checkpoint_that_is_made_again_is_another_one() -> None:
    plan = plan_of(
        "compute a b, checkpoint b, compute c, take b, checkpoint b, compute d, restore b, evict b",
        cost=15,
        versions="c d",
        left_out="e",
    )
    first, second = explain(TREE, plan).uses
    assert (first.step, first.restores, first.is_taken, first.saved) == (2, 1, True, 3)
    assert (second.step, second.restores, second.is_taken, second.saved) == (5, 1, False, 3)


def test_bytes_are_those_that_a_checkpoint_adds_when_it_is_made() -> None:
    plan = plan_of(
        "compute a, checkpoint a, compute b c, checkpoint c, evict a",
        cost=3,
        versions="",
        left_out="d e",
    )
    assert [use.bytes for use in explain(GROWING, plan).uses] == [100, 15]


def test_what_was_there_before_the_plan_comes_first() -> None:
    plan = plan_of(
        "restore b, compute c, checkpoint c, restore b, compute d, restore -, compute a e",
        cost=29,
        versions="c d e",
    )
    b, a, c = explain(TREE, plan, held=in_memory("b a")).uses
    assert (b.node, b.step, b.restores, b.bytes, b.saved) == ("b", -1, 2, 20, 4)
    assert (a.node, a.step, a.restores, a.bytes, a.saved) == ("a", -1, 0, 10, 0)
    assert (c.node, c.step) == ("c", 2)


def test_what_was_there_before_the_plan_shares_whatever_was_there() -> None:
    plan = plan_of("take b, compute c d, restore -, compute a e", cost=4, versions="d e")
    uses = explain(GROWING, plan, held=in_memory("c b a")).uses
    assert [(use.node, use.bytes) for use in uses] == [("c", 5), ("b", 10), ("a", 100)]


def test_a_state_elsewhere_is_a_use_if_it_is_loaded() -> None:
    plan = plan_of(
        "restore b, compute c, restore b, compute d, restore -, compute a e",
        cost=30,
        versions="c d e",
    )
    held = [HeldState(node=NodeId("b"), load=0.5), HeldState(node=NodeId("d"), load=0.5)]
    [use] = explain(TREE, plan, held=held).uses
    assert use == CheckpointUse(
        node=NodeId("b"), step=-1, restores=2, is_taken=False, bytes=0, saved=5
    )


def test_a_state_elsewhere_may_be_the_next_best_way_to_itself() -> None:
    plan = plan_of(
        "restore b, checkpoint b, compute c, restore b, compute d, restore -, compute a e",
        cost=29.5,
        versions="c d e",
    )
    elsewhere, in_ram = explain(TREE, plan, held=[HeldState(node=NodeId("b"), load=0.5)]).uses
    assert (elsewhere.step, elsewhere.restores, elsewhere.saved) == (-1, 1, 2.5)
    assert (in_ram.step, in_ram.restores, in_ram.saved) == (1, 1, 0.5)


def test_only_the_versions_that_are_replayed_are_counted() -> None:
    plan = plan_of("compute a e", cost=17, versions="e", left_out="c d")
    found = explain(TREE, plan)
    assert found.cells_in_versions == 2
    assert found.each_once_cost == 17


def test_a_plan_for_a_part_of_the_tree_can_be_explained() -> None:
    plan = solve(Problem(TREE, math.inf, leaves=ids("c e")), "none", seconds=1)
    found = explain(TREE, plan, held=in_memory("d"))
    assert found.cells_in_versions == found.computed == 5
    assert found.each_once_cost == 23
    assert found.recomputed == {"a": 2}
    assert found.uses == ()
