"""Where an engine is: the place the user is at, and the place its worker is at.

They differ after cells that were not run because their results are known: only
the place moves.  The worker follows when its state is needed: from the nearest
checkpoint on the way, or from where it is, through the cells in between.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from chexpoint.lineage import Step
from chexpoint.model import Checkpoint, CheckpointId, PathCell


@dataclass(frozen=True, slots=True)
class Route:
    """How the worker gets to the place."""

    checkpoint: CheckpointId | None
    """To be restored first."""
    is_fresh: bool
    """Whether there is nothing to restore, so that a fresh worker must be started."""
    cells: tuple[Step, ...]
    """To be run then."""


class Timeline:
    """The place, the worker's place, and where each checkpoint was taken."""

    def __init__(self) -> None:
        self.worker = Step(None)
        """Where the live worker is."""
        self._ahead: Step | None = None
        self._marks: dict[CheckpointId, Step] = {}
        self.way: deque[Step] = deque()
        """Cells that the worker still has to run to get to the place, once it is under way."""
        self.is_under_way = False

    @property
    def place(self) -> Step:
        """Where the user is."""
        return self.worker if self._ahead is None else self._ahead

    @property
    def is_there(self) -> bool:
        """Whether the worker is where the user is."""
        return not self.is_under_way and (
            self._ahead is None or self.worker.is_same_state(self._ahead)
        )

    @property
    def root(self) -> Step:
        return self.worker.path()[0]

    # ------------------------------------------------------------ the user's place

    def advance(self, step: Step) -> None:
        """Move the place alone: to the step after a cell that need not be run."""
        self._ahead = step
        self.stay()

    def go(self, cells: Sequence[PathCell]) -> None:
        """Move the place alone: to the end of a path from the root."""
        at = self.root
        for cell in cells:
            at = Step.recalled(at, cell)
        self._ahead = at
        self.stay()

    def stay(self) -> None:
        """Give up a way that was begun."""
        self.way.clear()
        self.is_under_way = False

    # ------------------------------------------------------------ the worker's place

    def run(self, step: Step) -> None:
        """The worker has run a cell, and the user is where it is."""
        self.worker = step
        self.join()

    def fresh(self) -> None:
        """A fresh worker has started."""
        self.worker = Step(None)

    def mark(self, checkpoint: CheckpointId) -> None:
        """A checkpoint is taken of the worker."""
        self._marks[checkpoint] = self.worker

    def marked(self, checkpoint: CheckpointId) -> Step | None:
        """Return where a checkpoint was taken."""
        return self._marks.get(checkpoint)

    def restored(self, checkpoint: CheckpointId) -> None:
        """The worker comes from a checkpoint now."""
        self.worker = self._marks.get(checkpoint) or Step(None)

    def forget(self, checkpoint: CheckpointId) -> None:
        self._marks.pop(checkpoint, None)

    # ------------------------------------------------------------ following

    def route(self, held: Iterable[Checkpoint]) -> Route:
        """Return the shortest way of the worker to the place: the fewest cells to run."""
        path = self.place.path()
        usable = [(c.id, self._marks[c.id]) for c in held if not c.bad and c.id in self._marks]
        for at in range(len(path) - 1, -1, -1):
            cells = tuple(path[at + 1 :])
            if self.worker.is_same_state(path[at]):
                return Route(None, False, cells)
            for checkpoint, mark in usable:
                if mark.is_same_state(path[at]):
                    return Route(checkpoint, False, cells)
        return Route(None, True, tuple(path[1:]))

    def set_out(self, route: Route) -> None:
        """The worker begins to follow."""
        self.way = deque(route.cells)
        self.is_under_way = True

    def passed(self, step: Step) -> None:
        """The worker has run the next cell of the way, as a step of its own."""
        self.worker = step
        self.way.popleft()

    def join(self) -> None:
        """The user is where the worker is, whether that was the place or not."""
        self.stay()
        self._ahead = None
