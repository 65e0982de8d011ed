"""The supervisor: does what `EngineState` decides, and tells it what happens.

One loop that never blocks; it owns the worker, the frozen checkpoints, and a
*front* through which requests come and messages leave.  It never runs user
code, and everything below it ends when it ends.
"""

from __future__ import annotations

import codecs
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import proc, replies
from chexpoint.engine.asks import Ask
from chexpoint.engine.auditing import about_privileges
from chexpoint.engine.darkroom import image_result
from chexpoint.engine.front import Front, InputReply, InterruptAsked
from chexpoint.engine.journal import Journal, Told
from chexpoint.engine.live_worker import started_below
from chexpoint.engine.memory import available_bytes
from chexpoint.engine.performer import Performer
from chexpoint.engine.recording import strayed
from chexpoint.engine.spawn import Spawner
from chexpoint.engine.state import EngineState
from chexpoint.engine.wire import Channel, Packet
from chexpoint.engine.worker_loops import start_writer
from chexpoint.model import ArtifactId, Bytes, hazard_from_json

# How often memory is looked at while checkpoints are held.
_WATCH_S = 1.0
_PACKETS_AT_ONCE = 200
# How long an ending engine waits for the last image: Jupyter itself waits five seconds for it.
_LAST_IMAGE_S = 3.0


