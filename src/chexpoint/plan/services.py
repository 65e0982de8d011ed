"""What services cost: each version and each checkpoint is computed from a server above it.

A server is a checkpoint that is held at that moment, or the fresh worker.  The worker goes back to
it and computes the way from there, unless there is something to load that is nearer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from chexpoint.model import Bytes, Seconds
from chexpoint.plan.emission import ways_without_memory
from chexpoint.plan.folding import fold
from chexpoint.plan.problem import Problem


class Services:
    """The candidates of a problem by number, 0 being the fresh worker, and what services cost.

    Parameters
    ----------
    budget
        What is larger is no candidate.
    """

    def __init__(self, problem: Problem, budget: float = math.inf) -> None:
        self.problem = problem
        self.candidates = fold(problem, budget)
        self.cold = ways_without_memory(problem)
        """What getting to each node costs if nothing is held in memory."""
        self.tail_ways = [
            math.fsum(problem.way(candidate.node, leaf) for leaf in candidate.tails)
            for candidate in self.candidates
        ]
        """What computing the versions right below each candidate from there costs."""

    def __len__(self) -> int:
        return len(self.candidates)

    def servers(self, window: int) -> Iterator[tuple[int, ...]]:
        """Yield what may serve each candidate: the fresh worker, then the nearest ones above it."""
        found: list[tuple[int, ...]] = []
        for candidate in self.candidates:
            above = found[candidate.parent][1:] if candidate.parent > 0 else ()
            own = (candidate.parent,) if candidate.parent > 0 else ()
            found.append((0, *(*above, *own)[-window:]))
            yield found[-1]

    def size(self, c: int, server: int) -> Bytes:
        """Return what holding a candidate takes if a server above it is held, too."""
        return self.problem.marginal(self.candidates[c].node, self.candidates[server].node)

    def service(self, server: int, c: int) -> Seconds:
        """Return what it costs to get to a candidate from its server."""
        start, end = self.candidates[server].node, self.candidates[c].node
        way = self.problem.restore_cost(start) + self.problem.way(start, end)
        return min(way, self.cold[end])

    def taking(self, server: int, c: int) -> Seconds:
        """Return what it costs to get to a candidate by taking its server."""
        start, end = self.candidates[server].node, self.candidates[c].node
        return min(self.problem.costs.take + self.problem.way(start, end), self.cold[end])

    def tails(self, server: int, c: int) -> Seconds:
        """Return what it costs to serve the versions right below a candidate."""
        problem = self.problem
        candidate, start = self.candidates[c], self.candidates[server].node
        back = problem.restore_cost(start) + problem.way(start, candidate.node)
        if not problem.loads:
            return len(candidate.tails) * back + self.tail_ways[c]
        return math.fsum(
            min(
                back + problem.way(candidate.node, leaf),
                self.cold[problem.parent[leaf]] + problem.cost[leaf],
            )
            for leaf in candidate.tails
        )

    def holding(self, c: int) -> Seconds:
        """Return what holding a candidate costs: to make it, and to serve its versions from it.

        The first service comes without a restore, because the worker is there already.
        """
        node = self.candidates[c].node
        making = self.problem.checkpoint_cost(node) - self.problem.restore_cost(node)
        return making + self.tails(c, c)
