"""What happens to an engine (events) and what it then has to do (instructions).

Both are plain values: `EngineState.handle` turns the one into the other, and
the supervisor does the I/O.  A test can therefore play any order of events.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chexpoint.engine.timeline import Item, Way
from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    Bytes,
    CellLineage,
    CheckpointId,
    Hazard,
    ImageInfo,
    ImageName,
    KnownImage,
    Mechanism,
    Output,
    PathCell,
    Seconds,
)

# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True, slots=True)
class CellText:
    """What a request says of the cell it runs."""

    source: str = field(repr=False)
    cell_id: str = ""
    """How the notebook calls the cell."""
    version: str | None = None
    """The version that its first line, ``%%chex_record NAME``, names."""
    begins: str | None = None
    """The version that its first line, ``%chex_record NAME``, begins, if code follows."""
    needs_state: bool = True
    """Whether anything in it looks at the state; magics of CHEX alone do not."""
    is_reusable: bool = True
    """Whether its results may stand for it: not if it has magics of CHEX beside other code."""


@dataclass(frozen=True, slots=True)
class Request:
    """A Jupyter request for the worker, passed on as it came."""

    seq: int
    kind: Literal["execute", "again", "comm", "state", "other"]
    """``again`` is a cell that the engine itself runs to bring the worker to a place; ``state`` is
    a question about the state, such as what a name can be completed to."""
    frames: tuple[bytes, ...] = field(repr=False)
    control: bool = False
    """Whether it came on the control channel."""
    cell: CellText | None = None
    """If it is an ordinary cell of a notebook: not silent, and kept in the history."""
    is_silent: bool = False
    """Whether a front end asks it for itself, without showing it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Something wanted of the engine itself, such as a checkpoint."""

    token: int
    """Identifies the asker to whoever delivers the answer."""
    op: Literal[
        "auto",
        "budget",
        "call",
        "checkpoint",
        "drain",
        "evict",
        "go",
        "lineage",
        "loops",
        "overhead",
        "persist",
        "store",
        "images",
        "load",
        "record",
        "record_loops",
        "recording",
        "restore",
        "reuse",
        "start",
        "status",
        "take",
        "why",
    ]
    args: Mapping[str, Any] = field(default_factory=dict)
    from_cell: bool = False
    """Asked by a magic in the running cell: done when that cell ends."""
    automatic: bool = False
    """Nobody asked: taken by the holding rule."""


# ---------------------------------------------------------------- events


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

# ---------------------------------------------------------------- instructions

TimerName = Literal["start", "fork", "thaw", "image", "look", "interrupt", "stop"]


@dataclass(frozen=True, slots=True)
class StartWorker:
    """Start a fresh worker process."""


@dataclass(frozen=True, slots=True)
class Welcome:
    """Begin to audit the fresh worker, which is at a step."""

    step: Step


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send a request to the worker; a cell will be the given step if it turns out to be one."""

    request: Request
    step: Step | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """Find out whether a cell must be run, and answer with `Looked`."""

    request: Request
    cell: CellText
    place: Step
    worker: Step
    """Where the worker is."""


@dataclass(frozen=True, slots=True)
class Recall:
    """Show the user what a cell gave when it ran before."""

    request: Request
    step: Step
    found: Found
    execution_count: int


@dataclass(frozen=True, slots=True)
class Remark:
    """Tell why a cell is about to be run although it ran before."""

    request: Request
    why: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Tell how far the worker is on its way to the place."""

    request: Request | None
    """The cell that waits for it; None if it is the cell that is being answered."""
    done: int
    total: int
    spent: Seconds
    left: Seconds
    """As far as can be told from earlier runs."""
    execution_count: int = 0
    """That the cell which waits will probably have."""


@dataclass(frozen=True, slots=True)
class BeginVersion:
    """Record what is run from now on as a version that begins at a place."""

    name: str
    place: Step
    about: Mapping[str, Any] = field(default_factory=dict)
    """``origin`` and ``parameters``, if they are known."""


@dataclass(frozen=True, slots=True)
class Drain:
    """Answer an ask with `Drained` once all that cells did so far is written."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Pause:
    """Record no more, or go on recording."""

    on: bool


@dataclass(frozen=True, slots=True)
class TellRecording:
    """Answer an ask with what is being recorded."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class TellWhy:
    """Answer an ask with what was decided about variables, in sentences."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class TellLoops:
    """Answer an ask with where the loops of the running cell are recorded."""

    ask: Ask
    place: dict[str, str] | None
    """Where a driver wants them; else the journal knows."""
    share: float | None
    """Of the time that checkpoints may take; None to record none."""


