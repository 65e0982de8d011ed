"""The front of a headless engine: one packet connection to the process that drives it."""

from __future__ import annotations

import contextlib
import itertools
import json
import select
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.cells import cell_of
from chexpoint.engine.front import FrontEvent, InterruptAsked
from chexpoint.engine.message import HEADLESS_KEY, Codec, execute_request
from chexpoint.engine.wire import Channel, Link, Packet
from chexpoint.model import to_json


class PipeFront:
    """Passes packets between a driver and the supervisor; see `Front`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._codec = Codec(HEADLESS_KEY)
        self._seq = itertools.count(1)
        self._closed = False

    def wait(self, readers: Sequence[int], writers: Sequence[int], timeout_s: float) -> set[int]:
        poll = select.poll()
        mine = self._link.fileno()
        for fd in readers:
            poll.register(fd, select.POLLIN)
        for fd in writers:
            poll.register(fd, select.POLLIN | select.POLLOUT)
        if not self._closed:
            poll.register(mine, select.POLLIN)
        return {fd for fd, _ in poll.poll(timeout_s * 1000)}

    def incoming(self) -> Iterable[FrontEvent]:
        while not self._closed:
            try:
                packet = self._link.receive(wait=False)
            except BlockingIOError:
                return
            if packet is None:
                self._closed = True
                yield ev.ShutdownAsked()
                return
            yield self._event(packet)

    def _event(self, packet: Packet) -> FrontEvent:
        if packet.channel == Channel.SHELL:
            message = self._codec.parse(packet.frames)
            cell, _ = cell_of(message)
            request = Request(next(self._seq), "execute", message.frames, cell=cell)
            return ev.Submitted(request)
        command = packet.command()
        match command["do"]:
            case "ask":
                return ev.Asked(Ask(command["token"], command["op"], command["args"]))
            case "interrupt":
                return InterruptAsked()
        return ev.ShutdownAsked()

    def _send(self, channel: Channel, frames: Sequence[Any]) -> None:
        # That the driver is gone shows when it is listened to: then the engine has to end.
        with contextlib.suppress(OSError):
            self._link.send(channel, frames)

    def _tell(self, **event: Any) -> None:
        self._send(Channel.ENGINE, [json.dumps(event).encode()])

    def ready(self, kernel_info: Mapping[str, Any]) -> None:
        self._tell(event="ready", kernel_info=kernel_info)

    def switched(self) -> None:
        """The driver learns it from the answer to its ask."""

    def deliver(self, channel: Channel, frames: Sequence[bytes]) -> None:
        self._send(channel, frames)

    def publish(self, kind: str, content: dict[str, Any], request: Request | None) -> None:
        parent = self._codec.parse(request.frames).header if request else {}
        self._send(Channel.IOPUB, self._codec.build(kind, content, parent=parent))

    def reply(self, request: Request, content: dict[str, Any]) -> None:
        message = self._codec.parse(request.frames)
        frames = self._codec.build(message.reply_type, content, parent=message.header)
        self._send(Channel.SHELL, frames)

    def cell(self, source: str) -> tuple[bytes, ...]:
        return execute_request(self._codec, source)

    def answer(self, ask: Ask, result: Any, error: Exception | None) -> None:
        if error is None:
            self._tell(event="answer", token=ask.token, result=result)
        else:
            described = {"type": type(error).__name__, "args": to_json(error.args)}
            self._tell(event="answer", token=ask.token, error=described)

    def stopped(self, how: str) -> None:
        self._tell(event="stopped", how=how)
