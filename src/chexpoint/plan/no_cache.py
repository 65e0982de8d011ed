"""The plan that holds nothing."""

from __future__ import annotations

from chexpoint.model import Seconds
from chexpoint.plan.problem import FRESH, Move, Problem, Solution


def plan_none(problem: Problem, *, seconds: Seconds) -> Solution:
    """Replay each version from its first cell."""
    moves = [Move("evict", node) for node in reversed(problem.held)]
    for number, leaf in enumerate(problem.leaves):
        if number:
            moves.append(Move("restore", FRESH))
        path = []
        at = leaf
        while at != FRESH:
            path.append(Move("compute", at))
            at = problem.parent[at]
        moves += reversed(path)
    return Solution(moves)
