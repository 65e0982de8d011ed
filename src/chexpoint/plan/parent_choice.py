"""Parent choice of the CHEX paper, section 5.2, Algorithm 2.

Versions are replayed depth first.  For each node, each child is replayed either with a checkpoint
of the node or without, whichever is cheaper; those with it come first.

The paper remembers what it has found for a node u and the set S of checkpoints above it, of which
there are 2^h.  But only the nearest of them and the room that is left make a difference, and not
every byte of room does: what is found for one amount holds for a range of them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
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
    costs, and u is only held if that is cheaper for all of its children together.

    As in the listing, children that are replayed without u are replayed from what is above it.
    The authors' code reaches lower costs, nearly those of a worker that goes on from u to one of
    these children before u is evicted.
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
        is_flat = self._is_plain and not costs.checkpoint_per_byte + costs.restore_per_byte
        self._idle = self._kept | (_surpassed(problem) if is_flat else frozenset())
        """The nodes that are never to be held, or already are."""
        room = problem.budget - problem.bytes_of(kept)
        # Sizes are whole numbers, and with whole numbers ranges are exact.
        self._room = room if math.isinf(room) else math.floor(room)
        self._answers: dict[tuple[int, int], list[_Answer]] = {}
        self._with_room: dict[int, Seconds] = {}
        self._count = 0

    def moves(self) -> list[Move]:
        """Return the plan: follow the answers from the fresh worker on."""
        problem = self.problem
        emitter = Emitter(problem)
        for node in problem.held:
            if node not in self._kept:
                emitter.evict(node)
        waiting: list[_Question | int] = []
        waiting += self._questions(problem.children[FRESH], FRESH, self._room)
        while waiting:
            at = waiting.pop()
            if isinstance(at, int):
                emitter.evict(at)
                continue
            node, base, room = at
            if self._only_leaf[node]:
                emitter.compute(self._only_leaf[node])
                continue
            served = self._answer(at).served
            rest = sorted(set(problem.children[node]).difference(served))
            waiting += self._questions(rest, base, room)
            if served:
                emitter.reach(node)
                emitter.checkpoint(node)
                waiting.append(node)
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
        answers = self._answers.get((node, base), ())
        at = bisect_right(answers, (room, math.inf, math.inf))
        if not at or answers[at - 1].high <= room < math.inf:
            return None
        return answers[at - 1]

    def _remember(self, question: _Question, answer: _Answer) -> None:
        """Remember an answer in the order of room; where ranges overlap answers are the same."""
        node, base, room = question
        answers = self._answers.setdefault((node, base), [])
        at = bisect_right(answers, (room, math.inf, math.inf))
        low = max(answer.low, answers[at - 1].high) if at else answer.low
        high = min(answer.high, answers[at].low) if at < len(answers) else answer.high
        answers.insert(at, answer._replace(low=low, high=high))
        self._count += 1
        if self._count > _MOST_ANSWERS or (self._count % 64 == 0 and monotonic() > self._until):
            raise _OutOfTime

    def _evaluate(self, question: _Question) -> _Evaluation:
        node, base, room = question
        shorter = self._way(node, base) - self.problem.restore_cost(node)
        taken = self._bytes(node, base)
        if node in self._idle or shorter <= 0:
            return _together((yield from self._each(node, base, room)))
        if taken > room:
            return _together((yield from self._each(node, base, room)), high=taken)
        return (yield from self._choose(question, taken, shorter))

    def _choose(self, question: _Question, taken: float, shorter: Seconds) -> _Evaluation:
        """Return whether to hold a node, and for which children.

        With one way of doing it known, the other need not be looked at if even with room for
        everything it would not be cheaper.

        Parameters
        ----------
        shorter
            What is saved each time that the worker comes from the node and not from further up.
        """
        node, base, room = question
        children = self.problem.children[node]
        checkpoint = self.problem.checkpoint_cost(node)
        cost = shorter + checkpoint  # the way to the node is paid for, and one restore is not
        with_room = yield from self._cost_with_room(node)
        without: list[_Answer] = []
        if len(children) == 1:
            without = yield from self._each(node, base, room)
            if _at_most(without[0].cost, cost + with_room):
                return _together(without)
        held = yield from self._each(node, node, room - taken)
        all_held = _together(held, more=taken)
        # Without, each child costs at least so much more than with it and with room for everything.
        least = with_room + len(children) * shorter if self._is_plain else 0.0
        if _at_most(cost + all_held.cost, least):
            return all_held._replace(cost=cost + all_held.cost, served=children)
        without = without or (yield from self._each(node, base, room))
        none_held = _together(without)
        pairs = list(zip(children, held, without, strict=True))
        served = tuple(child for child, one, other in pairs if one.cost <= other.cost)
        cost += math.fsum(min(one.cost, other.cost) for _, one, other in pairs)
        low = max(all_held.low, none_held.low)
        high = min(all_held.high, none_held.high)
        if _at_most(none_held.cost, cost):
            return _Answer(low, high, none_held.cost)
        return _Answer(low, high, cost, served)

    def _cost_with_room(self, node: int) -> Generator[_Question, _Answer, Seconds]:
        """Return what the children of a node cost if it is held and there is room for anything."""
        if node not in self._with_room:
            answers = yield from self._each(node, node, math.inf)
            self._with_room[node] = _together(answers).cost
        return self._with_room[node]

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


def _at_most(cost: Seconds, limit: Seconds) -> bool:
    """Return whether a cost is no more than another one, but for rounding."""
    return cost <= limit * (1 + 1e-12)


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


def _surpassed(problem: Problem) -> frozenset[int]:
    """Return nodes with a single child that it is never better to hold than one further down.

    That is so if a node before, or at, the next branch is not larger: each way from there is
    shorter.
    """
    if problem.delta != problem.size:
        return frozenset()  # then what is further down may take more, whatever its size
    found = set()
    least = [math.inf] * len(problem)
    for node in range(len(problem) - 1, FRESH, -1):
        children = problem.children[node]
        if len(children) == 1:
            least[node] = min(least[children[0]], problem.size[children[0]])
            if least[node] <= problem.size[node]:
                found.add(node)
    return frozenset(found)
