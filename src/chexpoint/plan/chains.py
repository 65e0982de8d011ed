"""Parent choice with moves: the dynamic programme behind the default planner.

Every version and every checkpoint is *served* by one checkpoint above it, or by a fresh worker: it
is computed from there and pays the way.  A plan is a choice of checkpoints and servers that can be
put in an order within the budget.  This planner finds the cheapest plan among those that hold only
states on the way to where the worker is, by a dynamic programme.

P(x | s, b) is the least cost of serving all that is below x, where s is the nearest checkpoint
above x and b bytes are free:

* x is not held: its versions and its children are all served by s.
* x is held, if its marginal size m over s is at most b: x is served by s, then each child is the
  cheaper of P(child | x, b - m), served while x is held, and P(child | s, b), served after it; and
  one child may *take* x: the checkpoint becomes the worker, so that its way begins at x and yet x
  takes no memory any more.

Only the nearest checkpoint and the bytes in use matter to a subtree, so that there are as many
states as pairs of a node and an ancestor, times the values that b can have.  Those are all sums of
sizes along a path; where they are too many, sizes are rounded up to a fraction of the budget, and
every plan still fits.  The table of a node is one array over (s, b).

The published Parent Choice and Persistent Root are special cases, without moves.  What they do not
find either is to hold states that are not on the way to each other; `chexpoint.plan.exact` does.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from chexpoint.model import Seconds
from chexpoint.plan.emission import Emitter, tidied
from chexpoint.plan.problem import Move, Problem
from chexpoint.plan.services import Services

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Table = NDArray[np.float64]
    Places = NDArray[np.intp]

# Servers further up than this many candidates are not told apart from the fresh worker.
_WINDOW = 64
# Numbers in all tables together; more of them for small trees is a waste, too.
_CELLS = 10_000_000
_FINEST, _COARSEST = 4096, 48
# Sums of sizes to look at before giving up on counting them all.
_SUMS = 1_000_000


class _Choice(NamedTuple):
    """What is best for one candidate, given its server and the bytes that are free."""

    is_held: bool
    served: Sequence[int] = ()
    """The children that are served by it."""
    inner: int = 0
    """The column of the bytes that are free while it is held."""
    taker: int | None = None
    """The child that takes it."""
    deferred: Sequence[int] = ()
    """The children that are left to its server."""


class _Task(NamedTuple):
    """Something that is still to be done for a candidate when its turn comes."""

    action: str
    candidate: int
    server: int = 0
    column: int = 0


class ChainPlanner:
    """The tables of one problem.

    What is held in memory at the start is not its business.
    """

    def __init__(self, problem: Problem) -> None:
        import numpy as np

        self._np = np
        self.problem = problem
        self._services = Services(problem, problem.budget)
        self.candidates = self._services.candidates
        self._servers = list(self._services.servers(_WINDOW))
        rows = sum(map(len, self._servers))
        most = max(_COARSEST, min(_FINEST, _CELLS // rows))
        exact = free_bytes(self._services, self._servers, most)
        self.is_exact = exact is not None
        """Whether no size is rounded."""
        self._free: Table = np.array(exact or even_steps(problem.budget, most))
        self._tables: list[Table] = [np.zeros((0, 0))] * len(self.candidates)
        nodes = [candidate.node for candidate in self.candidates]
        # By candidate, for all its servers at once.
        self._grown: Table = np.array([problem.grown[n] for n in nodes], dtype=np.float64)
        self._back: Table = np.array([problem.restore_cost(n) for n in nodes]) - np.array(
            [candidate.way for candidate in self.candidates]
        )

    def moves(self) -> list[Move]:
        """Return the plan."""
        for c in range(len(self.candidates) - 1, 0, -1):
            self._tables[c] = self._table(c)
        return tidied(self.problem, self._emitted())

    # ------------------------------------------------------------ rows and columns

    def _row(self, c: int, server: int) -> int:
        """Return the row of a server; one that is out of sight is taken for a fresh worker."""
        servers = self._servers[c]
        return servers.index(server) if server in servers else 0

    def _rows_for_parent(self, c: int) -> Places:
        """Return the rows of a table that stand for the servers of the parent."""
        rows = len(self._servers[self.candidates[c].parent])
        places = self._np.arange(rows)
        if len(self._servers[c]) == rows:  # the furthest server has just got out of sight
            places = self._np.maximum(places - 1, 0)
        return places

    def _columns_after(self, c: int) -> Places:
        """Return, by server and free bytes, the column of what is left once c is held; -1 if none.

        Rounding is always down.
        """
        np, servers = self._np, self._servers[c]
        whole = self.problem.size[self.candidates[c].node]
        sizes = np.minimum(whole, self._grown[c] - self._grown[list(servers)])
        if sizes[0] == sizes[-1]:  # for the nearest it is least, so they are all the same
            sizes = sizes[:1]
        left = self._free[None, :] - sizes[:, None]
        columns = np.searchsorted(self._free, left, side="right") - 1
        found: Places = np.broadcast_to(columns, (len(servers), len(self._free)))
        return found

    def _ways(self, c: int) -> tuple[Table, Table]:
        """Return what getting to a candidate, and its versions, costs, by server."""
        np, services, servers = self._np, self._services, self._servers[c]
        candidate = self.candidates[c]
        back = self._back[list(servers)] + candidate.way
        ways = np.minimum(back, services.cold[candidate.node])
        if self.problem.loads:
            return ways, np.array([services.tails(s, c) for s in servers])
        return ways, len(candidate.tails) * back + services.tail_ways[c]

    # ------------------------------------------------------------ the recursion

    def _table(self, c: int) -> Table:
        """Return P of a candidate, by server and free bytes."""
        np = self._np
        columns = self._columns_after(c)
        ways, tails = self._ways(c)
        saved = ways[:, None] - self.problem.costs.take
        not_held = np.empty(columns.shape)
        not_held[:] = tails[:, None]
        held = np.empty(columns.shape)
        held[:] = ways[:, None] + self._services.holding(c)
        gain = np.zeros(columns.shape)
        for child in self.candidates[c].children:
            table = self._tables[child]
            later = table[self._rows_for_parent(child)]
            best = np.minimum(table[-1][columns], later)
            not_held += later
            held += best
            np.minimum(gain, later - saved - best, out=gain)
        held += gain
        held[columns < 0] = math.inf
        found: Table = np.minimum(not_held, held)
        return found

    def _choice(self, c: int, server: int, column: int) -> _Choice:
        """Return what the table of a candidate stands for in one place."""
        children = self.candidates[c].children
        later = [self._tables[child][self._row(child, server), column] for child in children]
        services = self._services
        left = self._free[column] - services.size(c, server)
        inner = int(self._np.searchsorted(self._free, left, side="right")) - 1
        if inner < 0:
            return _Choice(is_held=False)
        now = [self._tables[child][-1, inner] for child in children]
        best = [min(pair) for pair in zip(now, later, strict=True)]
        saved = self._saved_by_taking(server, c)
        gains = [after - saved - least for after, least in zip(later, best, strict=True)]
        gain = min(gains, default=0.0)
        held = services.holding(c) + services.service(server, c) + sum(best) + min(gain, 0.0)
        if held >= services.tails(server, c) + sum(later):
            return _Choice(is_held=False)
        taker = children[gains.index(gain)] if gain < 0 else None
        rest = [(x, n <= z) for x, n, z in zip(children, now, later, strict=True) if x != taker]
        return _Choice(
            is_held=True,
            served=[x for x, is_served in rest if is_served],
            inner=inner,
            taker=taker,
            deferred=[x for x, is_served in rest if not is_served],
        )

    def _saved_by_taking(self, server: int, c: int) -> Seconds:
        """Return what is saved if something below c begins at c and not at its server."""
        return self._services.service(server, c) - self.problem.costs.take

    # ------------------------------------------------------------ the plan

    def _emitted(self) -> list[Move]:
        emitter = Emitter(self.problem)
        for leaf in self.candidates[0].tails:
            emitter.compute(leaf)
        last = len(self._free) - 1
        todo = [_Task("serve", c, 0, last) for c in reversed(self.candidates[0].children)]
        while todo:
            task = todo.pop()
            if task.action == "serve":
                todo += reversed(self._served(emitter, task))
            else:
                node = self.candidates[task.candidate].node
                (emitter.take if task.action == "take" else emitter.evict)(node)
        return emitter.moves

    def _served(self, emitter: Emitter, task: _Task) -> list[_Task]:
        """Serve a candidate and its versions; return what is to be done after that, in order."""
        _, c, server, column = task
        candidate = self.candidates[c]
        choice = self._choice(c, server, column)
        if choice.is_held:
            emitter.reach(candidate.node)
            emitter.checkpoint(candidate.node)
        for leaf in candidate.tails:
            emitter.compute(leaf)
        if not choice.is_held:
            return [_Task("serve", child, server, column) for child in candidate.children]
        end = [_Task("evict", c)]
        if choice.taker is not None:
            end = [_Task("take", c), _Task("serve", choice.taker, server, column)]
        return [
            *(_Task("serve", child, c, choice.inner) for child in choice.served),
            *end,
            *(_Task("serve", child, server, column) for child in choice.deferred),
        ]


def free_bytes(
    services: Services, servers: Sequence[Sequence[int]], most: int
) -> list[float] | None:
    """Return all numbers of bytes that can be free, ascending; None if they are too many."""
    problem, candidates = services.problem, services.candidates
    needs = [0] * len(candidates)
    for c, candidate in enumerate(candidates[1:], start=1):
        needs[c] = needs[candidate.parent] + problem.size[candidate.node]
    if max(needs) <= problem.budget:
        return [math.inf]
    used: list[set[int]] = [{0}]
    everything = {0}
    work = 0
    for c in range(1, len(candidates)):
        sums: set[int] = set()
        for server in servers[c]:
            size = services.size(c, server)
            sums.update(total + size for total in used[server])
            work += len(used[server])
        used.append({total for total in sums if total <= problem.budget})
        everything |= used[-1]
        if len(everything) > most or work > _SUMS:
            return None
    return sorted(problem.budget - total for total in everything)


def even_steps(budget: float, count: int) -> list[float]:
    """Return numbers of bytes from none to all."""
    return [budget * (step / count) for step in range(count + 1)]
