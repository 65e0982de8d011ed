"""Values of hindsight logging: loops, what was recorded of them, what a replay of them found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from chexpoint.model.ids import Bytes, Seconds

LoopKind = Literal["for", "while"]
Standing = Literal["exact", "unverified", "diverged"]
"""How far a replayed value can be trusted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSite:
    """A loop of a program, as its text shows it."""

    site: int
    """Its number among the instrumented loops of the program, in the order of the text."""
    line: int
    kind: LoopKind
    label: str
    """What its iterations are called: the (first) target of ``for``, else ``"step"``."""
    within: int | None = None
    """The site of the loop around it, in the same function."""
    function: str = ""
    """Qualified name of the function it is in; empty at the top level."""
    names: tuple[str, ...] = ()
    """All names that its text mentions."""
    bound: tuple[str, ...] = ()
    """Those of them that its text binds."""
    estimate: tuple[str, ...] = ()
    """Names that it changes, by the rules, without those that are its own."""
    own: tuple[str, ...] = ()
    """Names that it defines and nobody reads after it."""
    no_estimate: str = ""
    """Why the rules give no estimate: then the loop is never skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedValue:
    """Something that a program logged inside a main loop."""

    loop: int
    """Which main loop of the cell, in the order in which they ran."""
    at: tuple[int, ...]
    """Which iteration of the main loop, and of the loop in it, from 0 on."""
    labels: tuple[tuple[str, Any], ...] = ()
    """What the program calls these: ``(("epoch", 3), ("step", 17))``."""
    line: int = 0
    """Of the statement, in the cell."""
    via: str = "log"
    """``log``, ``print``, ``tensorboard``, ``mlflow``, ``wandb`` or ``logging``."""
    name: str = ""
    value: Any = None
    """A number, a text, or another value that JSON has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopCheckpoint:
    """The state at one point of a main loop: in which image each leaf of it is."""

    leaves: Mapping[str, str]
    """Names of images, by leaf."""
    at: tuple[int, ...] = ()
    """``(i,)``: before iteration i; ``(i, b)``: after block number b of iteration i."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRecord:
    """One execution of a block: a loop inside an iteration of a main loop."""

    site: int
    seconds: Seconds
    checkpoint: LoopCheckpoint | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IterationRecord:
    """One iteration of a main loop."""

    seconds: Seconds = 0.0
    start: LoopCheckpoint | None = None
    """The state before it."""
    blocks: tuple[BlockRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRecord:
    """One execution of a main loop."""

    site: int
    ordinal: int = 0
    """Which execution of its site as a main loop it was, in the run."""
    base: Mapping[str, str] = field(default_factory=dict)
    """Sketches of leaves as they were at its beginning."""
    iterations: tuple[IterationRecord, ...] = ()
    end: LoopCheckpoint | None = None
    """The state after it."""
    how: str = ""
    """``end``, ``break``; empty if it was left by an exception, or is still running."""
    can_jump: bool = False
    """Whether iterations may be passed over: its iterable is passive, and all state was seen."""
    why_not: str = ""
    """Why they may not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopRun:
    """What was recorded of the main loops of one execution of a cell or script."""

    run: str
    source: str
    session: str = ""
    execution_count: int = 0
    file: str = ""
    time: float = 0.0
    seconds: Seconds = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    sites: tuple[LoopSite, ...] = ()
    loops: tuple[LoopRecord, ...] = ()
    values: tuple[LoggedValue, ...] = ()
    digests: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By image and leaf; a leaf whose contents cannot be compared has none."""
    refused: Mapping[int, str] = field(default_factory=dict)
    """Sites that could not be recorded, and why."""
    stored_bytes: Bytes = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """Iterations of a main loop that one worker replays."""

    start: int
    stop: int
    first: int
    """Where it goes before: to the state before this iteration.  0 is the loop's own beginning."""
    is_jump: bool
    """Whether it gets there at once; else through all iterations, with their blocks skipped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightRow:
    """A value that a replay found, as a user sees it."""

    version: str
    value: LoggedValue
    standing: Standing
    is_added: bool = True
    """Whether an added statement logged it; else the program as it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightFinding:
    """Something in which a replay differs from the record."""

    loop: int
    at: tuple[int, ...]
    what: str
    """In one sentence."""
    leaves: tuple[str, ...] = ()
    """State that differs."""
    missed: tuple[str, ...] = ()
    """Variables that the analysis of side effects did not know of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightResult:
    """What replaying one version in hindsight gave."""

    version: str
    rows: tuple[HindsightRow, ...] = ()
    findings: tuple[HindsightFinding, ...] = ()
    notes: tuple[str, ...] = ()
    """What a user should know: why something was computed again, and the like."""
    failed: str = ""
    """Why there is no result, in one sentence."""
    iterations: int = 0
    """How many were replayed."""
    computed_blocks: int = 0
    skipped_blocks: int = 0
    seconds: Seconds = 0.0
    recorded_seconds: Seconds = 0.0
    """How long the main loop took when it was recorded."""
    workers: int = 1
