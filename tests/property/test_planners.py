"""What is true of every plan of every planner, on trees at random."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree
from chexpoint.plan.chains import ChainPlanner
from chexpoint.plan.check import check_plan
from chexpoint.plan.frontier import FrontierPlanner
from chexpoint.plan.problem import Problem
from chexpoint.plan.service_search import ServiceSearch
from chexpoint.plan.services import Services
from chexpoint.plan.solving import PLANNERS, solve
from chexpoint.plan.worker_search import search_worker
from tests.support.trees import (
    Case,
    budgets,
    cases,
    least_cost,
    leaves_of,
    plain_cases,
    renamed,
    shape_of,
    trees,
)

pytestmark = pytest.mark.slow

LONG = 60.0
"""More than any planner needs for trees as small as these."""

PUBLISHED = ("none", "lfu", "prp-v1", "prp-v2", "pc")

each_planner = pytest.mark.parametrize("planner", PLANNERS)


def tries(count: int) -> settings:
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


# ---------------------------------------------------------------- every planner


@each_planner
@tries(150)
@given(case=cases())
def test_every_plan_is_right(planner: str, case: Case) -> None:
    """Also with more in memory at the start than the budget allows."""
    found = solve(case.problem, planner, seconds=LONG)
    moments = check_plan(case.tree, found, costs=case.costs, held=case.held)
    assert len(moments) == len(found.steps)
    assert found.lower_bound <= found.cost
    assert set(found.versions) == set(leaves_of(case.tree))


@each_planner
@tries(50)
@given(case=cases())
def test_every_plan_is_right_when_there_is_no_time_to_think(planner: str, case: Case) -> None:
    found = solve(case.problem, planner, seconds=0.0)
    check_plan(case.tree, found, costs=case.costs, held=case.held)
    assert found.lower_bound <= found.cost


@each_planner
@tries(50)
@given(tree=trees())
def test_without_memory_each_version_is_replayed_from_its_first_cell(
    planner: str, tree: ExecutionTree
) -> None:
    found = solve(Problem(_with_bytes(tree), 0), planner, seconds=LONG)
    paths = [[node.cost for node in tree.path(leaf)] for leaf in leaves_of(tree)]
    assert found.cost == found.no_cache_cost == sum(map(sum, paths))
    assert {step.action for step in found.steps} <= {"compute", "restore"}


@pytest.mark.parametrize("planner", [name for name in PLANNERS if name != "none"])
@tries(50)
@given(tree=trees())
def test_with_all_memory_each_node_is_computed_once(planner: str, tree: ExecutionTree) -> None:
    found = solve(Problem(tree, math.inf), planner, seconds=LONG)
    assert found.cost == found.lower_bound == sum(node.cost for node in tree.nodes.values())
    assert found.is_optimal


@each_planner
@tries(50)
@given(case=cases(), rng=st.randoms(use_true_random=False))
def test_names_and_the_order_of_nodes_change_nothing(planner: str, case: Case, rng: Random) -> None:
    other = renamed(case, rng)
    found = solve(case.problem, planner, seconds=LONG)
    again = solve(other.problem, planner, seconds=LONG)
    assert (again.cost, again.lower_bound) == (found.cost, found.lower_bound)
    assert shape_of(other, again) == shape_of(case, found)


# ---------------------------------------------------------------- the default


@tries(150)
@given(case=cases())
def test_no_published_planner_is_better_than_the_default(case: Case) -> None:
    costs = {name: solve(case.problem, name, seconds=LONG).cost for name in PUBLISHED}
    assert solve(case.problem, "pc-move", seconds=LONG).cost <= min(costs.values()), costs


@tries(40)
@given(data=st.data(), tree=trees(most=30))
def test_the_cost_of_the_default_never_rises_with_the_budget(
    data: st.DataObject, tree: ExecutionTree
) -> None:
    _assert_never_rises(Case(tree=tree), "pc-move", data.draw(_rising(tree)))


@tries(100)
@given(case=plain_cases(most=20))
def test_the_frontier_is_never_worse_than_the_tables(case: Case) -> None:
    """Which do the same for large trees, with fewer choices."""
    problem = case.problem
    frontier = problem.price(FrontierPlanner(Services(problem)).moves())
    assert frontier <= problem.price(ChainPlanner(problem).moves())


# ---------------------------------------------------------------- the optimum


@tries(150)
@given(case=plain_cases(most=8, with_deltas=False))
def test_exact_finds_the_optimum(case: Case) -> None:
    _assert_optimal(case)


@tries(150)
@given(case=plain_cases(most=8))
def test_exact_finds_the_optimum_with_states_that_share_memory(case: Case) -> None:
    _assert_optimal(case)


@tries(200)
@given(case=cases(most=7))
def test_exact_finds_the_optimum_whatever_steps_cost_and_whatever_is_there(case: Case) -> None:
    _assert_optimal(case)


@tries(30)
@given(data=st.data(), case=cases(most=8))
def test_the_optimum_never_rises_with_the_budget(data: st.DataObject, case: Case) -> None:
    _assert_never_rises(case, "exact", data.draw(_rising(case.tree)))


@tries(100)
@given(case=plain_cases(most=9))
def test_both_searches_find_the_same(case: Case) -> None:
    deadline = time.monotonic() + LONG
    problem = case.problem
    services = ServiceSearch(problem, deadline=deadline).solve()
    _, least = search_worker(problem, deadline=deadline, known=problem.no_cache_cost())
    assert services.cost == services.bound == least


# ---------------------------------------------------------------- help


def _with_bytes(tree: ExecutionTree) -> ExecutionTree:
    """Return a tree in which no state is free to hold."""
    return ExecutionTree(
        (
            replace(
                node,
                size=node.size + 1,
                delta=None if node.delta is None else node.delta + 1,
            )
            for node in tree.nodes.values()
        ),
        tree.versions,
    )


def _rising(tree: ExecutionTree) -> st.SearchStrategy[list[float]]:
    return st.lists(budgets(tree), min_size=2, max_size=8).map(sorted)


def _assert_never_rises(case: Case, planner: str, rising: list[float]) -> None:
    found = [solve(replace(case, budget=b).problem, planner, seconds=LONG).cost for b in rising]
    assert found == sorted(found, reverse=True)


def _assert_optimal(case: Case) -> None:
    found = solve(case.problem, "exact", seconds=LONG)
    check_plan(case.tree, found, costs=case.costs, held=case.held)
    assert found.cost == least_cost(case)
    assert found.is_optimal
    assert found.lower_bound == found.cost
