"""A part of a replay as it is seen from where the replay was started."""

from __future__ import annotations

from dataclasses import dataclass

from chexpoint.model import NodeId, Seconds
from chexpoint.replay.cluster_hosts import Seat


@dataclass(slots=True)
class RunningPart:
    """A part that is being computed; a `Reporter`."""

    seat: Seat
    started: float
    leaves: frozenset[NodeId] = frozenset()
    left: tuple[int, Seconds] = (0, 0.0)
    """How many cells are to be computed, and how long that will take."""
    running: NodeId | None = None
    heard: int = 0
    is_idle: bool = False
    """Whether it waits for more, with the states that it holds."""
    states: tuple[NodeId, ...] = ()
    is_finishing: bool = False
    asked: float = 0.0
    """When it was last asked to leave something to others."""

    @property
    def is_starting(self) -> bool:
        """Whether it cannot be given anything yet."""
        return not self.leaves and not self.heard

    @property
    def number(self) -> int:
        """That of its place."""
        return self.seat.number

    def remaining(self) -> tuple[int, Seconds]:
        """Return how many cells are to be computed, and how long that will take."""
        return self.left
