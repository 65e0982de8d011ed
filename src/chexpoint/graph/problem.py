"""The question of what to load and what to compute, in numbers.

Cells stand in the order in which they run, artifacts in any.  A cell that runs gives all its
artifacts; one that does not may have some of them loaded instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from chexpoint.model import Seconds

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class CellCost:
    """One cell."""

    seconds: Seconds
    """What running it takes; `NEVER` if it cannot be run any more."""
    reads: tuple[int, ...] = ()
    """The artifacts it needs."""
    must_run: bool = False
    """Whether it cannot be passed over."""


@dataclass(frozen=True, slots=True)
class ArtifactCost:
    """One artifact."""

    cell: int
    """The cell that makes it."""
    load_s: Seconds = NEVER
    """What loading it takes; 0 if it is in memory, `NEVER` if it is not stored."""


@dataclass(frozen=True, slots=True)
class ReuseProblem:
    """What is there, and what is wanted."""

    cells: tuple[CellCost, ...]
    artifacts: tuple[ArtifactCost, ...]
    targets: frozenset[int] = frozenset()
    """Artifacts that are wanted."""


@dataclass(frozen=True, slots=True)
class ReusePlan:
    """What to do."""

    run: frozenset[int] = frozenset()
    """Cells."""
    load: frozenset[int] = frozenset()
    """Artifacts; none of a cell that runs."""
    seconds: Seconds = 0.0
    """What it takes; `NEVER` if there is no way."""
    notes: tuple[str, ...] = field(default=(), compare=False)
