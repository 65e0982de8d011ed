"""The default planner: parent choice with moves.

The dynamic programme that suits the size of the tree, and then whatever is known to do better now
and then: a search for the optimum where the tree is small, the published heuristics where sizes had
to be rounded.  So it is never worse than any of those.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Container, Iterable, Iterator

from chexpoint.model import Seconds, StepCosts
from chexpoint.plan.chains import ChainPlanner
from chexpoint.plan.emission import tidied, worth_keeping
from chexpoint.plan.frontier import FrontierPlanner, TooManyValues
from chexpoint.plan.lfu import plan_lfu
from chexpoint.plan.moves import with_cheap_takes
from chexpoint.plan.no_cache import plan_none
from chexpoint.plan.persistent_root import plan_prp_v1, plan_prp_v2
from chexpoint.plan.problem import Move, Problem, Solution
from chexpoint.plan.service_search import ServiceSearch
from chexpoint.plan.services import Services
from chexpoint.plan.single_pass import plan_single_pass

# Both limits depend on the tree alone, not on the budget: with more memory the same planner runs,
# and so the cost does not rise.
_SMALL = 10
"""Candidates among which the optimum is always found in little time."""
_MIDDLE = 10_000
"""Candidates, times the pairs of checkpoints above each, that a recursion is fast enough for."""
_VALUES = 100_000
"""Values after which that recursion is given up."""

_NOISE = 1e-12
_FEW = 3
"""States at the start of which every choice is tried."""


def plan_pc_move(problem: Problem, *, seconds: Seconds) -> Solution:
    """Return the cheapest plan that is found; see the module."""
    deadline = time.monotonic() + seconds
    plans = (_plan_with(problem, kept, deadline) for kept in _worth_trying(problem))
    best = _cheapest(problem, plans)
    if problem.price(best) > problem.no_cache_cost() * (1 + _NOISE):
        best = plan_none(problem, seconds=seconds).moves  # where steps cost more than they save
    notes = () if time.monotonic() < deadline else ("the time limit was reached",)
    return Solution(best, notes=notes)


def _worth_trying(problem: Problem) -> list[tuple[int, ...]]:
    """Return choices of what to keep of the states that are in memory at the start."""
    if len(problem.held) > _FEW:
        return [(), worth_keeping(problem)]
    choices = itertools.chain.from_iterable(
        itertools.combinations(problem.held, count) for count in range(len(problem.held) + 1)
    )
    return [kept for kept in choices if problem.bytes_of(kept) <= problem.budget]


def _plan_with(problem: Problem, kept: tuple[int, ...], deadline: float) -> list[Move]:
    """Return a plan that keeps some of the states in memory at the start, and uses them.

    They are held till their last use, so that they are nothing but loaded from where they take no
    memory, within a budget that is smaller by what they take.
    """
    loads = {node: problem.restore_cost(node) for node in kept}
    rest = problem.variant(
        budget=problem.budget - problem.bytes_of(kept), held=(), loads={**problem.loads, **loads}
    )
    plans = (_without_copies(moves, loads) for moves in _plans(rest, deadline))
    evicted = [Move("evict", node) for node in reversed(problem.held) if node not in loads]
    return with_cheap_takes(problem, tidied(problem, [*evicted, *_cheapest(rest, plans)]))


def _without_copies(moves: Iterable[Move], kept: Container[int]) -> list[Move]:
    """Return moves that do not hold what is kept anyway."""
    found = []
    for move in moves:
        if move.node not in kept or move.action in {"compute", "restore"}:
            found.append(move)
        elif move.action == "take":
            found.append(Move("restore", move.node))
    return found


def _plans(problem: Problem, deadline: float) -> Iterator[list[Move]]:
    """Yield plans, the most promising first."""
    once = plan_single_pass(problem)
    if once is not None:
        yield once
    services = Services(problem)
    moves = _by_frontier(services)
    # Costs of steps are charged to services as if each were the first or none was.
    is_exact = problem.costs == StepCosts()
    if moves is None:
        chains = ChainPlanner(problem)
        moves = chains.moves()
        is_exact = is_exact and chains.is_exact
    yield moves
    rivals = (plan_lfu,) if is_exact else (plan_lfu, plan_prp_v1, plan_prp_v2)
    for rival in rivals:
        yield rival(problem, seconds=_share(deadline)).moves
    if len(services) <= _SMALL and not problem.loads:
        search = ServiceSearch(problem.variant(costs=StepCosts()), deadline=deadline)
        yield search.moves(search.solve().trail)


def _share(deadline: float) -> Seconds:
    """Return how long a published heuristic may take; it is seldom better, and never much."""
    return max(0.0, deadline - time.monotonic()) / 12


def _by_frontier(services: Services) -> list[Move] | None:
    """Return the plan of the recursion, if the tree is not too large for it."""
    if _pairs(services) > _MIDDLE:
        return None
    try:
        return FrontierPlanner(services, most=_VALUES).moves()
    except TooManyValues:
        return None


def _pairs(services: Services) -> int:
    depth = [0] * len(services)
    total = 0
    for c, candidate in enumerate(services.candidates[1:], start=1):
        depth[c] = depth[candidate.parent] + 1
        total += depth[c] * (depth[c] + 1) // 2
    return total


def _cheapest(problem: Problem, plans: Iterable[list[Move]]) -> list[Move]:
    """Return the cheapest plan; stop looking where none can be cheaper."""
    least = problem.each_once_cost() * (1 + _NOISE)
    best: list[Move] = []
    cost = math.inf
    for moves in plans:
        price = problem.price(moves)
        if price < cost:
            best, cost = moves, price
        if cost <= least:
            break
    return best
