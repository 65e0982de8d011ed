"""The order in which to compute a trace so that versions are done early, and its moves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from chexpoint.model import Action, Seconds
from chexpoint.plan.problem import FRESH, Move, Problem
from chexpoint.plan.trace import Trace


class Row(NamedTuple):
    """Computations of a trace, one after the other from a state on, up to the end of a version."""

    base: int
    """The place of the state that it begins with."""
    above: int
    """The number of the row that leads to this state; -1 if none does."""
    places: list[int]
    cost: Seconds


def rows_of(trace: Trace, leaves: Iterable[int]) -> list[Row]:
    """Return what to compute for some leaves of a trace.

    All that is below a state is computed before anything else, so that no more is held than in the
    plan, and of what is below the same state, that with the least cost for each version first,
    which by Smith's rule is best.
    """
    children = trace.children(leaves)
    cost = list(trace.cost)
    count = [0] * len(cost)
    for place in range(len(cost) - 1, -1, -1):
        cost[place] += math.fsum(cost[child] for child in children[place])
        count[place] = sum(count[child] for child in children[place]) or 1
    return _rows(trace, children, [cost[place] / count[place] for place in range(len(cost))])


def rows_by_urgency(trace: Trace, leaves: Iterable[int]) -> list[Row]:
    """Return what to compute for some leaves of a trace, as if any state could be held.

    That is Horn's rule for jobs that wait for others: next is what is the first of some that, taken
    together, have the least cost for each version.
    """
    children = trace.children(leaves)
    ends = set(trace.ends.values())
    counts = [int(place in ends) for place in range(len(children))]
    rows = _rows(trace, children, _urgency(children, trace.cost, counts))
    after: list[list[int]] = [[] for _ in rows]
    for number, row in enumerate(rows):
        if row.above >= 0:
            after[row.above].append(number)
    urgency = _urgency(after, [row.cost for row in rows], [1] * len(rows))
    ready = [(urgency[number], number) for number, row in enumerate(rows) if row.above < 0]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(rows[number])
        for other in after[number]:
            heappush(ready, (urgency[other], other))
    return order


def _rows(trace: Trace, children: list[list[int]], rank: Sequence[float]) -> list[Row]:
    """Return the rows of a trace if of the places after each the one of the lowest rank is next."""
    rows: list[Row] = []
    row_of: dict[int, int] = {}
    waiting = [0]
    while waiting:
        place = waiting.pop()
        children[place].sort(key=rank.__getitem__)
        waiting += reversed(children[place])
        if trace.how[place] == "held":
            continue
        parent = trace.parent[place]
        if trace.how[parent] == "held" or children[parent][0] != place:
            rows.append(Row(parent, row_of.get(parent, -1), [], 0.0))
        rows[-1].places.append(place)
        row_of[place] = len(rows) - 1
    return [row._replace(cost=math.fsum(trace.cost[at] for at in row.places)) for row in rows]


def _urgency(
    after: Sequence[Sequence[int]], costs: Sequence[Seconds], counts: Sequence[int]
) -> list[Seconds]:
    """Return for each job the least cost for each version of it together with some after it.

    Parameters
    ----------
    after
        The jobs that wait for each job, which have greater numbers.
    counts
        The versions that are done with each job.
    """
    found = [math.inf] * len(costs)
    blocks: list[list[tuple[Seconds, int, Seconds]]] = [[] for _ in costs]
    for job in range(len(costs) - 1, -1, -1):
        waiting: list[tuple[Seconds, int, Seconds]] = []
        for other in after[job]:
            # The longer list takes up the shorter one, so that nothing is moved often.
            short, waiting = sorted((blocks[other], waiting), key=len)
            for block in short:
                heappush(waiting, block)
        cost, count = costs[job], counts[job]
        while waiting and (not count or waiting[0][0] < cost / count):
            _, more, added = heappop(waiting)
            cost, count = cost + added, count + more
        if count:
            found[job] = cost / count
            heappush(waiting, (found[job], count, cost))
        blocks[job] = waiting
    return found


def moves_of(problem: Problem, trace: Trace, rows: Sequence[Row]) -> list[Move]:
    """Return the moves that compute rows in their order, and hold no state longer than needed."""
    uses = Counter(row.base for row in rows)
    used = {trace.node[place] for place in uses if trace.how[place] == "held"}
    moves = [Move("evict", node) for node in problem.held if node not in used]
    is_fresh = True
    for row in rows:
        node = trace.node[row.base]
        uses[row.base] -= 1
        if node == FRESH:
            if not is_fresh and trace.how[row.places[0]] == "compute":
                moves.append(Move("restore", FRESH))
        elif uses[row.base]:
            moves.append(Move("restore", node))
        elif problem.costs.take <= problem.restore_cost(node):
            moves.append(Move("take", node))
        else:
            moves += Move("restore", node), Move("evict", node)
        is_fresh = False
        for place in row.places:
            action: Action = "compute" if trace.how[place] == "compute" else "restore"
            moves.append(Move(action, trace.node[place]))
            if uses[place]:
                moves.append(Move("checkpoint", trace.node[place]))
    return moves
