"""The tree that matters: the nodes that may be worth a checkpoint, and the versions below them.

What is folded into the ways between them costs the same in every plan or is paid whenever its way
is gone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from chexpoint.model import Seconds
from chexpoint.plan.emission import leaves_below
from chexpoint.plan.problem import FRESH, Problem


@dataclass(slots=True)
class Candidate:
    """A node that may be worth a checkpoint; the one with number 0 is the fresh worker."""

    node: int
    parent: int
    """The nearest candidate above it."""
    way: Seconds
    """What it costs to compute from the fresh worker."""
    tails: list[int] = field(default_factory=list)
    """The leaves for which it is the nearest candidate."""
    children: list[int] = field(default_factory=list)


def fold(problem: Problem, budget: float = math.inf) -> list[Candidate]:
    """Return the candidates of a problem, the fresh worker first, each after its parent.

    Parameters
    ----------
    budget
        Leave out what is larger.
    """
    useful = _useful_nodes(problem, budget)
    found = [Candidate(node=FRESH, parent=-1, way=0.0)]
    nearest = [0] * len(problem)
    for node in range(1, len(problem)):
        above = nearest[problem.parent[node]]
        nearest[node] = above
        if node in useful:
            nearest[node] = len(found)
            found[above].children.append(len(found))
            found.append(Candidate(node=node, parent=above, way=problem.way(FRESH, node)))
        elif not problem.children[node]:
            found[above].tails.append(node)
    return found


def _useful_nodes(problem: Problem, budget: float) -> set[int]:
    """Return the nodes of which a checkpoint may be of use.

    It is not if only one version needs it, if it is too large, or if all that it leads to first is
    one other state that takes no more and has got further.
    """
    versions = leaves_below(problem)
    useful = set()
    first = [0] * len(problem)
    """The first useful node on the single way down from each one, if there is any."""
    for node in range(len(problem) - 1, FRESH, -1):
        below = problem.children[node]
        first[node] = at = first[below[0]] if len(below) == 1 else 0
        least = problem.marginal(node, problem.parent[node])
        if versions[node] < 2 or least > budget:
            continue
        while at and not _is_never_larger(problem, at, node):
            below = problem.children[at]
            at = first[below[0]] if len(below) == 1 else 0
        if not at:
            useful.add(node)
            first[node] = node
    return useful


def _is_never_larger(problem: Problem, node: int, other: int) -> bool:
    """Return whether a node takes no more than one above it, whatever else is held.

    A marginal size grows with the distance to what is held, till it is the whole size: the nearest
    and the furthest decide.
    """
    return all(
        problem.marginal(node, base) <= problem.marginal(other, base)
        for base in (problem.parent[other], FRESH)
    )
