"""From a plan of what to run and to load to what a worker does, cell by cell."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from chexpoint.graph.bindings import FILE, Bindings, Deed
from chexpoint.graph.planning import plan_reuse
from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReusePlan, ReuseProblem
from chexpoint.model import ArtifactId, Seconds

# To hand a cell to the worker and get its answer.
_CELL_S = 0.005
# How many artifacts that are not needed yet are thought of.
_TRIES = 30
# A cell that depends on chance does not give the same again.
_CHANCE_S = 1e6


@dataclass(frozen=True, slots=True)
class RunCell:
    """Run a cell of the path."""

    number: int
    """Counted from 1."""


@dataclass(frozen=True, slots=True)
class PassOver:
    """Come to the place after a cell without running it, nor those before it."""

    number: int
    load: tuple[tuple[ArtifactId, tuple[str, ...]], ...] = ()
    """Artifacts, and the variables that are theirs there."""
    unbind: tuple[str, ...] = ()
    """Variables that are something else there, and are not needed."""
    absent: frozenset[str] = frozenset()
    """Variables that should be there, and are not."""


@dataclass(frozen=True, slots=True)
class GraphWay:
    """How a worker comes to a place where all that is needed is there."""

    moves: tuple[RunCell | PassOver, ...]
    seconds: Seconds
    plan: ReusePlan


def way_to(
    deeds: Sequence[Deed],
    first: Bindings,
    *,
    start: int,
    absent: frozenset[str],
    needs: Iterable[str],
    load_s: Callable[[ArtifactId], Seconds],
    spare_s: Seconds = 0.0,
    later: Collection[str] | None = None,
) -> GraphWay | None:
    """Return the cheapest way to the end of a path, or None if there is none.

    Parameters
    ----------
    deeds
        The cells of the path.
    first
        What is bound before them.
    start
        How many of them the worker has behind it: they cannot be run any more.
    absent
        Variables that it lacks.
    needs
        Variables that must be there in the end.
    load_s
        How long loading an artifact takes; `NEVER` if it is not stored.
    spare_s
        What may be spent on variables that are not needed yet, and could not be loaded later.
    later
        Those that later cells may need; any, if that is not known.
    """
    places = [first, *(deed.after for deed in deeds)]
    # Of what shares objects all is there, or it counts as nothing.
    there = places[start].variables
    torn = {there[name] for name in absent if name in there}
    have = {k: v for k, v in there.items() if v not in torn}
    after = places[-1].variables
    wanted = set(needs)

    def find(more: Iterable[str]) -> GraphWay | None:
        targets = {after[name] for name in wanted.union(more) if name in after}
        if start == len(deeds) and targets <= set(have.values()):
            return GraphWay((), 0.0, ReusePlan())
        problem, numbers = _problem(deeds, places, start, have, targets, load_s)
        plan = plan_reuse(problem)
        if plan.seconds == NEVER:
            return None
        names = list(numbers)
        loaded = {names[each] for each in plan.load if problem.artifacts[each].load_s > 0}
        loaded -= set(have.values())
        moves = tuple(_moves(deeds, places, start, have, loaded, plan.run))
        return GraphWay(moves, plan.seconds, plan)

    best = find(())
    if best is None or not spare_s or start == len(deeds):
        return best
    return _provident(best, find, after, load_s, spare_s, later)


def _provident(
    best: GraphWay,
    find: Callable[[Iterable[str]], GraphWay | None],
    after: Mapping[str, ArtifactId],
    load_s: Callable[[ArtifactId], Seconds],
    spare_s: Seconds,
    later: Collection[str] | None,
) -> GraphWay:
    """Return a way that brings what later cells may need, too, if that takes little more.

    What is passed over and is not stored can be had only from the beginning again, with all that
    was run since.
    """
    last = best.moves[-1] if best.moves else None
    if not isinstance(last, PassOver):
        return best
    groups: dict[ArtifactId, list[str]] = {}
    asked = after.keys() if later is None else after.keys() & later
    for name in sorted(last.absent & asked):
        if load_s(after[name]) == NEVER:
            groups.setdefault(after[name], []).append(name)
    most = best.seconds + spare_s
    brought: list[str] = []
    for names in list(groups.values())[:_TRIES]:
        found = find([*brought, *names])
        if found is not None and found.seconds <= most:
            brought += names
            best = found
    return best


def _problem(
    deeds: Sequence[Deed],
    places: Sequence[Bindings],
    start: int,
    have: Mapping[str, ArtifactId],
    targets: set[ArtifactId],
    load_s: Callable[[ArtifactId], Seconds],
) -> tuple[ReuseProblem, dict[ArtifactId, int]]:
    """Return the question in numbers, and the number of each artifact."""
    in_memory = set(have.values())
    numbers: dict[ArtifactId, int] = {}
    costs: list[ArtifactCost] = []
    cells: list[CellCost] = []

    def number(artifact: ArtifactId, cell: int, seconds: Seconds) -> int:
        if artifact not in numbers:
            numbers[artifact] = len(costs)
            costs.append(ArtifactCost(cell, seconds))
        return numbers[artifact]

    for at, deed in enumerate(deeds):
        reads = []
        for read in deed.operation.reads:
            if read.name.startswith(FILE):
                continue  # that it is there was found out when the cell was recalled
            artifact = places[at].variables.get(read.name, read.artifact)
            if artifact not in numbers:
                # Of before the first cell, or of a path that is not known: it cannot be had.
                number(artifact, at, 0.0 if artifact in in_memory else NEVER)
            reads.append(numbers[artifact])
        is_behind = at < start
        seconds = NEVER if is_behind else deed.operation.seconds + _CELL_S
        if deed.operation.doubt:
            seconds += _CHANCE_S
        cells.append(CellCost(seconds, tuple(reads), bool(deed.operation.sticky) and not is_behind))
        for made in deed.artifacts:
            is_here = made.id in in_memory and is_behind
            number(made.id, at, 0.0 if is_here else load_s(made.id))
    wanted = frozenset(numbers[each] for each in targets if each in numbers)
    return ReuseProblem(tuple(cells), tuple(costs), wanted), numbers


def _moves(
    deeds: Sequence[Deed],
    places: Sequence[Bindings],
    start: int,
    have: Mapping[str, ArtifactId],
    loaded: set[ArtifactId],
    run: frozenset[int],
) -> Iterable[RunCell | PassOver]:
    """Yield what the worker does: only what is there when a cell runs, or in the end, matters."""
    mine = dict(have)
    at = start
    for stop in [number for number in sorted(run) if number >= start] + [len(deeds)]:
        there = places[stop].variables
        wanted: dict[ArtifactId, list[str]] = {}
        for name, artifact in there.items():
            if mine.get(name) != artifact and artifact in loaded:
                wanted.setdefault(artifact, []).append(name)
        coming = {name for names in wanted.values() for name in names}
        gone = tuple(sorted(k for k, v in mine.items() if there.get(k) != v and k not in coming))
        mine = {k: v for k, v in mine.items() if there.get(k) == v}
        mine |= {name: there[name] for name in coming}
        if stop > at or wanted or gone:
            load = tuple((artifact, tuple(sorted(names))) for artifact, names in wanted.items())
            yield PassOver(stop, load, gone, frozenset(there.keys() - mine.keys()))
        at = stop
        if stop < len(deeds):
            yield RunCell(stop + 1)
            after = places[stop + 1].variables
            written = {n for each in deeds[stop].artifacts for n in each.group.names}
            mine = {k: after[k] for k in after if k in written or mine.get(k) == after[k]}
            at = stop + 1
