"""The engine's decisions, without any I/O.

`EngineState.handle` takes one event and returns the instructions that follow
from it.  The live worker is always in exactly one `Situation`, and only one
thing is done at a time, so a checkpoint always falls between two cells.
Whatever dies, the way out is the same: fail what was running, then `_revive`
from the nearest good checkpoint, or start afresh.
"""

from __future__ import annotations

import re
from collections import deque
from typing import TYPE_CHECKING

from chexpoint.engine import events as ev
from chexpoint.engine.holdings import Holdings, title
from chexpoint.engine.policy import HoldingRule
from chexpoint.engine.situation import (
    Calling,
    Forking,
    Idle,
    Running,
    Situation,
    Starting,
    Stopping,
    Thawing,
)
from chexpoint.errors import (
    ForkRefused,
    InvalidValue,
    RestoreFailed,
    UnknownCheckpoint,
    WorkerDied,
)
from chexpoint.model import (
    ROOT,
    AutoMode,
    Bytes,
    Checkpoint,
    CheckpointId,
    Hazard,
    Mechanism,
    RestoreReport,
    Seconds,
    Status,
    format_seconds,
)

if TYPE_CHECKING:
    from chexpoint.engine.events import Ask, Event, Instruction, Request

_START_TIMEOUT_S = 60.0
# A fork of tens of gigabytes in small pages takes about a second; this is for one that hangs.
_FORK_TIMEOUT_S = 60.0
_THAW_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 3.0
# An interrupted worker that uses no CPU for this long is not computing: it hangs.
_HANG_S = 3.0
_HANG_CPU_S = 0.05
# What a checkpoint of anything costs: interpreter pages that the worker dirties again.
_BASE_BYTES = 8 * 1024**2
_RESERVED_NAME = re.compile(r"c[0-9]+|root", re.IGNORECASE)
_MAX_START_ATTEMPTS = 2
# Each is a process; systems allow a user a few thousand.
_MAX_HELD = 256
_RESTORES = {"restore", "take"}


