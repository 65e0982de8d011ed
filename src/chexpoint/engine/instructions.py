"""What an engine has to do, as plain values: what `EngineState` makes of `events`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chexpoint.engine.asks import Ask, CellText, Request
from chexpoint.engine.events import Bound, Found, TimerName
from chexpoint.engine.timeline import Item
from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    CheckpointId,
    ImageInfo,
    ImageName,
    KnownImage,
    Seconds,
)


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
    has_more: bool = False
    """Whether other variables of the same checkpoint are to be written after these."""


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
