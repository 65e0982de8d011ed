"""What is kept of cells that ran, and what it takes to go back to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from chexpoint.model.ids import NodeId, Seconds
from chexpoint.model.lineage import CellLineage

Output = dict[str, Any]
"""One output of a cell, as a notebook file holds it (nbformat 4)."""

Taint = str
"""Names the run of the last cell on a path that may give something else when it runs again.

Empty where there is no such cell: then node and state are the same thing, and any run of the path
leads to it.  Otherwise a state is known by its node and its taint.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRecord:
    """One run of a cell."""

    lineage: CellLineage
    taint: Taint = ""
    """Of the state after the cell."""
    parent_taint: Taint = ""
    outputs: tuple[Output, ...] = ()
    cell_id: str = ""
    """How the notebook calls the cell, if it does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCell:
    """One cell on the way to a state: what it takes to run it again, or to know one need not."""

    node: NodeId
    """The state after it."""
    parent: NodeId
    taint: Taint
    source: str
    seconds: Seconds
    execution_count: int
    status: Literal["ok", "error"] = "ok"
    execution: int = 0
    """The run of it that is meant, in the catalog."""
    cell_id: str = ""
    is_reused: bool = False
    """Whether this version shows the outputs of an earlier run."""

    @classmethod
    def recorded(cls, cell: CellRecord, execution: int) -> PathCell:
        """Return the cell of a run that was recorded just now."""
        lineage = cell.lineage
        return cls(
            node=lineage.node,
            parent=lineage.parent,
            taint=cell.taint,
            source=lineage.source,
            seconds=lineage.seconds,
            execution_count=lineage.execution_count,
            status=lineage.status,
            execution=execution,
            cell_id=cell.cell_id,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingStatus:
    """What is being recorded, and where."""

    is_on: bool
    version: str = ""
    """The name of the version that cells are added to; empty before the first."""
    cells: int = 0
    """How many cells it has."""
    folder: str = ""
    """Where the catalog is."""
    problem: str = ""
    """Why nothing is recorded although it should be."""


def recording_from_json(data: dict[str, Any]) -> RecordingStatus:
    """Return the status that `to_json` wrote."""
    return RecordingStatus(**data)


def path_cell_from_json(data: dict[str, Any]) -> PathCell:
    """Return the cell that `to_json` wrote."""
    return PathCell(**data)
