"""The default planner: parent choice with moves.

The dynamic programme that suits the size of the tree, and then whatever is known to do better now
and then: a search for the optimum where the tree is small, the published heuristics where sizes had
to be rounded.  So it is never worse than any of those.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterable, Iterator

from chexpoint.model import Seconds, StepCosts
from chexpoint.plan.chains import ChainPlanner
from chexpoint.plan.emission import tidied, worth_keeping
from chexpoint.plan.frontier import FrontierPlanner
from chexpoint.plan.lfu import plan_lfu
from chexpoint.plan.moves import with_takes
from chexpoint.plan.persistent_root import plan_prp_v1, plan_prp_v2
from chexpoint.plan.problem import Move, Problem, Solution
from chexpoint.plan.service_search import ServiceSearch
from chexpoint.plan.services import Services

# Both limits depend on the tree alone, not on the budget: with more memory the same planner runs,
# and so the cost does not rise.
_SMALL = 12
"""Candidates among which the optimum is always found in little time."""
_MIDDLE = 10_000
"""Candidates, times the pairs of checkpoints above each, that a recursion is fast enough for."""

_FEW = 3
"""States at the start of which every choice is tried."""


def plan_pc_move(problem: Problem, *, seconds: Seconds) -> Solution:
    """Return the cheapest plan that is found; see the module."""
    deadline = time.monotonic() + seconds
    plans = (_plan_with(problem, kept, deadline) for kept in _worth_trying(problem))
    best = _cheapest(problem, plans)
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
    plans = [
        moves
        for moves in _plans(rest, deadline)
        if not any(move.action == "checkpoint" and move.node in loads for move in moves)
    ]
    evicted = [Move("evict", node) for node in reversed(problem.held) if node not in loads]
    return with_takes(tidied(problem, [*evicted, *_cheapest(rest, plans)]))


def _plans(problem: Problem, deadline: float) -> Iterator[list[Move]]:
    services = Services(problem)
    if _pairs(services) <= _MIDDLE:
        yield FrontierPlanner(services).moves()
    else:
        chains = ChainPlanner(problem)
        yield chains.moves()
        if not chains.is_exact:
            for planner in (plan_prp_v1, plan_prp_v2):
                left = deadline - time.monotonic()
                if left > 0:
                    yield planner(problem, seconds=left).moves
    yield plan_lfu(problem, seconds=max(0.0, deadline - time.monotonic())).moves
    if len(services) <= _SMALL and not problem.loads:
        search = ServiceSearch(problem.variant(costs=StepCosts()), deadline=deadline)
        found = search.solve()
        if found.trail:
            yield search.moves(found.trail)


def _pairs(services: Services) -> int:
    depth = [0] * len(services)
    total = 0
    for c, candidate in enumerate(services.candidates[1:], start=1):
        depth[c] = depth[candidate.parent] + 1
        total += depth[c] * (depth[c] + 1) // 2
    return total


def _cheapest(problem: Problem, plans: Iterable[list[Move]]) -> list[Move]:
    return min(plans, key=problem.price)
