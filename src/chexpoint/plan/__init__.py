"""Replay planners: the least recomputation within a memory budget.

Pure functions over values of the model, no I/O.

Names are loaded when they are first used: a kernel that plans nothing need not import NumPy.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.plan.check import check_plan, check_schedule, judge_plan
    from chexpoint.plan.planning import TIME_LIMIT, plan
    from chexpoint.plan.reasons import explain
    from chexpoint.plan.samples import KINDS, bin_packing_tree, sample_tree
    from chexpoint.plan.shipping import Shipping, choose_shipping
    from chexpoint.plan.simulating import simulate
    from chexpoint.plan.simulation_check import check_simulation
    from chexpoint.plan.solving import DEFAULT_PLANNER, PLANNERS

_HOME = {
    "check": ("check_plan", "check_schedule", "judge_plan"),
    "reasons": ("explain",),
    "planning": ("TIME_LIMIT", "plan"),
    "samples": ("KINDS", "bin_packing_tree", "sample_tree"),
    "shipping": ("Shipping", "choose_shipping"),
    "simulating": ("simulate",),
    "simulation_check": ("check_simulation",),
    "solving": ("DEFAULT_PLANNER", "PLANNERS"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.plan.{module}"), name)
    raise AttributeError(f"module 'chexpoint.plan' has no attribute '{name}'")


__all__ = [
    "DEFAULT_PLANNER",
    "KINDS",
    "PLANNERS",
    "TIME_LIMIT",
    "Shipping",
    "bin_packing_tree",
    "check_plan",
    "check_schedule",
    "check_simulation",
    "choose_shipping",
    "explain",
    "judge_plan",
    "plan",
    "sample_tree",
    "simulate",
]
