"""The one door to the reuse planners."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from chexpoint.errors import InvalidValue
from chexpoint.graph.cut import cut_plan
from chexpoint.graph.helix import helix_plan
from chexpoint.graph.linear import linear_plan
from chexpoint.graph.problem import NEVER, ReusePlan, ReuseProblem
from chexpoint.graph.pruning import PrunedProblem, prune

ReuseAlgorithm = Literal["cut", "linear", "helix"]

_ALGORITHMS: dict[str, Callable[[PrunedProblem], list[int]]] = {
    "cut": cut_plan,
    "linear": linear_plan,
    "helix": helix_plan,
}


def plan_reuse(problem: ReuseProblem, *, algorithm: ReuseAlgorithm = "cut") -> ReusePlan:
    """Plan which cells run and which artifacts are loaded, so that all targets are there.

    Parameters
    ----------
    problem
        Cells and artifacts with their costs.  Cells that must run do, even without a target.
    algorithm
        ``cut`` gives the cheapest plan; ``helix`` too, but takes far longer; ``linear`` gives one
        that may cost more.  The latter two are published ones, to compare with.

    Returns
    -------
    ReusePlan
        It names all that is loaded, also what is in memory already.  If there is no way it costs
        `NEVER` and does nothing.  Of the cheapest plans, ``cut`` and ``helix`` give the one with
        the fewest cells, which run in all the others too: what takes the same is loaded.

    Raises
    ------
    InvalidValue
        If a cost is negative or not a number, or a cell reads what no earlier cell makes; in the
        part of the problem that matters.
    """
    if algorithm not in _ALGORITHMS:
        names = ", ".join(_ALGORITHMS)
        raise InvalidValue(f"There is no reuse planner '{algorithm}'. Choose one of {names}.")
    # The published ones have to do without what we know better.
    pruned = prune(problem, looks_at_costs=algorithm == "cut")
    found = _ALGORITHMS[algorithm](pruned)
    return _plan(problem, frozenset(pruned.cells[cell] for cell in found))


def _plan(problem: ReuseProblem, run: frozenset[int]) -> ReusePlan:
    """Return the plan in which these cells run, and what else is needed is loaded."""
    cells, artifacts = problem.cells, problem.artifacts
    needed = set(problem.targets)
    for cell in run:
        needed.update(cells[cell].reads)
    load = [each for each in needed if artifacts[each].cell not in run]
    costs = [cells[each].seconds for each in run]
    costs += [artifacts[each].load_s for each in load]
    try:
        seconds = math.fsum(costs)
    except OverflowError:
        seconds = NEVER
    return ReusePlan(run, frozenset(load), seconds) if seconds < NEVER else ReusePlan(seconds=NEVER)
