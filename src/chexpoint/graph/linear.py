"""The linear reuse plan: two passes, not always the cheapest plan.

Algorithm 2 of "Optimizing Machine Learning Workloads in Collaborative Environments" (Derakhshan et
al., SIGMOD 2020), for cells with several artifacts.  What leads to two artifacts is counted twice,
so it loads more than it should where cells share what they read.
"""

from __future__ import annotations

import math

from chexpoint.graph.pruning import PrunedProblem


def linear_plan(problem: PrunedProblem) -> list[int]:
    """Return the cells that run."""
    is_loaded = _forward(problem)
    return _backward(problem, is_loaded)


def _forward(problem: PrunedProblem) -> list[bool]:
    """Return for each artifact whether loading it is cheaper than all that leads to it."""
    never = problem.never
    cost = [0.0] * len(problem.load)
    is_loaded = [False] * len(problem.load)
    for cell, made in enumerate(problem.made):
        # What must run is paid for, whoever uses it.
        if problem.must_run[cell]:
            continue
        computing = _as_float(problem.seconds[cell], never)
        for each in problem.reads[cell]:
            computing += cost[each]
        for each in made:
            loading = _as_float(problem.load[each], never)
            is_loaded[each] = loading < computing
            cost[each] = min(loading, computing)
    return is_loaded


def _as_float(cost: int, never: int) -> float:
    # The sums may double with each cell: as floats they end at infinity.
    return math.inf if cost == never else cost / never


def _backward(problem: PrunedProblem, is_loaded: list[bool]) -> list[int]:
    """Return the cells that the targets need, if nobody looks behind what is loaded."""
    is_needed = list(problem.is_target)
    found = []
    for cell in reversed(range(len(problem.cells))):
        if problem.must_run[cell] or any(
            is_needed[each] and not is_loaded[each] for each in problem.made[cell]
        ):
            found.append(cell)
            for each in problem.reads[cell]:
                is_needed[each] = True
    return found
