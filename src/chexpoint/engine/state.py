"""The engine's decisions, without any I/O.

`EngineState.handle` takes one event and returns the instructions that follow
from it.  The live worker is always in exactly one `Situation`, and only one
thing is done at a time, so a checkpoint always falls between two cells.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.reviver import Reviver
from chexpoint.engine.situation import Calling, Checking, Idle, Running, Stopping
from chexpoint.errors import InvalidValue, WorkerDied
from chexpoint.lineage import Step
from chexpoint.model import ROOT, Bytes, Checkpoint, Status

_RESERVED_NAME = re.compile(r"c[0-9]+|root", re.IGNORECASE)
_RESTORES = {"restore", "take"}
_MOVES = {*_RESTORES, "go", "record"}
_AT_PLACE = {"checkpoint", "call", "go"}
_IN_TURN = {*_MOVES, *_AT_PLACE, "auto", "drain", "lineage", "load"}
"""What is about the state, or about all that cells did before, and not about the engine."""


class EngineState(Reviver):
    """Everything the supervisor knows; mutated by `handle` alone.  See `Keeper` for settings."""

    def __init__(self, *, overhead: float | None = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.overhead = overhead
        """The share of time that checkpoints of loops may take; None records no loops."""
        self.loops: dict[str, str] | None = None
        """Where a driver wants loops to be recorded."""

    # ------------------------------------------------------------ entry points

    def start(self) -> list[do.Instruction]:
        """Return what begins an engine's life."""
        self._out = []
        self._start_worker(attempt=1)
        return self._out

    def handle(self, event: ev.Event) -> list[do.Instruction]:  # noqa: C901, PLR0912, PLR0915 - a flat table
        """Take one event and return what has to be done, in order."""
        self._out = []
        match event:
            case ev.Submitted(request):
                self._submitted(request)
            case ev.Asked(ask):
                self._asked(ask)
            case ev.WorkerReady():
                self._worker_ready(event)
            case ev.RequestDone():
                self._request_done(event)
            case ev.QueueAborted():
                if not self._runs_again():  # which may fail, as it did before
                    self._abort_waiting()
            case ev.AsyncCell(on):
                self._async_cell = on
            case ev.Forked():
                self._forked(event)
            case ev.Refused(checkpoint, reasons):
                self._fork_refused(checkpoint, reasons)
            case ev.Froze():
                self._froze(event)
            case ev.Thawed():
                self._thawed(event)
            case ev.ThawFailed(checkpoint):
                self._thaw_failed(checkpoint)
            case ev.CheckpointGone(checkpoint):
                self._checkpoint_gone(checkpoint)
            case ev.WorkerGone(how):
                self._worker_gone(how)
            case ev.Looked():
                self._looked_up(event)
            case ev.FilesChecked(lines):
                self._files_checked(lines)
            case ev.Imaged() | ev.ImageFailed():
                self._image_ended(event)
            case ev.ImageLoaded():
                self._image_loaded(event)
            case ev.Bound():
                self._bound(event)
            case ev.Chosen():
                self._chosen(event)
            case ev.Drained(ask):
                self._drained(ask)
            case ev.CallReturned(result):
                self._call_returned(result)
            case ev.Interrupted(cpu_s):
                self._interrupted(cpu_s)
            case ev.TimedOut():
                self._timed_out(event)
            case ev.Measured():
                self._measured(event)
            case ev.ShutdownAsked():
                self._shut_down()
        self._next_image()
        self._pump()
        return self._out

    def _call_returned(self, result: object) -> None:
        if isinstance(self.doing, Calling):
            self.time.worker.touch()
            self._do(do.Answer(self.doing.ask, result))
            self.doing = Idle()

    def status(self) -> Status:
        """Return what a user wants to know about the engine now."""
        return Status(
            worker_pid=self.worker_pid,
            busy=not isinstance(self.doing, Idle),
            head=self.head,
            cells_since_head=self._cells,
            seconds_since_head=self._seconds,
            auto=self.auto,
            budget_bytes=self.budget_bytes,
            held_bytes=self._held_bytes,
            worker_bytes=self._worker_bytes,
            checkpoints=tuple(self._placed(checkpoint) for checkpoint in self.held),
            refused=self.refused,
            missing=self._missing,
            audit=self._audit,
            audit_note=self._audit_note,
            node=self.time.place.node,
            is_ahead=not self.time.is_there,
            reuse=self.reuse,
            graph=self.graph,
            allowed=self.allowed,
            persist=self.persist,
            images=len(self.images),
            unkept=self.unkept,
        )

    def _placed(self, checkpoint: Checkpoint) -> Checkpoint:
        mark = self.time.marked(checkpoint.id)
        return checkpoint if mark is None else replace(checkpoint, node=mark.node, taint=mark.taint)

    def is_short(self, available_bytes: Bytes) -> bool:
        """Return whether so little memory is left that checkpoints must go."""
        return available_bytes < self._reserve_bytes

    # ------------------------------------------------------------ queue

    def _pump(self) -> None:
        while isinstance(self.doing, Idle) and (self.queue or self._root_due):
            first = self.queue[0] if self.queue else None
            is_harmless = isinstance(first, Request) and first.kind == "other"
            if self._root_due and not is_harmless:
                # The fresh interpreter is the way back when everything else is gone.
                self._root_due = False
                self._fork(Ask(token=-1, op="checkpoint", args={"name": ROOT}, automatic=True))
            elif isinstance(first, Request):
                if not self._pump_request(first):
                    return
            elif first is not None and not self._pump_ask(first):
                return

    def _pump_request(self, request: Request) -> bool:
        """Do the next thing for the first request; return whether anything could be done."""
        if request.seq in self._aborted:
            self.queue.popleft()
            self._aborted.discard(request.seq)
            self._do(do.Abort(request))
        elif request.cell is not None and self._must_begin(request, request.cell):
            self._begin(request, request.cell)
        elif request.cell is not None and self._must_look(request, request.cell):
            self._look(request, request.cell)
        elif self._is_known(request):
            self._recall(request)
        elif self._needs_place(request) and not self._is_ready_for(request):
            return self._follow(request)
        else:
            self.queue.popleft()
            self._dispatch(request)
        return True

    def _pump_ask(self, ask: Ask) -> bool:  # noqa: C901 - a table
        """Do the next thing for the first ask; return whether anything could be done."""
        if ask.op in _RESTORES and not self.held.all_frozen():
            return False  # processes on their way to freezing would go with the old worker
        if ask.op == "go" and self._going is not ask:
            self._set_out(ask)
            return True
        if ask.op in _AT_PLACE and not ask.automatic and not self.time.is_there:
            return self._follow(None)
        self.queue.popleft()
        match ask.op:
            case "checkpoint":
                self._fork(ask)
            case "lineage":
                self._do(do.TellLineage(ask, self.time.place))
            case "auto":
                self._set_auto(ask)
            case "drain":
                self._do(do.Drain(ask))
            case "call":
                self.doing = Calling(ask)
                self._do(do.Call(ask.args))
            case "load":
                self._load(ask)
            case "go":
                self.doing = Checking(ask)
                goal = self._goal or self.time.place
                self._do(do.CheckFiles(goal, put_back=ask.args["files"]))
            case "record":
                self._record(ask)
            case _:
                self._restore(ask)
        return True

    def _dispatch(self, request: Request) -> None:
        cell, step = request.cell, None
        if cell is not None:
            step = Step(self.time.worker, source=cell.source, cell_id=cell.cell_id)
            looked = self._looked.pop(request.seq, None)
            if looked is not None:
                self._is_novel = self._is_novel or looked.is_novel
                if looked.why:
                    self._do(do.Remark(request, looked.why))
        elif request.kind == "execute":
            step = Step(self.time.worker)
        self.doing = Running(request, step)
        self._do(do.Dispatch(request, step))

    def _submitted(self, request: Request) -> None:
        if isinstance(self.doing, Stopping):
            self._do(do.Abort(request))
        elif request.kind == "comm" and self._async_cell and isinstance(self.doing, Running):
            self._do(do.Dispatch(request))
        else:
            self.queue.append(request)

    def _asked(self, ask: Ask) -> None:  # noqa: C901, PLR0912, PLR0915 - a table
        try:
            match ask.op:
                case "status":
                    self._do(do.Answer(ask, self.status()))
                case "lineage" if ask.from_cell:
                    # Up to the cell before; of one that runs again, that is behind the place.
                    at = self.time.worker if self._runs_again() else self.time.place
                    self._do(do.TellLineage(ask, at))
                case "recording":
                    self._do(do.TellRecording(ask))
                case "why":
                    self._do(do.TellWhy(ask))
                case "loops":
                    # What a cell logs when it is run for its state was logged before.
                    share = None if self._runs_again() else self.overhead
                    self._do(do.TellLoops(ask, self.loops, share))
                case "record_loops":
                    self.loops = ask.args["place"]
                    self._do(do.Answer(ask))
                case "overhead":
                    if "share" in ask.args:
                        self.overhead = ask.args["share"]
                    self._do(do.Answer(ask, self.overhead))
                case "start":
                    self._start_program(ask)
                case "drain" if isinstance(self.doing, Stopping):
                    self._do(do.Drain(ask))
                case "reuse":
                    self.reuse, self.allowed = ask.args["on"], tuple(ask.args["allow"])
                    self.graph = self.reuse and bool(ask.args.get("graph"))
                    self.keeps_artifacts = self.graph
                    told = do.AllowHints(self.allowed), do.UseGraph(self.graph)
                    self._do(*told, do.Answer(ask, self.reuse))
                # A driver may have heard of the end of a cell before this does.
                case "auto" if ask.from_cell or not isinstance(self.doing, Running):
                    self._set_auto(ask)
                case "persist":
                    self._set_persist(ask)
                case "store":
                    self._do(do.UseStore(ask.args["store"]), do.Answer(ask))
                case "images":
                    self._tell_images(ask)
                case "budget":
                    self.budget_bytes = ask.args["bytes"]
                    self._do(do.Answer(ask, self.budget_bytes), do.Measure(urgent=True))
                case "evict":
                    checkpoint = self.held.resolve(ask.args["ref"])
                    if checkpoint.name == ROOT:
                        raise InvalidValue("the root checkpoint is always held")
                    if checkpoint.id == self._thawing():
                        raise InvalidValue(f"checkpoint {checkpoint.id} is being restored")
                    self._evict(checkpoint.id)
                    self._do(do.Answer(ask, checkpoint))
                case _ if ask.op in _IN_TURN:
                    self._check_ask(ask)
                    if isinstance(self.doing, Stopping):
                        raise WorkerDied("the engine is ending")
                    self._enqueue(ask)
        except Exception as error:
            self._do(do.Answer(ask, error=error))

    def _set_auto(self, ask: Ask) -> None:
        self.auto = ask.args["mode"]
        self._do(do.Answer(ask, self.auto))

    def _runs_again(self) -> bool:
        """Return whether a cell is run only to bring back a state."""
        return isinstance(self.doing, Running) and self.doing.request.kind == "again"

    def _start_program(self, ask: Ask) -> None:
        if self._runs_again():
            self._do(do.Answer(ask))  # what it was for was done when the cell ran first
        else:
            self._waits = ask.from_cell
            self._do(do.StartProgram(ask))

    def _check_ask(self, ask: Ask) -> None:
        """Refuse at once what cannot succeed later, so that a magic can say so."""
        if ask.op in _RESTORES and ask.args["ref"] != ROOT:  # which may be on its way
            self.held.restorable(ask.args["ref"])
        if ask.op in _MOVES and ask.from_cell and any(a.op in _MOVES for a in self._after_cell):
            raise InvalidValue("this cell already goes to another state")
        name = ask.args.get("name") or ""
        if ask.op == "checkpoint" and _RESERVED_NAME.fullmatch(name):
            raise InvalidValue(f"'{name}' is how CHEX names checkpoints: choose another name")

    # ------------------------------------------------------------ running

    def _request_done(self, event: ev.RequestDone) -> None:
        if isinstance(self.doing, Stopping):
            self.doing = Stopping()
            return
        if not isinstance(self.doing, Running):
            return
        if self.doing.request.seq != event.seq:  # a comm message, while an async cell runs
            if self.doing.step is not None:
                self.doing.step.touch()
            return
        request, step = self.doing.request, self.doing.step
        self.doing = Idle()
        if step is not None:
            self._note_cell(event.seq, step)
            step.absent -= event.bound
        self._async_cell = self._waits = False
        self._do(do.ClearTimer("interrupt"))
        if request.kind == "again" and step is not None:
            self._passed(step, event)
        elif step is not None and event.outcome is not None:
            self.time.run(step)
        elif _may_touch(request):
            self.time.worker.touch()
        self._after_request(request, event)

    def _after_request(self, request: Request, event: ev.RequestDone) -> None:
        """Count what was run, and do what a cell has asked for."""
        is_run = request.kind in {"execute", "again"}
        if is_run:
            self._cells += 1
            if event.outcome is not None:  # else no time has gone into the state
                self._seconds += event.seconds
            self._execution_count = event.execution_count
            self._growth_bytes = event.growth_bytes
        asks, self._after_cell = self._after_cell, []
        if request.kind != "again":  # that may be on behalf of an ask of the cell before
            self._cell_asks = len(asks)
        self.queue.extendleft(reversed(asks))
        if is_run and not asks:
            hold = self._is_worth_holding(event.growth_bytes)
            image = self._may_image(request) and self._is_worth_imaging()
            artifacts = request.kind == "execute" and self._may_keep(event)
            artifacts = artifacts and (hold or image or self._is_worth_a_copy(event))
            if hold or image or artifacts:
                args = {"hold": hold, "image": image, "artifacts": artifacts}
                self.queue.appendleft(Ask(-1, "checkpoint", args, automatic=True))


def _may_touch(request: Request) -> bool:
    """Return whether a request that is no cell may have changed the state.

    Front ends ask silently for what they show; what widgets send runs code of the user's.
    """
    if request.is_silent:
        return False
    return request.kind == "comm" or (request.kind == "execute" and request.cell is None)
