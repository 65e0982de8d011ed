"""Plans to look at: written down step by step, or made by a planner."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

from chexpoint.model import (
    Action,
    ExecutionTree,
    Explanation,
    NodeId,
    Plan,
    PlanStep,
    Schedule,
    StepCosts,
)
from chexpoint.plan import explain, plan
from tests.unit.view.worlds import ident, node, tree_of

GB = 2**30

SMALL = tree_of(
    [
        node(1, cell="import numpy", cost=10.0, size=GB // 10),
        node(2, 1, cell="x = load()", cost=590.0, size=GB // 2),
        node(3, 2, cell="fit(x, 3)", cost=60.0, size=GB),
        node(4, 3, cell="plot(x)", cost=1.0, size=GB),
        node(5, 2, cell="fit(x, 5)", cost=120.0, size=GB),
        node(6, 5, cell="plot(x)", cost=1.0, size=GB),
    ],
    4,
    6,
    names=["base", "deeper"],
)

BY_HAND = "compute 1, compute 2, checkpoint 2, compute 3, compute 4, take 2, compute 5, compute 6"


def steps_of(text: str) -> tuple[PlanStep, ...]:
    """Return steps that are written like ``"compute 1, restore -, take 2"``."""
    words = [step.split() for step in text.split(",")]
    return tuple(
        PlanStep(cast("Action", action), None if number == "-" else ident(int(number)))
        for action, number in words
    )


def by_hand(
    tree: ExecutionTree,
    steps: str = BY_HAND,
    *,
    budget: float = GB,
    left_out: Sequence[int] = (),
    notes: tuple[str, ...] = (),
) -> Explanation:
    """Return the explanation of a plan that is written down."""
    made = steps_of(steps) if steps else ()
    computed = [step.node for step in made if step.action == "compute" and step.node is not None]
    ends = tuple(n for n in dict.fromkeys(computed) if not tree.children(n))
    found = Plan(
        planner="by-hand",
        budget=budget,
        cost=math.fsum(tree.nodes[n].cost for n in computed),
        lower_bound=math.fsum(tree.nodes[n].cost for n in set(computed)),
        no_cache_cost=math.fsum(cell.cost for end in ends for cell in tree.path(end)),
        steps=made,
        versions=ends,
        left_out=tuple(ident(number) for number in left_out),
        notes=notes,
    )
    return explain(tree, found)


def by_planner(
    tree: ExecutionTree, budget: float = GB, costs: StepCosts | None = None
) -> Explanation:
    """Return the explanation of the default planner's plan."""
    found = plan(tree, budget, costs=costs)
    assert isinstance(found, Plan)
    return explain(tree, found, costs=costs)


def side_by_side(tree: ExecutionTree, *lanes: str) -> tuple[Schedule, list[Explanation]]:
    """Return a schedule of plans that are written down, and the explanations of its lanes."""
    found = [by_hand(tree, lane, budget=GB) for lane in lanes]
    schedule = Schedule(
        lanes=tuple(one.plan for one in found),
        budget=GB * len(lanes),
        single=math.fsum(cell.cost for cell in tree.nodes.values()),
    )
    return schedule, found


def leaf_names(tree: ExecutionTree) -> list[NodeId]:
    """Return the leaves of a tree."""
    return [name for name in tree.nodes if not tree.children(name)]
