"""The part of `EngineState` that starts workers, and goes on when one dies.

Whatever dies, the way out is the same: fail what was running, then `_revive`
from the nearest good checkpoint, or start afresh.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Request
from chexpoint.engine.follower import Follower
from chexpoint.engine.holdings import title
from chexpoint.engine.situation import (
    Binding,
    Calling,
    Checking,
    Forking,
    Idle,
    Imaging,
    Loading,
    Looking,
    Running,
    Starting,
    Stopping,
    Thawing,
)
from chexpoint.errors import WorkerDied
from chexpoint.model import Mechanism, Seconds

_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 3.0
# An interrupted worker that uses no CPU for this long is not computing: it hangs.
_HANG_S = 3.0
_HANG_CPU_S = 0.05
_MAX_START_ATTEMPTS = 2


class Reviver(Follower):
    """Has a worker, as long as the engine lives."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self._async_cell = False
        self._audit: Mechanism = "off"
        self._audit_note = ""
        self._root_due = False
        self._interrupt_cpu_s = 0.0
        self._is_interrupted_again = False
        self._waits = False
        """Whether the running cell waits for a program, which is no sign that it hangs."""

    def _start_worker(self, attempt: int) -> None:
        self.doing = Starting(attempt)
        self._do(do.StartWorker(), do.SetTimer("start", _START_TIMEOUT_S))

    def _worker_ready(self, event: ev.WorkerReady) -> None:
        self.time.fresh()
        self._do(do.Welcome(self.time.worker))
        if not isinstance(self.doing, Starting):
            return
        self.worker_alive, self.worker_pid = True, event.pid
        self._audit, self._audit_note = event.audit, event.audit_note
        self._restored_from = None
        self._new_position(head=None, execution_count=0)
        self.doing = Idle()
        self._do(do.ClearTimer("start"))
        self._root_due = True

    # ------------------------------------------------------------ interrupts

    def _interrupted(self, cpu_s: Seconds) -> None:
        is_restored = isinstance(self.doing, Running) and self._restored_from is not None
        if is_restored and not self._waits:
            self._interrupt_cpu_s = cpu_s
            self._is_interrupted_again = False
            self._do(do.SetTimer("interrupt", _HANG_S))

    def _still_interrupted(self, cpu_s: Seconds) -> None:
        """Get the user out of a restored state whose library waits for threads it lost."""
        if not isinstance(self.doing, Running) or self._restored_from is None:
            return
        if cpu_s - self._interrupt_cpu_s >= _HANG_CPU_S:
            self._interrupted(cpu_s)
            return
        if not self._is_interrupted_again:
            # Python loses a signal that comes just before a lock begins to wait.
            self._is_interrupted_again = True
            self._do(do.InterruptAgain(), do.SetTimer("interrupt", _HANG_S))
            return
        origin = self._restored_from
        self.held.mark_bad(origin)
        self._do(do.KillWorker())
        self._lost(
            f"The state restored from checkpoint {origin} hung and did not react to the interrupt;"
            f" that checkpoint is now marked bad."
        )

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

    def _lost(self, what: str) -> None:  # noqa: C901, PLR0912 - a table
        """Fail whatever the lost worker was doing and bring another to life."""
        self.worker_alive, self.worker_pid = False, 0
        was, self.doing = self.doing, Idle()
        self._async_cell = self._waits = False
        target = self.held.nearest_good(self.head)
        if target is None:
            back = "The state is lost: a fresh interpreter is starting."
        else:
            back = f"The state is back at {title(target)}; later cells must be run again."
        message = f"{what} {back}"
        asks, self._after_cell = self._after_cell, []
        if asks or self._cell_asks:
            self._cell_asks = 0
            self._do(do.Release())
        match was:
            case Running(request):
                self._do(do.ClearTimer("interrupt"))
                if request.kind == "again":
                    self._lose_way(WorkerDied(message))
                else:
                    count = self._execution_count + 1
                    self._do(do.Fail(request, "WorkerDied", message, count))
                    self._abort_waiting()
            case Forking(checkpoint, ask):
                # Whether the fork was safe is judged after it: this one never was.
                self._do(do.ClearTimer("fork"), do.Drop(checkpoint))
                self._finish(ask, error=WorkerDied(message))
            case Loading(_, ask) if ask is not None:
                self._not_loaded(ask, f"{what} It was loading a state from disk.")
            case Loading(load):
                self._lose_image(load.image, f"{what} It was loading a state from disk.")
            case Binding(passed):
                self._lose_items(passed, f"{what} It was loading variables.")
            case Imaging():
                self._image_here_lost()
                self._do(do.Note(message, error=True))
            case Calling(ask):
                self._do(do.Answer(ask, error=WorkerDied(message)))
            case Checking(ask):
                self._finish(ask, error=WorkerDied(message))
            case _:
                self._do(do.Note(message, error=True))
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
                self._do(do.KillWorker())
                self._worker_gone("it did not start in time")
            case "fork", Forking():
                self._do(do.KillWorker())
                self._lost("Taking a checkpoint did not end.")
            case "thaw", Thawing(checkpoint):
                self._thaw_failed(checkpoint)
            case "look", Looking(request):
                why = "finding out whether its inputs have changed took too long"
                self._looked_up(ev.Looked(request.seq, self.time.place, why=why))
            case "image", _:
                self._image_timed_out()
            case "interrupt", Running():
                self._still_interrupted(event.cpu_s)
            case "stop", Stopping():
                self._stop()
            case _:
                pass

    # ------------------------------------------------------------ the end

    def _shut_down(self) -> None:
        if isinstance(self.doing, Stopping):
            return
        was, self.doing = self.doing, Stopping()
        ending = WorkerDied("the engine is ending")
        match was:
            case Running(request):
                self.doing = Stopping(request)
            case Forking(_, ask) | Thawing(_, ask) | Calling(ask) | Checking(ask):
                self._finish(ask, error=ending)
        self._give_up_queue()
        if self.worker_alive:
            self._do(do.AskWorkerToExit(), do.SetTimer("stop", _STOP_TIMEOUT_S))
        else:
            self._stop()

    def _give_up_queue(self) -> None:
        waiting, self.queue = self.queue, deque()
        for item in waiting:
            if isinstance(item, Request):
                self._do(do.Abort(item))
            else:
                self._finish(item, error=WorkerDied("the engine is ending"))

    def _stop(self, how: str = "") -> None:
        if isinstance(self.doing, Stopping) and self.doing.request is not None:
            text = "The kernel was shut down while this cell was running."
            self._do(do.Fail(self.doing.request, "KernelShutDown", text))
        self._do(do.Stop(how))
