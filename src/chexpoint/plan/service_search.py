"""The optimum if only computing costs: best-first search over what is held and what is left to do.

Without costs of checkpoints and restores, a plan is a set of *services*: each version, and each
checkpoint, is computed from the nearest state that is held at that moment, its server, and pays the
way from there.  So the search need not follow the worker step by step.  Its states are (held,
pending), and it moves from checkpoint to checkpoint:

* Nodes that can be of no use as checkpoints (leaves, states larger than the budget, a chain's nodes
  that a later one beats in size and progress) are folded into the ways.  Versions that end below
  the same candidate are pending or done together: once it is held they cost what they must, so that
  it pays to serve none of them before if it will be held, and all of them if it will not.
* Something is evicted only to make room, and then as little as possible; what is to be served from
  it once more is served just before.
* A subtree whose every node can be computed once within the memory that is free is done at once:
  no plan pays less for it, and nothing is lost.

The lower bound adds up what each subtree must cost even if it had the whole budget for itself,
which is known exactly because the subtrees are solved first, from the leaves up.  That is what an
integer programme over steps lacks: the paper's could not solve 20 nodes in ten minutes.

With costs of steps, or states that are there at the start, this is not true, and the search must
follow the worker (`chexpoint.plan.worker_search`).
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from chexpoint.model import Bytes, Seconds
from chexpoint.plan.emission import Emitter, tidied
from chexpoint.plan.folding import fold
from chexpoint.plan.moves import with_cheap_takes
from chexpoint.plan.problem import Move, Problem

State = tuple[int, int]
"""What is held, and which candidates have versions pending: sets of candidates as bits."""

# Sums of the same costs in another order differ by less than this part of them.
_NOISE = 1e-10


class Searched:
    """What a search has found."""

    def __init__(self, cost: Seconds, bound: Seconds, trail: list[Service]) -> None:
        self.cost = cost
        self.bound = bound
        self.trail = trail


@dataclass(frozen=True, slots=True)
class Service:
    """A move of the search."""

    flushed: tuple[int, ...]
    """Candidates whose versions are computed from the nearest checkpoint."""
    evicted: tuple[int, ...]
    held: int
    """The candidate that is then computed and held; 0 if none."""
    finished: tuple[int, ...] = ()
    """Candidates whose whole subtrees are done with what memory is left, after that."""
    dropped: tuple[int, ...] = ()
    """What is then of no more use."""


class ServiceSearch:
    """The candidates of a problem without costs of steps, and the search over them."""

    def __init__(self, problem: Problem, *, deadline: float) -> None:
        self.problem = problem
        self.deadline = deadline
        self.candidates = fold(problem, problem.budget)
        self._below = self._subtrees()
        self._least: dict[tuple[int, int], Seconds] = {}
        self._memory: dict[tuple[int, int], Bytes] = {}
        self._bounds: dict[tuple[int, int, int], tuple[Seconds, bool]] = {}
        self._weights: dict[int, Bytes] = {}
        self._tails = [len(candidate.tails) for candidate in self.candidates]
        self._entry = [
            candidate.way - self.candidates[max(candidate.parent, 0)].way
            for candidate in self.candidates
        ]

    @cached_property
    def everything(self) -> int:
        """All that is pending at the start."""
        return sum(1 << c for c in range(1, len(self.candidates)) if self._tails[c])

    @cached_property
    def fixed(self) -> Seconds:
        """What every plan pays: the way from each candidate to its own leaves, once each."""
        problem = self.problem
        return math.fsum(
            problem.way(candidate.node, leaf)
            for candidate in self.candidates
            for leaf in candidate.tails
        )

    # ------------------------------------------------------------ the tree

    def _subtrees(self) -> list[int]:
        """Return the candidates in the subtree of each one, itself included."""
        below = [1 << c for c in range(len(self.candidates))]
        for c in range(len(self.candidates) - 1, 0, -1):
            below[self.candidates[c].parent] |= below[c]
        return below

    def _nearest(self, c: int, held: int, top: int) -> int:
        """Return the nearest held candidate above one; ``top`` if there is none below that."""
        at = self.candidates[c].parent
        while at != top and not held >> at & 1:
            at = self.candidates[at].parent
        return at

    def _weight(self, held: int, top: int) -> Bytes:
        """Return what a set of candidates below ``top`` takes; see `Problem.bytes_of`.

        What is held above counts as if it were held as near as can be: a subtree on its own must
        never seem to need more than it does as a part.
        """
        key = held << 32 | top
        known = self._weights.get(key)
        if known is None:
            known = 0
            base_of_all = 0 if top == 0 else self.candidates[top].node
            for c in bits(held):
                near = self._nearest(c, held, top)
                base = base_of_all if near == top else self.candidates[near].node
                known += self.problem.marginal(self.candidates[c].node, base)
            self._weights[key] = known
        return known

    # ------------------------------------------------------------ bounds

    def _memory_for(self, c: int, pending: int) -> Bytes:
        """Return memory that is enough to compute each node of a subtree once."""
        here = pending & self._below[c]
        if not here:
            return 0
        key = c, here
        known = self._memory.get(key)
        if known is None:
            needs = sorted(
                (
                    self._memory_for(child, here)
                    for child in self.candidates[c].children
                    if here & self._below[child]
                ),
                reverse=True,
            )
            own = self._tails[c] if here >> c & 1 else 0
            if own + len(needs) <= 1:
                known = needs[0] if needs else 0
            else:
                size = self.problem.size[self.candidates[c].node]
                # The neediest goes last: it takes the checkpoint.
                rest = needs[1] if len(needs) > 1 else 0
                known = max(size + rest, needs[0] if needs else 0)
            self._memory[key] = known
        return known

    def once(self, c: int, pending: int) -> Seconds:
        """Return what computing once what is needed of a subtree costs."""
        here = pending & self._below[c]
        if not here:
            return 0.0
        return self._entry[c] + sum(self.once(child, here) for child in self.candidates[c].children)

    def bound(self, held: int, pending: int, top: int) -> Seconds:
        """Return what is surely to be paid from a state on."""
        return sum(
            self._bound_of(child, held, pending)[0] for child in self.candidates[top].children
        )

    def _bound_of(self, c: int, held: int, pending: int) -> tuple[Seconds, bool]:
        """Return the bound of a subtree, and whether something in it is served from above."""
        below = self._below[c]
        here, inside = pending & below, held & below
        if not here:
            return 0.0, False
        key = c, inside, here
        known = self._bounds.get(key)
        if known is not None:
            return known
        parts = [self._bound_of(child, inside, here) for child in self.candidates[c].children]
        total = sum(part for part, _ in parts)
        own = 1 << c
        if inside & own:
            if inside == own:
                total = max(total, self._least.get((c, here), 0.0) - self._entry[c])
            known = total, False
        else:
            exposed = bool(here & own) or any(is_exposed for _, is_exposed in parts)
            total += self._entry[c] if exposed else 0.0
            if not inside:
                total = max(total, self._least.get((c, here), 0.0))
            known = total, exposed
        self._bounds[key] = known
        return known

    # ------------------------------------------------------------ the search

    def solve(self) -> Searched:
        """Find the cheapest plan.

        Subtrees are solved on their own first, the small ones before the large ones, for the sake
        of their bounds.  Those right below the fresh worker, which is always there and takes no
        memory, have nothing to do with each other, so that the last of them completes the plan.
        """
        trail: list[Service] = []
        cost = bound = self.fixed
        for c in range(len(self.candidates) - 1, 0, -1):
            pending = self.everything & self._below[c]
            found = self._solved_subtree(c, pending)
            self._least[c, pending] = found.bound
            self._bounds.clear()
            if self.candidates[c].parent == 0:
                cost, bound = cost + found.cost, bound + found.bound
                trail += found.trail
        return Searched(cost, bound, trail)

    def _solved_subtree(self, c: int, pending: int) -> Searched:
        if self._memory_for(c, pending) <= self.problem.budget:
            once = self.once(c, pending)
            return Searched(once, once, [Service((), (), 0, (c,))])
        return self.search(self.candidates[c].parent, pending)

    def search(self, top: int, pending: int) -> Searched:
        """Find the cheapest way to do what is pending below ``top``."""
        start, finished, dropped, first = self._settled((0, pending), top)
        origin: dict[State, tuple[State | None, Service]] = {
            start: (None, Service((), (), 0, finished, dropped))
        }
        paid: dict[State, Seconds] = {start: first}
        kept: dict[int, list[tuple[Seconds, int]]] = {start[1]: [(first, start[0])]}
        count = itertools.count()
        line = [(first + self.bound(*start, top), next(count), start)]
        # There is always a plan, even if there is no time: serve all from what is held.
        best, end = first + self._flush_cost(*start, top), start
        while line:
            estimate, _, state = heapq.heappop(line)
            if estimate >= best * (1 - _NOISE):
                break
            cost = paid[state]
            if estimate > cost + self.bound(*state, top) + _NOISE * best:
                continue  # reached in a cheaper way since
            if time.monotonic() > self.deadline:
                return Searched(best, estimate, self._trail(end, origin))
            last = cost + self._flush_cost(*state, top)
            if last < best:
                best, end = last, state
            for after, price, service in self._services(state, top):
                reached = cost + price
                if reached >= paid.get(after, math.inf):
                    continue
                estimate = reached + self.bound(*after, top)
                if estimate >= best * (1 - _NOISE):
                    continue
                rivals = kept.setdefault(after[1], [])
                if any(g <= reached and h & after[0] == after[0] for g, h in rivals):
                    continue
                rivals.append((reached, after[0]))
                paid[after] = reached
                origin[after] = state, service
                heapq.heappush(line, (estimate, next(count), after))
        return Searched(best, best, self._trail(end, origin))

    def _trail(
        self, end: State, origin: dict[State, tuple[State | None, Service]]
    ) -> list[Service]:
        trail = [Service(tuple(bits(end[1])), (), 0)]
        at: State | None = end
        while at is not None:
            at, service = origin[at]
            trail.append(service)
        return trail[::-1]

    def _settled(
        self, state: State, top: int
    ) -> tuple[State, tuple[int, ...], tuple[int, ...], Seconds]:
        """Do what can be done at no loss.

        Returns
        -------
        tuple
            The state after it, the subtrees that are done, what is dropped, and the cost.
        """
        held, pending = state
        free = self.problem.budget - self._weight(held, top)
        done = []
        cost = 0.0
        for server in (top, *bits(held)):
            for child in self.candidates[server].children:
                below = self._below[child]
                if (
                    pending & below
                    and not held & below
                    and self._memory_for(child, pending) <= free
                ):
                    cost += self.once(child, pending)
                    pending &= ~below
                    done.append(child)
        dropped = []
        for c in bits(held):
            without = held & ~(1 << c)
            is_useless = not pending & self._below[c]
            if is_useless and self._weight(without, top) <= self._weight(held, top):
                held = without
                dropped.append(c)
        return (held, pending), tuple(done), tuple(dropped), cost

    def _flush_cost(self, held: int, pending: int, top: int) -> Seconds:
        """Return what serving all that is pending from what is held costs."""
        return sum(self._flush_price(c, held, top) for c in bits(pending))

    def _flush_price(self, c: int, held: int, top: int) -> Seconds:
        near = self._nearest(c, held, top)
        return self._tails[c] * (self.candidates[c].way - self.candidates[near].way)

    def _services(self, state: State, top: int) -> Iterator[tuple[State, Seconds, Service]]:
        held, pending = state
        inside = self._below[top] & ~(1 << top)
        for c in bits(inside & ~held):
            if self._versions_served(c, held, pending) < 2:
                continue
            near = self._nearest(c, held, top)
            price = self.candidates[c].way - self.candidates[near].way
            for kept in self._rooms(held, c, top):
                evicted = held & ~kept
                # What is below the new checkpoint is better served from there.
                choices = self._exposed(held, pending, evicted, top) & ~self._below[c]
                for flushed in subsets(choices):
                    rest = pending & ~flushed
                    after, done, dropped, more = self._settled(
                        (kept | 1 << c, rest & ~(1 << c)), top
                    )
                    flush = sum(self._flush_price(x, held, top) for x in bits(flushed))
                    service = Service(tuple(bits(flushed)), tuple(bits(evicted)), c, done, dropped)
                    yield after, price + flush + more, service

    def _versions_served(self, c: int, held: int, pending: int) -> int:
        """Return for how many pending versions a candidate would be a server."""
        if not pending & self._below[c]:
            return 0
        own = self._tails[c] if pending >> c & 1 else 0
        return own + sum(
            self._versions_served(child, held, pending)
            for child in self.candidates[c].children
            if not held >> child & 1
        )

    def _exposed(self, held: int, pending: int, evicted: int, top: int) -> int:
        """Return the pending candidates that are served by what is to be evicted."""
        found = 0
        for c in bits(pending):
            if evicted >> self._nearest(c, held, top) & 1:
                found |= 1 << c
        return found

    def _rooms(self, held: int, c: int, top: int) -> Iterator[int]:
        """Yield the largest parts of what is held beside which there is room for one more."""
        budget = self.problem.budget
        own = 1 << c
        if self._weight(held | own, top) <= budget:
            yield held
            return
        found: list[int] = []
        members = list(bits(held))
        for count in range(1, len(members) + 1):
            for evicted in itertools.combinations(members, count):
                kept = held
                for e in reversed(evicted):  # the deepest first
                    kept &= ~(1 << e)
                    if self._weight(kept, top) > budget:
                        break
                else:
                    if self._weight(kept | own, top) <= budget and not any(
                        kept & other == kept for other in found
                    ):
                        found.append(kept)
                        yield kept

    # ------------------------------------------------------------ the plan

    def moves(self, trail: Sequence[Service]) -> list[Move]:
        """Return the steps of a plan from the moves of the search."""
        emitter = Emitter(self.problem)
        for leaf in self.candidates[0].tails:
            emitter.compute(leaf)
        pending = self.everything
        for service in trail:
            pending = self._serve(emitter, service, pending)
        return with_cheap_takes(self.problem, tidied(self.problem, emitter.moves))

    def _serve(self, emitter: Emitter, service: Service, pending: int) -> int:
        """Do one service; return what is pending after it."""
        for c in service.flushed:
            self._compute_tails(emitter, c)
            pending &= ~(1 << c)
        if service.held:
            emitter.reach(self.candidates[service.held].node)
        for c in reversed(service.evicted):
            emitter.evict(self.candidates[c].node)
        if service.held:
            emitter.checkpoint(self.candidates[service.held].node)
            if pending >> service.held & 1:
                self._compute_tails(emitter, service.held)
                pending &= ~(1 << service.held)
        for c in service.finished:
            self._finish(emitter, c, pending)
            pending &= ~self._below[c]
        for c in service.dropped:
            emitter.evict(self.candidates[c].node)
        return pending

    def _compute_tails(self, emitter: Emitter, c: int) -> None:
        for leaf in self.candidates[c].tails:
            emitter.compute(leaf)

    def _finish(self, emitter: Emitter, c: int, pending: int) -> None:
        """Compute what is pending in a subtree, each node once."""
        node = self.candidates[c].node
        children = [child for child in self.candidates[c].children if pending & self._below[child]]
        children.sort(key=lambda child: self._memory_for(child, pending))
        own = self._tails[c] if pending >> c & 1 else 0
        is_held = own + len(children) > 1
        if is_held:
            emitter.reach(node)
            emitter.checkpoint(node)
        if own:
            self._compute_tails(emitter, c)
        for child in children:
            if is_held and child == children[-1]:
                emitter.reach(self.candidates[child].node)
                emitter.evict(node)
            self._finish(emitter, child, pending)
        if is_held and not children:
            emitter.evict(node)


def bits(mask: int) -> Iterator[int]:
    """Yield the numbers of the bits that are set, the lowest first."""
    while mask:
        low = mask & -mask
        yield low.bit_length() - 1
        mask ^= low


def subsets(mask: int) -> Iterator[int]:
    """Yield the subsets of a set, the empty one first."""
    part = 0
    while True:
        yield part
        part = (part - mask) & mask
        if not part:
            return
