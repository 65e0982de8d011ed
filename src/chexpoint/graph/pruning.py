"""Local pruning: the part of a problem that a plan can be about.

A cell matters if a target needs it, or a cell that must run does, by way of artifacts that are not
in memory.  The rest is left out, as in section 3.1 of "Optimizing Machine Learning Workloads in
Collaborative Environments" (Derakhshan et al., SIGMOD 2020); there it is marked inactive.

What is left gets numbers of its own, and costs become whole numbers.  A float is a whole number of
some 2**-k seconds, so with the largest k of them nothing is rounded, and sums can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction

from chexpoint.errors import InvalidValue
from chexpoint.graph.problem import ArtifactCost, CellCost, ReuseProblem
from chexpoint.model import Seconds


@dataclass(frozen=True, slots=True)
class PrunedProblem:
    """Cells and artifacts that matter, by numbers of their own; cells in the order they run."""

    cells: list[int]
    """The numbers they have in the whole problem."""
    must_run: list[bool]
    seconds: list[int]
    """What running each cell takes."""
    reads: list[list[int]]
    """Artifacts that each cell needs, once each, without those in memory."""
    made: list[list[int]]
    """Artifacts of each cell."""
    maker: list[int]
    """The cell of each artifact."""
    load: list[int]
    """What loading each artifact takes."""
    is_target: list[bool]
    never: int
    """The cost of what cannot be done: more than that of any plan."""


def prune(problem: ReuseProblem, *, looks_at_costs: bool = False) -> PrunedProblem:
    """Return the part of a problem that matters, in time linear in its size.

    Parameters
    ----------
    looks_at_costs
        Whether to go no further than cells that take no less than loading all that is wanted of
        them: whatever else is planned, these do not run.  They are left without what they read.

    Raises
    ------
    InvalidValue
        If something in that part is wrong: a cost is negative or not a number, or a cell reads
        what no earlier cell makes.
    """
    cells, artifacts = problem.cells, problem.artifacts
    reads, numbers = _find_needed(problem, looks_at_costs=looks_at_costs)
    order = list(reads)
    order.reverse()
    place = {cell: number for number, cell in enumerate(order)}
    maker = [place[artifacts[each].cell] for each in numbers]
    made: list[list[int]] = [[] for _ in order]
    for number, each in enumerate(maker):
        made[each].append(number)
    costs = [cells[each].seconds for each in order]
    _check_costs("Running cell", costs, order)
    loads = [artifacts[each].load_s for each in numbers]
    _check_costs("Loading artifact", loads, numbers)
    whole, never = _whole_numbers(costs + loads)
    targets = problem.targets
    return PrunedProblem(
        cells=order,
        must_run=[cells[each].must_run for each in order],
        seconds=whole[: len(order)],
        reads=[reads[each] for each in order],
        made=made,
        maker=maker,
        load=whole[len(order) :],
        is_target=[each in targets for each in numbers],
        never=never,
    )


def _find_needed(
    problem: ReuseProblem, *, looks_at_costs: bool
) -> tuple[dict[int, list[int]], dict[int, int]]:
    """Return the cells that matter, the last one first, with what they read; and new numbers.

    Whoever wants something of a cell comes after it.  So when it is looked at, all that is wanted
    of it is known.
    """
    cells, artifacts = problem.cells, problem.artifacts
    numbers: dict[int, int] = {}
    wanted: dict[int, list[int]] = {index: [] for index, cell in enumerate(cells) if cell.must_run}
    for each in problem.targets:
        _check_target(problem, each)
        if artifacts[each].load_s != 0:
            numbers[each] = len(numbers)
            wanted.setdefault(artifacts[each].cell, []).append(each)
    found: dict[int, list[int]] = {}
    for index in range(max(wanted, default=-1), -1, -1):
        if index not in wanted:
            continue
        cell = cells[index]
        found[index] = own = []
        if looks_at_costs and not cell.must_run and _is_dear(cell, wanted[index], artifacts):
            continue
        for each in _checked(problem, index):
            artifact = artifacts[each]
            if artifact.load_s == 0:
                continue
            if each not in numbers:
                numbers[each] = len(numbers)
                wanted.setdefault(artifact.cell, []).append(each)
            own.append(numbers[each])
    return found, numbers


def _checked(problem: ReuseProblem, index: int) -> Collection[int]:
    """Return what a cell reads, once each."""
    artifacts, reads = problem.artifacts, problem.cells[index].reads
    end = len(artifacts)
    for each in reads:
        if not 0 <= each < end or not 0 <= artifacts[each].cell < index:
            raise InvalidValue(f"Cell {index} reads artifact {each}, which no earlier cell makes.")
    return reads if len(reads) < 2 else set(reads)


def _is_dear(cell: CellCost, wanted: list[int], artifacts: tuple[ArtifactCost, ...]) -> bool:
    """Tell whether loading all that is wanted of a cell surely takes no longer than running it."""
    if len(wanted) == 1:
        return artifacts[wanted[0]].load_s <= cell.seconds
    try:
        # A sum that was rounded may only seem to be the same, but not to be less.
        return math.fsum([artifacts[each].load_s for each in wanted]) < cell.seconds
    except OverflowError:
        return False


def _check_target(problem: ReuseProblem, number: int) -> None:
    if not 0 <= number < len(problem.artifacts):
        raise InvalidValue(f"There is no artifact {number}.")
    cell = problem.artifacts[number].cell
    if not 0 <= cell < len(problem.cells):
        raise InvalidValue(f"There is no cell {cell}.")


def _check_costs(what: str, costs: list[Seconds], numbers: Iterable[int]) -> None:
    if costs and (min(costs) < 0 or math.isnan(sum(costs))):
        pairs = zip(numbers, costs, strict=True)
        number, cost = next((number, cost) for number, cost in pairs if not cost >= 0)
        raise InvalidValue(f"{what} {number} cannot take {cost} seconds.")


def _whole_numbers(costs: list[Seconds]) -> tuple[list[int], int]:
    """Return costs in a unit in which all are whole, and one that is more than their sum."""
    least = min((cost for cost in costs if cost > 0), default=1.0)
    # It has the finest grain, and no float has more than 53 bits.
    bits = 53 - math.frexp(least)[1] if least < math.inf else 0
    try:
        whole = [int(math.ldexp(cost, bits)) if cost < math.inf else -1 for cost in costs]
    except OverflowError:
        unit = Fraction(2) ** bits
        whole = [int(Fraction(cost) * unit) if cost < math.inf else -1 for cost in costs]
    never = 1 + sum(cost for cost in whole if cost >= 0)
    return [cost if cost >= 0 else never for cost in whole], never