class EngineState:
    """Everything the supervisor knows; mutated by `handle` alone."""

    def __init__(
        self,
        *,
        budget_bytes: Bytes,
        auto: AutoMode = "rule",
        rule: HoldingRule | None = None,
        reserve_bytes: Bytes = 0,
        missing: tuple[str, ...] = (),
        can_fork: bool = True,
    ) -> None:
        self.doing: Situation = Starting()
        self.worker_alive = False
        self.worker_pid = 0
        self.queue: deque[Request | Ask] = deque()
        self.held = Holdings()
        self.head: CheckpointId | None = None
        self.auto: AutoMode = auto
        self.budget_bytes = budget_bytes
        self.refused: tuple[Hazard, ...] = ()
        self._rule = rule or HoldingRule()
        self._reserve_bytes = reserve_bytes
        self._missing = missing
        self._can_fork = can_fork
        self._aborted: set[int] = set()
        self._after_cell: list[Ask] = []
        self._cell_asks = 0
        self._async_cell = False
        self._audit: Mechanism = "off"
        self._audit_note = ""
        self._restored_from: CheckpointId | None = None
        self._successor_lost = False
        self._stillborn: CheckpointId | None = None
        self._root_due = False
        self._interrupt_cpu_s = 0.0
        self._early: dict[CheckpointId, ev.Froze] = {}
        self._cells = 0
        self._seconds = 0.0
        self._execution_count = 0
        self._fork_s = 0.01
        self._growth_bytes = 0
        self._held_bytes = 0
        self._worker_bytes = 0
        self._out: list[Instruction] = []

    # ------------------------------------------------------------ entry points

    def start(self) -> list[Instruction]:
        """Return what begins an engine's life."""
        self._out = []
        self._start_worker(attempt=1)
        return self._out

    def handle(self, event: Event) -> list[Instruction]:  # noqa: C901, PLR0912 - a flat table
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
                waiting = (item for item in self.queue if isinstance(item, ev.Request))
                self._aborted.update(item.seq for item in waiting if item.kind == "execute")
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
            case ev.CallReturned(result):
                if isinstance(self.doing, Calling):
                    self._do(ev.Answer(self.doing.ask, result))
                    self.doing = Idle()
            case ev.Interrupted(cpu_s):
                self._interrupted(cpu_s)
            case ev.TimedOut():
                self._timed_out(event)
            case ev.Measured():
                self._measured(event)
            case ev.ShutdownAsked():
                self._shut_down()
        self._pump()
        return self._out

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
            checkpoints=tuple(self.held),
            refused=self.refused,
            missing=self._missing,
            audit=self._audit,
            audit_note=self._audit_note,
        )

    def is_short(self, available_bytes: Bytes) -> bool:
        """Return whether so little memory is left that checkpoints must go."""
        return available_bytes < self._reserve_bytes

    # ------------------------------------------------------------ queue

    def _do(self, *instructions: Instruction) -> None:
        self._out.extend(instructions)

    def _pump(self) -> None:
        while isinstance(self.doing, Idle) and (self.queue or self._root_due):
            first = self.queue[0] if self.queue else None
            is_harmless = isinstance(first, ev.Request) and first.kind == "other"
            if self._root_due and not is_harmless:
                # The fresh interpreter is the way back when everything else is gone.
                self._root_due = False
                self._fork(ev.Ask(token=-1, op="checkpoint", args={"name": ROOT}, automatic=True))
                continue
            if isinstance(first, ev.Ask) and first.op in _RESTORES and not self.held.all_frozen():
                return  # processes on their way to freezing would go with the old worker
            item = self.queue.popleft()
            if isinstance(item, ev.Request):
                if item.seq in self._aborted:
                    self._aborted.discard(item.seq)
                    self._do(ev.Abort(item))
                else:
                    self.doing = Running(item)
                    self._do(ev.Dispatch(item))
            elif item.op == "checkpoint":
                self._fork(item)
            elif item.op == "lineage":
                self._do(ev.TellLineage(item))
            elif item.op == "call":
                self.doing = Calling(item)
                self._do(ev.Call(item.args))
            else:
                self._restore(item)

    def _submitted(self, request: Request) -> None:
        if isinstance(self.doing, Stopping):
            self._do(ev.Abort(request))
        elif request.kind == "comm" and self._async_cell and isinstance(self.doing, Running):
            self._do(ev.Dispatch(request))
        else:
            self.queue.append(request)

    def _asked(self, ask: Ask) -> None:  # noqa: C901 - a table
        try:
            match ask.op:
                case "status":
                    self._do(ev.Answer(ask, self.status()))
                case "lineage" if ask.from_cell:
                    self._do(ev.TellLineage(ask))  # up to the cell before
                case "auto":
                    self.auto = ask.args["mode"]
                    self._do(ev.Answer(ask, self.auto))
                case "budget":
                    self.budget_bytes = ask.args["bytes"]
                    self._do(ev.Answer(ask, self.budget_bytes), ev.Measure(urgent=True))
                case "evict":
                    checkpoint = self.held.resolve(ask.args["ref"])
                    if checkpoint.name == ROOT:
                        raise InvalidValue("the root checkpoint is always held")
                    if checkpoint.id == self._thawing():
                        raise InvalidValue(f"checkpoint {checkpoint.id} is being restored")
                    self._evict(checkpoint.id)
                    self._do(ev.Answer(ask, checkpoint))
                case "checkpoint" | "restore" | "take" | "call" | "lineage":
                    self._check_ask(ask)
                    if isinstance(self.doing, Stopping):
                        raise WorkerDied("the engine is ending")
                    self._enqueue(ask)
        except Exception as error:
            self._do(ev.Answer(ask, error=error))

    def _check_ask(self, ask: Ask) -> None:
        """Refuse at once what cannot succeed later, so that a magic can say so."""
        if ask.op in _RESTORES:
            self.held.restorable(ask.args["ref"])
            if ask.from_cell and any(a.op in _RESTORES for a in self._after_cell):
                raise InvalidValue("this cell already restores another checkpoint")
        name = ask.args.get("name") or ""
        if ask.op == "checkpoint" and _RESERVED_NAME.fullmatch(name):
            raise InvalidValue(f"'{name}' is how CHEX names checkpoints: choose another name")

    def _enqueue(self, ask: Ask) -> None:
        if not ask.from_cell:
            self.queue.append(ask)
            return
        if not self._after_cell:
            self._do(ev.Hold())
        self._after_cell.append(ask)
        self._do(ev.Answer(ask, {"accepted": True}))

    def _finish(
        self, ask: Ask | None, result: object = None, error: Exception | None = None, note: str = ""
    ) -> None:
        """Give an ask its end: an answer for a driver, a line under the cell for a magic."""
        if ask is None or ask.automatic:
            return
        if not ask.from_cell:
            self._do(ev.Answer(ask, result, error))
            return
        self._do(ev.Note(str(error) if error else note, error=error is not None))
        self._cell_asks -= 1
        if self._cell_asks == 0:
            self._do(ev.Release())

    # ------------------------------------------------------------ running

    def _start_worker(self, attempt: int) -> None:
        self.doing = Starting(attempt)
        self._do(ev.StartWorker(), ev.SetTimer("start", _START_TIMEOUT_S))

    def _worker_ready(self, event: ev.WorkerReady) -> None:
        if not isinstance(self.doing, Starting):
            return
        self.worker_alive, self.worker_pid = True, event.pid
        self._audit, self._audit_note = event.audit, event.audit_note
        self._restored_from = None
        self._new_position(head=None, execution_count=0)
        self.doing = Idle()
        self._do(ev.ClearTimer("start"))
        self._root_due = True

    def _request_done(self, event: ev.RequestDone) -> None:
        if isinstance(self.doing, Stopping):
            self.doing = Stopping()
            return
        if not isinstance(self.doing, Running) or self.doing.request.seq != event.seq:
            return  # a comm message handled while an async cell runs
        kind = self.doing.request.kind
        self.doing = Idle()
        self._async_cell = False
        self._do(ev.ClearTimer("interrupt"))
        if kind == "execute":
            self._cells += 1
            self._seconds += event.seconds
            self._execution_count = event.execution_count
            self._growth_bytes = event.growth_bytes
        asks, self._after_cell = self._after_cell, []
        self._cell_asks = len(asks)
        self.queue.extendleft(reversed(asks))
        if kind == "execute" and not asks and self._is_worth_holding(event.growth_bytes):
            self.queue.appendleft(ev.Ask(token=-1, op="checkpoint", automatic=True))

    def _is_worth_holding(self, growth_bytes: Bytes) -> bool:
        if self.auto != "rule":
            return self.auto == "always"
        return self._rule.worth_holding(
            cost_s=self._seconds,
            fork_s=self._fork_s,
            marginal_bytes=growth_bytes + _BASE_BYTES,
            budget_bytes=self.budget_bytes,
        )

    def _interrupted(self, cpu_s: Seconds) -> None:
        if isinstance(self.doing, Running) and self._restored_from is not None:
            self._interrupt_cpu_s = cpu_s
            self._do(ev.SetTimer("interrupt", _HANG_S))

    def _still_interrupted(self, cpu_s: Seconds) -> None:
        """Get the user out of a restored state whose library waits for threads it lost."""
        if not isinstance(self.doing, Running) or self._restored_from is None:
            return
        if cpu_s - self._interrupt_cpu_s >= _HANG_CPU_S:
            self._interrupted(cpu_s)
            return
        origin = self._restored_from
        self.held.mark_bad(origin)
        self._do(ev.KillWorker())
        self._lost(
            f"The state restored from checkpoint {origin} hung and did not react to the interrupt;"
            f" that checkpoint is now marked bad."
        )

    # ------------------------------------------------------------ checkpoints

    def _new_position(self, head: CheckpointId | None, execution_count: int) -> None:
        self.head = head
        self._execution_count = execution_count
        self._cells, self._seconds = 0, 0.0

    def _fork(self, ask: Ask) -> None:
        if not self._can_fork:
            self.refused = tuple(Hazard(kind="machine", what=text) for text in self._missing)
            self._finish(ask, error=ForkRefused(self.refused))
            return
        checkpoint = self.held.new_id()
        self.doing = Forking(checkpoint, ask)
        self._do(ev.Fork(checkpoint), ev.SetTimer("fork", _FORK_TIMEOUT_S))

    def _forked(self, event: ev.Forked) -> None:
        if not isinstance(self.doing, Forking) or self.doing.checkpoint != event.checkpoint:
            self._do(ev.Drop(event.checkpoint))
            return
        if self._stillborn == event.checkpoint:
            died = Hazard(kind="fork", what="the checkpoint process died at once")
            self._fork_refused(event.checkpoint, (died,))
            return
        ask, self.doing = self.doing.ask, Idle()
        checkpoint = Checkpoint(
            id=event.checkpoint,
            name=ask.args.get("name"),
            parent=self.head,
            pid=0,
            execution_count=self._execution_count,
            cost_s=self._seconds,
            size_bytes=_BASE_BYTES + self._growth_bytes,
            uses=0,
        )
        self.held.add(checkpoint)
        # An estimate, until it is measured: many may be taken before that.
        self._held_bytes += checkpoint.size_bytes
        self._fork_s += 0.3 * (event.seconds - self._fork_s)
        self.refused = ()
        self._new_position(checkpoint.id, self._execution_count)
        self._do(ev.ClearTimer("fork"))
        took = format_seconds(event.seconds)
        self._finish(ask, checkpoint, note=f"checkpoint {title(checkpoint)} taken in {took}")
        if (early := self._early.pop(checkpoint.id, None)) is not None:
            self._froze(early)
        self._make_room()

    def _fork_refused(self, checkpoint: CheckpointId, reasons: tuple[Hazard, ...]) -> None:
        self._early.pop(checkpoint, None)
        self._do(ev.Drop(checkpoint))
        if not isinstance(self.doing, Forking) or self.doing.checkpoint != checkpoint:
            return
        ask, self.doing = self.doing.ask, Idle()
        self.refused = reasons
        self._do(ev.ClearTimer("fork"))
        self._finish(ask, error=ForkRefused(reasons))

    def _froze(self, event: ev.Froze) -> None:
        if event.checkpoint in self.held:
            self.held.froze(event.checkpoint, event.pid, event.lost)
            self._do(ev.Measure())
        else:
            self._early[event.checkpoint] = event  # before the worker said that it forked

    def _restore(self, ask: Ask) -> None:
        try:
            checkpoint = self.held.restorable(ask.args["ref"])
        except (UnknownCheckpoint, RestoreFailed) as error:  # lost while the ask was waiting
            self._finish(ask, error=error)
            return
        keep = ask.op == "restore" or checkpoint.name == ROOT
        self._thaw(checkpoint.id, keep=keep, ask=ask)

    def _thaw(self, checkpoint: CheckpointId, *, keep: bool, ask: Ask | None) -> None:
        self.doing = Thawing(checkpoint, ask)
        self._successor_lost = False
        self._do(ev.Thaw(checkpoint, keep), ev.SetTimer("thaw", _THAW_TIMEOUT_S))

    def _thawed(self, event: ev.Thawed) -> None:
        if not isinstance(self.doing, Thawing) or self.doing.checkpoint != event.checkpoint:
            return
        ask, self.doing = self.doing.ask, Idle()
        self._do(ev.ClearTimer("thaw"), ev.Adopt(event.checkpoint))
        self.worker_alive, self.worker_pid = True, event.pid
        self._restored_from = event.checkpoint
        checkpoint = self.held[event.checkpoint]
        self._new_position(checkpoint.id, checkpoint.execution_count)
        if event.kept and not self._successor_lost:
            self.held.used(checkpoint.id, event.pid)
        else:
            self._forget(checkpoint.id)
        result = RestoreReport(
            checkpoint=event.checkpoint, seconds=event.seconds, warnings=event.warnings
        )
        note = f"back at {title(checkpoint)} in {format_seconds(event.seconds)}"
        self._finish(ask, result, note=_lines(note, event.warnings))
        self._do(ev.Measure())

    def _thaw_failed(self, checkpoint: CheckpointId) -> None:
        self._forget(checkpoint)
        if not isinstance(self.doing, Thawing) or self.doing.checkpoint != checkpoint:
            return
        ask, self.doing = self.doing.ask, Idle()
        self._do(ev.ClearTimer("thaw"))
        kept = "the state is what it was before" if self.worker_alive else "going back further"
        error = RestoreFailed(f"checkpoint {checkpoint} did not come alive and is gone; {kept}")
        self._finish(ask, error=error)
        if not self.worker_alive:
            self._revive()

    def _checkpoint_gone(self, checkpoint: CheckpointId) -> None:
        self._early.pop(checkpoint, None)
        if isinstance(self.doing, Forking) and self.doing.checkpoint == checkpoint:
            self._stillborn = checkpoint
        elif checkpoint == self._thawing():
            # The process going live, or its successor: which, `Thawed` will tell.
            self._successor_lost = True
        else:
            self._forget(checkpoint)

    def _forget(self, checkpoint: CheckpointId) -> None:
        self.held.forget(checkpoint)
        self._do(ev.Drop(checkpoint))

    def _evict(self, checkpoint: CheckpointId) -> None:
        self._held_bytes -= self.held[checkpoint].size_bytes
        self._forget(checkpoint)
        self._do(ev.Measure())

    def _thawing(self) -> CheckpointId | None:
        return self.doing.checkpoint if isinstance(self.doing, Thawing) else None

    def _measured(self, event: ev.Measured) -> None:
        self._held_bytes, self._worker_bytes = event.held_bytes, event.worker_bytes
        self.held.measured(event.sizes)
        short = self._reserve_bytes - event.available_bytes
        self._make_room(short)
        if short > 0:
            self._do(ev.Measure(urgent=True))

    def _make_room(self, short_bytes: Bytes = 0) -> None:
        """Let checkpoints go while they hold more than they may."""
        excess = max(self._held_bytes - self.budget_bytes, short_bytes)
        if len(self.held) > _MAX_HELD:
            excess = max(excess, 1)
        if excess > 0:
            for victim in self.held.least_useful(excess, but=self._thawing()):
                self._evict(victim.id)

    # ------------------------------------------------------------ deaths

    def _worker_gone(self, how: str) -> None:
        self.worker_alive, self.worker_pid = False, 0
        match self.doing:
            case Stopping():
                self._stop()
            case Starting(attempt) if attempt >= _MAX_START_ATTEMPTS:
                self._give_up_queue()
                self._stop(f"the worker could not be started: {how}")
            case Starting(attempt):
                self._start_worker(attempt + 1)
            case Thawing():
                pass  # the checkpoint is on its way; if it fails, `_thaw_failed` revives
            case _:
                self._lost(f"The worker process died ({how}).")

    def _lost(self, what: str) -> None:
        """Fail whatever the lost worker was doing and bring another to life."""
        self.worker_alive, self.worker_pid = False, 0
        was, self.doing = self.doing, Idle()
        self._async_cell = False
        target = self.held.nearest_good(self.head)
        if target is None:
            back = "The state is lost: a fresh interpreter is starting."
        else:
            back = f"The state is back at {title(target)}; later cells must be run again."
        message = f"{what} {back}"
        asks, self._after_cell = self._after_cell, []
        if asks or self._cell_asks:
            self._cell_asks = 0
            self._do(ev.Release())
        match was:
            case Running(request):
                self._do(ev.ClearTimer("interrupt"), ev.Fail(request, "WorkerDied", message))
                waiting = (i for i in self.queue if isinstance(i, ev.Request))
                self._aborted.update(i.seq for i in waiting if i.kind == "execute")
            case Forking(checkpoint, ask):
                # Whether the fork was safe is judged after it: this one never was.
                self._do(ev.ClearTimer("fork"), ev.Drop(checkpoint))
                self._finish(ask, error=WorkerDied(message))
            case Calling(ask):
                self._do(ev.Answer(ask, error=WorkerDied(message)))
            case _:
                self._do(ev.Note(message, error=True))
        self._revive()

    def _revive(self) -> None:
        target = self.held.nearest_good(self.head)
        if target is None:
            self._start_worker(attempt=1)
        else:
            self._thaw(target.id, keep=True, ask=None)

    def _timed_out(self, event: ev.TimedOut) -> None:
        match event.timer, self.doing:
            case "start", Starting():
                self._do(ev.KillWorker())
                self._worker_gone("it did not start in time")
            case "fork", Forking():
                self._do(ev.KillWorker())
                self._lost("Taking a checkpoint did not end.")
            case "thaw", Thawing(checkpoint):
                self._thaw_failed(checkpoint)
            case "interrupt", Running():
                self._still_interrupted(event.cpu_s)
            case "stop", Stopping():
                self._stop()
            case _:
                pass

    def _shut_down(self) -> None:
        if isinstance(self.doing, Stopping):
            return
        was, self.doing = self.doing, Stopping()
        ending = WorkerDied("the engine is ending")
        match was:
            case Running(request):
                self.doing = Stopping(request)
            case Forking(_, ask) | Thawing(_, ask) | Calling(ask):
                self._finish(ask, error=ending)
        self._give_up_queue()
        if self.worker_alive:
            self._do(ev.AskWorkerToExit(), ev.SetTimer("stop", _STOP_TIMEOUT_S))
        else:
            self._stop()

    def _give_up_queue(self) -> None:
        waiting, self.queue = self.queue, deque()
        for item in waiting:
            if isinstance(item, ev.Request):
                self._do(ev.Abort(item))
            else:
                self._finish(item, error=WorkerDied("the engine is ending"))

    def _stop(self, how: str = "") -> None:
        if isinstance(self.doing, Stopping) and self.doing.request is not None:
            text = "The kernel was shut down while this cell was running."
            self._do(ev.Fail(self.doing.request, "KernelShutDown", text))
        self._do(ev.Stop(how))


def _lines(first: str, rest: tuple[str, ...]) -> str:
    return "\n".join([first, *(f"  note: {line}" for line in rest)])
