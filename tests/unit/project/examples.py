"""Cells to record, for tests."""

from __future__ import annotations

from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellRecord,
    Effect,
    Event,
    Hint,
    Input,
    NodeId,
    Output,
)
from chexpoint.project import Project

FULL = CellAudit(
    inputs=(
        Input(kind="file", name="./caf\udce9.csv", digests=("ab12", "absent")),
        Input(kind="variable", name="HOME", digests=("ff",)),
    ),
    effects=(Effect(path="./日本\n\udcff", kind="written", digest="dd", size_bytes=7),),
    hints=(Hint(kind="time", what="reads the clock", line=2),),
    events=(Event(process="0.1", op="read", name="./caf\udce9.csv", digest="ab12"),),
    gaps=("a process could not be seen",),
    mechanism="audit hook",
    environment_reads=12,
    interrupts=3,
)
"""An audit with something in every field."""


def node_id(digits: str) -> NodeId:
    """Return the node that begins with some digits."""
    return NodeId(digits.ljust(32, "0"))


def cell(node: str, parent: str = "00", count: int = 1, **fields: object) -> CellLineage:
    """Return a cell whose node begins with the given digits."""
    values = {
        "node": node_id(node),
        "parent": node_id(parent),
        "code": "c0de",
        "strict": "57",
        "number": count,
        "execution_count": count,
        "source": f"print({count})",
        "audit": CellAudit(),
        "seconds": 0.5,
        "size_bytes": 1000,
    }
    return CellLineage(**{**values, **fields})  # type: ignore[arg-type]


def record(
    project: Project,
    lineage: CellLineage,
    session: str = "s",
    *,
    version: int | None = None,
    taint: str = "",
    parent_taint: str = "",
    outputs: tuple[Output, ...] = (),
    cell_id: str = "",
) -> int:
    """Record one run of a cell; return its id."""
    cell = CellRecord(
        lineage=lineage,
        taint=taint,
        parent_taint=parent_taint,
        outputs=outputs,
        cell_id=cell_id,
    )
    return project.record(cell, session=session, version=version)


def stream(text: str) -> Output:
    """Return what a cell printed."""
    return {"output_type": "stream", "name": "stdout", "text": text}
