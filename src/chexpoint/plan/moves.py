"""Small changes to moves that never make a plan worse."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.plan.problem import Move


def with_takes(moves: Sequence[Move]) -> list[Move]:
    """Return moves in which a checkpoint that is restored for the last time is taken instead."""
    found: list[Move] = []
    for move in moves:
        if move.action == "evict" and found and found[-1] == Move("restore", move.node):
            found[-1] = Move("take", move.node)
        else:
            found.append(move)
    return found
