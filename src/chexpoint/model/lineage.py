"""What a cell took in and left behind, and the lineage that follows from it.

A digest is the hexadecimal text of a 128-bit hash, or one of a few words where
there is nothing to hash: see `Input.digests`.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

from chexpoint.model.ids import Bytes, Digest, NodeId, Seconds
from chexpoint.model.variables import CellVariables, variables_from_json

Mechanism = Literal["system calls", "audit hook", "off"]
"""How the inputs of a cell were seen."""

InputKind = Literal["file", "folder", "look", "variable", "network", "packages"]
"""``look`` is a question about a path that was not opened, such as whether it is there."""
EffectKind = Literal["written", "held", "deleted", "transient", "folder"]


class Event(NamedTuple):
    """One thing a process did, in the order in which that process did it.

    A tuple, because a cell that reads ten thousand files has as many.
    """

    process: str
    """Logical name: ``0`` is the worker, ``0.1`` its first child, ``0.1.2`` a grandchild."""
    op: str
    """``read``, ``write``, ``list``, ``delete``, ``rename``, ``exec``, ``connect``, ..."""
    name: str
    """The canonical path, the peer, or the name of the variable."""
    digest: Digest = ""
    """Of what was read; empty for everything else."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Input:
    """One object outside the process that the cell's result may depend on."""

    kind: InputKind
    name: str
    """Canonical path (see `chexpoint.lineage`), variable name, or empty."""
    digests: tuple[Digest, ...]
    """Of what was read, in order; repeats are dropped.

    Words instead of a digest: ``absent``; ``cell:3``, the file was as the third cell of this path
    left it; ``volatile`` it changed while it was read; ``unreadable``; ``fifo``, ``socket`` or
    ``device``; ``size:...`` it was too large or too far away to be hashed, so size and time stand
    for it; ``set``, the variable is what a cell of this path has made of it.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Effect:
    """One file or folder that the cell changed."""

    path: str
    kind: EffectKind
    """``held`` is written and still open; ``transient`` was created and deleted again."""
    digest: Digest = ""
    """Of the contents at the end of the cell, where there are any."""
    size_bytes: Bytes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """A sign that running the cell again may give something else; never part of the lineage."""

    kind: str
    """``time``, ``random``, ``entropy``, ``network``, ``background``, ``own-input``, ..."""
    what: str
    """A sentence for the user."""
    line: int | None = None
    """The line of the cell that caused it, counted from 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellAudit:
    """Everything one cell did to the world, as far as it was seen."""

    inputs: tuple[Input, ...] = ()
    """Canonical: sorted, one for each object."""
    effects: tuple[Effect, ...] = ()
    hints: tuple[Hint, ...] = ()
    events: tuple[Event, ...] = ()
    gaps: tuple[str, ...] = ()
    """Why inputs may have been missed, in sentences; a cell without gaps is complete."""
    mechanism: Mechanism = "system calls"
    environment_reads: int = 0
    """Files of Python and of the system that were read; the environment stands for them."""
    interrupts: int = 0
    """Page faults from disk and involuntary context switches."""

    @property
    def is_complete(self) -> bool:
        """Whether every input was seen."""
        return not self.gaps


@dataclass(frozen=True, slots=True, kw_only=True)
class CellLineage:
    """One executed cell: the node it led to, and why that node is what it is."""

    node: NodeId
    """The lineage g of the state after the cell: H(parent, code, inputs)."""
    parent: NodeId
    code: Digest
    """The code hash h."""
    strict: Digest
    """The lineage by the order of events in each process, as the paper has it."""
    number: int
    """How many cells led here, this one included: its place on the path from the root."""
    execution_count: int
    source: str
    audit: CellAudit
    seconds: Seconds
    size_bytes: Bytes
    """Memory of the state after the cell."""
    status: Literal["ok", "error"] = "ok"
    variables: CellVariables | None = None
    """What it did to variables, if that was followed; no part of what the node is."""

    def bare(self) -> CellLineage:
        """Return it without the contents of variables, as it is kept."""
        if self.variables is None:
            return self
        writes = tuple(replace(group, contents="") for group in self.variables.writes)
        return replace(self, variables=replace(self.variables, writes=writes, seconds=0.0))

    def doubt(self, allowed: Collection[str] = ()) -> str:
        """Return why another run may lead to another state; empty if it surely leads to this one.

        Parameters
        ----------
        allowed
            Kinds of hints that do not matter to the user.
        """
        if self.status != "ok":
            return "it failed"
        if self.audit.gaps:
            return f"not all it read is known: {self.audit.gaps[0]}"
        for hint in self.audit.hints:
            if hint.kind not in allowed:
                return hint.what
        return ""


def audit_from_json(data: dict[str, Any]) -> CellAudit:
    """Return the audit that `to_json` wrote."""
    return CellAudit(
        **{
            **data,
            "inputs": tuple(Input(**{**i, "digests": tuple(i["digests"])}) for i in data["inputs"]),
            "effects": tuple(Effect(**e) for e in data["effects"]),
            "hints": tuple(Hint(**h) for h in data["hints"]),
            "events": tuple(Event(*e) for e in data["events"]),
            "gaps": tuple(data["gaps"]),
        }
    )


def lineage_from_json(data: dict[str, Any]) -> CellLineage:
    """Return the lineage that `to_json` wrote."""
    variables = data.get("variables")
    known = None if variables is None else variables_from_json(variables)
    return CellLineage(**{**data, "audit": audit_from_json(data["audit"]), "variables": known})
