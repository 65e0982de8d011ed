"""The images an engine knows of: which state each holds, and what it takes to load it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from chexpoint.lineage import Step
from chexpoint.model import Bytes, ImageInfo, ImageName, KnownImage, NodeId, Seconds, Taint

# What loading costs: opening the store and importing libraries, then so many bytes a second.
_LOAD_S = 0.3
_LOAD_BYTES_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An image in the gallery."""

    name: ImageName
    step: Step
    """Where its state is."""
    needs: int = 0
    """How many cells of the path must be run before it is loaded."""
    keep: tuple[str, ...] = ()
    """Variables of theirs that stay."""
    state_bytes: Bytes = 0

    @property
    def load_s(self) -> Seconds:
        """How long loading it takes, about."""
        return _LOAD_S + self.state_bytes / _LOAD_BYTES_PER_S

    def known(self) -> KnownImage:
        """Return what the catalog keeps of it."""
        return KnownImage(
            name=self.name,
            node=self.step.node or NodeId(""),
            taint=self.step.taint,
            needs=self.needs,
            keep=self.keep,
            state_bytes=self.state_bytes,
        )


class Gallery:
    """Images by name, in the order in which they became known."""

    def __init__(self) -> None:
        self._pictures: dict[ImageName, Picture] = {}

    def __iter__(self) -> Iterator[Picture]:
        return iter(self._pictures.values())

    def __len__(self) -> int:
        return len(self._pictures)

    def add(self, picture: Picture) -> None:
        self._pictures[picture.name] = picture

    def forget(self, name: ImageName) -> None:
        self._pictures.pop(name, None)

    def found(self, image: KnownImage) -> None:
        """Take in an image of an earlier session."""
        if image.name not in self._pictures:
            self.add(
                Picture(
                    name=image.name,
                    step=_placed(image.node, image.taint),
                    needs=image.needs,
                    keep=image.keep,
                    state_bytes=image.state_bytes,
                )
            )

    def of(self, step: Step) -> Picture | None:
        """Return the newest image of the state at a step."""
        for picture in reversed(self._pictures.values()):
            if picture.step.is_same_state(step):
                return picture
        return None

    def nearest(self, step: Step) -> Picture | None:
        """Return the image of the nearest state on the path to a step, else the newest one."""
        at: Step | None = step
        while at is not None and at.parent is not None:
            if (picture := self.of(at)) is not None:
                return picture
            at = at.parent
        return next(reversed(self._pictures.values()), None)

    def unsaved_s(self, step: Step) -> Seconds:
        """Return how long the cells took that lead to a step from the nearest image."""
        total = 0.0
        at: Step | None = step
        while at is not None and at.parent is not None and self.of(at) is None:
            total += at.seconds
            at = at.parent
        return total


def picture_of(
    info: ImageInfo, step: Step, step_of_cell: Callable[[str], Step | None]
) -> Picture | str:
    """Return an image as it can be used, or why it cannot be.

    Variables that could not be stored have to be made again by their cells, and stay as they are
    when the rest is loaded.

    Parameters
    ----------
    step
        Where the state was that it was made of.
    step_of_cell
        Returns where the worker was after the cell of that uid, if that is known.
    """
    needs = 0
    for lost in info.lost:
        at = step_of_cell(lost.cell)
        if at is not None and at.again_of is not None and not step.follows(at):
            at = at.again_of  # it ran again, on the way to an image that was loaded then
        if not lost.is_alone or at is None or not step.follows(at):
            return f"'{lost.name}' ({lost.kind}) cannot be stored: {lost.why}"
        needs = max(needs, at.number)
    return Picture(
        name=info.name,
        step=step,
        needs=needs,
        keep=tuple(lost.name for lost in info.lost),
        state_bytes=info.state_bytes,
    )


def _placed(node: NodeId, taint: Taint) -> Step:
    step = Step(Step(None))
    step.node, step.taint = node, taint
    return step
