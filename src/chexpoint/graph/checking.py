"""The judge of reuse plans.

It shares no code with the planners, so that what is wrong in one is not wrong in the other.
"""

from __future__ import annotations

import math

from chexpoint.graph.problem import NEVER, ReusePlan, ReuseProblem
from chexpoint.model import Seconds


def cost_of(problem: ReuseProblem, plan: ReusePlan) -> Seconds:
    """Return what a plan takes, whatever it says itself; `NEVER` if it is not sound.

    It is sound if it runs what must run and can, loads what is stored and is not computed anyway,
    and so has each target, and all that each cell reads.  Artifacts in memory are no exception:
    the plan has to name those that it counts on.
    """
    cells, artifacts = problem.cells, problem.artifacts
    if not _are_in(plan.run, len(cells)) or not _are_in(plan.load, len(artifacts)):
        return NEVER
    needed = set(problem.targets)
    costs = []
    for index, cell in enumerate(cells):
        if index in plan.run:
            needed.update(cell.reads)
            costs.append(cell.seconds)
        elif cell.must_run:
            return NEVER
    for index in plan.load:
        if artifacts[index].cell in plan.run:
            return NEVER
        costs.append(artifacts[index].load_s)
    for index in needed:
        if index not in plan.load and artifacts[index].cell not in plan.run:
            return NEVER
    try:
        return math.fsum(costs)
    except OverflowError:
        return NEVER


def _are_in(numbers: frozenset[int], end: int) -> bool:
    return all(0 <= number < end for number in numbers)
