"""The worker process: runs the cells, forks checkpoints, comes back from them.

Started by the supervisor through ``run_worker.py``, with pipes as standard
output and error.  It has one thread and no ZMQ context.

Requests arrive as ordinary Jupyter frames and are handled by the event loop.
Commands of our own stop the loop first, because a fork inside a running loop
would leave both processes in the middle of a callback.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from ipykernel.jsonutil import json_clean

from chexpoint.config import here
from chexpoint.engine import proc
from chexpoint.engine.cell_files import use_cell_folder
from chexpoint.engine.descriptors import Descriptor, held_locks, open_descriptors
from chexpoint.engine.effects import FileWatch
from chexpoint.engine.freeze import ChildSignal, Fork, die, fork_settled, wait_frozen
from chexpoint.engine.hazards import find_hazards
from chexpoint.engine.loop import ForkableLoop
from chexpoint.engine.message import DELIMITER, may_run_code
from chexpoint.engine.output import WorkerStream, flusher
from chexpoint.engine.repairs import Repairs
from chexpoint.engine.shared_memory import shared_mappings
from chexpoint.engine.threads import native_thread_hazards, suspect_threads
from chexpoint.engine.wire import Channel, Link, Packet
from chexpoint.engine.worker_app import Frame, WorkerApp
from chexpoint.engine.worker_audit import Coverage, WorkerAudit, cover, startup_files
from chexpoint.engine.worker_debugging import WorkerDebugging
from chexpoint.engine.worker_images import WorkerImages
from chexpoint.engine.worker_loops import WorkerLoops
from chexpoint.engine.worker_variables import WorkerVariables
from chexpoint.errors import EngineError
from chexpoint.model import Hazard, to_json

# A burst of cells is written to the history once.
_HISTORY_DELAY_S = 0.5


class Worker:
    """The worker's own part: the link, the commands, the checkpoints."""

    def __init__(self, link: Link, supervisor: int) -> None:
        self.link = link
        self.supervisor = supervisor
        self.cell_seconds = 0.0
        self.cell: tuple[str, str, str] | None = None
        """Source, plain Python and outcome of a cell that has just run."""
        self.folder = os.getcwd()
        """Where it was started: cells may go elsewhere."""
        self._loop = ForkableLoop()
        self._commands: collections.deque[Packet] = collections.deque()
        self._asked = 0
        self._answer: dict[str, Any] = {}
        self._inputs: collections.deque[list[bytes]] = collections.deque()
        self._input_ready = threading.Condition()
        self._tasks: set[asyncio.Task[None]] = set()
        self._child_signal = ChildSignal()
        self._files = FileWatch()
        self._resident_then = 0
        self._save_history_at: asyncio.TimerHandle | None = None

    # ------------------------------------------------------------ life

    def run(self, argv: list[str]) -> None:
        asyncio.set_event_loop(self._loop)
        stream = f"{WorkerStream.__module__}.{WorkerStream.__qualname__}"
        app = WorkerApp.instance(outstream_class=stream)
        app.worker = self
        app.initialize(argv)
        self.app = app
        self.kernel = app.kernel
        self.shell = app.kernel.shell
        use_cell_folder(self.supervisor)
        self._history().release()
        self._images = WorkerImages(self.shell, self.folder, self._loop)
        self._debugging = WorkerDebugging(self.kernel, self._images, self._loop)
        self.loops = WorkerLoops(self, self.shell)
        self.variables = WorkerVariables(self.shell, self._images.variables)
        self._files = FileWatch(ignored=[str(app.profile_dir.location)])
        app.kernel.start()
        self._loop.add_reader(self.link.fileno(), self._readable)
        self._resident_then = proc.resident_bytes()
        coverage = self._tell_ready(str(app.profile_dir.location))
        self.audit = WorkerAudit(self.shell, coverage)
        self.shell.while_importing = self._while_importing
        if coverage.mechanism != "system calls":
            self._files.start()  # else the supervisor sees which files are used
        while not self.shell.exit_now:
            try:
                self._loop.run_forever()
            except KeyboardInterrupt:
                continue
            while self._commands:
                self._obey(self._commands.popleft())
        self._finish()

    def _tell_ready(self, profile: str) -> Coverage:
        facts = {
            "pid": os.getpid(),
            "kernel_info": json_clean(self.kernel.kernel_info),
            "ignored": [profile],
            "startup": startup_files(profile),
            "import_folders": [folder for folder in sys.path if folder],
        }
        coverage = cover(here().without_problems().held("audit"))
        # From here on no file can be opened until the supervisor has the listener.
        listeners = [coverage.listener] if coverage.listener is not None else []
        self.link.command(
            listeners,
            event="ready",
            audit=coverage.mechanism,
            audit_note=coverage.note,
            gave_up_privileges=coverage.gave_up_privileges,
            **facts,
        )
        for listener in listeners:
            os.close(listener)
        return coverage

    @contextlib.contextmanager
    def _while_importing(self) -> Iterator[None]:
        with self.audit.importing(), self.variables.importing():
            yield

    def _finish(self) -> None:
        flusher.stop()
        with contextlib.suppress(Exception):
            self._history().end_session()
        self.tell(event="exit")

    def _history(self) -> Any:
        return self.shell.history_manager

    def _save_history(self) -> None:
        with contextlib.suppress(Exception):  # a locked database is no reason to fail
            self._history().release()

    # ------------------------------------------------------------ link

    def tell(self, **event: Any) -> None:
        self.link.command(**event)

    def _readable(self) -> None:
        try:
            packet = self.link.receive(wait=False)
        except BlockingIOError:
            return
        if packet is None:
            os._exit(0)  # the supervisor is gone
        self._take(packet)

    def _take(self, packet: Packet) -> None:
        match packet.channel:
            case Channel.SHELL | Channel.CONTROL:
                task = self._loop.create_task(self._handle(packet))
                self._tasks.add(task)  # asyncio itself keeps only weak references
                task.add_done_callback(self._tasks.discard)
            case Channel.STDIN:
                with self._input_ready:
                    self._inputs.append(packet.frames)
                    self._input_ready.notify_all()
            case Channel.ENGINE:
                if packet.command()["do"] == "answer":
                    self._answer = packet.command()
                else:
                    self._commands.append(packet)
                    self._loop.stop()
            case Channel.IOPUB:
                pass

    async def _handle(self, packet: Packet) -> None:
        self._child_signal.reap()
        if self._save_history_at is not None:
            self._save_history_at.cancel()
        seq, *frames = packet.frames
        self.cell_seconds = 0.0
        try:
            # Identities and the message itself are asked for as frames, buffers as bytes.
            buffers = frames.index(DELIMITER) + 6
            wrapped = [*map(Frame, frames[:buffers]), *frames[buffers:]]
            if packet.channel == Channel.SHELL:
                await self.kernel.handle_shell(wrapped)
            else:
                await self.kernel.dispatch_control(wrapped)
        finally:
            proc.libc.fflush(None)
            if self.shell.exit_now:
                self.tell(event="exit")  # before anything else is sent here
            resident = proc.resident_bytes()
            self.tell(
                event="done",
                seq=int(seq),
                seconds=self.cell_seconds,
                execution_count=self.shell.execution_count - 1,
                growth=max(0, resident - self._resident_then),
                wrote=self._files.take(),
                resident=resident,
                cell=self._take_cell(int(seq), frames),
            )
            self._save_history_at = self._loop.call_later(_HISTORY_DELAY_S, self._save_history)
            if self.shell.exit_now:
                self._loop.stop()

    def _take_cell(self, seq: int, frames: list[bytes]) -> dict[str, Any] | None:
        cell, self.cell = self.cell, None
        if cell is not None or may_run_code(frames):
            self._images.ran(seq, None if cell is None else cell[1])
            if cell is None:
                self.variables.changed()
        found = None if cell is None else self.audit.finish(*cell)
        return None if found is None else {**found, "variables": self.variables.take()}

    def _wait_packet(self) -> None:
        """Wait, inside a running cell, for one more packet and sort it."""
        select.select([self.link], [], [])
        packet = self.link.receive(wait=False)
        if packet is None:
            os._exit(0)
        self._take(packet)

    def wait_input(self) -> list[bytes]:
        """Return the frames of the reply to an input request."""
        if threading.current_thread() is not threading.main_thread():
            with self._input_ready:
                self._input_ready.wait_for(lambda: self._inputs)
                return self._inputs.popleft()
        while not self._inputs:
            with contextlib.suppress(BlockingIOError):
                self._wait_packet()
        return self._inputs.popleft()

    def ask(self, op: str, **args: Any) -> Any:
        """Ask the supervisor something from inside a cell and return its answer.

        Raises
        ------
        EngineError
            With the supervisor's words, if it says no.
        """
        if threading.current_thread() is not threading.main_thread():
            raise EngineError("CHEX can only be asked from the main thread of a cell")
        if op in {"restore", "take"}:
            self._save_history()  # this process is about to be left
        self._asked += 1
        self.tell(event="ask", token=self._asked, op=op, args=args)
        while self._answer.get("token") != self._asked:  # not one an interrupt left behind
            with contextlib.suppress(BlockingIOError):
                self._wait_packet()
        answer, self._answer = self._answer, {}
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["result"]

    # ------------------------------------------------------------ commands

    def _obey(self, packet: Packet) -> None:  # noqa: C901 - a table
        command = packet.command()
        match command["do"]:
            case "fork":
                try:
                    if command["for_image"]:
                        with self._while_importing():
                            self._images.prepare()
                    self._checkpoint(command["checkpoint"], packet.fds[0])
                except Exception as error:  # the user's state is worth more than a checkpoint
                    what = f"CHEX could not examine this process: {error!r}"
                    self._refuse(command["checkpoint"], [Hazard(kind="internal", what=what)])
            case "reap":
                self._child_signal.reap()
            case "exit":
                self.shell.exit_now = True
            case "image":
                self.tell(**self.kernel.as_in_cells(self._images.make, command["order"]))
            case "load":
                self.tell(**self.kernel.as_in_cells(self._images.load, command["order"]))
                self.variables.changed()
            case "follow_variables":
                self.variables.follow()
            case "bind":
                given = command["items"], command["unbind"]
                # What libraries draw when they are loaded is not drawn by the next cell.
                with self._while_importing():
                    bound = self.kernel.as_in_cells(self.variables.bind, *given)
                self.tell(**bound)
            case "call":
                self.tell(event="returned", result=self._debugging.obey(command["args"]))

    # ------------------------------------------------------------ checkpoints

    def _checkpoint(self, checkpoint: str, control_fd: int) -> None:
        started = time.perf_counter()
        self._child_signal.reap()
        flusher.stop()
        maps = proc.read_maps()
        shared = shared_mappings(maps)
        descriptors = list(open_descriptors())
        hazards = self._find_hazards(shared, descriptors)
        if hazards:
            os.close(control_fd)
            # Whose they are is often clear from who else has threads.
            self._refuse(checkpoint, [*hazards, *suspect_threads()])
            return
        files = self._files.at_checkpoint()
        locks = held_locks(descriptors)
        repairs = Repairs()
        repairs.before_fork(maps)
        self._child_signal.block()
        try:
            fork = fork_settled(
                {control_fd, self.link.fileno(), *self._loop.own_descriptors()},
                has_shared_memory=bool(shared),
                descriptors=descriptors,
            )
        except OSError as error:
            self._child_signal.unblock()
            os.close(control_fd)
            advice = "too little memory or too many processes; evict checkpoints"
            what = f"the system refused to fork: {error.strerror}"
            self._refuse(checkpoint, [Hazard(kind="fork", what=what, advice=advice)])
            return
        if fork.is_new:
            fork.lost.extend(locks)
            self._freeze(checkpoint, control_fd, fork, repairs)
            return
        self._child_signal.forked(fork.middle)
        os.close(control_fd)
        hazards = native_thread_hazards()
        if hazards:
            self._refuse(checkpoint, hazards)
            return
        self._resident_then = proc.resident_bytes()
        self.tell(
            event="forked",
            checkpoint=checkpoint,
            seconds=time.perf_counter() - started,
            waited_s=self._child_signal.waited_s,
            files=files,
            folder=self._files.folder,
        )

    def hazards(self) -> list[Hazard]:
        """Return what speaks against a checkpoint now; native threads show only after a fork."""
        return self._find_hazards(shared_mappings(proc.read_maps()), list(open_descriptors()))

    def _find_hazards(
        self, shared: list[proc.Mapping], descriptors: list[Descriptor]
    ) -> list[Hazard]:
        found = find_hazards(shared, descriptors)
        if self._debugging.is_attached:
            advice = "restart the kernel to checkpoint again"
            found.append(Hazard(kind="debugger", what="the debugger is attached", advice=advice))
        if self.kernel.eventloop is not None:
            advice = "switch it off with %gui"
            found.append(Hazard(kind="gui", what="a GUI event loop is running", advice=advice))
        return found

    def _refuse(self, checkpoint: str, hazards: list[Hazard]) -> None:
        self.tell(event="refused", checkpoint=checkpoint, reasons=to_json(hazards))

    def _freeze(self, checkpoint: str, control_fd: int, fork: Fork, repairs: Repairs) -> None:
        """Be the checkpoint; returns in the process that goes live."""
        self._loop.remove_reader(self.link.fileno())
        self.link.close()
        try:
            self._go_live(checkpoint, control_fd, fork, repairs)
        except BaseException:
            # Half repaired is wrong: better no restore than a bad one.
            die()

    def _go_live(self, checkpoint: str, control_fd: int, fork: Fork, repairs: Repairs) -> None:

        def write_image(wanted: Packet) -> None:
            repairs.in_copy()
            self._images.write(wanted)

        kept = self._loop.own_descriptors()
        wake = wait_frozen(control_fd, self.supervisor, fork, kept, write_image)
        self.link = Link.from_fd(wake.link_fd)
        self._loop.after_fork()
        self._loop.add_reader(wake.link_fd, self._readable)
        self._child_signal.thawed(wake.middle)
        repairs.after_thaw()
        for stream in flusher.streams:
            stream.forget()
        self.app.session.pid = os.getpid()
        self._history().branch()
        if self.shell.execution_count == 1:
            random.seed()  # a fresh interpreter draws other numbers each time
        self._files.take()
        self._resident_then = proc.resident_bytes()
        self.tell(
            event="thawed",
            checkpoint=checkpoint,
            pid=os.getpid(),
            kept=wake.kept,
            lost=wake.lost,
        )


def main(argv: list[str]) -> None:
    """Run a worker; ``argv`` is the link's descriptor, the supervisor's pid, and options."""
    link_fd, supervisor = int(argv[0]), int(argv[1])
    proc.prctl(proc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        sys.exit(0)
    os.set_inheritable(link_fd, False)
    sys.argv[1:] = argv[2:]
    Worker(Link.from_fd(link_fd), supervisor).run(argv[2:])
