"""The baseline of the CHEX paper, section 7: one version at a time, least frequently used.

It stands for systems that do not know which versions are still to come.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import accumulate
from time import monotonic

from chexpoint.model import Seconds
from chexpoint.plan.emission import Emitter, tidied
from chexpoint.plan.problem import Move, Problem, Solution


def plan_lfu(problem: Problem, *, seconds: Seconds) -> Solution:
    """Replay versions in order, and hold the cells with the most uses for their size.

    Every cell of the first version is checkpointed till the memory is full.  From then on a cell is
    worth frequency x nodes in its subtree / size, of what has been seen so far, and is checkpointed
    if the cells that must be evicted for it are worth less.  The paper does not compare seconds
    here; but a checkpoint that one restore does not pay for is not made.

    Notes
    -----
    A plan is known as a whole: what the policy holds in vain, or longer than needed, is left out.
    O(log n) for each cell that is computed.
    """
    until = monotonic() + seconds
    cache = _Cache(problem)
    notes: tuple[str, ...] = ()
    for leaf in problem.leaves:
        cache.now = leaf
        for node in cache.emitter.approach(problem.parent[leaf]):
            cache.emitter.do(Move("compute", node))
            if not notes:
                cache.consider(node)
        cache.emitter.compute(leaf)
        if not notes and monotonic() > until:
            notes = ("the time limit was reached: later versions have no new checkpoints",)
    return Solution(tidied(problem, cache.emitter.moves), notes=notes)


class _Cache:
    """What is held, and what it is worth."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.emitter = Emitter(problem)
        self.now = 0
        """The end of the version that is replayed: numbers up to it have been seen."""
        self._ends = self.emitter.memory.ends
        self._versions = list(accumulate(not children for children in problem.children))
        """How many versions end at numbers up to each one."""
        # What a cell is worth only rises, so an old value in the queue is a lower bound.
        self._queue: list[tuple[float, int]] = []
        self._clear()

    def _clear(self) -> None:
        """Evict what is of no use, and of the rest the largest till it fits."""
        memory = self.emitter.memory
        useless = [node for node in memory.held if not self.problem.children[node]]
        largest = sorted(memory.held - set(useless), key=self.problem.size.__getitem__)
        for node in useless:
            self.emitter.evict(node)
        while memory.bytes > self.problem.budget:
            self.emitter.evict(largest.pop())
        for node in largest:
            self._enqueue(node)

    def consider(self, node: int) -> None:
        """Checkpoint the cell where the worker stands, if that is worth it."""
        if node in self.emitter.held:
            return
        victims = self._victims(node)
        if victims is None or not self._pays(node):
            return
        for victim in victims:
            self.emitter.evict(victim)
        if self.emitter.fits(node):  # what victims share may have kept them from freeing enough
            self.emitter.checkpoint(node)
            self._enqueue(node)

    def _pays(self, node: int) -> bool:
        _, cost = self.emitter.way_back(node)
        return self.problem.checkpoint_cost(node) + self.problem.restore_cost(node) <= cost

    def _victims(self, node: int) -> list[int] | None:
        """Return what to evict for a cell; None if that is worth more than the cell."""
        memory = self.emitter.memory
        excess = memory.bytes + memory.added_by(node) - self.problem.budget
        limit = self._worth(node)
        victims: list[int] = []
        if excess > 0 and self._queue and limit <= self._queue[0][0]:
            return None  # the most frequent case, without touching the queue
        while excess > 0 and self._queue:
            victim = self._least()
            limit -= self._worth(victim)
            excess -= memory.added_by(victim)
            victims.append(victim)
            if limit <= 0:
                break
        if excess <= 0 and (limit > 0 or not victims):
            return victims
        for victim in victims:
            self._enqueue(victim)
        return None

    def _least(self) -> int:
        """Take the cell that is worth least out of the queue."""
        while True:
            value, node = heappop(self._queue)
            worth = self._worth(node)
            if worth <= value:
                return node
            heappush(self._queue, (worth, node))

    def _enqueue(self, node: int) -> None:
        heappush(self._queue, (self._worth(node), node))

    def _worth(self, node: int) -> float:
        """Return frequency x nodes in the subtree / size, of what has been seen.

        A state that was held at the start counts as seen once.
        """
        seen = min(self._ends[node] - 1, self.now)
        frequency = self._versions[seen] - self._versions[node] if seen > node else 0
        nodes = seen - node + 1
        return max(frequency, 1) * max(nodes, 1) / max(self.problem.size[node], 1)
