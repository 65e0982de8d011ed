"""Small changes to moves that never make a plan worse."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.plan.problem import Move, Problem


def with_takes(moves: Sequence[Move]) -> list[Move]:
    """Return moves in which a checkpoint that is restored for the last time is taken instead.

    For where a take costs no more than a restore; elsewhere, `with_cheap_takes`.
    """
    found: list[Move] = []
    for move in moves:
        if move.action == "evict" and found and found[-1] == Move("restore", move.node):
            found[-1] = Move("take", move.node)
        else:
            found.append(move)
    return found


def with_cheap_takes(problem: Problem, moves: Sequence[Move]) -> list[Move]:
    """Return moves with takes, except where it is cheaper to restore and evict."""
    found: list[Move] = []
    for move in moves:
        is_last = move.action == "evict" and found[-1:] == [Move("restore", move.node)]
        if is_last and problem.costs.take <= problem.restore_cost(move.node):
            found[-1] = Move("take", move.node)
        else:
            found.append(move)
    return found
