"""What happens to an engine, as plain values.

`EngineState.handle` turns each into `instructions`, and the supervisor does the
I/O.  A test can therefore play any order of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.timeline import Way
from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    Bytes,
    CellLineage,
    CheckpointId,
    Hazard,
    ImageInfo,
    ImageName,
    Mechanism,
    Output,
    PathCell,
    Seconds,
)

TimerName = Literal["start", "fork", "thaw", "image", "look", "interrupt", "stop"]


@dataclass(frozen=True, slots=True)
class Submitted:
    """A request came in from the driver."""

    request: Request


@dataclass(frozen=True, slots=True)
class Asked:
    """A driver, or the running cell, asks something of the engine."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class WorkerReady:
    """A fresh worker has started."""

    pid: int
    audit: Mechanism = "off"
    """How its cells are audited."""
    audit_note: str = ""


@dataclass(frozen=True, slots=True)
class RequestDone:
    """The worker has finished a request."""

    seq: int
    seconds: Seconds = 0.0
    execution_count: int = 0
    growth_bytes: Bytes = 0
    """How much the worker has grown since its last checkpoint, roughly."""
    outcome: Literal["ok", "error"] | None = "ok"
    """How the cell ended; None if it was none, and the state is what it was."""
    bound: frozenset[str] = frozenset()
    """Variables that it has written or deleted, as far as that was followed."""
    keepable_bytes: Bytes = 0
    """How large those are together that may be worth storing for others."""


@dataclass(frozen=True, slots=True)
class QueueAborted:
    """A cell failed: the execute requests waiting behind it are not to run."""


@dataclass(frozen=True, slots=True)
class AsyncCell:
    """The running cell can (or can no longer) receive comm messages while it runs."""

    on: bool


@dataclass(frozen=True, slots=True)
class Forked:
    """The worker has forked a checkpoint, and nothing speaks against it."""

    checkpoint: CheckpointId
    seconds: Seconds = 0.0
    waited_s: Seconds = 0.0
    """How long user code has waited for the end of the fork before this one."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The worker did not fork, or found afterwards that it should not have."""

    checkpoint: CheckpointId
    reasons: tuple[Hazard, ...]


@dataclass(frozen=True, slots=True)
class Froze:
    """A checkpoint process waits on its own connection."""

    checkpoint: CheckpointId
    pid: int
    lost: tuple[str, ...] = ()
    """What a restore of it cannot bring back, in words."""


@dataclass(frozen=True, slots=True)
class Thawed:
    """A checkpoint process has gone live."""

    checkpoint: CheckpointId
    pid: int
    kept: bool
    """Whether it left a frozen successor behind."""
    seconds: Seconds = 0.0
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ThawFailed:
    """A checkpoint process died on its way to going live."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class CheckpointGone:
    """A frozen checkpoint process has died."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class WorkerGone:
    """The live worker has died."""

    how: str


@dataclass(frozen=True, slots=True)
class CallReturned:
    """The worker has answered a `Call`."""

    result: Any


@dataclass(frozen=True, slots=True)
class Interrupted:
    """The user interrupted; the worker has been signalled."""

    cpu_s: Seconds
    """CPU time the worker had used by then."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """A timer set by `SetTimer` has run down."""

    timer: TimerName
    cpu_s: Seconds = 0.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Memory was measured."""

    sizes: Mapping[CheckpointId, Bytes]
    held_bytes: Bytes
    worker_bytes: Bytes
    available_bytes: Bytes


@dataclass(frozen=True, slots=True)
class Found:
    """A cell that ran before in the state that the user is at, and need not run again."""

    cell: PathCell
    record: CellLineage
    outputs: tuple[Output, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Looked:
    """It is known whether a waiting cell must be run."""

    seq: int
    place: Step
    """Where the user was when the question was asked."""
    found: Found | None = None
    why: str = ""
    """Why a cell that ran here before must be run again."""
    is_novel: bool = False
    """Whether it never ran here before, so that nothing after it did either."""
    go: tuple[PathCell, ...] | None = None
    """The cells before it, if it belongs to another version than the present one."""
    way: Way | None = None
    """How the worker gets to the place if only what the cell needs has to be there."""
    problem: str = ""
    """Why it cannot be run at all."""


@dataclass(frozen=True, slots=True)
class FilesChecked:
    """The files on disk were compared with what the state at the place has seen."""

    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Imaged:
    """An image of a state has been written."""

    info: ImageInfo


@dataclass(frozen=True, slots=True)
class ImageFailed:
    """An image could not be written."""

    name: ImageName
    why: str


@dataclass(frozen=True, slots=True)
class ImageLoaded:
    """The worker has the state of an image now, or else has not changed."""

    name: ImageName
    why: str = ""
    """Why it could not be loaded; empty if it was."""
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Bound:
    """The worker has the variables that it was to load, or else has not changed."""

    why: str = ""
    """Why they could not be loaded; empty if they were."""
    artifact: ArtifactId | None = None
    """The one that could not be loaded."""
    is_lost: bool = False
    """Whether it is missing or damaged, and not only of no use here."""
    seconds: tuple[Seconds, ...] = ()
    """What loading each of them took."""
    is_interrupted: bool = False


@dataclass(frozen=True, slots=True)
class Drained:
    """All that cells did so far is written."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Chosen:
    """It is known what of a cell that has run is worth storing for others."""

    step: Step
    groups: tuple[tuple[ArtifactId, tuple[str, ...]], ...]
    """Artifacts, and the variables that they are."""
    unused: frozenset[ArtifactId] = frozenset()
    """Artifacts of earlier cells that are gone now, and no cell has used them."""
    write_s: Seconds = 0.0
    """How long writing the groups is thought to take."""


@dataclass(frozen=True, slots=True)
class ShutdownAsked:
    """The driver wants the engine to end."""


Event = (
    Submitted
    | Asked
    | WorkerReady
    | RequestDone
    | QueueAborted
    | AsyncCell
    | Forked
    | Refused
    | Froze
    | Thawed
    | ThawFailed
    | CheckpointGone
    | WorkerGone
    | CallReturned
    | Interrupted
    | TimedOut
    | Measured
    | Looked
    | FilesChecked
    | Imaged
    | ImageFailed
    | ImageLoaded
    | Bound
    | Chosen
    | Drained
    | ShutdownAsked
)
