"""The most versions in a given time, those that are soon done first."""

from __future__ import annotations

import math

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.model import HeldState, NodeId, Plan, StepCosts
from chexpoint.plan.check import check_plan
from chexpoint.plan.problem import Problem
from chexpoint.plan.samples import KINDS, sample_tree
from chexpoint.plan.solving import solve
from chexpoint.plan.time_limit import most_versions
from tests.unit.plan.test_side_by_side import tree_of

PLANNER = "pc-move"
GB = 1024**3

# Below b there are three versions that are cheap together, but each of them is dear alone.
SHARED = tree_of(
    a=(None, 1, 5),
    b=("a", 10, 5),
    c=("b", 1, 1),
    d=("b", 2, 1),
    e=("b", 3, 1),
    f=("a", 8, 1),
    g=("a", 9, 1),
)


def most(within: float, budget: float = math.inf) -> Plan:
    plan = most_versions(SHARED, budget, within, planner=PLANNER, costs=None, seconds=5)
    check_plan(SHARED, plan)
    assert plan.cost <= within
    return plan


@pytest.mark.parametrize("within", [-1, math.nan, "9", None, True])
def test_a_time_that_is_none_is_refused(within: float) -> None:
    with pytest.raises(InvalidValue, match="not a number of seconds >= 0"):
        most_versions(SHARED, 0, within, planner=PLANNER, costs=None, seconds=5)


def test_enough_time_gives_the_plan_for_all() -> None:
    full = solve(Problem(SHARED, 5), PLANNER, seconds=5)
    assert most(full.cost, budget=5) == full
    assert most(math.inf, budget=5) == full


def test_no_time_gives_a_plan_without_steps_and_a_note() -> None:
    plan = most(8.5)
    assert (plan.steps, plan.versions) == ((), ())
    assert set(plan.left_out) == set("cdefg")
    assert (plan.cost, plan.lower_bound, plan.no_cache_cost) == (0, 0, 0)
    assert plan.notes == ("no version can be replayed in 8.5 s",)


def test_versions_that_cost_nothing_need_no_time() -> None:
    free = tree_of(a=(None, 0, 0), b=("a", 0, 0), c=("a", 0, 0), d=("a", 1, 0))
    plan = most_versions(free, 0, 0, planner=PLANNER, costs=None, seconds=5)
    check_plan(free, plan)
    assert set(plan.versions) == {"b", "c"}


@pytest.mark.parametrize(
    ("within", "budget", "versions"),
    [
        (9, 0, "f"),
        (12, 0, "f"),
        (17, math.inf, "cde"),
        (17, 5, "cde"),
        (17, 4, "f"),
        (19, 4, "fg"),
        (25, 5, "cdef"),
        (33, math.inf, "cdef"),
    ],
)
def test_the_versions_that_cost_least_together_are_chosen(
    within: float, budget: float, versions: str
) -> None:
    assert len(most(within, budget).versions) == len(versions)


def test_what_is_known_of_a_plan_is_about_the_versions_chosen() -> None:
    plan = most(17)
    assert set(plan.versions) == set("cde")
    assert set(plan.left_out) == set("fg")
    assert (plan.cost, plan.lower_bound, plan.no_cache_cost) == (17, 17, 39)


def test_the_cheapest_version_is_done_first() -> None:
    assert most(17).versions == tuple("cde")
    assert most(25).versions == tuple("cdef")


def test_a_dear_version_waits_for_a_cheap_one_elsewhere_if_memory_allows() -> None:
    tree = tree_of(
        a=(None, 1, 4), b=("a", 1, 4), c=("b", 1, 1), d=("b", 90, 1), e=("a", 20, 1), f=("a", 99, 1)
    )
    ample = most_versions(tree, 8, 150, planner=PLANNER, costs=None, seconds=5)
    check_plan(tree, ample)
    assert ample.versions == tuple("ced")
    short = most_versions(tree, 4, 150, planner=PLANNER, costs=None, seconds=5)
    check_plan(tree, short)
    assert set(short.versions) == set("ced")


def test_the_time_for_steps_other_than_computing_counts() -> None:
    costs = StepCosts(checkpoint=1, restore=1, take=1)
    plan = most_versions(SHARED, math.inf, 19, planner=PLANNER, costs=costs, seconds=5)
    check_plan(SHARED, plan, costs=costs)
    assert len(plan.versions) == 2
    plan = most_versions(SHARED, math.inf, 20, planner=PLANNER, costs=costs, seconds=5)
    check_plan(SHARED, plan, costs=costs)
    assert set(plan.versions) == set("cde")


def test_a_state_in_memory_that_is_in_the_way_is_evicted() -> None:
    dear = tree_of(
        a=(None, 1, 0),
        b=("a", 10, 5),
        c=("b", 1, 1),
        d=("b", 2, 1),
        e=("a", 50, 5),
        f=("e", 50, 1),
        g=("e", 50, 1),
    )
    held = (HeldState(node=NodeId("e")),)
    plan = most_versions(dear, 5, 14, planner=PLANNER, costs=None, held=held, seconds=5)
    check_plan(dear, plan, held=held)
    assert set(plan.versions) == {"c", "d"}


@pytest.mark.parametrize("load", [None, 2.0])
def test_a_state_that_is_there_makes_versions_cheap(load: float | None) -> None:
    held = (HeldState(node=NodeId("b"), load=load),)
    plan = most_versions(SHARED, 5, 8, planner=PLANNER, costs=None, held=held, seconds=5)
    check_plan(SHARED, plan, held=held)
    assert plan.versions == tuple("cde")


def test_only_the_versions_that_are_asked_for_are_chosen_from() -> None:
    wanted = [NodeId(node) for node in "efg"]
    plan = most_versions(SHARED, 0, 19, planner=PLANNER, costs=None, seconds=5, leaves=wanted)
    check_plan(SHARED, plan, leaves=wanted)
    assert (set(plan.versions), plan.left_out) == ({"f", "g"}, ("e",))


@pytest.mark.slow
def test_thousands_of_versions_are_chosen_from() -> None:
    star = sample_tree("star", nodes=3500)
    cheapest = sorted(node.cost for node in star.nodes.values() if node.parent is not None)
    root = sum(node.cost for node in star.nodes.values() if node.parent is None)
    within = root + sum(cheapest[:1000])
    plan = most_versions(star, math.inf, within, planner=PLANNER, costs=None, seconds=60)
    check_plan(star, plan)
    assert len(plan.versions) >= 999


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("budget", [0, GB, math.inf])
def test_more_time_never_gives_fewer_versions_of_a_sample(kind: str, budget: float) -> None:
    tree = sample_tree(kind, versions=12, length=6)
    full = solve(Problem(tree, budget), PLANNER, seconds=60)
    numbers = []
    for part in (0.2, 0.4, 0.6, 0.8, 1.0):
        within = full.cost * part
        plan = most_versions(tree, budget, within, planner=PLANNER, costs=None, seconds=60)
        check_plan(tree, plan)
        assert plan.cost <= within
        numbers.append(len(plan.versions))
    assert numbers == sorted(numbers)
    assert numbers[-1] == len(full.versions)
