"""Real kernels for the tests: start by command, talk over every channel, stop, leave nothing.

No installed kernel spec is needed: each kernel gets a spec, an IPython folder and a working
directory of its own under a temporary folder, and a mark in its environment by which all of its
processes are found. Nothing here sleeps: waiting means waiting for a message or for an exit.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import textwrap
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Self

import zmq
from jupyter_client.kernelspec import KernelSpecManager
from jupyter_client.manager import KernelManager

from tests.support.messages import Content, Message, parse
from tests.support.processes import Process, marked, wait_none_marked

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from subprocess import Popen

    from jupyter_client.channels import ZMQSocketChannel

STOCK = (sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}")
CHEX = (sys.executable, "-m", "chexpoint.kernel", "-f", "{connection_file}")

MARK = "CHEX_TEST_MARK"
TIMEOUT_S = 80.0
EXIT_TIMEOUT_S = 60.0
# What a developer's own Jupyter or pytest puts there must not reach the kernels under test.
FOREIGN_VARIABLES = ("JUPYTER", "JPY_", "IPYTHON", "PYTEST_", "CHEX_", "MPLBACKEND")

Channel = Literal["shell", "control"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """How to start a kernel and how to connect to it."""

    argv: Sequence[str]
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    transport: Literal["tcp", "ipc"] = "tcp"
    encrypted: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What one request led to: its reply, and all that was published for it up to `idle`."""

    reply: Message
    published: tuple[Message, ...]

    @property
    def status(self) -> str:
        return str(self.content["status"])

    @property
    def content(self) -> Content:
        return self.reply.content

    @property
    def stdout(self) -> str:
        return stream_text(self.published, "stdout")

    @property
    def stderr(self) -> str:
        return stream_text(self.published, "stderr")

    @property
    def result(self) -> Content:
        """The MIME bundle of the only execute_result."""
        (message,) = self.of_type("execute_result")
        data: Content = message.content["data"]
        return data

    @property
    def displays(self) -> list[Message]:
        return self.of_type("display_data")

    @property
    def outputs(self) -> list[Message]:
        """Everything published but the request's own status and input."""
        return [m for m in self.published if m.type not in ("status", "execute_input")]

    def of_type(self, kind: str) -> list[Message]:
        return [message for message in self.published if message.type == kind]

    def ok(self) -> Outcome:
        """Return this outcome, having asserted that the request succeeded."""
        traceback = self.content.get("traceback", [str(self.content)])
        assert self.status == "ok", "\n".join(traceback)
        return self


def stream_text(messages: Sequence[Message], name: str) -> str:
    return "".join(
        message.content["text"]
        for message in messages
        if message.type == "stream" and message.content["name"] == name
    )


@dataclass(slots=True)
class _Conversation:
    replies: list[Message] = field(default_factory=list)
    published: list[Message] = field(default_factory=list)
    inputs_waited_for: int = 0
    is_idle: bool = False

    def add(self, message: Message) -> None:
        if message.channel == "iopub":
            self.published.append(message)
            self.is_idle |= message.content.get("execution_state") == "idle"
        elif message.channel != "stdin":
            self.replies.append(message)

    def is_done(self) -> bool:
        return self.is_idle and bool(self.replies)

    def published_until_idle(self) -> tuple[Message, ...]:
        states = [message.content.get("execution_state") for message in self.published]
        return tuple(self.published[: states.index("idle") + 1])


