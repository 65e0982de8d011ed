"""The path of executed cells that led to the present state, and to each checkpoint.

History is the truth, and it is a path: whatever cells are run in whatever
order, a state is what its path made of the fresh interpreter.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any, Literal

from chexpoint.lineage.digest import digest
from chexpoint.lineage.equality import lineage_digest, strict_digest
from chexpoint.model import Bytes, CellAudit, CellLineage, Digest, NodeId, Seconds, Taint


class Step:
    """One executed cell, and so one place on a path; the root is the fresh interpreter."""

    __slots__ = ("node", "number", "packages", "parent", "record", "strict")

    def __init__(self, parent: Step | None) -> None:
        self.parent = parent
        self.number: int = parent.number + 1 if parent is not None else 0
        self.packages: Digest | None = None
        """The environment fingerprint after it, once known."""
        self.node: NodeId | None = None
        """Its lineage, once the digests of its inputs are known."""
        self.strict: Digest = ""
        self.record: CellLineage | None = None

    def follows(self, other: Step) -> bool:
        """Return whether another step is on the path to this one, or is this one."""
        at: Step | None = self
        while at is not None and at.number > other.number:
            at = at.parent
        return at is other


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


class Trail:
    """Where the live state is, and where each checkpoint was taken."""

    def __init__(self) -> None:
        self.position = Step(None)
        self._checkpoints: dict[str, Step] = {}

    def next_step(self) -> Step:
        """Return the step that a cell which now starts will be."""
        return Step(self.position)

    def fresh(self) -> None:
        """A fresh interpreter has started."""
        self.position = Step(None)

    def mark(self, checkpoint: str) -> None:
        """A checkpoint is taken here."""
        self._checkpoints[checkpoint] = self.position

    def go(self, checkpoint: str) -> None:
        """A checkpoint is restored."""
        self.position = self._checkpoints.get(checkpoint) or Step(None)

    def forget(self, checkpoint: str) -> None:
        self._checkpoints.pop(checkpoint, None)

    def path(self) -> tuple[CellLineage, ...] | None:
        """Return the lineage of each cell that led here; None while some is being computed."""
        found = []
        at = self.position
        while at.parent is not None:
            if at.record is None:
                return None
            found.append(at.record)
            at = at.parent
        return tuple(reversed(found))


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
    step.node = lineage_digest(parent.node, cell.code, audit.inputs)
    step.strict = strict_digest(parent.strict, cell.code, audit.events)
    step.record = CellLineage(
        node=step.node,
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
    )
    return step.record
