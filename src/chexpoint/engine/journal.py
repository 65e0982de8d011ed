"""What an engine tells about its cells, and asks about those of the past."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chexpoint.engine import events as ev
from chexpoint.engine.asks import Ask, CellText
from chexpoint.engine.timeline import Item
from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    CellRecord,
    Checkpoint,
    ImageInfo,
    ImageName,
    KnownImage,
    RecordingStatus,
)


@dataclass(frozen=True, slots=True)
class Told:
    """Something the user should know about the recording, in one line."""

    text: str


Result = ev.Looked | ev.FilesChecked | ev.Chosen | ev.Drained | Told


class Journal(Protocol):
    """Keeps what cells did, and finds it again.

    All methods are called by the supervisor's loop, in the order in which things happened, and
    none may block: the work is done elsewhere, and what comes of it is fetched with `results`.
    """

    def attach(self, wake: Callable[[], None]) -> None:
        """Called once, before anything else; ``wake`` may be called by any thread."""

    def started(self, startup: Sequence[str], ignored: Sequence[str]) -> None:
        """A fresh worker has started: what runs before its first cell, and which files are its."""

    def look(self, seq: int, cell: CellText, place: Step, worker: Step) -> None:
        """Find out whether a cell must be run at a place; the result is `Looked`.

        The lineage of the place is known, unless it is the root.  The worker is somewhere else if
        that was not so before.
        """

    def use_graph(self, on: bool) -> None:
        """Look for cells in the experiment graph, too; or no longer."""

    def decisions(self) -> dict[str, str]:
        """Return what was decided about variables by the graph; may be called by any thread."""

    def follows_variables(self) -> bool:
        """Return whether it wants to know what cells do to variables."""

    def record(self, step: Step, cell: CellRecord, *, is_again: bool) -> None:
        """A cell has run; ``is_again`` if only to bring the worker to a place."""

    def recalled(self, step: Step) -> None:
        """A cell was answered from an earlier run."""

    def begin(self, name: str, place: Step, about: Mapping[str, Any]) -> None:
        """A version begins at a place; ``origin`` and ``parameters`` may be known."""

    def drain(self, ask: Ask) -> None:
        """Tell with `Drained` when all before is written."""

    def pause(self, on: bool) -> None:
        """Record no more, or go on."""

    def allow(self, kinds: Sequence[str]) -> None:
        """Let cells be reused in spite of these kinds of hints."""

    def check_files(self, place: Step, *, put_back: bool) -> None:
        """Compare the files on disk with what a state has seen; the result is `FilesChecked`."""

    def hold(self, checkpoints: Sequence[Checkpoint]) -> None:
        """These checkpoints are held now."""

    def keep_image(self, step: Step, image: KnownImage) -> None:
        """There is an image of the state at a step, whose lineage is known."""

    def forget_image(self, name: ImageName) -> None:
        """An image is of no use any more."""

    def store(self) -> str:
        """Return where images are written to; may be called by any thread."""

    def artifact_store(self) -> str:
        """Return where artifacts are written to; may be called by any thread."""

    def note_loads(self, items: Sequence[Item], bound: ev.Bound) -> None:
        """Artifacts were loaded, or one could not be."""

    def keep_artifact(self, artifact: ArtifactId, info: ImageInfo | None, why: str) -> None:
        """An artifact is in the store now, or could not be stored."""

    def loops(self) -> dict[str, str] | None:
        """Return where loops are recorded: ``folder``, ``store`` and ``session``; None if not."""

    def results(self) -> list[Result]:
        """Return what has come out since the last call."""

    def status(self) -> RecordingStatus:
        """Return what is being recorded; may be called by any thread."""

    def close(self) -> None:
        """Called last: wait until everything is written, but not for ever."""
