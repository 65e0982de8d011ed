"""What is loaded and what is computed, on problems that can be done by hand."""

from __future__ import annotations

import math

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.graph.checking import cost_of
from chexpoint.graph.planning import ReuseAlgorithm, plan_reuse
from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReusePlan, ReuseProblem
from chexpoint.graph.pruning import prune

each_algorithm = pytest.mark.parametrize("algorithm", ["cut", "linear", "helix"])
exact_algorithms = pytest.mark.parametrize("algorithm", ["cut", "helix"])


def problem_of(*cells: tuple[CellCost, list[float]], targets: set[int]) -> ReuseProblem:
    """Return the problem of cells, each with what loading its artifacts takes."""
    artifacts = [ArtifactCost(index, load) for index, (_, own) in enumerate(cells) for load in own]
    return ReuseProblem(tuple(cell for cell, _ in cells), tuple(artifacts), frozenset(targets))


def chain_of(cells: int, last_load: float) -> ReuseProblem:
    """Return cells that turn two variables into two, as in ``X, y = step(X, y)``."""
    found = [
        CellCost(1.0, (2 * index - 2, 2 * index - 1) if index else ()) for index in range(cells)
    ]
    loads = [[NEVER, NEVER] for _ in range(cells - 1)] + [[last_load, NEVER]]
    return problem_of(*zip(found, loads, strict=True), targets={2 * cells - 2})


# ---------------------------------------------------------------- loading or computing


@each_algorithm
@pytest.mark.parametrize(("load", "is_loaded"), [(4.0, True), (6.0, False), (NEVER, False)])
def test_the_cheaper_way_is_taken(algorithm: ReuseAlgorithm, load: float, is_loaded: bool) -> None:
    problem = problem_of((CellCost(2.0), [NEVER]), (CellCost(3.0, (0,)), [load]), targets={1})
    found = plan_reuse(problem, algorithm=algorithm)
    if is_loaded:
        assert found == ReusePlan(frozenset(), frozenset({1}), 4.0)
    else:
        assert found == ReusePlan(frozenset({0, 1}), frozenset(), 5.0)


@exact_algorithms
def test_what_takes_the_same_is_loaded(algorithm: ReuseAlgorithm) -> None:
    problem = problem_of((CellCost(2.0), [NEVER]), (CellCost(3.0, (0,)), [5.0]), targets={1})
    assert plan_reuse(problem, algorithm=algorithm).load == {1}


@exact_algorithms
def test_what_takes_the_same_is_loaded_if_several_cells_lead_to_it(
    algorithm: ReuseAlgorithm,
) -> None:
    problem = problem_of(
        (CellCost(1.0), [NEVER]),
        (CellCost(1.0), [NEVER]),
        (CellCost(3.0, (0, 1)), [5.0]),
        (CellCost(1.0, (2,)), [NEVER]),
        targets={3},
    )
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({3}), frozenset({2}), 6.0)


@exact_algorithms
def test_no_cost_is_rounded(algorithm: ReuseAlgorithm) -> None:
    """As floats, 0.1 + 0.2 is more than 0.3, and 1e300 hides all that is added to it."""
    problem = problem_of((CellCost(0.1), [NEVER]), (CellCost(0.2, (0,)), [0.3]), targets={1})
    assert plan_reuse(problem, algorithm=algorithm).load == {1}
    problem = problem_of((CellCost(1e300), [1e300, 5e-324]), targets={0, 1})
    assert plan_reuse(problem, algorithm=algorithm).run == {0}


@each_algorithm
def test_a_cell_runs_once_for_all_its_artifacts(algorithm: ReuseAlgorithm) -> None:
    problem = problem_of((CellCost(3.0), [2.0, 2.0]), targets={0, 1})
    found = plan_reuse(problem, algorithm=algorithm)
    expected = 4.0 if algorithm == "linear" else 3.0
    assert found.seconds == cost_of(problem, found) == expected


def test_what_is_shared_is_paid_once() -> None:
    """The published pass counts the slow first cell for each of its two users."""
    problem = problem_of(
        (CellCost(6.0), [NEVER]),
        (CellCost(1.0, (0,)), [5.0]),
        (CellCost(1.0, (0,)), [5.0]),
        (CellCost(1.0, (1, 2)), [NEVER]),
        targets={3},
    )
    assert plan_reuse(problem) == ReusePlan(frozenset({0, 1, 2, 3}), frozenset(), 9.0)
    assert plan_reuse(problem, algorithm="linear").seconds == 11.0


@exact_algorithms
def test_two_variables_that_go_through_many_cells_are_not_counted_in_powers_of_two(
    algorithm: ReuseAlgorithm,
) -> None:
    problem = chain_of(20, last_load=21.0)
    assert plan_reuse(problem, algorithm=algorithm).seconds == 20.0
    assert plan_reuse(problem, algorithm="linear").seconds == 21.0


