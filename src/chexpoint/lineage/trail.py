"""The path of executed cells that led to a state.

History is the truth, and it is a path: whatever cells are run in whatever
order, a state is what its path made of the fresh interpreter.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Literal

from chexpoint.lineage.digest import digest
from chexpoint.lineage.equality import lineage_digest, strict_digest
from chexpoint.model import (
    Bytes,
    CellAudit,
    CellLineage,
    CellVariables,
    Digest,
    NodeId,
    PathCell,
    Seconds,
    Taint,
)


class Step:
    """One executed cell, and so one place on a path; the root is the fresh interpreter."""

    __slots__ = (
        "_taint",
        "_touch",
        "_written",
        "absent",
        "again_of",
        "cell_id",
        "execution",
        "has_failed",
        "node",
        "number",
        "packages",
        "parent",
        "record",
        "seconds",
        "source",
        "strict",
    )

    def __init__(self, parent: Step | None, *, source: str = "", cell_id: str = "") -> None:
        self.parent = parent
        self.number: int = parent.number + 1 if parent is not None else 0
        self.source = source
        self.cell_id = cell_id
        self.packages: Digest | None = None
        """The environment fingerprint after it, once known."""
        self.node: NodeId | None = None
        """Its lineage, once the digests of its inputs are known."""
        self._taint: Taint = ""
        self._touch: Taint = ""
        self.strict: Digest = ""
        self.record: CellLineage | None = None
        self.seconds: Seconds = 0.0
        self.has_failed = False
        self.execution = 0
        """Its run in the catalog, once it is written there."""
        self._written: Taint = ""
        self.again_of: Step | None = None
        """The step whose cell was run again to bring back its state."""
        self.absent: frozenset[str] = parent.absent if parent is not None else frozenset()
        """Variables of this state that the worker lacks: no cell has needed them so far."""

    @property
    def taint(self) -> Taint:
        """Known when ``node`` is."""
        return self._touch or self._taint

    @taint.setter
    def taint(self, taint: Taint) -> None:
        self._taint = taint

    def touch(self) -> None:
        """Something that is no cell has changed the state, or may have: a widget, the debugger."""
        self._touch = uuid.uuid4().hex

    def written(self, execution: int, taint: Taint) -> None:
        """Its run is in the catalog, with the taint it had then."""
        self.execution, self._written = execution, taint

    @property
    def written_taint(self) -> Taint:
        """The taint in the catalog, whatever was done to the state since."""
        return self._written

    @classmethod
    def recalled(cls, parent: Step, cell: PathCell, record: CellLineage | None = None) -> Step:
        """Return the step of a cell that ran before, and that is not run now."""
        step = cls(parent, source=cell.source, cell_id=cell.cell_id)
        step.node, step.taint = cell.node, cell.taint
        step.written(cell.execution, cell.taint)
        step.seconds, step.has_failed = cell.seconds, cell.status != "ok"
        step.record, step.packages = record, parent.packages
        step.strict = record.strict if record is not None else ""
        return step

    def lacking(self, absent: frozenset[str]) -> Step:
        """Return the same place, for a worker that lacks some variables."""
        step = Step(self.parent, source=self.source, cell_id=self.cell_id)
        for name in Step.__slots__:
            setattr(step, name, getattr(self, name))
        step.absent = absent
        return step

    def follows(self, other: Step) -> bool:
        """Return whether another step is on the path to this one, or is this one."""
        at: Step | None = self
        while at is not None and at.number > other.number:
            at = at.parent
        return at is other

    def is_same_state(self, other: Step) -> bool:
        """Return whether the state here is surely that at another step of the same engine."""
        if self is other or (self.parent is None and other.parent is None):
            return True
        return self.node is not None and (self.node, self.taint) == (other.node, other.taint)

    def path(self) -> list[Step]:
        """Return the steps from the root to this one, both included."""
        found = []
        at: Step | None = self
        while at is not None:
            found.append(at)
            at = at.parent
        found.reverse()
        return found

    def lineages(self) -> tuple[CellLineage, ...] | None:
        """Return the lineage of each cell that led here; None while some is being computed."""
        records = [step.record for step in self.path()[1:]]
        found = tuple(record for record in records if record is not None)
        return found if len(found) == len(records) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """What the worker tells about a cell it has run."""

    source: str
    code: Digest
    execution_count: int
    seconds: Seconds
    size_bytes: Bytes
    status: Literal["ok", "error"]
    report: dict[str, Any]
    """What its own watch has seen."""
    variables: CellVariables | None = None
    """What it did to variables, if that was followed."""


def root_node(packages: Digest) -> NodeId:
    """Return the lineage of the fresh interpreter: the environment it runs in."""
    return NodeId(digest("root", packages))


def taint_after(lineage: CellLineage, before: Taint) -> Taint:
    """Return the taint of the state after a run of a cell, given that of the state before it."""
    return uuid.uuid4().hex if lineage.doubt() else before


def conclude_step(step: Step, cell: Cell, audit: CellAudit, packages: Digest) -> CellLineage:
    """Give a step its lineage; the steps before it must have theirs."""
    parent = step.parent
    if parent is None:
        raise ValueError("the root is no cell")
    if parent.node is None:
        parent.node = root_node(parent.packages or packages)
        parent.strict = parent.node
    step.packages = packages
    step.strict = strict_digest(parent.strict, cell.code, audit.events)
    record = CellLineage(
        node=lineage_digest(parent.node, cell.code, audit.inputs),
        parent=parent.node,
        code=cell.code,
        strict=step.strict,
        number=step.number,
        execution_count=cell.execution_count,
        source=cell.source,
        audit=audit,
        seconds=cell.seconds,
        size_bytes=cell.size_bytes,
        status=cell.status,
        variables=cell.variables,
    )
    # The node last: who sees it may rely on the others.
    step.taint = taint_after(record, parent.taint)
    step.seconds, step.has_failed = cell.seconds, cell.status != "ok"
    step.record, step.node = record, record.node
    return record
