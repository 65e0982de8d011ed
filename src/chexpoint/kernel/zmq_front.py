"""The front of the interactive kernel: Jupyter's five ZMQ sockets."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import socket
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal

import zmq

from chexpoint.engine import (
    Ask,
    Asked,
    Channel,
    Codec,
    Event,
    FrontEvent,
    InputReply,
    InterruptAsked,
    Message,
    Request,
    ShutdownAsked,
    Submitted,
    cell_of,
    execute_request,
)
from chexpoint.errors import InvalidValue
from chexpoint.kernel.debug_thread import DebugThread
from chexpoint.kernel.sockets import Sockets

_TOPIC = b"kernel.chex."
_SOCKETS = {
    Channel.SHELL: "shell",
    Channel.CONTROL: "control",
    Channel.IOPUB: "iopub",
    Channel.STDIN: "stdin",
}
_COMMS = {"comm_open", "comm_msg", "comm_close"}
# The target by which a front end asks for the states of all widgets, as soon as it sees a kernel.
_WIDGET_CONTROL = "jupyter.widget.control"
_ABOUT_STATE = {"complete_request", "inspect_request"}


class ZmqFront:
    """Passes messages between Jupyter clients and the supervisor; see `Front`."""

    def __init__(self, sockets: Sockets) -> None:
        self._sockets = sockets
        spec = sockets.spec
        self._codec = Codec(spec.key, spec.scheme, os.environ.get("USER", ""))
        self._seq = itertools.count(1)
        self._poller = zmq.Poller()
        for zmq_socket in sockets.by_name.values():
            self._poller.register(zmq_socket, zmq.POLLIN)
        self._asking_comms: set[object] = set()
        """Those by which a front end only asks what to show."""
        self._polled: dict[int, zmq.PollEvent] = {}
        self._kernel_info: Mapping[str, Any] | None = None
        self._waiting_for_info: list[Message] = []
        self._wants_input = False
        self._shutdown: tuple[dict[str, Any], dict[str, Any]] | None = None
        self._debug: DebugThread | None = None
        self._debug_parent: dict[str, Any] = {}
        self._calls: dict[int, Callable[[Any], None]] = {}
        self._inbox: queue.SimpleQueue[Callable[[], Event | None]] = queue.SimpleQueue()
        self._wake_reader, self._wake_writer = os.pipe()
        os.set_blocking(self._wake_reader, False)
        self._poller.register(self._wake_reader, zmq.POLLIN)

    # ------------------------------------------------------------ in

    def wait(self, readers: Sequence[int], writers: Sequence[int], timeout_s: float) -> set[int]:
        wanted: dict[int, zmq.PollEvent] = dict.fromkeys(readers, zmq.POLLIN)
        for fd in writers:
            wanted[fd] = zmq.POLLIN | zmq.POLLOUT
        if wanted != self._polled:
            for fd in self._polled.keys() - wanted.keys():
                self._poller.unregister(fd)
            for fd, flags in wanted.items():
                self._poller.register(fd, flags)
            self._polled = wanted
        # A part of a millisecond is not nothing: rounding down would spin.
        ready = {item for item, _ in self._poller.poll(int(timeout_s * 1000) + 1)}
        return {item for item in ready if isinstance(item, int)}

    def incoming(self) -> Iterator[FrontEvent]:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake_reader, 4096)
        while not self._inbox.empty():
            event = self._inbox.get()()
            if event is not None:
                yield event
        self._answer_heartbeat()
        self._welcome_subscribers()
        yield from self._stdin()
        yield from self._control()
        yield from self._shell()

    def _received(self, name: str) -> Iterator[list[bytes]]:
        while True:
            try:
                yield self._sockets.by_name[name].recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                return

    def _parsed(self, name: str, *, once: bool = False) -> Iterator[Message]:
        for frames in self._received(name):
            try:
                yield self._codec.parse(frames, once=once)
            except InvalidValue as error:
                print(f"chex: message on {name} ignored: {error}", file=sys.stderr)

    def _answer_heartbeat(self) -> None:
        for frames in self._received("hb"):
            self._sockets.by_name["hb"].send_multipart(frames)

    def _welcome_subscribers(self) -> None:
        for frame, *_ in self._received("iopub"):
            if frame[:1] == b"\x01":
                content = {"subscription": frame[1:].decode(errors="replace")}
                idents = [frame[1:]] if frame[1:] else []
                self._send("iopub", self._codec.build("iopub_welcome", content, idents=idents))

    def _stdin(self) -> Iterator[FrontEvent]:
        for frames in self._received("stdin"):
            if self._wants_input:  # else it answers a question that was given up
                self._wants_input = False
                yield InputReply(tuple(frames))

    def _shell(self) -> Iterator[Event]:
        for message in self._parsed("shell"):
            kind: Literal["execute", "comm", "state", "other"] = "other"
            cell, is_silent = None, False
            if message.type == "execute_request":
                kind = "execute"
                cell, is_silent = cell_of(message)
            elif message.type in _COMMS:
                kind = "comm"
                is_silent = self._only_asks(message)
            elif message.type in _ABOUT_STATE:
                kind = "state"
            request = Request(next(self._seq), kind, message.frames, cell=cell, is_silent=is_silent)
            yield Submitted(request)

    def _only_asks(self, message: Message) -> bool:
        """Return whether a message to a comm asks for the states of widgets, and runs no code."""
        comm, content = message.content.get("comm_id"), message.content
        if message.type == "comm_open" and content.get("target_name") == _WIDGET_CONTROL:
            self._asking_comms.add(comm)
        if comm not in self._asking_comms:
            return False
        data = content.get("data")
        method = data.get("method") if isinstance(data, dict) else None
        return message.type != "comm_msg" or method == "request_states"

    def _control(self) -> Iterator[Event | InterruptAsked]:
        for message in self._parsed("control", once=True):
            match message.type:
                case "debug_request":
                    self._debug_request(message)
                case "kernel_info_request" if self._kernel_info is None:
                    self._waiting_for_info.append(message)
                case "kernel_info_request":
                    self._reply_kernel_info(message)
                case "usage_request":
                    self._reply_control(message, self._usage())
                case "interrupt_request":
                    yield InterruptAsked()
                    self._reply_control(message, {"status": "ok"})
                case "shutdown_request":
                    content = {"status": "ok", "restart": message.content.get("restart", False)}
                    self._reply_control(message, content)
                    self._shutdown = (content, message.header)
                    yield ShutdownAsked()
                case kind if kind.endswith("_subshell_request"):
                    text = "CHEX has no subshells: one state, one timeline"
                    error = {"status": "error", "ename": "NotSupported", "evalue": text}
                    self._reply_control(message, {**error, "traceback": []})
                case _:
                    request = Request(next(self._seq), "other", message.frames, control=True)
                    yield Submitted(request)

    # ------------------------------------------------------------ out

    def _send(self, name: str, frames: Sequence[bytes]) -> None:
        self._sockets.by_name[name].send_multipart(frames)

    def _publish(self, kind: str, content: dict[str, Any], parent: dict[str, Any]) -> None:
        topic = b"stream." + content["name"].encode() if kind == "stream" else kind.encode()
        idents = [topic if kind == "stream" else _TOPIC + topic]
        self._send("iopub", self._codec.build(kind, content, parent=parent, idents=idents))

    def _status(self, state: str, parent: dict[str, Any]) -> None:
        self._publish("status", {"execution_state": state}, parent)

    def _reply(self, name: str, message: Message, content: dict[str, Any]) -> None:
        metadata = {"status": content["status"]} if "status" in content else {}
        frames = self._codec.build(
            message.reply_type,
            content,
            parent=message.header,
            idents=message.idents,
            metadata=metadata,
        )
        self._send(name, frames)

    def _reply_control(self, message: Message, content: dict[str, Any]) -> None:
        self._status("busy", message.header)
        self._reply("control", message, content)
        self._status("idle", message.header)

    def _reply_kernel_info(self, message: Message) -> None:
        self._reply_control(message, {"status": "ok", **(self._kernel_info or {})})

    def _usage(self) -> dict[str, Any]:
        import psutil

        processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
        cpu, memory = 0.0, 0
        for process in processes:
            with contextlib.suppress(psutil.Error):
                cpu += process.cpu_percent()
                memory += process.memory_full_info().pss
        return {
            "hostname": socket.gethostname(),
            "pid": os.getpid(),
            "kernel_cpu": cpu,
            "kernel_memory": memory,
            "host_cpu_percent": psutil.cpu_percent(),
            "cpu_count": psutil.cpu_count(),
            "host_virtual_memory": dict(psutil.virtual_memory()._asdict()),
        }

    def ready(self, kernel_info: Mapping[str, Any]) -> None:
        self._kernel_info = kernel_info
        waiting, self._waiting_for_info = self._waiting_for_info, []
        for message in waiting:
            self._reply_kernel_info(message)

    def switched(self) -> None:
        self._wants_input = False
        if self._debug is not None:
            self._debug.stop()
            self._debug = None

    def deliver(self, channel: Channel, frames: Sequence[bytes]) -> None:
        if channel == Channel.STDIN:
            self._wants_input = True
            for _ in self._received("stdin"):
                pass  # answers to questions that were given up
        elif channel == Channel.SHELL:
            self._wants_input = False  # the cell that asked has ended
        self._send(_SOCKETS[channel], frames)

    def publish(self, kind: str, content: dict[str, Any], request: Request | None) -> None:
        self._publish(kind, content, self._codec.parse(request.frames).header if request else {})

    def reply(self, request: Request, content: dict[str, Any]) -> None:
        channel = "control" if request.control else "shell"
        self._reply(channel, self._codec.parse(request.frames), content)

    def cell(self, source: str) -> tuple[bytes, ...]:
        return execute_request(self._codec, source)

    def answer(self, ask: Ask, result: Any, error: Exception | None) -> None:
        callback = self._calls.pop(ask.token, None)
        if callback is not None:
            callback({"ok": False, "error": str(error)} if error else result)

    def stopped(self, how: str) -> None:
        if self._debug is not None:
            self._debug.stop()
        if self._shutdown is not None:
            self._publish("shutdown_reply", *self._shutdown)
        self._sockets.close()

    # ------------------------------------------------------------ debugger

    def _debug_request(self, message: Message) -> None:
        if self._debug is None:
            self._debug = DebugThread(self._ask_worker, self._debug_event)

        def on_begin() -> None:
            self._later(lambda: self._debug_begins(message))

        def on_reply(reply: Any) -> None:
            self._later(lambda: self._debug_reply(message, reply))

        self._debug.request(message.content, on_begin, on_reply)

    def _debug_begins(self, message: Message) -> None:
        self._debug_parent = message.header
        self._status("busy", message.header)

    def _debug_reply(self, message: Message, reply: Any) -> None:
        self._reply("control", message, reply or {})
        self._status("idle", message.header)

    def _debug_event(self, event: Any) -> None:
        self._later(lambda: self._publish("debug_event", event, self._debug_parent))

    def _ask_worker(self, args: dict[str, Any], callback: Callable[[Any], None]) -> None:
        def ask() -> Event:
            token = next(self._seq)
            self._calls[token] = callback
            return Asked(Ask(token, "call", args))

        self._later(ask)

    def _later(self, action: Callable[[], Event | None]) -> None:
        """Do something on the supervisor's loop; called from the debugger's thread."""
        self._inbox.put(action)
        os.write(self._wake_writer, b"\0")
