"""The one door to the planners."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import overload

from chexpoint.errors import InvalidValue
from chexpoint.model import (
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    Schedule,
    Seconds,
    StepCosts,
)
from chexpoint.plan.problem import Problem
from chexpoint.plan.side_by_side import schedule
from chexpoint.plan.solving import DEFAULT_PLANNER, planner_named, solve
from chexpoint.plan.time_limit import most_versions

TIME_LIMIT: Seconds = 60.0
"""How long a planner may think, if nobody says otherwise; all but `exact` need far less."""


@overload
def plan(
    tree: ExecutionTree,
    budget: float = ...,
    *,
    planner: str = ...,
    costs: StepCosts | None = ...,
    held: Iterable[HeldState] = ...,
    seconds: Seconds = ...,
    versions: Iterable[NodeId] | None = ...,
    workers: None = ...,
    within: Seconds | None = ...,
) -> Plan: ...


@overload
def plan(
    tree: ExecutionTree,
    budget: float = ...,
    *,
    planner: str = ...,
    costs: StepCosts | None = ...,
    held: Iterable[HeldState] = ...,
    seconds: Seconds = ...,
    versions: Iterable[NodeId] | None = ...,
    workers: int,
    within: None = ...,
    is_shared: bool = ...,
) -> Schedule: ...


def plan(  # noqa: PLR0913 - all but two have to be named, and few ever are
    tree: ExecutionTree,
    budget: float = math.inf,
    *,
    planner: str = DEFAULT_PLANNER,
    costs: StepCosts | None = None,
    held: Iterable[HeldState] = (),
    seconds: Seconds = TIME_LIMIT,
    versions: Iterable[NodeId] | None = None,
    workers: int | None = None,
    within: Seconds | None = None,
    is_shared: bool = True,
) -> Plan | Schedule:
    """Plan the replay of versions: the least computing within a memory budget.

    Parameters
    ----------
    tree
        Its leaves are the versions.
    budget
        Bytes that checkpoints may take together; infinity is no limit.
    planner
        A name from `PLANNERS`.
    costs
        What checkpoints and restores cost; nothing, unless given.
    held
        States that are there before the plan begins.
    seconds
        How long to think.  The best plan so far is returned, with a note.
    versions
        Plan for these nodes only.
    workers
        Plan for this many engines side by side; the result is a `Schedule`.
    within
        Plan for the most versions that can be replayed in this time.
    is_shared
        Whether the workers share the budget, as engines of one machine do; else each has all of
        it, as hosts with memory of their own do.

    Raises
    ------
    InvalidValue
        If the tree or a number cannot be planned with; it names the node.
    """
    planner_named(planner)
    if not seconds >= 0:
        raise InvalidValue(f"the time limit is not a number of seconds >= 0: {seconds!r}")
    states = tuple(held)
    leaves = None if versions is None else tuple(versions)
    if workers is not None and within is not None:
        raise InvalidValue("a plan is either for several workers or within a time, not both")
    if workers is not None:
        return schedule(
            *(tree, budget, workers),
            planner=planner,
            costs=costs,
            held=states,
            seconds=seconds,
            leaves=leaves,
            is_shared=is_shared,
        )
    if within is not None:
        return most_versions(
            *(tree, budget, within),
            planner=planner,
            costs=costs,
            held=states,
            seconds=seconds,
            leaves=leaves,
        )
    problem = Problem(tree, budget, costs=costs, held=states, leaves=leaves)
    return solve(problem, planner, seconds=seconds)
