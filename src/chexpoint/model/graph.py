"""The experiment graph: cells, and the variables that they read and write.

An *artifact* is a group as one cell left it; it is known by how it was computed, not by
what it holds.  An *operation* is a cell together with all that it depends on: its code, the
packages, the artifacts that it reads, and its inputs from outside.  The same operation gives the
same artifacts, whoever runs it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from chexpoint.model.ids import ArtifactId, Bytes, Digest, OperationId, Seconds
from chexpoint.model.record import Output
from chexpoint.model.variables import ModelScore, VariableGroup


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """A variable that an operation depends on."""

    name: str
    artifact: ArtifactId
    digest: Digest = ""
    """Of the artifact's contents, where it is known: equal contents are as good."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """What the graph knows about a group of variables; for ever, whether it is stored or not."""

    id: ArtifactId
    operation: OperationId
    group: VariableGroup
    """Without contents."""
    frequency: int = 1
    """In how many versions it occurred."""
    score: float | None = None
    """Of the model that it holds; the best one told."""
    stored: StoredArtifact | None = None
    used: float = 0.0
    """When it was computed or loaded last, in seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredArtifact:
    """Where the contents of an artifact are."""

    image: str
    """In the store of images; empty if they are in the graph's own table."""
    stored_bytes: Bytes = 0
    """What it added to the store."""
    load_s: Seconds = 0.0
    """How long loading it takes: measured, or else estimated."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A cell with all that it depends on."""

    id: OperationId
    code: Digest
    packages: Digest
    """The environment fingerprint it ran with."""
    source: str = ""
    seconds: Seconds = 0.0
    reads: tuple[Read, ...] = ()
    writes: tuple[ArtifactId, ...] = ()
    deleted: tuple[str, ...] = ()
    sticky: str = ""
    doubt: str = ""
    """Why its results cannot stand for another run."""
    frequency: int = 1
    user: str = ""
    time: float = 0.0
    """When it ran last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedOperation:
    """An operation that has run, with all that is kept of it."""

    operation: Operation
    artifacts: tuple[Artifact, ...]
    """What it wrote."""
    lineage: dict[str, Any] = field(repr=False)
    """JSON of its `CellLineage`, for whoever asks whether its inputs are the same now."""
    outputs: tuple[Output, ...] = field(default=(), repr=False)
    scores: tuple[ModelScore, ...] = ()
