"""What is asked of an engine: requests for its worker, and asks for itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class CellText:
    """What a request says of the cell it runs."""

    source: str = field(repr=False)
    cell_id: str = ""
    """How the notebook calls the cell."""
    version: str | None = None
    """The version that its first line, ``%%chex_record NAME``, names."""
    begins: str | None = None
    """The version that its first line, ``%chex_record NAME``, begins, if code follows."""
    needs_state: bool = True
    """Whether anything in it looks at the state; magics of CHEX alone do not."""
    is_reusable: bool = True
    """Whether its results may stand for it: not if it has magics of CHEX beside other code."""


@dataclass(frozen=True, slots=True)
class Request:
    """A Jupyter request for the worker, passed on as it came."""

    seq: int
    kind: Literal["execute", "again", "comm", "state", "other"]
    """``again`` is a cell that the engine itself runs to bring the worker to a place; ``state`` is
    a question about the state, such as what a name can be completed to."""
    frames: tuple[bytes, ...] = field(repr=False)
    control: bool = False
    """Whether it came on the control channel."""
    cell: CellText | None = None
    """If it is an ordinary cell of a notebook: not silent, and kept in the history."""
    is_silent: bool = False
    """Whether a front end asks it for itself, without showing it."""


@dataclass(frozen=True, slots=True)
class Ask:
    """Something wanted of the engine itself, such as a checkpoint."""

    token: int
    """Identifies the asker to whoever delivers the answer."""
    op: Literal[
        "auto",
        "budget",
        "call",
        "checkpoint",
        "drain",
        "evict",
        "go",
        "lineage",
        "loops",
        "overhead",
        "persist",
        "store",
        "images",
        "load",
        "record",
        "record_loops",
        "recording",
        "restore",
        "reuse",
        "start",
        "status",
        "take",
        "why",
    ]
    args: Mapping[str, Any] = field(default_factory=dict)
    from_cell: bool = False
    """Asked by a magic in the running cell: done when that cell ends."""
    automatic: bool = False
    """Nobody asked: taken by the holding rule."""
