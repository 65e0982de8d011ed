"""The optimum, proven, for small trees; for others the best plan that is found, and a bound.

Why a search of our own: a mixed-integer programme over steps has a variable for each node, step and
checkpoint, and a relaxation that says next to nothing (the paper's solver gave up at 20 nodes); a
constraint solver meets the same steps.  What makes the problem small is its structure, and a
best-first search can use all of it: see `chexpoint.plan.service_search`.
"""

from __future__ import annotations

import time

from chexpoint.model import Seconds, StepCosts
from chexpoint.plan.pc_move import plan_pc_move
from chexpoint.plan.problem import Move, Problem, Solution
from chexpoint.plan.service_search import ServiceSearch
from chexpoint.plan.worker_search import search_worker

_NOISE = 1e-9


def plan_exact(problem: Problem, *, seconds: Seconds) -> Solution:
    """Return a plan of which it is proven that none is cheaper, or how far off it may be."""
    deadline = time.monotonic() + seconds
    best = plan_pc_move(problem, seconds=seconds).moves
    cost = problem.price(best)
    if cost <= problem.each_once_cost() * (1 + _NOISE):
        return Solution(best, cost)
    moves, bound = _searched(problem, deadline, cost)
    if moves is not None and problem.price(moves) < cost:
        best, cost = moves, problem.price(moves)
    if bound >= cost * (1 - _NOISE):
        return Solution(best, cost)
    bound = max(bound, problem.each_once_cost())
    above = f"{(cost / bound - 1) * 100:.1f} %" if bound else "any part"
    note = f"exact gave up after {seconds:g} s: the plan is at most {above} above the optimum"
    return Solution(best, bound, (note,))


def _searched(
    problem: Problem, deadline: float, cost: Seconds
) -> tuple[list[Move] | None, Seconds]:
    """Return a plan that is cheaper than what is known, if there is one, and a bound."""
    if problem.costs == StepCosts() and not problem.held and not problem.loads:
        search = ServiceSearch(problem, deadline=deadline)
        found = search.solve()
        return search.moves(found.trail), found.bound
    return search_worker(problem, deadline=deadline, known=cost)