@pytest.mark.parametrize("algorithm", ["cut", "linear"])
def test_long_notebooks_are_no_trouble(algorithm: ReuseAlgorithm) -> None:
    assert plan_reuse(chain_of(5000, last_load=NEVER), algorithm=algorithm).seconds == 5000.0


@each_algorithm
def test_an_artifact_that_others_of_its_cell_pay_for_is_not_loaded(
    algorithm: ReuseAlgorithm,
) -> None:
    problem = problem_of((CellCost(9.0), [1.0, NEVER]), targets={0, 1})
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({0}), frozenset(), 9.0)


@exact_algorithms
def test_half_of_what_a_cell_made_can_be_loaded(algorithm: ReuseAlgorithm) -> None:
    """A cell in the middle is passed over, with one of its two artifacts loaded."""
    problem = problem_of(
        (CellCost(1.0), [NEVER]),
        (CellCost(9.0, (0,)), [2.0, NEVER]),
        (CellCost(1.0, (0, 1)), [NEVER]),
        targets={3},
    )
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({0, 2}), frozenset({1}), 4.0)


# ---------------------------------------------------------------- memory, must, cannot


@each_algorithm
def test_what_is_in_memory_is_used_and_named(algorithm: ReuseAlgorithm) -> None:
    problem = problem_of(
        (CellCost(5.0), [NEVER]),
        (CellCost(0.0, (0,)), [0.0]),
        (CellCost(1.0, (1,)), [NEVER]),
        targets={1, 2},
    )
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({2}), frozenset({1}), 1.0)


@each_algorithm
def test_a_cell_that_must_run_does_without_a_target(algorithm: ReuseAlgorithm) -> None:
    problem = problem_of(
        (CellCost(2.0), [NEVER]),
        (CellCost(1.0, (0,), must_run=True), []),
        (CellCost(7.0), [1.0]),
        targets=set(),
    )
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({0, 1}), frozenset(), 3.0)


@each_algorithm
def test_artifacts_of_a_cell_that_must_run_cost_nothing_more(algorithm: ReuseAlgorithm) -> None:
    problem = problem_of(
        (CellCost(9.0, must_run=True), [1.0]), (CellCost(2.0, (0,)), [3.0]), targets={1}
    )
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({0, 1}), frozenset(), 11.0)


@each_algorithm
def test_a_cell_that_cannot_run_is_passed_over(algorithm: ReuseAlgorithm) -> None:
    problem = problem_of((CellCost(NEVER), [8.0]), (CellCost(1.0, (0,)), [NEVER]), targets={1})
    found = plan_reuse(problem, algorithm=algorithm)
    assert found == ReusePlan(frozenset({1}), frozenset({0}), 9.0)


@each_algorithm
@pytest.mark.parametrize(
    "problem",
    [
        problem_of((CellCost(NEVER), [NEVER]), (CellCost(1.0, (0,)), [NEVER]), targets={1}),
        problem_of((CellCost(NEVER, must_run=True), [1.0]), targets=set()),
        problem_of((CellCost(NEVER), [NEVER]), (CellCost(1.0, (0,), True), []), targets=set()),
        problem_of((CellCost(1e308), [NEVER]), (CellCost(1e308, (0,)), [NEVER]), targets={1}),
    ],
    ids=["target", "must_run", "read", "too_long_for_a_number"],
)
def test_where_there_is_no_way_nothing_is_done(
    algorithm: ReuseAlgorithm, problem: ReuseProblem
) -> None:
    assert plan_reuse(problem, algorithm=algorithm) == ReusePlan(seconds=NEVER)
    everything = frozenset(range(len(problem.cells)))
    assert cost_of(problem, ReusePlan(everything)) == NEVER


@each_algorithm
def test_nothing_wanted_takes_nothing(algorithm: ReuseAlgorithm) -> None:
    assert plan_reuse(ReuseProblem((), ()), algorithm=algorithm) == ReusePlan()
    problem = problem_of((CellCost(1.0), [1.0]), targets=set())
    assert plan_reuse(problem, algorithm=algorithm) == ReusePlan()


# ---------------------------------------------------------------- pruning


def test_only_what_leads_to_a_target_matters() -> None:
    problem = problem_of(
        (CellCost(1.0), [NEVER]),
        (CellCost(1.0), [0.0]),
        (CellCost(1.0), [NEVER]),
        (CellCost(1.0, (0, 0, 1)), [NEVER]),
        (CellCost(1.0, (3,)), [NEVER]),
        targets={3},
    )
    pruned = prune(problem)
    assert pruned.cells == [0, 3]
    assert [len(each) for each in pruned.reads] == [0, 1]


