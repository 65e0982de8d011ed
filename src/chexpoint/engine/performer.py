"""The part of the supervisor that does what `EngineState` decides."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine import proc
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.auditing import Auditing
from chexpoint.engine.darkroom import Darkroom
from chexpoint.engine.effects import FileLog
from chexpoint.engine.freezer import Freezer
from chexpoint.engine.front import Front
from chexpoint.engine.journal import Journal
from chexpoint.engine.live_worker import LiveWorker
from chexpoint.engine.message import message_id
from chexpoint.engine.meter import Meter
from chexpoint.engine.recording import Recording
from chexpoint.engine.spawn import Program, Spawner
from chexpoint.engine.speaker import Speaker
from chexpoint.engine.state import EngineState
from chexpoint.engine.wire import Channel, Link
from chexpoint.errors import EngineError
from chexpoint.lineage import Step
from chexpoint.model import Bytes, CheckpointId, to_json


class Performer:
    """Owns the processes of an engine, and does what it is instructed to do."""

    def __init__(
        self,
        state: EngineState,
        spawner: Spawner,
        *,
        journal: Journal | None,
        store_budget: Bytes | None,
    ) -> None:
        self._front: Front
        self._state = state
        self._spawner = spawner
        self._store_budget = store_budget
        self._worker: LiveWorker | None = None
        self._program: Program | None = None
        self._freezer = Freezer()
        self._darkroom = Darkroom()
        self._newcomer: tuple[dict[str, Any], Sequence[int]] = {}, ()
        self._timers: dict[ev.TimerName, float] = {}
        self._files = FileLog()
        self._stop: do.Stop | None = None
        self._wake_reader, self._wake_writer = os.pipe()
        for fd in (self._wake_reader, self._wake_writer):
            os.set_blocking(fd, False)
        self._meter = Meter(self._wake)
        self._auditing = Auditing(self._wake)
        self._recording = Recording(journal, self._wake)
        self._speaker = Speaker()

    def _handle(self, event: ev.Event) -> None:
        self._do(self._state.handle(event))

    @property
    def _pid(self) -> int:
        return self._worker.pid if self._worker is not None else 0

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_writer, b"\0")

    def _do(self, instructions: Iterable[do.Instruction]) -> None:
        for instruction in instructions:
            if not (self._do_to_processes(instruction) or self._tell(instruction)):
                self._recording.obey(instruction)
                if isinstance(instruction, do.UseGraph):
                    self._follow_variables()
                self._wake()

    def _do_to_processes(self, instruction: do.Instruction) -> bool:  # noqa: C901, PLR0912 - a table
        match instruction:
            case do.StartWorker():
                self._start_worker()
            case do.Welcome(step):
                self._welcome(step)
            case do.Dispatch(request, step):
                self._dispatch(request, step)
            case do.Fork():
                self._fork(instruction)
            case do.Thaw(checkpoint, keep):
                self._freezer.thaw(checkpoint, keep=keep)
            case do.Adopt(_, step):
                self._adopt(step)
            case do.KillWorker():
                self._kill_worker()
            case do.Drop(checkpoint):
                self._drop(checkpoint)
            case do.MakeImage():
                self._make_image(instruction)
            case do.GiveUpImage(name):
                self._darkroom.give_up(name)
            case do.LoadImage(name, keep):
                self._auditing.aside(True)
                order = {"name": name, "store": self._recording.store(), "keep": keep}
                self._command(do="load", order=order)
            case do.Bind(items, unbind):
                self._auditing.aside(True)
                self._command(do="bind", items=[to_json(item) for item in items], unbind=unbind)
            case do.Settle(step):
                self._auditing.adopted(step, self._pid)
            case do.Call(args):
                self._auditing.aside(True)
                self._command(do="call", args=args)
            case do.SetTimer(name, seconds):
                self._timers[name] = time.monotonic() + seconds
            case do.ClearTimer(name):
                self._timers.pop(name, None)
            case do.Measure(urgent):
                self._measure(urgent=urgent)
            case do.InterruptAgain():
                if self._worker is not None:
                    self._worker.interrupt()
            case do.AskWorkerToExit():
                self._command(do="exit")
                if isinstance(self._speaker.current, Request) and not self._speaker.is_replied:
                    self.interrupt()
            case do.Stop():
                self._stop = instruction
            case _:
                return False
        return True

    def _tell(self, instruction: do.Instruction) -> bool:
        """Answer what was asked; return whether it was that."""
        match instruction:
            case do.Answer():
                self._answer(instruction)
            case do.TellLineage():
                self._auditing.ask(instruction)
                self._wake()
            case do.TellRecording(ask):
                self._answer(do.Answer(ask, self._recording.status()))
            case do.TellWhy(ask):
                self._answer(do.Answer(ask, self._recording.decisions()))
            case do.TellLoops(ask, place, share):
                found = place or self._recording.loops()
                on = None if found is None or share is None else {**found, "epsilon": share}
                self._answer(do.Answer(ask, on))
            case do.StartProgram(ask):
                self._answer(self._start_program(ask))
            case do.Mention(text):
                self._speaker.mention(text)
            case do.Recall(_, step):
                self._speaker.obey(instruction)
                self._recording.recalled(step)
            case _:
                return self._speaker.obey(instruction)
        return True

    def _start_worker(self) -> None:
        try:
            pid, sock = self._spawner.start()
        except OSError as error:
            self._handle(ev.WorkerGone(error.strerror or str(error)))
            return
        self._worker = LiveWorker(pid, Link(sock))

    def _start_program(self, ask: Ask) -> do.Answer:
        self._end_program()
        try:
            program = self._program = Program(ask.args["verb"], ask.args["words"])
        except (OSError, ValueError) as error:
            return do.Answer(ask, error=EngineError(f"chex could not be started: {error}"))
        return do.Answer(ask, {"pid": program.pid, "folder": program.folder})

    def _end_program(self) -> None:
        program, self._program = self._program, None
        if program is not None:
            program.end()

    def _welcome(self, step: Step) -> None:
        event, fds = self._newcomer
        self._auditing.started(event, fds, step)
        self._recording.worker_started(event["startup"], event["ignored"])
        self._follow_variables()

    def _follow_variables(self) -> None:
        """Have the worker tell what cells do to variables, if anybody wants to know."""
        if self._recording.follows_variables():
            self._command(do="follow_variables")

    def _dispatch(self, request: Request, step: Step | None) -> None:
        if request.kind == "again" and request.cell is not None:
            request = replace(request, frames=self._front.cell(request.cell.source))
        self._speaker.given(request)
        channel = Channel.CONTROL if request.control else Channel.SHELL
        self._auditing.dispatched(request, step)
        if step is not None:
            message = message_id(request.frames)
            self._recording.started(step, message, is_again=request.kind == "again")
        if self._worker is not None:
            self._worker.send(channel, [str(request.seq).encode(), *request.frames])

    def _fork(self, fork: do.Fork) -> None:
        self._auditing.aside(True)
        fd = self._freezer.connect(fork.checkpoint)
        self._command([fd], do="fork", checkpoint=fork.checkpoint, for_image=fork.for_image)

    def _make_image(self, wanted: do.MakeImage) -> None:
        recording, is_artifact = self._recording, bool(wanted.only)
        store = recording.artifact_store() if is_artifact else recording.store()
        if store is None:
            self._handle(ev.ImageFailed(wanted.name, "nothing is recorded here"))
            return
        # What artifacts may take is decided before they are stored.
        budget = None if is_artifact else self._store_budget
        order = {**to_json(wanted), "store": store, "budget": budget}
        if wanted.checkpoint is None:
            self._auditing.aside(True)
            self._command(do="image", order=order)
        elif (control := self._freezer.control(wanted.checkpoint)) is not None:
            self._darkroom.order(control, order)
        else:
            self._handle(ev.ImageFailed(wanted.name, "its checkpoint is gone"))

    def _adopt(self, step: Step) -> None:
        pid = self._state.worker_pid
        link = self._freezer.thawed(pid)
        if link is None:
            return
        self._kill_worker()
        self._worker = LiveWorker(pid, link)
        self._auditing.adopted(step, pid)
        self._follow_variables()
        self._speaker.is_replied = True
        self._front.switched()

    def _kill_worker(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._leave_worker()

    def _leave_worker(self) -> None:
        self._end_program()  # the cell that it was for is gone
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _drop(self, checkpoint: CheckpointId) -> None:
        self._darkroom.dropped(checkpoint)
        self._freezer.drop(checkpoint)
        self._files.forget(checkpoint)

    def interrupt(self) -> None:
        """Send the worker, and what it started, what Ctrl-C sends."""
        if os.getpgrp() == os.getpid():
            os.killpg(os.getpgrp(), signal.SIGINT)  # comes back to `_on_signal`
        elif self._worker is not None:
            self._worker.interrupt()
            self._handle(ev.Interrupted(proc.cpu_seconds(self._pid)))

    def _answer(self, answer: do.Answer) -> None:
        result = to_json(answer.result)
        if not answer.ask.from_cell:
            self._front.answer(answer.ask, result, answer.error)
        elif answer.error is not None:
            self._command(do="answer", token=answer.ask.token, error=str(answer.error))
        else:
            self._command(do="answer", token=answer.ask.token, result=result)

    def _measure(self, *, urgent: bool) -> None:
        self._meter.request(self._pid, self._freezer.pids, urgent=urgent)

    def _command(self, _fds: Sequence[int] = (), **fields: Any) -> None:
        """Tell the worker to do something; without one there is nobody to tell."""
        if self._worker is not None:
            self._worker.command(_fds, **fields)
        else:
            for fd in _fds:
                os.close(fd)