class Kernel:
    """A running kernel process and one client connected to it.

    Every message received is checked against the specification and kept in order of arrival in
    `log`, until `forget`.
    """

    def __init__(self, launch: Launch, folder: Path) -> None:
        self.launch = launch
        self.folder = folder
        self.cwd = folder / "cwd"
        self.log: list[Message] = []
        self._conversations: dict[str | None, _Conversation] = {}
        self._mark = uuid.uuid4().hex
        self.cwd.mkdir(parents=True)
        self._own_output = (folder / "kernel.log").open("w+b")
        self.manager = KernelManager(
            kernel_name="under-test",
            kernel_spec_manager=_write_spec(folder / "kernels", launch.argv),
            transport=launch.transport,
            connection_file=str(folder / "connection.json"),
        )
        if launch.transport == "ipc":
            self.manager.ip = str(folder / "ipc")
        self.manager.start_kernel(
            env=self._environment(),
            cwd=str(self.cwd),
            stdout=self._own_output,
            stderr=self._own_output,
            transport_encryption="required" if launch.encrypted else "disabled",
        )
        self.client = self.manager.client()
        self.client.start_channels(hb=False)
        # The kernel drops an input_request for a client whose stdin is not connected yet.
        self._stdin_events = self._socket("stdin").get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        self.wait_ready()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: object
    ) -> None:
        if error is not None:
            error.add_note(f"the kernel wrote:\n{self.own_output()}")
        self.close(now=error is not None)

    # -- sending ---------------------------------------------------------------------------

    def send(
        self,
        kind: str,
        content: Content,
        *,
        channel: Channel = "shell",
        metadata: Content | None = None,
        buffers: Sequence[bytes] = (),
    ) -> str:
        """Send a request without waiting; return its id."""
        session = self.client.session
        message = session.msg(kind, content, metadata=metadata)
        session.send(self._socket(channel), message, buffers=list(buffers) or None)
        return str(message["header"]["msg_id"])

    def submit(self, code: str, **options: Any) -> str:
        """Send an execute_request, its code dedented, without waiting; return its id."""
        content = {
            "code": _dedent(code),
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": True,
            "stop_on_error": True,
            **options,
        }
        return self.send("execute_request", content)

    def answer(self, value: str) -> None:
        """Reply to the pending input_request."""
        self.client.input(value)

    # -- receiving -------------------------------------------------------------------------

    def execute(self, code: str, *, answers: Sequence[str] = (), **options: Any) -> Outcome:
        """Run a cell to its end, giving `answers` to its input requests in turn."""
        request = self.submit(code, **options)
        for value in answers:
            self.wait_input(request)
            self.answer(value)
        outcome = self.finish(request)
        if not options.get("silent") and outcome.status != "aborted":
            echo = outcome.published[1]
            assert echo.type == "execute_input", echo
            assert echo.content["code"] == _dedent(code)
        return outcome

    def run(self, code: str, **options: Any) -> str:
        """Run a cell that must succeed without a word on stderr; return its stdout."""
        outcome = self.execute(code, **options).ok()
        assert outcome.stderr == ""
        return outcome.stdout

    def request(self, kind: str, content: Content, *, channel: Channel = "shell") -> Outcome:
        """Send a request and wait for its reply and its idle status."""
        return self.finish(self.send(kind, content, channel=channel))

    def finish(self, request: str, *, timeout_s: float = TIMEOUT_S) -> Outcome:
        """Wait for the reply and the idle status of a request, in whichever order they come."""
        conversation = self._conversation(request)
        self._pump(conversation.is_done, f"the end of {request}", timeout_s)
        (reply,) = conversation.replies
        published = conversation.published_until_idle()
        assert published[0].content.get("execution_state") == "busy", "busy comes first"
        assert [m.type for m in published].count("status") == len(("busy", "idle"))
        return Outcome(reply=reply, published=published)

    def wait_for(self, accept: Callable[[Message], bool], what: str) -> Message:
        """Wait for the first message, in order of arrival since `forget`, that is accepted."""
        position = 0
        found: list[Message] = []

        def look() -> bool:
            nonlocal position
            while not found and position < len(self.log):
                if accept(self.log[position]):
                    found.append(self.log[position])
                position += 1
            return bool(found)

        self._pump(look, what, TIMEOUT_S)
        return found[0]

    def wait_reply(self, request: str) -> Message:
        """Wait for the reply to a request, which may come before its idle status."""
        return self.wait_for(
            lambda m: m.parent_id == request and m.channel in ("shell", "control"), "a reply"
        )

    def wait_published(self, request: str, kind: str, nth: int = 1) -> Message:
        """Wait for the n-th message of a type that is published for a request."""
        return self._wait_nth(lambda m: m.parent_id == request and m.type == kind, kind, nth)

    def wait_comm(self, kind: str, comm_id: str, nth: int = 1) -> Message:
        """Wait for the n-th message of a type that the kernel sends for a comm."""
        return self._wait_nth(
            lambda m: m.type == kind and m.content["comm_id"] == comm_id, f"{kind} of a comm", nth
        )

    def wait_input(self, request: str) -> Message:
        """Wait for the next input_request of a cell that was not yet waited for."""
        conversation = self._conversation(request)
        conversation.inputs_waited_for += 1
        return self._wait_nth(
            lambda m: m.type == "input_request" and m.parent_id == request,
            "an input request",
            conversation.inputs_waited_for,
        )

    def wait_stdout(self, request: str, text: str) -> None:
        """Wait until the standard output of a cell, so far, contains `text`."""
        self._wait_stream(request, "stdout", text)

    def wait_stderr(self, request: str, text: str) -> None:
        """Wait until the standard error of a cell, so far, contains `text`."""
        self._wait_stream(request, "stderr", text)

    def forget(self) -> None:
        """Drop all messages received so far."""
        self.log.clear()
        self._conversations.clear()

    # -- life ------------------------------------------------------------------------------

    def wait_ready(self) -> None:
        """Wait until the kernel answers, and until this client sees what it publishes."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            # Messages published before the subscription arrives are lost, so ask again.
            request = self.send("kernel_info_request", {})
            conversation = self._conversation(request)
            try:
                self._pump(conversation.is_done, "the kernel's first answer", 1.0)
            except NoMessage:
                if time.monotonic() > deadline or not self.manager.is_alive():
                    self.close(now=True)
                    raise
            else:
                break
        assert self._stdin_events.poll(int(TIMEOUT_S * 1000)), "the stdin channel did not connect"
        self._stdin_events.recv_multipart()
        self.execute("", silent=True, store_history=False)
        self.forget()

    def interrupt(self) -> None:
        """Interrupt as a front end does: a signal to the process group."""
        self.manager.interrupt_kernel()

    def restart(self) -> None:
        self.manager.restart_kernel()
        self.forget()
        self.wait_ready()

    def process(self) -> Popen[bytes]:
        """The process Jupyter started."""
        provisioner: Any = self.manager.provisioner
        popen: Popen[bytes] = provisioner.process
        return popen

    def processes(self) -> list[Process]:
        """All live processes of this kernel: its own, and all they have started."""
        return marked(MARK, self._mark)

    def wait_exit(self) -> int:
        """Wait until the kernel has ended by itself; return its exit code."""
        return self.process().wait(EXIT_TIMEOUT_S)

    def shutdown(self) -> int | None:
        """Shut down politely, as a front end does; return the exit code."""
        process = self.process()
        self.manager.shutdown_kernel()
        return process.returncode

    def assert_gone(self) -> None:
        """Assert that no process of this kernel is left."""
        remaining = wait_none_marked(MARK, self._mark, timeout_s=EXIT_TIMEOUT_S)
        for process in remaining:
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGKILL)
        assert not remaining, f"processes outlive the kernel: {remaining}"

    def close(self, *, now: bool = False) -> None:
        """End the kernel, if it still runs, and assert that none of its processes is left."""
        self._socket("stdin").disable_monitor()
        self._stdin_events.close(linger=0)
        self.client.stop_channels()
        if self.manager.has_kernel:
            self.manager.shutdown_kernel(now=now)
        self.manager.cleanup_resources()
        self._own_output.close()
        self.assert_gone()

    def own_output(self) -> str:
        """The end of what the kernel's processes wrote to their own standard output and error."""
        return (self.folder / "kernel.log").read_text(errors="replace")[-4000:]

    # -- private ---------------------------------------------------------------------------

    def _environment(self) -> dict[str, str]:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(FOREIGN_VARIABLES)
        }
        ipython = str(self.folder / "ipython")
        return {**inherited, "IPYTHONDIR": ipython, **self.launch.env, MARK: self._mark}

    def _channel(self, name: str) -> ZMQSocketChannel:
        channel: ZMQSocketChannel = getattr(self.client, f"{name}_channel")
        return channel

    def _socket(self, channel: str) -> zmq.Socket[bytes]:
        socket = self._channel(channel).socket
        assert socket is not None
        return socket

    def _conversation(self, request: str | None) -> _Conversation:
        return self._conversations.setdefault(request, _Conversation())

    def _wait_stream(self, request: str, name: str, text: str) -> None:
        published = self._conversation(request).published
        self._pump(
            lambda: text in stream_text(published, name), f"{text!r:.200} on {name}", TIMEOUT_S
        )

    def _wait_nth(self, accept: Callable[[Message], bool], what: str, nth: int) -> Message:
        left = nth

        def accept_nth(message: Message) -> bool:
            nonlocal left
            left -= accept(message)
            return left == 0

        return self.wait_for(accept_nth, what)

    def _pump(self, is_done: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Receive messages from all channels until `is_done`."""
        deadline = time.monotonic() + timeout_s
        poller = zmq.Poller()
        channels = {}
        for name in ("iopub", "shell", "stdin", "control"):
            socket = self._socket(name)
            channels[socket] = name
            poller.register(socket, zmq.POLLIN)
        while not is_done():
            ready = poller.poll(int(max(0.0, deadline - time.monotonic()) * 1000))
            if not ready:
                raise NoMessage(what, self)
            for socket, _ in ready:
                self._receive(channels[socket])

    def _receive(self, channel: str) -> None:
        message = parse(self._channel(channel).get_msg(timeout=0), channel)
        self.log.append(message)
        self._conversation(message.parent_id).add(message)


class NoMessage(AssertionError):
    """What a test waited for did not come in time."""

    def __init__(self, what: str, kernel: Kernel) -> None:
        recent = "\n".join(
            f"  {m.channel} {m.type} of {m.parent_id}: {m.content!r:.300}" for m in kernel.log[-15:]
        )
        alive = ", ".join(f"{p.pid} {p.command}" for p in kernel.processes())
        super().__init__(
            f"no message in time while waiting for {what}\n"
            f"last messages:\n{recent}\nprocesses: {alive}\nkernel wrote:\n{kernel.own_output()}"
        )


def _dedent(code: str) -> str:
    return textwrap.dedent(code).strip("\n")


def _write_spec(folder: Path, argv: Sequence[str]) -> KernelSpecManager:
    spec = folder / "under-test"
    spec.mkdir(parents=True)
    contents = {
        "argv": list(argv),
        "display_name": "under test",
        "language": "python",
        "interrupt_mode": "signal",
        "metadata": {"debugger": True, "supported_encryption": ["curve"]},
    }
    (spec / "kernel.json").write_text(json.dumps(contents))
    return KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False)