@dataclass(frozen=True, slots=True)
class StartProgram:
    """Start our own command line for the running cell, and answer with where it is."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class AllowHints:
    """Let cells be reused in spite of these kinds of hints."""

    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UseGraph:
    """Look for cells in the experiment graph, too; or no longer."""

    on: bool


@dataclass(frozen=True, slots=True)
class CheckFiles:
    """Compare the files on disk with what a state has seen, and answer with `FilesChecked`."""

    place: Step
    put_back: bool


@dataclass(frozen=True, slots=True)
class Fork:
    """Tell the idle worker to fork a checkpoint."""

    checkpoint: CheckpointId
    for_image: bool = False
    """Whether a copy of it will write an image: what that needs is then loaded first."""


@dataclass(frozen=True, slots=True)
class Thaw:
    """Tell a frozen checkpoint to go live, leaving a successor behind if ``keep``."""

    checkpoint: CheckpointId
    keep: bool


@dataclass(frozen=True, slots=True)
class KillWorker:
    """End the live worker and what it started; the state is to be another."""


@dataclass(frozen=True, slots=True)
class Adopt:
    """Make the process that has just thawed the live worker, which is at a step now."""

    checkpoint: CheckpointId
    step: Step


@dataclass(frozen=True, slots=True)
class Drop:
    """End a checkpoint process."""

    checkpoint: CheckpointId


@dataclass(frozen=True, slots=True)
class MakeImage:
    """Write the state of a checkpoint to the store, or that of the worker, which then waits."""

    name: ImageName
    checkpoint: CheckpointId | None
    like: ImageName | None
    """An image of a state that is likely to be similar."""
    cost_s: Seconds
    only: tuple[str, ...] = ()
    """Variables that it is to hold alone; all if there are none."""


@dataclass(frozen=True, slots=True)
class GiveUpImage:
    """End the process that writes an image."""

    name: ImageName


@dataclass(frozen=True, slots=True)
class KeepImage:
    """Note in the catalog that there is an image of the state at a step."""

    step: Step
    image: KnownImage
    """Its node and taint are those of the step once they are known."""


@dataclass(frozen=True, slots=True)
class ForgetImage:
    """An image is of no use."""

    name: ImageName


@dataclass(frozen=True, slots=True)
class LoadImage:
    """Give the worker the state of an image, except for some variables."""

    name: ImageName
    keep: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class UseStore:
    """Have images written to a store, and read from it, although nothing is recorded."""

    store: str


@dataclass(frozen=True, slots=True)
class Bind:
    """Have the worker load some variables and forget others."""

    items: tuple[Item, ...]
    unbind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NoteLoads:
    """Some artifacts were loaded, or one could not be."""

    items: tuple[Item, ...]
    bound: Bound


@dataclass(frozen=True, slots=True)
class KeepArtifact:
    """An artifact is in the store now, or could not be stored."""

    artifact: ArtifactId
    info: ImageInfo | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Settle:
    """The worker has come to a step without running its cell."""

    step: Step


@dataclass(frozen=True, slots=True)
class Call:
    """Have the idle worker do a command and answer with `CallReturned`."""

    args: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Abort:
    """Tell the driver that a queued request will not run."""

    request: Request


@dataclass(frozen=True, slots=True)
class Fail:
    """Tell the driver that a request ended because of the engine, not of its code."""

    request: Request
    ename: str
    evalue: str
    execution_count: int = 0
    """The number it would have had."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer an ask; ``error`` carries the exception instead of a result."""

    ask: Ask
    result: Any = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class TellLineage:
    """Answer an ask with the lineage of the state at a place, once its digests are known."""

    ask: Ask
    place: Step


@dataclass(frozen=True, slots=True)
class Hold:
    """Keep back what the worker sends to the driver, in order, until `Release`."""


@dataclass(frozen=True, slots=True)
class Release:
    """Deliver what was held."""


@dataclass(frozen=True, slots=True)
class Note:
    """Show the user a line, under the cell that is being answered."""

    text: str
    error: bool = False


@dataclass(frozen=True, slots=True)
class Mention:
    """Tell the user something that no cell has asked for, when it can be shown."""

    text: str


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Send `TimedOut` after so many seconds; replaces a timer of the same name."""

    timer: TimerName
    seconds: Seconds


@dataclass(frozen=True, slots=True)
class ClearTimer:
    timer: TimerName


@dataclass(frozen=True, slots=True)
class Measure:
    """Measure memory soon, or at once if checkpoints may have to go."""

    urgent: bool = False


@dataclass(frozen=True, slots=True)
class InterruptAgain:
    """Signal the worker, which has not reacted to the user's interrupt, once more."""


@dataclass(frozen=True, slots=True)
class AskWorkerToExit:
    """Let the worker end by itself, running its exit handlers."""


@dataclass(frozen=True, slots=True)
class Stop:
    """End the engine now."""

    how: str = ""


Instruction = (
    StartWorker
    | Welcome
    | Dispatch
    | Look
    | Recall
    | Remark
    | Progress
    | BeginVersion
    | Drain
    | Pause
    | TellLoops
    | TellRecording
    | TellWhy
    | StartProgram
    | AllowHints
    | UseGraph
    | CheckFiles
    | Fork
    | Thaw
    | KillWorker
    | Adopt
    | Drop
    | MakeImage
    | GiveUpImage
    | KeepImage
    | ForgetImage
    | LoadImage
    | UseStore
    | Bind
    | NoteLoads
    | KeepArtifact
    | Settle
    | Call
    | Abort
    | Fail
    | Answer
    | TellLineage
    | Hold
    | Release
    | Note
    | Mention
    | SetTimer
    | ClearTimer
    | Measure
    | InterruptAgain
    | AskWorkerToExit
    | Stop
)
