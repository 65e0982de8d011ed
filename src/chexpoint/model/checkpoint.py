"""What is known about a checkpoint, and about the engine that holds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from chexpoint.model.ids import Bytes, CheckpointId, NodeId, Seconds
from chexpoint.model.lineage import Mechanism
from chexpoint.model.record import Taint


@dataclass(frozen=True, slots=True, kw_only=True)
class Hazard:
    """Something in the live process that a fork would not carry over rightly."""

    kind: str
    """What sort of thing: ``native-threads``, ``children``, ``shared-memory``, ..."""
    what: str
    """The culprit by name: a library, a thread, a file, a process."""
    advice: str = ""
    """What the user can do about it."""

    def __str__(self) -> str:
        return f"{self.what} ({self.advice})" if self.advice else self.what


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """One held fork checkpoint, as seen from outside."""

    id: CheckpointId
    name: str | None
    parent: CheckpointId | None
    pid: int
    execution_count: int
    """The number of the last cell in it; 0 is the fresh interpreter."""
    cost_s: Seconds
    """Time the cells took since the parent checkpoint."""
    size_bytes: Bytes
    """Memory that evicting it would free."""
    uses: int
    bad: bool = False
    """Set when a worker restored from it hung; it is not offered again."""
    warnings: tuple[str, ...] = ()
    """What a restore of it cannot bring back, such as network connections."""
    node: NodeId | None = None
    """The node it is a state of, once that is known."""
    taint: Taint = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReport:
    """What a restore did."""

    checkpoint: CheckpointId
    seconds: Seconds
    warnings: tuple[str, ...] = ()
    """What differs from the moment of the checkpoint: files written since, lost connections."""


AutoMode = Literal["rule", "always", "never"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The engine at one moment."""

    worker_pid: int
    busy: bool
    head: CheckpointId | None
    """The checkpoint the live state descends from."""
    cells_since_head: int
    seconds_since_head: Seconds
    auto: AutoMode
    budget_bytes: Bytes
    held_bytes: Bytes
    """Memory held by all checkpoints together, page tables included."""
    worker_bytes: Bytes
    checkpoints: tuple[Checkpoint, ...]
    refused: tuple[Hazard, ...]
    """Why the latest attempt at a checkpoint was refused; empty if it was taken."""
    missing: tuple[str, ...] = ()
    """Capabilities this machine does not have, each a sentence."""
    audit: Mechanism = "off"
    """How the inputs of cells are seen."""
    audit_note: str = ""
    """Why not by system calls, or what that takes away."""
    node: NodeId | None = None
    """Where the user is, once that is known; None at the root as well."""
    is_ahead: bool = False
    """Whether the live state has not been brought to where the user is yet."""
    reuse: bool = True
    """Whether cells of a recorded version may be answered from earlier runs."""
    graph: bool = False
    """Whether they are looked for in the experiment graph, too."""
    allowed: tuple[str, ...] = ()
    """Kinds of hints in spite of which they may."""
    persist: AutoMode = "never"
    """Which states are kept on disk."""
    images: int = 0
    """How many states are there, as far as this engine knows."""
    unkept: str = ""
    """Why the last state that was worth it is not."""


def to_json(value: Any) -> Any:
    """Return frozen model values as plain JSON types."""
    if value is None or isinstance(value, str | int | float):
        return value
    if isinstance(value, tuple | list):
        # A named tuple goes as it is: thousands of events are made of nothing but text.
        return value if hasattr(value, "_fields") else [to_json(item) for item in value]
    if hasattr(value, "__dataclass_fields__"):
        return {name: to_json(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return value


def hazard_from_json(data: dict[str, str]) -> Hazard:
    """Return the hazard that `to_json` wrote."""
    return Hazard(kind=data["kind"], what=data["what"], advice=data["advice"])


def checkpoint_from_json(data: dict[str, Any]) -> Checkpoint:
    """Return the checkpoint that `to_json` wrote."""
    return Checkpoint(**{**data, "warnings": tuple(data["warnings"])})


def report_from_json(data: dict[str, Any]) -> RestoreReport:
    """Return the restore report that `to_json` wrote."""
    return RestoreReport(**{**data, "warnings": tuple(data["warnings"])})


def status_from_json(data: dict[str, Any]) -> Status:
    """Return the status that `to_json` wrote."""
    return Status(
        **{
            **data,
            "checkpoints": tuple(checkpoint_from_json(c) for c in data["checkpoints"]),
            "refused": tuple(hazard_from_json(h) for h in data["refused"]),
            "missing": tuple(data["missing"]),
            "allowed": tuple(data["allowed"]),
        }
    )
