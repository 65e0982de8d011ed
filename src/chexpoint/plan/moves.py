"""Small changes to moves that never make a plan worse."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.plan.problem import Move, Problem


def with_cheap_takes(problem: Problem, moves: Sequence[Move]) -> list[Move]:
    """Return moves in which a checkpoint that is restored for the last time is taken instead.

    One that would be taken as soon as it is made is not made: the worker is there already.

    Except where it is cheaper to restore and evict it.
    """
    found: list[Move] = []
    for move in moves:
        is_last = move.action == "evict" and found[-1:] == [Move("restore", move.node)]
        if is_last and problem.costs.take <= problem.restore_cost(move.node):
            found[-1] = Move("take", move.node)
        elif move.action == "take" and found and found[-1] == Move("checkpoint", move.node):
            found.pop()
        else:
            found.append(move)
    return found
