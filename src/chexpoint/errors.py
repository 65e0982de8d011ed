"""Every error CHEX raises on purpose.

* ChexError
  x InvalidValue (+ ValueError)
  x CatalogError
  x PackageError
  x StoreError
    + StoreDamaged
    + StoreTooNew
    + UnknownImage (+ LookupError)
  x ImageRefused
  x GraphError
  x ClusterError
  x InvalidPlan
  x EngineError
    + EngineClosed
    + WorkerDied
    + EngineTimeout (+ TimeoutError)
    + ForkRefused
    + RestoreFailed
    + NotReached
    + UnknownCheckpoint (+ LookupError)

Messages say what happened, to what, and what to do next.  All of them survive
pickling, because they cross processes: ``args`` always equals what
``__init__`` was given.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chexpoint.model import Hazard, PlanStep


class ChexError(Exception):
    """Base of all errors of CHEX; ``exit_code`` is what the command returns."""

    exit_code = 1


class InvalidValue(ChexError, ValueError):
    """A value given by the user cannot be understood."""

    exit_code = 2


class CatalogError(ChexError):
    """The catalog of a project cannot be read or written."""


class PackageError(ChexError):
    """A package is damaged, not safe, or made by a newer CHEX; or it cannot be written."""


class StoreError(ChexError):
    """A store cannot be read or written: no room, no permission, not a store."""


class StoreDamaged(StoreError):
    """What a store holds is not what was written to it; ``chex fsck`` says how much is lost."""


class StoreTooNew(StoreError):
    """A store was written by a newer CHEX."""


class UnknownImage(StoreError, LookupError):
    """A store has no image of that name."""


class ImageRefused(ChexError):
    """An image cannot stand for the state now: another Python, another library, another key."""


class GraphError(ChexError):
    """The experiment graph cannot be read or written: its database is gone, damaged or newer."""


class ClusterError(ChexError):
    """A cluster cannot be used: nobody answers, or its hosts are not fit for it."""


class InvalidPlan(ChexError):
    """A plan does not do what it says.

    ``number`` is that of the step that is wrong, and ``lane`` that of the plan in its schedule,
    both from 0; None if it is the whole.
    """

    def __init__(
        self,
        reason: str,
        number: int | None = None,
        step: PlanStep | None = None,
        lane: int | None = None,
    ) -> None:
        super().__init__(reason, number, step, lane)
        self.reason = reason
        self.number = number
        self.step = step
        self.lane = lane

    def __str__(self) -> str:
        where = [] if self.lane is None else [f"lane {self.lane}"]
        if self.step is not None:
            node = "a fresh worker" if self.step.node is None else f"'{self.step.node}'"
            where.append(f"step {self.number} ({self.step.action} {node})")
        return ": ".join(["the plan cannot be run", *where, self.reason]) + ". Plan again."


class EngineError(ChexError):
    """The engine could not do what it was asked."""


class EngineClosed(EngineError):
    """The engine has ended, or was never started."""


class WorkerDied(EngineError):
    """The process that runs the cells died."""


class EngineTimeout(EngineError, TimeoutError):
    """The engine did not answer in time."""


class ForkRefused(EngineError):
    """No checkpoint was taken, because it might be wrong when restored."""

    def __init__(self, reasons: tuple[Hazard, ...]) -> None:
        super().__init__(reasons)
        self.reasons = reasons

    def __str__(self) -> str:
        return "no checkpoint: " + "; ".join(str(reason) for reason in self.reasons)


class RestoreFailed(EngineError):
    """The checkpoint is there but did not come alive; the state is what it was before."""


class NotReached(EngineError):
    """A recorded state could not be brought back."""


class UnknownCheckpoint(EngineError, LookupError):
    """No held checkpoint has this name or id."""

    def __init__(self, ref: str, known: tuple[str, ...] = ()) -> None:
        super().__init__(ref, known)
        self.ref = ref
        self.known = known

    def __str__(self) -> str:
        return f"no checkpoint '{self.ref}'. {suggestion(self.ref, self.known)}"


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence naming the known words closest to a mistyped one."""
    choices = sorted(set(known))
    close = difflib.get_close_matches(word, choices, n=3, cutoff=0.5)
    if close:
        return f"Did you mean {' or '.join(close)}?"
    if choices:
        shown = ", ".join(choices[-24:])
        return f"Known: {shown}."
    return "None is held yet: %chex_checkpoint NAME takes one."
