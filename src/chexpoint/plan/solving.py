"""The planners by their names, and what is the same for all of them."""

from __future__ import annotations

from collections.abc import Mapping

from chexpoint.errors import InvalidValue
from chexpoint.model import NodeId, Plan, Seconds
from chexpoint.plan.exact import plan_exact
from chexpoint.plan.lfu import plan_lfu
from chexpoint.plan.no_cache import plan_none
from chexpoint.plan.parent_choice import plan_pc
from chexpoint.plan.pc_move import plan_pc_move
from chexpoint.plan.persistent_root import plan_prp_v1, plan_prp_v2
from chexpoint.plan.problem import FRESH, Move, Planner, Problem

PLANNERS: Mapping[str, Planner] = {
    "none": plan_none,
    "lfu": plan_lfu,
    "prp-v1": plan_prp_v1,
    "prp-v2": plan_prp_v2,
    "pc": plan_pc,
    "pc-move": plan_pc_move,
    "exact": plan_exact,
}
"""By name, the simplest first."""

DEFAULT_PLANNER = "pc-move"


def planner_named(name: str) -> Planner:
    """Return a planner.

    Raises
    ------
    InvalidValue
        If there is none of that name.
    """
    if name not in PLANNERS:
        raise InvalidValue(f"there is no planner '{name}': {', '.join(PLANNERS)}")
    return PLANNERS[name]


def solve(problem: Problem, planner: str, *, seconds: Seconds) -> Plan:
    """Return the plan that a planner finds for a problem."""
    solution = planner_named(planner)(problem, seconds=seconds)
    cost = problem.price(solution.moves)
    notes = list(solution.notes)
    inner = [node for node in range(1, len(problem)) if problem.children[node]]
    if inner and problem.budget < min(problem.marginal(node, FRESH) for node in inner):
        notes.append(
            "the budget is smaller than any state: nothing is held, and each version is replayed "
            "from its first cell"
        )
    return Plan(
        planner=planner,
        budget=problem.budget,
        cost=cost,
        # Rounding must not make a bound that is above what it bounds.
        lower_bound=min(cost, max(solution.lower_bound, problem.each_once_cost())),
        no_cache_cost=problem.no_cache_cost(),
        steps=problem.steps(solution.moves),
        versions=_reached(problem, solution.moves),
        notes=tuple(notes),
    )


def _reached(problem: Problem, moves: list[Move]) -> tuple[NodeId, ...]:
    """Return the leaves in the order in which they are first computed."""
    found: dict[NodeId, None] = {}
    for action, node in moves:
        name = problem.ids[node]
        if action == "compute" and not problem.children[node] and name is not None:
            found[name] = None
    return tuple(found)
