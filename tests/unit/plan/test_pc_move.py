"""The default planner, on trees where it has to do something that the published ones do not."""

from __future__ import annotations

import pytest

from chexpoint.model import ExecutionTree, HeldState, NodeId, StepCosts
from chexpoint.plan import check_plan, plan
from chexpoint.plan.chains import ChainPlanner
from chexpoint.plan.frontier import FrontierPlanner
from chexpoint.plan.services import Services
from tests.support.trees import Case, least_cost, node


def pair(name: str) -> tuple[str, str]:
    return f"{name}1", f"{name}2"


def parking_tree() -> ExecutionTree:
    """Return a tree in which it pays to hold two states neither of which leads to the other.

    `a` is as large as the budget.  While it is there, `b` and `c` can be had cheaply, one after the
    other; both are small and so can wait together for their large children.
    """
    return ExecutionTree(
        [
            node("a", None, 10.0, 8),
            *(node(name, "a", 1.0, 1) for name in ("b", "c")),
            *(node(f"{name}{low}", name, 1.0, 9) for name in ("b", "c") for low in (1, 2)),
            *(
                node(f"{name}{low}{leaf}", f"{name}{low}", 0.0, 0)
                for name in ("b", "c")
                for low in (1, 2)
                for leaf in (1, 2)
            ),
        ]
    )
