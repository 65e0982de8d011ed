"""The supervisor's side of the journal: gathers outputs until the lineage of a cell is known."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.journal import Journal, Result
from chexpoint.engine.message import published
from chexpoint.engine.outputs import OutputCollector
from chexpoint.lineage import Step, differences
from chexpoint.model import Bytes, CellLineage, CellRecord, Checkpoint, Hint, RecordingStatus

# What a cell shows beyond this is not kept, and the cell not reused.
_LARGEST_OUTPUT = 64 * 2**20


@dataclass(slots=True)
class _Open:
    """The cell that is running."""

    step: Step
    message: str
    is_again: bool
    collector: OutputCollector = field(default_factory=OutputCollector)
    displays: set[str] = field(default_factory=set)
    """The ids of what it has displayed."""
    size: Bytes = 0
    """How much it has shown."""
    reach: str = ""
    """What it has done to the front end that its outputs do not show, in a sentence."""

    def heard(self, kind: str, content: dict[str, Any], size: int) -> None:
        """Take a message that it published."""
        self.size += size
        if self.size > _LARGEST_OUTPUT:
            self.collector = OutputCollector()
            self.reach = "it shows more than is kept"
            return
        self.collector.add(kind, content)
        display = content.get("transient", {}).get("display_id")
        if kind == "display_data" and display is not None:
            self.displays.add(display)
        elif kind == "update_display_data" and display not in self.displays:
            self.reach = "it changes what another cell shows"
        elif kind.startswith("comm_"):
            self.reach = "it talks to a widget, which needs the live state"

    def record(self, lineage: CellLineage) -> CellRecord:
        """Return what is to be kept of it."""
        step = self.step
        return CellRecord(
            lineage=_with_reach(lineage, self.reach),
            taint=step.taint,
            parent_taint=step.parent.taint if step.parent is not None else "",
            outputs=self.collector.outputs,
            cell_id=step.cell_id,
        )


class Recording:
    """Follows cells from their start to their record.

    Called by the supervisor's loop alone.  Without a journal nothing is kept.
    """

    def __init__(self, journal: Journal | None, wake: Callable[[], None]) -> None:
        self._journal = journal
        self._store: str | None = None
        self._open: _Open | None = None
        self._line: deque[_Open | Callable[[Journal], None]] = deque()
        self._concluded: dict[Step, CellLineage] = {}
        self._looks: list[do.Look] = []
        self._results: list[Result] = []
        if journal is not None:
            journal.attach(wake)

    # ------------------------------------------------------------ a cell runs

    def worker_started(self, startup: Sequence[str], ignored: Sequence[str]) -> None:
        """A fresh worker is ready."""
        self._open = None
        if self._journal is not None:
            self._journal.started(startup, ignored)

    def started(self, step: Step, message: str, *, is_again: bool) -> None:
        """A cell is about to be given to the worker."""
        self._open = _Open(step, message, is_again)

    def heard(self, frames: Sequence[bytes]) -> bool:
        """Take a message that the worker publishes; return whether the driver may have it, too."""
        cell = self._open
        if cell is None or (self._journal is None and not cell.is_again):
            return True
        kind, parent, content = published(frames)
        if cell.message != parent:
            return True
        if kind != "status":
            # As Jupyter's sessions have it: what cannot be encoded goes as it is.
            text = content.decode("utf-8", "surrogateescape")
            cell.heard(kind, json.loads(text), len(content))
        return not cell.is_again or kind.startswith("comm_")

    def printed(self, name: str, text: str) -> bool:
        """Take text that came past the worker's Python; return whether the driver may have it."""
        cell = self._open
        if cell is None:
            return True
        cell.heard("stream", {"name": name, "text": text}, len(text))
        return not cell.is_again

    def ended(self) -> None:
        """The cell has ended and was one; its lineage comes later."""
        cell, self._open = self._open, None
        if cell is not None and self._journal is not None:
            self._line.append(cell)

    def forgotten(self) -> None:
        """What was running is no cell, or will not come to an end."""
        self._open = None

    def concluded(self, step: Step, lineage: CellLineage) -> None:
        """The lineage of a cell is known."""
        if self._journal is not None:
            self._concluded[step] = lineage
            self._move_up(self._journal)

    def _move_up(self, journal: Journal) -> None:
        """Tell the journal what can be told, in the order in which it happened."""
        while self._line:
            first = self._line[0]
            if not isinstance(first, _Open):
                first(journal)
            elif (lineage := self._concluded.pop(first.step, None)) is not None:
                journal.record(first.step, first.record(lineage), is_again=first.is_again)
            else:
                return
            self._line.popleft()

    def _in_turn(self, tell: Callable[[Journal], None]) -> None:
        """Tell the journal something once the cells before it are recorded."""
        if self._journal is not None:
            self._line.append(tell)
            self._move_up(self._journal)

    # ------------------------------------------------------------ the journal

    def results(self) -> list[Result]:
        """Ask what can be asked by now, and return what has come out."""
        if self._journal is None:
            found: list[Result] = [ev.Looked(k.request.seq, k.place) for k in self._looks]
            found += self._results
            self._looks, self._results = [], []
            return found
        waiting = []
        for look in self._looks:
            is_known = look.place.node is not None or look.place.parent is None
            if self._line or not is_known:  # what ran before may be what is looked for
                waiting.append(look)
            else:
                self._journal.look(look.request.seq, look.cell, look.place, look.worker)
        self._looks = waiting
        return self._journal.results()

    def obey(self, instruction: do.Instruction) -> None:  # noqa: C901, PLR0912 - a table
        """Pass an instruction on to the journal."""
        journal = self._journal
        match instruction:
            case do.Look():
                self._looks.append(instruction)
            case do.UseStore(store):
                self._store = store
            case do.CheckFiles() if journal is None:
                self._results.append(ev.FilesChecked(()))
            case do.Drain(ask) if journal is None:
                self._results.append(ev.Drained(ask))
            case _ if journal is None:
                pass
            case do.CheckFiles(place, put_back):
                self._in_turn(lambda journal: journal.check_files(place, put_back=put_back))
            case do.BeginVersion(name, place, about):
                self._in_turn(lambda journal: journal.begin(name, place, about))
            case do.Drain(ask):
                self._in_turn(lambda journal: journal.drain(ask))
            case do.Pause(on):
                self._in_turn(lambda journal: journal.pause(on))
            case do.AllowHints(kinds):
                journal.allow(kinds)
            case do.UseGraph(on):
                journal.use_graph(on)
            case do.NoteLoads(items, bound):
                self._in_turn(lambda journal: journal.note_loads(items, bound))
            case do.KeepArtifact(artifact, info, why):
                self._in_turn(lambda journal: journal.keep_artifact(artifact, info, why))
            case do.KeepImage(step, image):
                self._in_turn(lambda journal: journal.keep_image(step, image))
            case do.ForgetImage(name):
                self._in_turn(lambda journal: journal.forget_image(name))

    def recalled(self, step: Step) -> None:
        self._in_turn(lambda journal: journal.recalled(step))

    def hold(self, checkpoints: tuple[Checkpoint, ...]) -> None:
        if self._journal is not None:
            self._journal.hold(checkpoints)

    def store(self) -> str | None:
        """Return where images are written to, if they can be kept."""
        return self._store if self._journal is None else self._journal.store()

    def artifact_store(self) -> str | None:
        """Return where artifacts are written to, if they are."""
        return None if self._journal is None else self._journal.artifact_store()

    def decisions(self) -> dict[str, str]:
        """Return what was decided about variables, in sentences."""
        return {} if self._journal is None else self._journal.decisions()

    def follows_variables(self) -> bool:
        """Return whether anybody wants to know what cells do to variables."""
        return self._journal is not None and self._journal.follows_variables()

    def loops(self) -> dict[str, str] | None:
        """Return where loops are recorded, if they are."""
        return None if self._journal is None else self._journal.loops()

    def status(self) -> RecordingStatus:
        return self._journal.status() if self._journal is not None else RecordingStatus(is_on=False)

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()


