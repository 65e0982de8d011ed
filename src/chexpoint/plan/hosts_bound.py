"""How early any number of hosts can have replayed a tree."""

from __future__ import annotations

import math

from chexpoint.model import Seconds
from chexpoint.plan.problem import FRESH, Problem


def lower_bound(problem: Problem, hosts: int) -> Seconds:
    """Return a time before which so many hosts cannot have computed every node.

    Until any moment no node is done further than one host that does nothing else would be.  What
    is left then takes all hosts together at least a share of it each.  At the beginning this is all
    the work, and at the end the longest version.
    """
    begins = [problem.way(FRESH, problem.parent[node]) for node in range(1, len(problem))]
    changes = [(begin, 1) for begin in begins]
    changes += [(begin + problem.cost[node], -1) for node, begin in enumerate(begins, start=1)]
    left = math.fsum(problem.cost)
    best, before, active = left / hosts, 0.0, 0
    for time, change in sorted(changes):
        left -= active * (time - before)
        best = max(best, time + max(left, 0.0) / hosts)
        active += change
        before = time
    return best
