"""What is promised of schedules and of plans with a time limit holds for any tree."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import replace
from functools import cached_property
from itertools import combinations
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import (
    Action,
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    Seconds,
    StepCosts,
    TreeNode,
)
from chexpoint.plan.check import check_plan, check_schedule
from chexpoint.plan.problem import Problem
from chexpoint.plan.side_by_side import schedule
from chexpoint.plan.solving import PLANNERS, solve
from chexpoint.plan.time_limit import most_versions

pytestmark = pytest.mark.slow

PLANNER = "pc-move"

# More than any search takes, so that the clock decides nothing.
LONG = 600.0

# Whole numbers of seconds, so that sums do not depend on their order.
seconds = st.integers(0, 9).map(float)
some_bytes = st.integers(0, 9)


class Case:
    """All that a plan is made from."""

    def __init__(
        self,
        tree: ExecutionTree,
        budget: float,
        costs: StepCosts,
        held: tuple[HeldState, ...] = (),
    ) -> None:
        self.tree = tree
        self.budget = budget
        self.costs = costs
        self.held = held

    def __repr__(self) -> str:
        return f"Case({list(self.tree.nodes.values())}, {self.budget}, {self.costs}, {self.held})"

    @property
    def loadable(self) -> tuple[HeldState, ...]:
        return tuple(state for state in self.held if state.load is not None)

    @cached_property
    def leaves(self) -> list[NodeId]:
        return [node for node in self.tree.nodes if not self.tree.children(node)]

    def solved(
        self,
        leaves: Collection[NodeId] | None = None,
        *,
        budget: float | None = None,
        planner: str = PLANNER,
    ) -> Plan:
        share = self.budget if budget is None else budget
        problem = Problem(self.tree, share, costs=self.costs, held=self.held, leaves=leaves)
        return solve(problem, planner, seconds=LONG)


@st.composite
def cases(draw: st.DrawFn, *, most: int = 12, leaves: int = 12, with_held: bool = False) -> Case:
    nodes: list[TreeNode] = []
    for number in range(draw(st.integers(1, most))):
        parents: list[NodeId | None] = [node.id for node in nodes]
        nodes.append(
            TreeNode(
                id=NodeId(f"n{number}"),
                parent=draw(st.sampled_from(parents or [None])),
                cost=draw(seconds),
                size=draw(some_bytes),
                delta=draw(st.none() | some_bytes),
            )
        )
        if len(nodes) - len({node.parent for node in nodes} - {None}) == leaves:
            break
    budget = draw(st.integers(0, 20) | st.just(math.inf))
    costs = StepCosts(
        **{name: draw(seconds) for name in ("checkpoint", "restore", "take", "fresh")}
    )
    held: tuple[HeldState, ...] = ()
    if with_held:
        chosen = draw(st.lists(st.sampled_from([n.id for n in nodes]), unique=True, max_size=3))
        held = tuple(HeldState(node=node, load=draw(st.none() | seconds)) for node in chosen)
    return Case(ExecutionTree(nodes), budget, costs, held)


planners = st.sampled_from([name for name in PLANNERS if name != "exact"])


# ---------------------------------------------------------------- schedules


@settings(max_examples=60, deadline=None)
@given(cases(with_held=True), st.integers(1, 4), planners)
def test_schedules_keep_their_promises(case: Case, workers: int, planner: str) -> None:
    found = schedule(
        case.tree,
        case.budget,
        workers,
        planner=planner,
        costs=case.costs,
        held=case.held,
        seconds=LONG,
    )
    for number, lane in enumerate(found.lanes):
        held = case.loadable if number else case.held
        check_plan(case.tree, lane, costs=case.costs, held=held, leaves=lane.versions)
    alone = case.solved(planner=planner)
    versions = [node for lane in found.lanes for node in lane.versions]
    assert sorted(versions) == sorted(case.leaves)
    assert 1 <= len(found.lanes) <= min(workers, len(case.leaves))
    assert sum(lane.budget for lane in found.lanes) <= case.budget or math.isinf(case.budget)
    assert found.makespan <= found.single == alone.cost
    if len(found.lanes) == 1:
        assert found.lanes == (alone,)


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(2, 4))
def test_no_schedule_is_done_before_the_lower_bound(case: Case, workers: int) -> None:
    found = schedule(
        case.tree, case.budget, workers, planner=PLANNER, costs=case.costs, seconds=LONG
    )
    check_schedule(case.tree, found, costs=case.costs)
    each_once = math.fsum(node.cost for node in case.tree.nodes.values())
    longest = max(path_cost(case.tree, leaf) for leaf in case.leaves)
    assert max(each_once / workers, longest) <= found.makespan


def path_cost(tree: ExecutionTree, leaf: NodeId) -> Seconds:
    return math.fsum(node.cost for node in tree.path(leaf))


class Way(NamedTuple):
    """What some versions cost with a share of the budget."""

    peak: float
    cost: Seconds


def ways(case: Case, leaves: Collection[NodeId]) -> list[Way]:
    """Return what some versions cost with all shares of the budget that make a difference."""
    found: list[Way] = []
    share = case.budget
    while not found or found[-1].peak > 0:
        plan = case.solved(leaves, budget=share)
        moments = check_plan(case.tree, plan, costs=case.costs, leaves=leaves)
        peak = max((moment.held_bytes for moment in moments), default=0)
        found.append(Way(peak, plan.cost))
        share = peak - 1
    return found


def divisions(leaves: list[NodeId]) -> Iterator[tuple[list[NodeId], list[NodeId]]]:
    first, *others = leaves
    for number in range(len(others)):
        for chosen in combinations(others, number):
            yield [first, *chosen], [node for node in others if node not in chosen]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases(leaves=6))
def test_two_engines_are_nearly_as_fast_as_the_best_division_allows(case: Case) -> None:
    """That is not promised, so the trees are always the same."""
    found = schedule(case.tree, case.budget, 2, planner=PLANNER, costs=case.costs, seconds=LONG)
    best = min(
        (
            max(one.cost, other.cost)
            for part, rest in divisions(case.leaves)
            for one in ways(case, part)
            for other in ways(case, rest)
            if one.peak + other.peak <= case.budget
        ),
        default=math.inf,
    )
    assert found.makespan <= 1.05 * min(best, found.single)


# ---------------------------------------------------------------- time limits


@settings(max_examples=60, deadline=None)
@given(cases(with_held=True), st.integers(0, 60), planners)
def test_plans_with_a_time_limit_keep_their_promises(
    case: Case, within: Seconds, planner: str
) -> None:
    plan = most_versions(
        case.tree,
        case.budget,
        within,
        planner=planner,
        costs=case.costs,
        held=case.held,
        seconds=LONG,
    )
    moments = check_plan(case.tree, plan, costs=case.costs, held=case.held)
    full = case.solved(planner=planner)
    if full.cost <= within:
        assert plan == full
        return
    assert plan.cost <= within
    assert plan.lower_bound <= plan.cost
    assert sorted(plan.versions + plan.left_out) == sorted(case.leaves)
    assert len(plan.versions) >= reached_by(case, full, within)
    assert len(plan.versions) >= one_by_one(case, within)
    assert bool(plan.versions) == bool(moments)
    assert ("no version can be replayed" in "".join(plan.notes)) == (not plan.versions)


def reached_by(case: Case, plan: Plan, within: Seconds) -> int:
    """Return how many versions a plan has replayed at a time."""
    moments = check_plan(case.tree, plan, costs=case.costs, held=case.held)
    done = {m.step.node for m in moments if m.step.action == "compute" and m.time <= within}
    return len(done & set(plan.versions))


def one_by_one(case: Case, within: Seconds) -> int:
    """Return how many versions can be replayed without checkpoints."""
    time = -case.costs.fresh
    number = 0
    for cost in sorted(path_cost(case.tree, leaf) for leaf in case.leaves):
        time += case.costs.fresh + cost
        number += time <= within
    return number


@settings(max_examples=60, deadline=None, derandomize=True)
@given(cases(leaves=6), st.floats(0, 1))
def test_at_most_one_version_less_than_possible_is_replayed(case: Case, part: float) -> None:
    """That is not promised, so the trees are always the same."""
    within = round(case.solved().cost * part)
    plan = most_versions(
        case.tree, case.budget, within, planner=PLANNER, costs=case.costs, seconds=LONG
    )
    best = max(
        (
            number
            for number in range(1, len(case.leaves) + 1)
            for chosen in combinations(case.leaves, number)
            if case.solved(chosen).cost <= within
        ),
        default=0,
    )
    assert len(plan.versions) >= best - 1


# ---------------------------------------------------------------- names


@settings(max_examples=20, deadline=None)
@given(cases(with_held=True), st.randoms(use_true_random=False), st.integers(0, 60))
def test_names_change_nothing(case: Case, rng: Random, within: Seconds) -> None:
    names = list(case.tree.nodes)
    others = [NodeId(f"m{number}") for number in range(len(names))]
    rng.shuffle(others)
    name = dict(zip(names, others, strict=True))
    renamed = Case(
        ExecutionTree(
            replace(node, id=name[node.id], parent=node.parent and name[node.parent])
            for node in case.tree.nodes.values()
        ),
        case.budget,
        case.costs,
        tuple(replace(state, node=name[state.node]) for state in case.held),
    )
    assert [numbers(case, plan) for plan in both(case, within)] == [
        numbers(renamed, plan) for plan in both(renamed, within)
    ]


def both(case: Case, within: Seconds) -> list[Plan]:
    """Return the lanes of a schedule and a plan with a time limit."""
    found = schedule(
        case.tree,
        case.budget,
        2,
        planner=PLANNER,
        costs=case.costs,
        held=case.held,
        seconds=LONG,
    )
    plan = most_versions(
        case.tree,
        case.budget,
        within,
        planner=PLANNER,
        costs=case.costs,
        held=case.held,
        seconds=LONG,
    )
    return [*found.lanes, plan]


def numbers(case: Case, plan: Plan) -> tuple[float, Seconds, list[tuple[Action, Seconds, int]]]:
    """Return all of a plan except what nodes are called."""
    steps = []
    for action, node in plan.steps:
        found = None if node is None else case.tree.nodes[node]
        steps.append((action, found.cost if found else 0.0, found.size if found else 0))
    return plan.budget, plan.cost, steps