def _with_reach(lineage: CellLineage, reach: str) -> CellLineage:
    """Return a lineage that tells that the cell cannot be shown again without being run.

    The state after it is none the less what it is, so this is no part of the taint.
    """
    if not reach:
        return lineage
    audit = lineage.audit
    hints = (*audit.hints, Hint(kind="front-end", what=reach))
    return replace(lineage, audit=replace(audit, hints=hints))


def strayed(step: Step) -> str:
    """Return what to tell the user if a cell that was run again may have led to another state."""
    wanted, record = step.again_of, step.record
    if wanted is None or record is None or wanted.node is None:
        return ""
    line = step.source.strip().partition("\n")[0][:60]
    if wanted.node == record.node:
        doubt = record.doubt()
        if not doubt or wanted.has_failed or step.has_failed:
            return ""
        return f"a cell was run again that may have given something else: {line}  ({doubt})"
    parent = step.parent
    if parent is not None and parent.again_of is not None and parent.again_of.node != parent.node:
        return ""  # said already
    reasons = differences(wanted.record, record) if wanted.record is not None else []
    return (
        f"a cell that was run again to bring back the state led to another one: {line}"
        f"  {' '.join(reasons[:1])}".rstrip()
        + "  What was shown under the cells after it belongs to an earlier run: run them again."
    )
