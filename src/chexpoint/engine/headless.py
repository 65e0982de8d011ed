"""`Engine`: run cells, checkpoint and restore, without Jupyter.

The supervisor is a process of its own, so that it can serve its worker while
the driver is busy, and so that nothing of an engine leaks into the driver: no
signal handler, no orphan, no thread.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

from chexpoint import errors
from chexpoint.engine.guest import Guest
from chexpoint.engine.message import HEADLESS_KEY, Codec, Message, execute_request
from chexpoint.engine.outputs import OutputCollector
from chexpoint.engine.wire import Channel, Link, Packet
from chexpoint.errors import EngineClosed, EngineTimeout, ForkRefused, InvalidValue
from chexpoint.lineage import taint_after
from chexpoint.model import (
    AutoMode,
    CellError,
    CellLineage,
    CellResult,
    Checkpoint,
    KnownImage,
    Output,
    RestoreReport,
    Status,
    checkpoint_from_json,
    hazard_from_json,
    lineage_from_json,
    report_from_json,
    status_from_json,
    to_json,
)

_RUN_ENGINE = Path(__file__).with_name("run_engine.py")
_START_TIMEOUT_S = 60.0
_CLOSE_TIMEOUT_S = 10.0
_INTERRUPT_TIMEOUT_S = 10.0


class ImagesWritten(NamedTuple):
    """What has become of the images of an engine."""

    images: tuple[KnownImage, ...]
    is_writing: bool
    """Whether there are more to come."""
    why_not: str
    """Why the last state that should have become one did not."""


class Engine:
    """A worker and its checkpoints; to be used by one thread at a time.

    Parameters
    ----------
    cwd
        Folder the cells run in; the current one by default.
    env
        Environment variables to add.
    budget_bytes
        Memory for checkpoints; half of what is available by default.
    auto
        When to checkpoint by itself: ``"never"``, by the holding ``"rule"``, or
        ``"always"``, after every cell.
    program
        What runs the supervisor; one that keeps a journal may be given.
    guest
        Given, the engine ends with the thread that starts it, however that ends; it has these cores
        only, and nothing of the standard streams of this process.

    Examples
    --------
    >>> with Engine() as engine:
    ...     _ = engine.run("x = 1")
    ...     _ = engine.checkpoint("one")
    ...     _ = engine.run("x = 2")
    ...     _ = engine.restore("one")
    ...     engine.run("print(x)").text
    '1\\n'
    """

    def __init__(
        self,
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        budget_bytes: int | None = None,
        auto: AutoMode = "never",
        program: Path | None = None,
        guest: Guest | None = None,
    ) -> None:
        self._is_guest = guest is not None
        self._codec = Codec(HEADLESS_KEY)
        self._tokens = itertools.count(1)
        self._later: dict[int, Callable[[ImagesWritten], None]] = {}
        """Who is told what, by the tokens of questions that nobody waits for."""
        mine, theirs = Link.pair()
        argv = [sys.executable, str(program or _RUN_ENGINE), str(theirs.fileno()), auto]
        argv += [str(budget_bytes or 0)]
        if guest is not None:
            argv.append(guest.word())
        # A process group of its own: the driver decides what Ctrl-C does.
        self._process = subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **(guest.settings if guest else {}), **(env or {})},
            stdin=subprocess.DEVNULL,
            # Whoever waits for the end of what a killed host has printed must not wait for us.
            stdout=subprocess.DEVNULL if guest is not None else None,
            stderr=subprocess.DEVNULL if guest is not None else None,
            pass_fds=[theirs.fileno()],
            process_group=0,
        )
        theirs.close()
        self._link = mine
        try:
            self._wait_event("ready", timeout_s=_START_TIMEOUT_S)
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        """The process id of the supervisor, or of the warden of a guest."""
        return self._process.pid

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------ cells

    def run(
        self,
        source: str,
        *,
        timeout_s: float | None = None,
        on_output: Callable[[Output], None] | None = None,
    ) -> CellResult:
        """Run one cell and return what it gave.

        Parameters
        ----------
        source
            The cell, magics included.
        timeout_s
            Interrupt the cell after this time.
        on_output
            Called with each output as it comes.

        Raises
        ------
        EngineTimeout
            If the cell did not end in time, nor when interrupted.
        """
        frames = list(execute_request(self._codec, source))
        request = self._codec.parse(frames).header["msg_id"]
        started = time.perf_counter()
        self._send(Channel.SHELL, frames)
        reply = _Reply(on_output)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        interrupted = False
        while not reply.is_complete:
            try:
                packet = self._receive(deadline)
            except EngineTimeout:
                if interrupted:
                    raise EngineTimeout(
                        f"the cell did not end in {timeout_s} s, nor when interrupted"
                    ) from None
                interrupted = True
                deadline = time.monotonic() + _INTERRUPT_TIMEOUT_S
                self.interrupt()
                continue
            if packet.channel in {Channel.SHELL, Channel.IOPUB}:
                message = self._codec.parse(packet.frames)
                if message.parent.get("msg_id") == request:
                    reply.take(packet.channel, message)
        return reply.result(time.perf_counter() - started)

    def interrupt(self) -> None:
        """Interrupt the running cell; may be called from another thread."""
        self._send_command(do="interrupt")

    # ------------------------------------------------------------ checkpoints

    def checkpoint(self, name: str | None = None, *, image: bool = False) -> Checkpoint:
        """Take a checkpoint of the present state and return it.

        Parameters
        ----------
        image
            Have a copy of it write an image to the store of `use_store`; nobody waits for that.

        Raises
        ------
        ForkRefused
            If it might be wrong when restored; ``reasons`` says why.
        """
        return checkpoint_from_json(self._ask("checkpoint", name=name, image=image))

    def use_store(self, store: str) -> None:
        """Have images written to a store, and read from it."""
        self._ask("store", store=store)

    def images(self) -> ImagesWritten:
        """Return the images that were written."""
        return _images_written(self._ask("images"))

    def when_written(self, tell: Callable[[ImagesWritten], None]) -> None:
        """Have somebody told when no image is being written, whatever runs then.

        It is told by the thread that uses this engine, while that waits for the engine.
        """
        token = self._send_ask("images", wait=True)
        self._later[token] = tell

    def load(self, image: str, path: Sequence[CellLineage]) -> None:
        """Go to the state of an image; to be called in the fresh interpreter.

        Parameters
        ----------
        path
            The cells that have led to it.

        Raises
        ------
        NotReached
            If it cannot be loaded, and why; the state may be spoilt.
        """
        cells, taint = [], ""
        for lineage in path:
            taint = taint_after(lineage, taint)
            cells.append([to_json(lineage), taint])
        self._ask("load", image=image, path=cells)

    def restore(self, ref: str) -> RestoreReport:
        """Go to the state of a checkpoint, which stays."""
        return report_from_json(self._ask("restore", ref=ref))

    def take(self, ref: str) -> RestoreReport:
        """Go to the state of a checkpoint, which is used up: a few milliseconds at any size."""
        return report_from_json(self._ask("take", ref=ref))

    def evict(self, ref: str) -> None:
        """Let a checkpoint go."""
        self._ask("evict", ref=ref)

    def status(self) -> Status:
        return status_from_json(self._ask("status"))

    def lineage(self, *, last: int | None = None) -> tuple[CellLineage, ...]:
        """Return the lineage of each cell that led to the present state, from the root on.

        Waits until the digests of all inputs are known.

        Parameters
        ----------
        last
            Return so many of the last cells only.
        """
        return tuple(lineage_from_json(data) for data in self._ask("lineage", last=last))

    def set_auto(self, mode: AutoMode) -> None:
        """Change when to checkpoint by itself."""
        self._ask("auto", mode=mode)

    def set_budget(self, size_bytes: int) -> None:
        """Change the memory that checkpoints may hold together."""
        self._ask("budget", bytes=size_bytes)

    def record_loops(self, place: Mapping[str, str] | None) -> None:
        """Have the loops of cells recorded: ``folder`` of runs, ``store``, and ``session``."""
        self._ask("record_loops", place=None if place is None else dict(place))

    def begin_version(self, name: str, about: Mapping[str, Any]) -> None:
        """Record what follows as a version that begins in the fresh interpreter.

        Parameters
        ----------
        about
            ``origin``, ``parameters`` and the ``cells`` to come, as far as they are known.
        """
        self._ask("record", do="begin", name=name, here=False, about=dict(about))

    def set_reuse(self, *, graph: bool, allow: Sequence[str] = ()) -> None:
        """Have cells answered from earlier runs; with ``graph`` also from those of others."""
        self._ask("reuse", on=True, allow=list(allow), graph=graph)

    def drain(self) -> None:
        """Wait until all that cells did is written."""
        self._ask("drain")

    # ------------------------------------------------------------ end

    def close(self) -> None:
        """End the engine and everything it started."""
        with contextlib.suppress(OSError, EngineClosed):
            self._send_command(do="shutdown")
        self._link.close()
        try:
            self._process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End the engine at once."""
        self._link.close()
        self.stop()
        try:
            self._process.wait(_CLOSE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """Have the engine end, whatever it does; may be called by another thread."""
        # The warden of a guest ends it, and everything that it has started.
        self._process.send_signal(signal.SIGTERM if self._is_guest else signal.SIGKILL)

    # ------------------------------------------------------------ packets

    def _send(self, channel: Channel, frames: list[bytes]) -> None:
        try:
            self._link.send(channel, frames)
        except OSError as error:
            raise EngineClosed("the engine has ended") from error

    def _send_command(self, **fields: Any) -> None:
        try:
            self._link.command(**fields)
        except OSError as error:
            raise EngineClosed("the engine has ended") from error

    def _receive(self, deadline: float | None) -> Packet:
        while True:
            packet = self._next_packet(deadline)
            if self._later and packet.channel == Channel.ENGINE:
                event = packet.command()
                tell = self._later.pop(event.get("token", 0), None)
                if tell is not None:
                    if "error" not in event:
                        tell(_images_written(event["result"]))
                    continue
            return packet

    def _next_packet(self, deadline: float | None) -> Packet:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        if not select.select([self._link], [], [], timeout)[0]:
            raise EngineTimeout("the engine did not answer in time")
        packet = self._link.receive()
        if packet is None:
            raise EngineClosed("the engine has ended")
        if packet.channel == Channel.ENGINE and packet.command()["event"] == "stopped":
            how = packet.command()["how"]
            raise EngineClosed(f"the engine has ended: {how}" if how else "the engine has ended")
        return packet

    def _wait_event(self, name: str, *, timeout_s: float | None, **match: Any) -> dict[str, Any]:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            packet = self._receive(deadline)
            if packet.channel == Channel.ENGINE:
                event = packet.command()
                if event["event"] == name and match.items() <= event.items():
                    return event

    def _send_ask(self, op: str, **args: Any) -> int:
        token = next(self._tokens)
        self._send_command(do="ask", token=token, op=op, args=args)
        return token

    def _ask(self, op: str, **args: Any) -> Any:
        token = self._send_ask(op, **args)
        answer = self._wait_event("answer", timeout_s=None, token=token)
        if "error" in answer:
            raise _error_from_json(answer["error"])
        return answer["result"]


class _Reply:
    """Gathers what comes back for one cell."""

    def __init__(self, on_output: Callable[[Output], None] | None) -> None:
        self._collector = OutputCollector(on_output)
        self._reply: dict[str, Any] | None = None
        self._idle = False

    @property
    def is_complete(self) -> bool:
        return self._reply is not None and self._idle

    def take(self, channel: Channel, message: Message) -> None:
        if channel == Channel.SHELL:
            self._reply = message.content
        elif message.type == "status":
            self._idle |= message.content["execution_state"] == "idle"
        else:
            self._collector.add(message.type, message.content)

    def result(self, seconds: float) -> CellResult:
        reply = self._reply or {}
        error = None
        if reply.get("status") == "error":
            error = CellError(
                ename=reply["ename"], evalue=reply["evalue"], traceback=tuple(reply["traceback"])
            )
        return CellResult(
            status=reply["status"],
            execution_count=reply.get("execution_count") or None,  # 0: it never ran
            outputs=self._collector.outputs,
            seconds=seconds,
            error=error,
        )


def _images_written(told: dict[str, Any]) -> ImagesWritten:
    images = tuple(KnownImage(**{**each, "keep": tuple(each["keep"])}) for each in told["images"])
    return ImagesWritten(images, told["is_writing"], told["why_not"])


def _error_from_json(data: dict[str, Any]) -> Exception:
    if data["type"] == "ForkRefused":
        return ForkRefused(tuple(hazard_from_json(reason) for reason in data["args"][0]))
    kind = getattr(errors, data["type"], None)
    if not (isinstance(kind, type) and issubclass(kind, errors.ChexError)):
        return InvalidValue(f"{data['type']}: {data['args']}")
    args = [tuple(arg) if isinstance(arg, list) else arg for arg in data["args"]]
    return kind(*args)
