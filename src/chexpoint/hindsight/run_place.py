"""Where runs are recorded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chexpoint.hindsight.writing.materialiser import Materialiser


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where and how runs are recorded."""

    folder: Path
    """Of all runs of a project."""
    store: str
    """Of images."""
    session: str
    epsilon: float
    """The share of time that checkpoints may take; infinite if that does not matter."""
    wait_s: float = 0.0
    """How long to wait, after a program, until all is on disk."""
    materialiser: Callable[[str, str], Materialiser] | None = None
    """Makes one, for a store and the folder of a run; by default, `open_materialiser`."""

    @property
    def keeps_all(self) -> bool:
        """Whether every state is kept, whatever that costs."""
        return math.isinf(self.epsilon)
