"""Parent choice of the CHEX paper, section 5.2, Algorithm 2.

Versions are replayed depth first.  For each node, each child is replayed either with a checkpoint
of the node or without, whichever is cheaper; those with it come first.

The paper remembers what it has found for a node u and the set S of checkpoints above it, of which
there are 2^h.  But only the nearest of them and the room that is left make a difference, and not
every byte of room does: what is found for one amount holds for a range of them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Generator, Sequence
from time import monotonic
from typing import NamedTuple

from chexpoint.model import Bytes, Seconds
from chexpoint.plan.emission import (
    Emitter,
    nearest,
    tidied,
    ways_without_memory,
    worth_keeping,
)
from chexpoint.plan.persistent_root import plan_prp_v1, plan_prp_v2
from chexpoint.plan.problem import FRESH, Move, Problem, Solution

_MOST_ANSWERS = 1_000_000
"""So much is remembered; each takes about 200 bytes."""

_SHARE = 0.7
"""Of the time; the rest is for a simpler planner, should it be needed."""


def plan_pc(problem: Problem, *, seconds: Seconds) -> Solution:
    """Hold a cell for those children whose subtrees are then cheaper.

    If that takes too long, or too much memory, the better of the plans of the persistent root
    policy is returned, which searches a part of the same space.

    Notes
    -----
    The printed listing forgets to charge for computing u where it is held, so that it holds cells
    that save nothing and has no room for others.  Here it is charged, with what the checkpoint
    costs, and u is only held if it is cheaper to do so for all of its children together.

    A worker goes on from u to one of the children that are replayed without it, before u is
    evicted.  The choice does not know of this, as in the listing; the authors' code seems to.
    """
    starts = {worth_keeping(problem), ()}
    solutions = []
    try:
        for kept in sorted(starts, reverse=True):
            search = _Search(problem, kept, monotonic() + _SHARE * seconds / len(starts))
            solutions.append(Solution(search.moves()))
    except _OutOfTime:
        note = "the time limit was reached: this is a plan of the persistent root policy"
        for simpler in (plan_prp_v1, plan_prp_v2):
            moves, *_ = simpler(problem, seconds=(1 - _SHARE) * seconds / 2)
            solutions.append(Solution(moves, notes=(note,)))
    return min(solutions, key=lambda solution: problem.price(solution.moves))


class _OutOfTime(Exception):
    """There is no time, or no memory, to search on."""


class _Question(NamedTuple):
    """What it costs to replay all versions that lead through a node."""

    node: int
    base: int
    """The nearest checkpoint above it; FRESH if there is none."""
    room: float
    """Bytes that are left for more."""


class _Answer(NamedTuple):
    low: float
    """The answer is the same for all room from here on."""
    high: float
    """And less than this; infinite if more room does not help."""
    cost: Seconds
    served: tuple[int, ...] = ()
    """The children that are replayed with a checkpoint of the node; if none, it is not held."""


class _Leaving(NamedTuple):
    """The end of a checkpoint."""

    node: int
    goes_on: bool
    """The live worker goes on from there to a child that does not need the checkpoint."""


_Evaluation = Generator[_Question, _Answer, _Answer]
"""Asks questions about children, and returns the answer about their parent."""


class _Search:
    """Answers, found when they are needed, and the plan that follows from them."""

    def __init__(self, problem: Problem, kept: Collection[int], until: float) -> None:
        self.problem = problem
        self._until = until
        self._kept = frozenset(kept)
        self._kept_above = nearest(problem, self._kept)
        self._ways = ways_without_memory(problem, self._kept)
        self._only_leaf = _only_leaves(problem)
        costs = problem.costs
        self._is_plain = not kept and not problem.loads
        self._is_flat = self._is_plain and not costs.checkpoint_per_byte + costs.restore_per_byte
        room = problem.budget - problem.bytes_of(kept)
        # Sizes are whole numbers, and with whole numbers ranges are exact.
        self._room = room if math.isinf(room) else math.floor(room)
        self._answers: dict[tuple[int, int], list[_Answer]] = {}
        self._count = 0

    def moves(self) -> list[Move]:
        """Return the plan: follow the answers from the fresh worker on."""
        problem = self.problem
        emitter = Emitter(problem)
        for node in problem.held:
            if node not in self._kept:
                emitter.evict(node)
        waiting: list[_Question | _Leaving] = []
        waiting += self._questions(problem.children[FRESH], FRESH, self._room)
        while waiting:
            at = waiting.pop()
            if isinstance(at, _Leaving):
                if at.goes_on:
                    emitter.reach(at.node)
                emitter.evict(at.node)
                continue
            node, base, room = at
            if self._only_leaf[node]:
                emitter.compute(self._only_leaf[node])
                continue
            served = self._answer(at).served
            rest = [child for child in problem.children[node] if child not in served]
            waiting += self._questions(rest, base, room)
            if served:
                emitter.reach(node)
                emitter.checkpoint(node)
                waiting.append(_Leaving(node, goes_on=bool(rest)))
                waiting += self._questions(served, node, room - self._bytes(node, base))
        return tidied(problem, emitter.moves)

    def _questions(self, nodes: Sequence[int], base: int, room: float) -> list[_Question]:
        return [_Question(node, base, room) for node in reversed(nodes)]

    # ------------------------------------------------------------ answers

    def _answer(self, question: _Question) -> _Answer:
        """Return an answer, by way of all others that it needs, without recursion."""
        waiting: list[tuple[_Question, _Evaluation]] = []
        answer = self._known(question)
        while True:
            try:
                if answer is None:
                    waiting.append((question, self._evaluate(question)))
                    question = next(waiting[-1][1])
                elif waiting:
                    question = waiting[-1][1].send(answer)
                else:
                    return answer
                answer = self._known(question)
            except StopIteration as done:
                asked, _ = waiting.pop()
                answer = done.value
                self._remember(asked, done.value)

    def _known(self, question: _Question) -> _Answer | None:
        node, base, room = question
        leaf = self._only_leaf[node]
        if leaf:
            way = self._way(self.problem.parent[leaf], base)
            return _Answer(0, math.inf, way + self.problem.cost[leaf])
        for answer in self._answers.get((node, base), ()):
            if answer.low <= room < answer.high or room == answer.high == math.inf:
                return answer
        return None

    def _remember(self, question: _Question, answer: _Answer) -> None:
        self._answers.setdefault((question.node, question.base), []).append(answer)
        self._count += 1
        if self._count > _MOST_ANSWERS or (self._count % 64 == 0 and monotonic() > self._until):
            raise _OutOfTime

    def _evaluate(self, question: _Question) -> _Evaluation:
        node, base, room = question
        shorter = self._way(node, base) - self.problem.restore_cost(node)
        taken = self._bytes(node, base)
        if node in self._kept or shorter <= 0 or taken > room:
            answers = yield from self._each(node, base, room)
            high = math.inf if node in self._kept or shorter <= 0 else taken
            return _together(answers, high=high)
        return (yield from self._choose(question, taken, shorter))

    def _choose(self, question: _Question, taken: float, shorter: Seconds) -> _Evaluation:
        """Return whether to hold a node, and for which children.

        Parameters
        ----------
        shorter
            What is saved each time that the worker comes from the node and not from further up.
        """
        node, base, room = question
        children = self.problem.children[node]
        checkpoint = self.problem.checkpoint_cost(node)
        without: list[_Answer] = []
        if len(children) == 1 and self._is_flat:
            without = yield from self._each(node, base, room)
            if without[0].high == math.inf:
                # With room for anything below it is as good to hold the child instead.
                return _together(without)
        held = yield from self._each(node, node, room - taken)
        cost = shorter + checkpoint  # the way to the node is paid for, and one restore is not
        all_held = _together(held, more=taken)
        if (
            self._is_plain
            and all_held.high == math.inf
            and checkpoint <= (len(children) - 1) * shorter
        ):
            # Without, each child costs at least that much more, whatever is done below it.
            return all_held._replace(cost=cost + all_held.cost, served=children)
        without = without or (yield from self._each(node, base, room))
        none_held = _together(without)
        pairs = list(zip(children, held, without, strict=True))
        served = tuple(child for child, one, other in pairs if one.cost <= other.cost)
        cost += math.fsum(min(one.cost, other.cost) for _, one, other in pairs)
        low = max(all_held.low, none_held.low)
        high = min(all_held.high, none_held.high)
        if served and cost < none_held.cost:
            return _Answer(low, high, cost, served)
        return _Answer(low, high, none_held.cost)

    def _each(
        self, node: int, base: int, room: float
    ) -> Generator[_Question, _Answer, list[_Answer]]:
        """Ask about each child of a node."""
        found = []
        for child in self.problem.children[node]:
            question = _Question(child, base, room)
            found.append(self._known(question) or (yield question))
        return found

    def _way(self, node: int, base: int) -> Seconds:
        """Return what it costs to come back to a node."""
        if base == FRESH:
            return self._ways[node]
        return min(self._ways[node], self.problem.restore_cost(base) + self.problem.way(base, node))

    def _bytes(self, node: int, base: int) -> Bytes:
        return self.problem.marginal(node, max(base, self._kept_above[self.problem.parent[node]]))


def _together(answers: Sequence[_Answer], *, more: float = 0, high: float = math.inf) -> _Answer:
    """Return the sum of answers about children, if there is so much more room than they have."""
    return _Answer(
        max(answer.low for answer in answers) + more,
        min(high, min(answer.high for answer in answers) + more),
        math.fsum(answer.cost for answer in answers),
    )


def _only_leaves(problem: Problem) -> list[int]:
    """Return the leaf that each node leads to if there is only one; FRESH if there are more."""
    found = [FRESH] * len(problem)
    for node in range(len(problem) - 1, FRESH, -1):
        children = problem.children[node]
        if not children:
            found[node] = node
        elif len(children) == 1:
            found[node] = found[children[0]]
    return found
