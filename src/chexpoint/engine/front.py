"""What an engine is driven through: Jupyter's sockets, or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from chexpoint.engine import events as ev
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.wire import Channel


@dataclass(frozen=True, slots=True)
class InterruptAsked:
    """The driver wants the running cell interrupted."""


@dataclass(frozen=True, slots=True)
class InputReply:
    """The user has answered a question of the running cell."""

    frames: tuple[bytes, ...]


FrontEvent = ev.Event | InterruptAsked | InputReply


class Front(Protocol):
    """Where an engine's requests come from and where its messages go.

    All methods are called by the supervisor's loop, and none may block.
    """

    def wait(self, readers: Sequence[int], writers: Sequence[int], timeout_s: float) -> set[int]:
        """Wait for any descriptor, or for input of the front's own; return the ready ones."""

    def incoming(self) -> Iterable[FrontEvent]:
        """Return what has come in; called after each `wait`."""

    def ready(self, kernel_info: Mapping[str, Any]) -> None:
        """A worker has started; called for every fresh one."""

    def switched(self) -> None:
        """Another process is the worker now."""

    def deliver(self, channel: Channel, frames: Sequence[bytes]) -> None:
        """Pass on a message of the worker."""

    def publish(self, kind: str, content: dict[str, Any], request: Request | None) -> None:
        """Publish a message of the supervisor's own, on behalf of a request."""

    def reply(self, request: Request, content: dict[str, Any]) -> None:
        """Answer a request in the place of the worker."""

    def cell(self, source: str) -> tuple[bytes, ...]:
        """Return an execute request of the supervisor's own; nobody hears what it leads to."""

    def answer(self, ask: Ask, result: Any, error: Exception | None) -> None:
        """Answer a driver's ask; ``result`` is made of JSON types."""

    def stopped(self, how: str) -> None:
        """The engine ends; called last."""
