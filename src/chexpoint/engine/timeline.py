"""Where an engine is: the place the user is at, and the place its worker is at.

They differ after cells that were not run because their results are known: only
the place moves.  The worker follows when its state is needed: from the nearest
checkpoint on the way, or from where it is, through the cells in between.  With
the experiment graph it may pass over cells, and then lacks variables that no
cell has needed so far.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TYPE_CHECKING

from chexpoint.lineage import Step
from chexpoint.model import (
    ArtifactId,
    CellLineage,
    Checkpoint,
    CheckpointId,
    ImageName,
    PathCell,
    Seconds,
)

if TYPE_CHECKING:
    from chexpoint.engine.gallery import Picture


@dataclass(frozen=True, slots=True)
class Load:
    """An image to be loaded on the way to the place."""

    image: ImageName
    step: Step
    """Where the worker is then."""
    keep: tuple[str, ...] = ()
    """Variables that stay as they are."""
    seconds: Seconds = 0.0
    """How long it takes, about."""


@dataclass(frozen=True, slots=True)
class Item:
    """Variables that are loaded, without the cell that makes them."""

    artifact: ArtifactId
    names: tuple[str, ...]
    contents: str = field(default="", repr=False)
    """They themselves, if they are little."""
    image: str = ""
    """Else the image that holds them."""
    store: str = ""
    """And where that is."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Cells to be passed over on the way to the place."""

    step: Step
    """Where the worker is then; it says what the worker lacks there."""
    items: tuple[Item, ...] = ()
    """To be loaded."""
    unbind: tuple[str, ...] = ()
    """Variables that are something else there."""
    seconds: Seconds = 0.0
    """How long it takes, about."""


@dataclass(frozen=True, slots=True)
class Way:
    """A way to a place that leaves out what is not needed there."""

    is_from_root: bool
    """Whether it begins in the fresh interpreter, and not where the worker is."""
    moves: tuple[Step | Pass, ...]
    seconds: Seconds


Move = Step | Load | Pass


@dataclass(frozen=True, slots=True)
class Route:
    """How the worker gets to the place."""

    checkpoint: CheckpointId | None
    """To be restored first."""
    is_fresh: bool
    """Whether there is nothing to restore, so that a fresh worker must be started."""
    cells: tuple[Move, ...]
    """To be run then, loaded, or passed over."""

    @property
    def seconds(self) -> Seconds:
        """How long it takes, about."""
        return sum(_seconds(each) for each in self.cells)


# A cell that depends on chance does not lead to the same state again.
_CHANCE_S = 1e6


def _seconds(each: Move) -> Seconds:
    if isinstance(each, Step) and each.parent is not None and each.taint != each.parent.taint:
        return each.seconds + _CHANCE_S
    return each.seconds


class Timeline:
    """The place, the worker's place, and where each checkpoint was taken."""

    def __init__(self) -> None:
        self.worker = Step(None)
        """Where the live worker is."""
        self._ahead: Step | None = None
        self._marks: dict[CheckpointId, Step] = {}
        self.way: deque[Move] = deque()
        """What the worker still has to run or load to get to the place, once it is under way."""
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

    # ------------------------------------------------------------ the user's place

    def advance(self, step: Step) -> None:
        """Move the place alone: to the step after a cell that need not be run."""
        self._ahead = step
        self.stay()

    def go(self, cells: Sequence[PathCell], records: Sequence[CellLineage] = ()) -> None:
        """Move the place alone: to the end of a path from the root.

        Parameters
        ----------
        records
            The lineage of each cell, if it is to be told.
        """
        # A root of its own: that of the worker may be another environment than it was then.
        at = Step(None)
        if cells:
            at.node = cells[0].parent
        for cell, record in zip_longest(cells, records):
            at = Step.recalled(at, cell, record)
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

    def route(self, held: Iterable[Checkpoint], images: Iterable[Picture] = ()) -> Route:
        """Return the shortest way of the worker to the place.

        That is, from a checkpoint, the fewest cells to run, or the way through an image if that is
        quicker.
        """
        path = self.place.path()
        held = list(held)
        best = self._direct(path, held)
        for picture in images:
            for at in range(len(path) - 1, picture.needs, -1):
                if picture.step.is_same_state(path[at]):
                    load = Load(picture.name, path[at], picture.keep, picture.load_s)
                    start = self._direct(path[: picture.needs + 1], held)
                    cells = (*start.cells, load, *path[at + 1 :])
                    best = min(best, replace(start, cells=cells), key=lambda route: route.seconds)
                    break
        return best

    def _direct(self, path: Sequence[Step], held: Iterable[Checkpoint]) -> Route:
        """Return the way with the fewest cells to run from a checkpoint, or from the worker."""
        usable = [
            (c.id, self._marks[c.id])
            for c in held
            if not c.bad and c.id in self._marks and not self._marks[c.id].absent
        ]
        for at in range(len(path) - 1, -1, -1):
            cells = tuple(path[at + 1 :])
            if self.worker.is_same_state(path[at]) and not self.worker.absent:
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

    def loaded(self, step: Step) -> None:
        """The worker has loaded an image, which may have been next on the way."""
        self.worker = step
        if self.way and isinstance(self.way[0], Load):
            self.way.popleft()

    def came_by(self, passed: Pass) -> None:
        """The worker has come past the cells that were next on the way."""
        self.worker = passed.step
        if self.way and self.way[0] is passed:
            self.way.popleft()

    def join(self) -> None:
        """The user is where the worker is, whether that was the place or not."""
        self.stay()
        self._ahead = None