class Supervisor(Performer):
    """Runs one engine until it is told to end.

    Parameters
    ----------
    journal
        Keeps what cells did; without one, nothing is recorded and nothing reused.
    store_budget
        Most disk that images may take.
    """

    def __init__(
        self,
        state: EngineState,
        spawner: Spawner,
        *,
        journal: Journal | None = None,
        store_budget: Bytes | None = None,
    ) -> None:
        super().__init__(state, spawner, journal=journal, store_budget=store_budget)
        self._ready = False
        self._signals: set[int] = set()
        self._watched = 0.0
        self._outputs = {"stdout": spawner.stdout[0], "stderr": spawner.stderr[0]}
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {name: decoder(errors="replace") for name in self._outputs}

    # ------------------------------------------------------------ loop

    def start(self) -> None:
        """Prepare this process and start the worker; returns at once."""
        proc.prctl(proc.PR_SET_CHILD_SUBREAPER, 1)
        signal.set_wakeup_fd(self._wake_writer, warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, self._on_signal)
        self._do(self._state.start())

    def run(self, front: Front) -> None:
        """Serve a front until the engine ends."""
        self._front = self._speaker.front = front
        parent = os.getppid()
        # As stock: a kernel that Jupyter started ends with it; one started by hand stays.
        has_owner = os.environ.get("JPY_PARENT_PID", "1") != "1"
        while self._stop is None:
            ready = self._front.wait(self._readers(), self._writers(), self._timeout())
            self._wake_up(ready)
            self._read_worker(ready)
            self._read_checkpoints(ready)
            self._read_outputs(ready)
            self._read_front()
            if self._worker is not None:
                self._worker.flush()
            self._run_timers()
            if has_owner and os.getppid() != parent:
                break
        self._end()

    def _readers(self) -> list[int]:
        fds = [self._wake_reader, *self._outputs.values()]
        if self._worker is not None:
            fds.append(self._worker.link.fileno())
        return [*fds, *self._freezer.filenos(), *self._darkroom.filenos()]

    def _writers(self) -> list[int]:
        worker = self._worker
        return [worker.link.fileno()] if worker is not None and worker.has_waiting else []

    def _timeout(self) -> float:
        wanted = _WATCH_S if len(self._freezer) > 1 else 5.0
        if self._timers:
            wanted = min(wanted, min(self._timers.values()) - time.monotonic())
        return max(wanted, 0.0)

    def _on_signal(self, number: int, _frame: object) -> None:
        self._signals.add(number)

    def _wake_up(self, ready: set[int]) -> None:
        if self._wake_reader in ready:
            with contextlib.suppress(BlockingIOError):
                while os.read(self._wake_reader, 4096):
                    pass
        signals, self._signals = self._signals, set()
        if signal.SIGTERM in signals:
            self._handle(ev.ShutdownAsked())
        if signal.SIGINT in signals:
            # Sent to the whole process group: the worker has it already.
            self._handle(ev.Interrupted(proc.cpu_seconds(self._pid)))
        self._reap()
        measured = self._meter.result()
        if measured is not None:
            self._handle(measured)
            self._recording.hold(self._state.status().checkpoints)
        self._conclude()
        for answer in self._auditing.answers():
            self._answer(answer)
        for result in self._recording.results():
            if isinstance(result, Told):
                self._speaker.mention(result.text)
            else:
                self._handle(result)

    def _conclude(self) -> None:
        """Record the cells whose lineage is complete."""
        for audited, request in self._auditing.concluded():
            self._recording.concluded(audited.step, audited.lineage)
            if text := strayed(audited.step):
                self._speaker.mention(text)
            if audited.needed_privileges:
                text = about_privileges(audited.needed_privileges)
                replies.show(self._front, "stderr", f"CHEX: {text}\n", request)

    def _run_timers(self) -> None:
        now = time.monotonic()
        for name, deadline in list(self._timers.items()):
            if deadline <= now:
                del self._timers[name]
                self._handle(ev.TimedOut(name, proc.cpu_seconds(self._pid)))
        if now - self._watched > _WATCH_S and len(self._freezer) > 1:
            self._watched = now
            if self._state.is_short(available_bytes()):
                self._measure(urgent=True)

    # ------------------------------------------------------------ what comes in

    def _read_front(self) -> None:
        for event in self._front.incoming():
            match event:
                case InterruptAsked():
                    self.interrupt()
                case InputReply(frames):
                    if self._worker is not None:
                        self._worker.send(Channel.STDIN, frames)
                case _:
                    self._handle(event)

    def _read_worker(self, ready: set[int]) -> None:
        worker = self._worker
        if worker is None or worker.link.fileno() not in ready:
            return
        for _ in range(_PACKETS_AT_ONCE):
            try:
                packet = worker.link.receive(wait=False)
            except BlockingIOError:
                return
            if packet is None:
                self._worker_is_gone()
                return
            self._from_worker(packet)
            if self._worker is not worker:
                return  # another worker has taken over

    def _from_worker(self, packet: Packet) -> None:
        if packet.channel == Channel.ENGINE:
            self._worker_event(packet.command(), packet.fds)
            return
        if packet.channel in {Channel.SHELL, Channel.CONTROL}:
            self._drain_outputs()  # text written by C code comes before the reply
            self._speaker.is_replied = True
            current = self._speaker.current
            if current is not None and current.kind == "again":
                return
        elif packet.channel == Channel.IOPUB and not self._recording.heard(packet.frames):
            return
        self._speaker.deliver(packet.channel, packet.frames)

    def _worker_event(  # noqa: C901 - a flat table
        self, event: dict[str, Any], fds: Sequence[int]
    ) -> None:
        match event["event"]:
            case "ready":
                self._ready = True
                self._newcomer = event, fds
                self._front.ready(event["kernel_info"])
                self._handle(ev.WorkerReady(event["pid"], event["audit"], event["audit_note"]))
            case "done":
                self._drain_outputs()
                self._files.add(event["wrote"])
                self._files.add(self._auditing.done(event))
                self._ensure_reply(event["seq"])
                self._done(event)
            case "abort":
                self._read_front()  # what was sent before the error is aborted too
                self._handle(ev.QueueAborted())
            case "async":
                self._handle(ev.AsyncCell(event["on"]))
            case "ask":
                ask = Ask(event["token"], event["op"], event["args"], from_cell=True)
                self._handle(ev.Asked(ask))
            case "writer":
                start_writer(event["command"], fds[0])
            case "forked" | "refused":
                self._fork_ended(event)
            case "returned":
                self._auditing.aside(False)
                self._handle(ev.CallReturned(event["result"]))
            case "imaged" | "image_failed" | "loaded":
                self._auditing.aside(False)
                self._handle(image_result(event))
            case "bound":
                self._auditing.aside(False)
                artifact = ArtifactId(event["artifact"]) if event["artifact"] else None
                bound = ev.Bound(
                    why=event["why"],
                    artifact=artifact,
                    is_lost=event["lost"],
                    seconds=tuple(event["seconds"]),
                    is_interrupted=event["interrupted"],
                )
                self._handle(bound)
            case "exit":
                self._handle(ev.ShutdownAsked())

    def _fork_ended(self, event: dict[str, Any]) -> None:
        if event["event"] == "forked":
            notes = [*event["files"], *self._auditing.forked()]
            self._files.checkpoint(event["checkpoint"], event["folder"], notes)
            self._handle(ev.Forked(event["checkpoint"], event["seconds"], event["waited_s"]))
        else:
            self._auditing.aside(False)
            reasons = tuple(hazard_from_json(reason) for reason in event["reasons"])
            self._handle(ev.Refused(event["checkpoint"], reasons))

    def _done(self, event: dict[str, Any]) -> None:
        cell = event["cell"]
        if self._speaker.current is not None and self._speaker.current.seq == event["seq"]:
            if cell is not None:
                self._recording.ended()
            else:
                self._recording.forgotten()
        self._handle(
            ev.RequestDone(
                event["seq"],
                event["seconds"],
                event["execution_count"],
                event["growth"],
                outcome=None if cell is None else cell["status"],
                **_about_variables(cell),
            )
        )

    def _ensure_reply(self, seq: int) -> None:
        request = self._speaker.current
        if (
            request
            and request.seq == seq
            and request.kind == "execute"
            and not self._speaker.is_replied
        ):
            replies.fail(self._front, request, "NoReply", "the cell ended without an answer")

    def _read_checkpoints(self, ready: set[int]) -> None:
        for event in self._freezer.events(ready):
            match event:
                case ev.Thawed(checkpoint):
                    changed = _changed_files(self._files.changed_since(checkpoint))
                    self._handle(replace(event, warnings=(*event.warnings, *changed)))
                case ev.Froze():
                    self._handle(event)
                    self._command(do="reap")
                case _:
                    self._handle(event)
        for result in self._darkroom.results(ready):
            self._handle(result)

    def _read_outputs(self, ready: set[int]) -> None:
        if not ready.isdisjoint(self._outputs.values()):
            self._drain_outputs()

    def _drain_outputs(self) -> None:
        for name, reader in self._outputs.items():
            with contextlib.suppress(BlockingIOError):
                while data := os.read(reader, 65536):
                    text = self._decoders[name].decode(data)
                    if not self._ready:
                        sys.stderr.write(text)  # noise of starting up
                        sys.stderr.flush()
                    elif text and self._recording.printed(name, text):
                        self._speaker.show(name, text)

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._freezer.reaped(pid)
            if self._program is not None and pid == self._program.pid:
                self._program.has_ended = True
            if pid == self._pid:
                self._worker_is_gone(status)

    def _worker_is_gone(self, status: int | None = None) -> None:
        worker = self._worker
        if worker is None:
            return
        if status is None:  # it closed the link: alive or not, it cannot be spoken to
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(worker.pid, signal.SIGKILL)
                _, status = os.waitpid(worker.pid, 0)
        with contextlib.suppress(BlockingIOError):
            while (packet := worker.link.receive(wait=False)) is not None:
                self._from_worker(packet)
        self._drain_outputs()
        self._recording.forgotten()
        self._leave_worker()
        how = "unknown" if status is None else proc.describe_exit(status)
        self._handle(ev.WorkerGone(how))

    # ------------------------------------------------------------ the end

    def _end(self) -> None:
        for result in self._darkroom.wait(_LAST_IMAGE_S):
            self._do(self._state.handle(result))
        self._auditing.close()
        self._conclude()
        self._recording.close()
        for checkpoint in self._freezer:
            self._drop(checkpoint)
        self._drain_outputs()
        self._kill_worker()
        for child in started_below(os.getpid()):  # of a worker that ended by itself
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGTERM)
        if any(os.getpgid(pid) != os.getpgrp() for pid in _living(proc.descendants(os.getpid()))):
            self._auditing.leave_caretaker()
        self._speaker.release()
        self._front.stopped(self._stop.how if self._stop else "the parent process ended")


def _about_variables(cell: dict[str, Any] | None) -> dict[str, Any]:
    """Return what the engine has to know of what a cell did to variables."""
    found = cell.get("variables") if cell is not None else None
    if found is None:
        return {}
    names = [name for group in found["writes"] for name in group["names"]]
    return {
        "bound": frozenset([*names, *found["deleted"]]),
        "keepable_bytes": sum(
            group["size_bytes"]
            for group in found["writes"]
            if not group["contents"] and not group["why_not"]
        ),
    }


def _living(pids: Iterable[int]) -> list[int]:
    return [pid for pid in pids if proc.state_letter(pid) not in {"", "Z", "X"}]


def _changed_files(paths: list[str]) -> list[str]:
    shown = 10
    lines = [f"{path} has changed on disk since then" for path in paths[:shown]]
    if len(paths) > shown:
        lines.append(f"{len(paths) - shown} more files have changed on disk since then")
    return lines
