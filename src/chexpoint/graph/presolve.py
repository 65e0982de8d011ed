"""What can be said about the cheapest reuse plan without a minimum cut.

Passes over the cells, each linear, until one finds nothing new:

* down, from the last cell to the first: what it takes at most to do without a cell, that is to load
  what is needed of it, or to do without its users too.  If that is no more than the cell's own
  seconds, it is passed over.
* up, from the first cell to the last: what it takes at most to run a cell, on top of what is needed
  anyway.  If that is less than loading what is needed of it, it runs.

Both count twice what is shared, so they err on the safe side only.  That they may be taken one cell
at a time is the submodularity of cuts: two changes to a cheapest plan together take no more than
the two apart.  A cell that asks for nothing more and has one user left is no question of its own:
its cost moves to the user.
"""

from __future__ import annotations

from enum import Enum

from chexpoint.graph.pruning import PrunedProblem

# A round that leaves more than this of the cells costs more than it spares the cut.
_LEFT = 0.75


class Fate(Enum):
    """What is known of a cell."""

    OPEN = 0
    RUNS = 1
    PASSED = 2
    FOLLOWS = 3
    """It runs if any of what it has given turns out to be needed."""


# Attributes of an enum are slow to look up, and there are many.
_OPEN, _RUNS, _PASSED, _FOLLOWS = Fate

# Nobody is ever added to it.
_NOBODY: list[int] = []


class Presolved:
    """A problem, and what is known of its cheapest plan.

    Of the cheapest plans it is the one with the fewest cells: they run in each of the others too.

    Attributes
    ----------
    fate
        Of each cell.
    open
        The cells of which nothing is known, in order.  What follows is about them only.
    seconds
        What running each takes, with what has moved to it.
    saved
        What loading those of its artifacts takes that are needed for sure.
    given
        Its artifacts that other open cells read, and that are not needed for sure.
    users
        Open cells that want each artifact.
    """

    def __init__(self, problem: PrunedProblem) -> None:
        cells = len(problem.cells)
        self.problem = problem
        self.fate: list[Fate] = [_RUNS if each else _OPEN for each in problem.must_run]
        self.open = list(range(cells))
        self.seconds = list(problem.seconds)
        self.saved = [0] * cells
        self.given = [_NOBODY] * cells
        self._reads = list(problem.reads)
        self.users: list[list[int]] = []
        self._is_needed = list(problem.is_target)
        # Needed, moved, or made by a cell that runs: nobody has to want it any more.
        self._is_settled = list(problem.is_target)
        self._down()
        while self.open and self._up():
            before = len(self.open)
            self._down()
            if len(self.open) > _LEFT * before:
                break

    def wants(self, cell: int) -> list[int]:
        """Return what an open cell reads that costs more if it runs, and is not in its seconds."""
        is_settled = self._is_settled
        return [each for each in self._reads[cell] if not is_settled[each]]

    def is_passed(self, artifact: int) -> bool:
        """Return whether an artifact that an open cell wants can only be loaded."""
        return self.fate[self.problem.maker[artifact]] is _PASSED

    def _down(self) -> None:  # noqa: C901, PLR0912 - calls would take a third of the time
        """Find cells that run, as nothing else gives what is needed, and such to pass over."""
        fate, reads, is_needed, is_settled = (
            self.fate,
            self._reads,
            self._is_needed,
            self._is_settled,
        )
        load, made, never = self.problem.load, self.problem.made, self.problem.never
        pressure = [0] * len(load)
        self.users = users = [_NOBODY] * len(load)
        still = []
        for cell in reversed(self.open):
            if fate[cell] is _OPEN:
                # What it takes at most to do without it.
                saved = other = 0
                given = _NOBODY
                for each in made[cell]:
                    if is_needed[each]:
                        if load[each] == never:
                            fate[cell] = _RUNS
                            break
                        saved += load[each]
                    elif users[each]:
                        given = [*given, each]
                        other += min(pressure[each], load[each])
                self.saved[cell], self.given[cell] = saved, given
                spare = saved + other - self.seconds[cell]
                if fate[cell] is _OPEN:
                    if spare <= 0:
                        fate[cell] = _PASSED
                        continue
                    still.append(cell)
                    if reads[cell]:
                        reads[cell] = [each for each in reads[cell] if not is_settled[each]]
                        for each in reads[cell]:
                            if pressure[each]:
                                users[each].append(cell)
                            else:
                                users[each] = [cell]
                            pressure[each] += spare
            if fate[cell] is _RUNS:
                self._run(cell)
        still.reverse()
        self.open = still

    def _up(self) -> bool:
        """Find cells that run as it is cheaper, and such whose cost moves; return if there are."""
        load, maker = self.problem.load, self.problem.maker
        fate, reads, is_settled = self.fate, self._reads, self._is_settled
        extra = [0] * len(fate)
        has_found = False
        for cell in self.open:
            # What it takes at most to run it, and whether that depends on no other.
            at_most = 0
            is_alone = True
            for each in reads[cell]:
                if is_settled[each]:
                    continue
                if fate[maker[each]] is _OPEN:
                    is_alone = False
                    at_most += min(extra[maker[each]], load[each])
                elif len(self.users[each]) > 1:
                    is_alone = False
                    at_most += load[each]
                else:
                    # Its maker is passed over, and nobody else wants it.
                    self.seconds[cell] += load[each]
                    is_settled[each] = True
            extra[cell] = more = at_most + self.seconds[cell] - self.saved[cell]
            if more < 0:
                fate[cell] = _RUNS
                self._run(cell)
            elif is_alone:
                self._move(cell, more)
            has_found = has_found or fate[cell] is not _OPEN
        return has_found

    def _run(self, cell: int) -> None:
        """Note what follows from it that a cell runs."""
        for each in self._reads[cell]:
            self._is_needed[each] = self._is_settled[each] = True
        for each in self.problem.made[cell]:
            self._is_settled[each] = True

    def _move(self, cell: int, extra: int) -> None:
        """Move the cost of a cell that wants nothing to its user, if there is but one."""
        given = self.given[cell]
        if given and len(self.users[given[0]]) > 1:
            return
        users = {user for each in given for user in self.users[each]}
        if len(users) > 1:
            return
        loading = sum(self.problem.load[each] for each in given)
        self.fate[cell] = _FOLLOWS if extra < loading else _PASSED
        for user in users:
            self.seconds[user] += min(extra, loading)
        for each in given:
            self._is_settled[each] = True
