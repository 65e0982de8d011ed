"""The experiment graph: what cells compute from what, what of it is stored, and what to reuse.

`bindings` names things, `planning` decides what is loaded and what computed, `choosing` what is
stored; `Ledger` keeps the graph in a database that many may share.

Names are loaded when they are first used: a kernel that uses no graph need not import them.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.graph.bindings import Bindings, Deed, follow, matches, renumbered
    from chexpoint.graph.checking import cost_of
    from chexpoint.graph.choosing import Choice, choose
    from chexpoint.graph.experiment import ExperimentGraph
    from chexpoint.graph.ledger import Ledger
    from chexpoint.graph.ledger_values import Dropped, LedgerProject, MeasuredLoad
    from chexpoint.graph.looking import Outlook, Prospect, find_artifact, outlook, prospect
    from chexpoint.graph.planning import plan_reuse
    from chexpoint.graph.problem import NEVER, ArtifactCost, CellCost, ReusePlan, ReuseProblem
    from chexpoint.graph.queries import (
        Description,
        TimeSaved,
        best_models,
        describe,
        top,
        warm_start_candidates,
    )
    from chexpoint.graph.utility import LoadRates, writing_to
    from chexpoint.graph.ways import GraphWay, PassOver, RunCell, way_to

_HOME = {
    "looking": (
        "Outlook",
        "Prospect",
        "find_artifact",
        "outlook",
        "prospect",
    ),
    "queries": (
        "Description",
        "TimeSaved",
        "best_models",
        "describe",
        "top",
        "warm_start_candidates",
    ),
    "bindings": ("Bindings", "Deed", "follow", "matches", "renumbered"),
    "checking": ("cost_of",),
    "choosing": ("Choice", "choose"),
    "experiment": ("ExperimentGraph",),
    "ledger": ("Ledger",),
    "ledger_values": ("Dropped", "LedgerProject", "MeasuredLoad"),
    "planning": ("plan_reuse",),
    "problem": ("NEVER", "ArtifactCost", "CellCost", "ReusePlan", "ReuseProblem"),
    "utility": ("LoadRates", "writing_to"),
    "ways": ("GraphWay", "PassOver", "RunCell", "way_to"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.graph.{module}"), name)
    raise AttributeError(f"module 'chexpoint.graph' has no attribute '{name}'")


__all__ = [
    "NEVER",
    "ArtifactCost",
    "Bindings",
    "CellCost",
    "Choice",
    "Deed",
    "Description",
    "Dropped",
    "ExperimentGraph",
    "GraphWay",
    "Ledger",
    "LedgerProject",
    "LoadRates",
    "MeasuredLoad",
    "Outlook",
    "PassOver",
    "Prospect",
    "ReusePlan",
    "ReuseProblem",
    "RunCell",
    "TimeSaved",
    "best_models",
    "choose",
    "cost_of",
    "describe",
    "find_artifact",
    "follow",
    "matches",
    "outlook",
    "plan_reuse",
    "prospect",
    "renumbered",
    "top",
    "warm_start_candidates",
    "way_to",
    "writing_to",
]