def test_nothing_matters_behind_what_takes_no_longer_to_load() -> None:
    problem = problem_of(
        (CellCost(1.0), [NEVER]),
        (CellCost(2.0, (0,)), [0.5, 1.0, NEVER]),
        (CellCost(1.0, (0,)), [1.0]),
        (CellCost(1.0, (1, 2, 4)), [NEVER]),
        targets={5},
    )
    pruned = prune(problem, looks_at_costs=True)
    assert pruned.cells == [1, 2, 3]
    assert pruned.reads == [[], [], [1, 2, 3]]
    assert prune(problem).cells == [0, 1, 2, 3]
    assert plan_reuse(problem).run == {3}


def test_what_is_wrong_elsewhere_is_not_looked_at() -> None:
    problem = problem_of((CellCost(1.0), [NEVER]), (CellCost(math.nan, (7,)), [-1.0]), targets={0})
    assert plan_reuse(problem).run == {0}


# ---------------------------------------------------------------- bad input


@each_algorithm
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (problem_of((CellCost(-1.0), [NEVER]), targets={0}), "Running cell 0 .* -1.0"),
        (problem_of((CellCost(math.nan), [1.0]), targets={0}), "Running cell 0 .* nan"),
        (problem_of((CellCost(-math.inf), [1.0]), targets={0}), "Running cell 0 .* -inf"),
        (problem_of((CellCost(-1.0, (), True), []), targets=set()), "Running cell 0 .* -1.0"),
        (problem_of((CellCost(1.0), [1.0, math.nan]), targets={0, 1}), "Loading artifact 1 .* nan"),
        (problem_of((CellCost(1.0), [NEVER, -0.5]), targets={0, 1}), "Loading artifact 1 .* -0.5"),
        (problem_of((CellCost(1.0), [-0.5]), targets={0}), "Loading artifact 0 .* -0.5"),
        (problem_of((CellCost(1.0, (0,)), [NEVER]), targets={0}), "Cell 0 reads artifact 0"),
        (problem_of((CellCost(1.0, (1,)), [NEVER]), targets={0}), "Cell 0 reads artifact 1"),
        (
            problem_of((CellCost(1.0), [1.0]), (CellCost(1.0, (-1,)), [NEVER]), targets={1}),
            "Cell 1 reads artifact -1",
        ),
        (
            problem_of(
                (CellCost(1.0, (1,)), [NEVER]),
                (CellCost(1.0), [NEVER]),
                (CellCost(1.0, (0, 1)), [NEVER]),
                targets={2},
            ),
            "Cell 0 reads artifact 1",
        ),
        (problem_of((CellCost(1.0), [1.0]), targets={1}), "no artifact 1"),
        (problem_of((CellCost(1.0), [1.0]), targets={-1}), "no artifact -1"),
        (ReuseProblem((CellCost(1.0),), (ArtifactCost(1, 1.0),), frozenset({0})), "no cell 1"),
    ],
)
def test_what_makes_no_sense_is_refused(
    algorithm: ReuseAlgorithm, problem: ReuseProblem, says: str
) -> None:
    with pytest.raises(InvalidValue, match=says):
        plan_reuse(problem, algorithm=algorithm)


def test_an_unknown_planner_is_refused() -> None:
    with pytest.raises(InvalidValue, match="cut, linear, helix"):
        plan_reuse(ReuseProblem((), ()), algorithm="best")  # type: ignore[arg-type]


# ---------------------------------------------------------------- the judge


@pytest.mark.parametrize(
    ("run", "load", "cost"),
    [
        ({0, 1}, set(), 3.0),
        ({1}, {0}, 6.0),
        (set(), {1}, NEVER),
        (set(), {0}, NEVER),
        ({1}, set(), NEVER),
        ({0, 1}, {0}, NEVER),
        ({0, 1, 7}, set(), NEVER),
        ({0, 1}, {-1}, NEVER),
    ],
    ids=["run", "load", "not_stored", "no_target", "no_read", "twice", "no_cell", "no_artifact"],
)
def test_the_judge_finds_what_is_not_sound(run: set[int], load: set[int], cost: float) -> None:
    problem = problem_of((CellCost(1.0), [4.0]), (CellCost(2.0, (0,)), [NEVER]), targets={1})
    # What a plan says of itself counts for nothing.
    plan = ReusePlan(frozenset(run), frozenset(load), seconds=0.5)
    assert cost_of(problem, plan) == cost


def test_the_judge_wants_what_must_run() -> None:
    problem = problem_of((CellCost(1.0, must_run=True), []), targets=set())
    assert cost_of(problem, ReusePlan()) == NEVER
    assert cost_of(problem, ReusePlan(frozenset({0}))) == 1.0
