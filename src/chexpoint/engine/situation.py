"""The situations the live worker can be in; see `state`."""

from __future__ import annotations

from dataclasses import dataclass

from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.timeline import Load, Pass
from chexpoint.lineage import Step
from chexpoint.model import CheckpointId, ImageName


@dataclass(frozen=True, slots=True)
class Starting:
    """A fresh worker process has been started and has not yet spoken."""

    attempt: int = 1


@dataclass(frozen=True, slots=True)
class Idle:
    """It waits; the next thing in the queue can be begun."""


@dataclass(frozen=True, slots=True)
class Looking:
    """It waits while it is found out whether the next cell must be run."""

    request: Request


@dataclass(frozen=True, slots=True)
class Checking:
    """It waits while files are compared with what a state has seen."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Running:
    """It works on one request."""

    request: Request
    step: Step | None = None
    """Where it will be then, if the request turns out to be a cell."""


@dataclass(frozen=True, slots=True)
class Forking:
    """It has been told to fork a checkpoint."""

    checkpoint: CheckpointId
    ask: Ask


@dataclass(frozen=True, slots=True)
class Thawing:
    """A checkpoint has been told to go live.

    The old worker, if there is one, is still there in case that fails.
    """

    checkpoint: CheckpointId
    ask: Ask | None


@dataclass(frozen=True, slots=True)
class Imaging:
    """It writes an image of itself, because it could not be forked."""

    image: ImageName


@dataclass(frozen=True, slots=True)
class Loading:
    """It has been told to load an image."""

    load: Load
    ask: Ask | None = None
    """Who wants that, if it is not on the way to a place."""


@dataclass(frozen=True, slots=True)
class Binding:
    """It has been told to load some variables, and to forget others."""

    passed: Pass


@dataclass(frozen=True, slots=True)
class Calling:
    """It does a command for the driver."""

    ask: Ask


@dataclass(frozen=True, slots=True)
class Stopping:
    """The engine ends."""

    request: Request | None = None
    """What was running when the end was asked for."""


Situation = (
    Starting
    | Idle
    | Looking
    | Checking
    | Running
    | Forking
    | Thawing
    | Imaging
    | Loading
    | Binding
    | Calling
    | Stopping
)
