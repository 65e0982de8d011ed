"""What is true of every reuse plan, on problems at random."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from chexpoint.graph.checking import cost_of
from chexpoint.graph.planning import ReuseAlgorithm, plan_reuse
from chexpoint.graph.presolve import Presolved
from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReusePlan, ReuseProblem
from chexpoint.graph.pruning import prune

pytestmark = pytest.mark.slow

ALGORITHMS: tuple[ReuseAlgorithm, ...] = ("cut", "linear", "helix")

# Whole numbers make ties, fractions make sums that floats round.
costs = st.sampled_from([0.0, 1.0, 2.0, 3.0, 5.0, 0.1, 0.2, 0.3, 1e-9, 1e12, NEVER]) | st.floats(
    0, 9
)
loads = costs | st.just(NEVER)


@st.composite
def problems(draw: st.DrawFn, most: int = 8) -> ReuseProblem:
    cells: list[CellCost] = []
    artifacts: list[ArtifactCost] = []
    for index in range(draw(st.integers(1, most))):
        reads = draw(some_of(len(artifacts)))
        must_run = draw(st.integers(0, 9)) == 9
        cells.append(CellCost(draw(costs), tuple(reads), must_run))
        own = draw(st.lists(loads, max_size=3))
        artifacts += [ArtifactCost(index, load) for load in own]
    targets = draw(some_of(len(artifacts)))
    return ReuseProblem(tuple(cells), tuple(artifacts), frozenset(targets))


def some_of(count: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(0, count - 1), max_size=3) if count else st.just([])


def cost_at_random(rng: Random, most: float, *, is_whole: bool) -> float:
    return float(rng.randint(0, round(most))) if is_whole else rng.random() * most


def small(rng: Random) -> ReuseProblem:
    """Return a problem with more to decide than Hypothesis would think of, and often with ties."""
    is_whole = rng.random() < 0.7
    cells: list[CellCost] = []
    artifacts: list[ArtifactCost] = []
    for index in range(rng.randint(2, 8)):
        reads = rng.choices(range(len(artifacts)), k=rng.randint(0, 3)) if artifacts else []
        seconds = cost_at_random(rng, 5, is_whole=is_whole) if rng.random() < 0.95 else NEVER
        cells.append(CellCost(seconds, tuple(reads), rng.random() < 0.03))
        for _ in range(rng.randint(1, 3)):
            load = cost_at_random(rng, 8, is_whole=is_whole) if rng.random() < 0.6 else NEVER
            artifacts.append(ArtifactCost(index, load))
    targets = rng.sample(range(len(artifacts)), min(len(artifacts), rng.randint(1, 4)))
    return ReuseProblem(tuple(cells), tuple(artifacts), frozenset(targets))


def layered(rng: Random) -> ReuseProblem:
    """Return a problem with so much in common that presolving leaves a lot to the cut."""
    is_whole = rng.random() < 0.5
    layers, width = rng.randint(2, 5), rng.randint(4, 12)
    cells: list[CellCost] = []
    artifacts: list[ArtifactCost] = []
    before: list[int] = []
    for layer in range(layers):
        now = []
        for _ in range(width):
            reads = rng.sample(before, min(len(before), rng.randint(2, 4)))
            cells.append(CellCost(cost_at_random(rng, 3, is_whole=is_whole), tuple(reads)))
            for _ in range(rng.randint(1, 2)):
                is_stored = layer == layers - 1 or rng.random() < 0.4
                load = cost_at_random(rng, 5, is_whole=is_whole) if is_stored else NEVER
                now.append(len(artifacts))
                artifacts.append(ArtifactCost(len(cells) - 1, load))
        before = now
    return ReuseProblem(tuple(cells), tuple(artifacts), frozenset(before))


def tries(count: int) -> settings:
    return settings(max_examples=count, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def plan_with(problem: ReuseProblem, run: frozenset[int]) -> ReusePlan:
    """Return the plan in which just these cells run."""
    needed = problem.targets.union(*(problem.cells[cell].reads for cell in run))
    load = frozenset(each for each in needed if problem.artifacts[each].cell not in run)
    return ReusePlan(run, load)


def subsets(count: int) -> list[frozenset[int]]:
    return [
        frozenset(each for each in range(count) if choice >> each & 1) for choice in range(2**count)
    ]


# ---------------------------------------------------------------- against everything


def test_400_small_problems_are_solved_as_by_trying_everything() -> None:
    for seed in range(400):
        assert_is_best(small(Random(seed)))


@tries(100)
@given(problem=problems(most=6))
def test_no_plan_is_cheaper_and_all_as_cheap_run_its_cells(problem: ReuseProblem) -> None:
    assert_is_best(problem)


def assert_is_best(problem: ReuseProblem) -> None:
    found = plan_reuse(problem)
    plans = {run: cost_of(problem, plan_with(problem, run)) for run in subsets(len(problem.cells))}
    least = min(plans.values())
    assert found.seconds == least, problem
    if least < NEVER:
        # Costs that differ may be one number once they are added up.
        near = {run: exact_cost(problem, run) for run, cost in plans.items() if cost == least}
        best = [run for run, cost in near.items() if cost == min(near.values())]
        assert found.run == frozenset.intersection(*best), problem


def exact_cost(problem: ReuseProblem, run: frozenset[int]) -> Fraction:
    load = plan_with(problem, run).load
    running = sum((Fraction(problem.cells[each].seconds) for each in run), start=Fraction(0))
    return sum((Fraction(problem.artifacts[each].load_s) for each in load), start=running)


# ---------------------------------------------------------------- every planner


@tries(150)
@given(problem=problems(most=12))
def test_every_plan_is_sound_and_none_is_cheaper(problem: ReuseProblem) -> None:
    found = {algorithm: plan_reuse(problem, algorithm=algorithm) for algorithm in ALGORITHMS}
    for plan in found.values():
        if plan.seconds < NEVER:
            assert cost_of(problem, plan) == plan.seconds
        else:
            assert plan == ReusePlan(seconds=NEVER)
    assert found["helix"] == found["cut"]
    assert found["cut"].seconds <= found["linear"].seconds
    assert (found["cut"].seconds == NEVER) == (found["linear"].seconds == NEVER)


def test_what_presolving_leaves_is_cut_right() -> None:
    left = 0
    for seed in range(150):
        problem = layered(Random(seed))
        left += len(Presolved(prune(problem)).open) > 5
        assert plan_reuse(problem) == plan_reuse(problem, algorithm="helix"), seed
    assert left > 50


# ---------------------------------------------------------------- when the problem changes


@tries(60)
@given(problem=problems(), load=costs, data=st.data())
def test_what_gets_cheaper_to_load_makes_no_plan_costlier(
    problem: ReuseProblem, load: float, data: st.DataObject
) -> None:
    if not problem.artifacts:
        return
    index = data.draw(st.integers(0, len(problem.artifacts) - 1))
    artifacts = list(problem.artifacts)
    artifacts[index] = replace(artifacts[index], load_s=min(load, artifacts[index].load_s))
    cheaper = replace(problem, artifacts=tuple(artifacts))
    assert plan_reuse(cheaper).seconds <= plan_reuse(problem).seconds


@tries(60)
@given(problem=problems(), data=st.data())
def test_who_wants_less_pays_no_more(problem: ReuseProblem, data: st.DataObject) -> None:
    fewer = frozenset(each for each in problem.targets if data.draw(st.booleans()))
    assert plan_reuse(replace(problem, targets=fewer)).seconds <= plan_reuse(problem).seconds


@tries(60)
@given(problem=problems())
def test_another_unit_of_time_gives_the_same_plan(problem: ReuseProblem) -> None:
    scaled = replace(
        problem,
        cells=tuple(replace(each, seconds=each.seconds * 1024) for each in problem.cells),
        artifacts=tuple(replace(each, load_s=each.load_s * 1024) for each in problem.artifacts),
    )
    found, other = plan_reuse(problem), plan_reuse(scaled)
    assert (other.run, other.load) == (found.run, found.load)
