"""What replaying a version in hindsight is about: its cells, and the parts of its loops."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chexpoint.hindsight import AddedStatement
from chexpoint.model import LoopRun, LoopSite, NodeId, Seconds, Segment
from chexpoint.replay.hindsight_source import LineRange

Epochs = tuple[int, int]
"""The first iteration that is wanted, and the first after it that is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OldCell:
    """A cell as it was recorded."""

    source: str
    """Plain Python; see `runnable`."""
    node: NodeId | None = None
    run: Path | None = None
    """The folder of what was recorded of its loops."""
    seconds: Seconds = 0.0
    is_own: bool = False
    """Whether CHEX has added it: then no file of the user has it."""
    is_failing: bool = False
    """Whether it failed when it was recorded."""
    cell_id: str = ""
    """How its notebook calls it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewCell:
    """A cell as it is now."""

    source: str
    line: int = 0
    """Where it begins in its file, counted from 1; 0 if its lines are counted from its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbedCell:
    """A cell that is run again."""

    source: str
    old_source: str = ""
    line: int = 1
    node: NodeId | None = None
    folder: Path | None = None
    """Of its run."""
    run: LoopRun | None = None
    added: tuple[LineRange, ...] = ()
    removed: tuple[int, ...] = ()
    statements: tuple[AddedStatement, ...] = ()
    """What was added, as far as it logs."""
    helpers: tuple[AddedStatement, ...] = ()
    """Added statements that log nothing themselves."""
    sites: tuple[LoopSite, ...] = ()
    """Its own loops, as they were recorded."""
    step_into: frozenset[int] = frozenset()
    """Loops that have to be executed, because something in them logs."""
    seconds: Seconds = 0.0
    is_failing: bool = False
    """Whether it failed when it was recorded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """Iterations of one main loop, for one engine."""

    cell: int
    """The place of the cell whose loop it is."""
    loop: int
    """Which main loop of the run."""
    segment: Segment
    seconds: Seconds = 0.0
    """What it should take."""

    def is_of(self, cell: int, loop: int) -> bool:
        """Return whether it is a part of a main loop."""
        return (self.cell, self.loop) == (cell, loop)


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightPlan:
    """How a version is replayed."""

    version: str
    cells: tuple[ProbedCell, ...] = ()
    probes: tuple[Probe, ...] = ()
    problems: tuple[str, ...] = ()
    """Why nothing can be replayed, one sentence each."""
    notes: tuple[str, ...] = ()
    seconds: Seconds = 0.0
    """What it should take, without the start of engines."""
    recorded_seconds: Seconds = 0.0
    """What the loops took when they were recorded."""

    @property
    def iterations(self) -> int:
        return sum(probe.segment.stop - probe.segment.start for probe in self.probes)
