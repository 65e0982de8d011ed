"""The part of `EngineState` that keeps states on disk, as images.

An image is written by a copy of a checkpoint, so nobody waits for it; one at a time.  Where the
process cannot be forked, the worker writes it itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.beyond import beyond_hazards
from chexpoint.engine.gallery import Gallery, Picture, picture_of
from chexpoint.engine.keeper import Keeper
from chexpoint.engine.policy import worth_imaging
from chexpoint.engine.situation import Forking, Idle, Imaging
from chexpoint.lineage import Step
from chexpoint.model import (
    ROOT,
    ArtifactId,
    AutoMode,
    Checkpoint,
    CheckpointId,
    Hazard,
    ImageInfo,
    ImageName,
    KnownImage,
    to_json,
)

# For a process that hangs: a library waits in it for threads that it lost in the fork.
_IMAGE_TIMEOUT_S = 600.0
_MOST_UNDECIDED = 8
# Cells take at least this, and so many times what a fork takes, before there is one: pages that are
# changed after it are copied, which takes longer than the fork.  Less, if it is known what for.
_LEAST_KEPT_S = 0.5
_FORKS, _FORKS_KNOWN = 30.0, 15.0
# What takes so many times longer to write than a fork is begun at once: the cells that follow run
# beside it, while nothing runs beside what is written in the end.
_FORKS_LONG = 5.0
_LOAD_BYTES_PER_S = 4e8
_UNUSED = "the cells after it put something else in its place, and did not use it"
_OVERTAKEN = "a cell after it changed it, or made it not worth it, before it could be written"


Groups = tuple[tuple[ArtifactId, tuple[str, ...]], ...]
"""Artifacts, and the variables that they are."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Something to be written to disk."""

    step: Step
    """Where the state is, or was."""
    checkpoint: CheckpointId | None = None
    """That holds it; None for the worker itself."""
    artifact: ArtifactId | None = None
    """If it is not all of the state."""
    names: tuple[str, ...] = ()
    """The variables that the artifact is."""


class Imager(Keeper):
    """Decides which states become images, and knows which do."""

    def __init__(
        self,
        *,
        persist: AutoMode = "never",
        session: str = "",
        images: Iterable[KnownImage] = (),
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.persist: AutoMode = persist
        self.images = Gallery()
        for image in images:
            self.images.found(image)
        self.unkept = ""
        """Why the last state that was worth it did not become an image."""
        self._unkept_at: Step | None = None
        self._session = session
        self._image_s = 0.5
        self._is_due = False
        self._wanted: deque[_Wanted] = deque()
        self._passing: set[CheckpointId] = set()
        """Checkpoints that are held until they are images, and no longer."""
        self._waiting: list[Ask] = []
        """Who wants to know when all images are written."""
        self._images_made = 0
        self._making: tuple[ImageName, _Wanted] | None = None
        self.keeps_artifacts = False
        """Whether results of cells are stored for others."""
        self._undecided: dict[CheckpointId, None] = {}
        """Checkpoints of which it is being found out what is worth storing."""
        self._put_off: ev.Chosen | None = None
        """What is worth storing of a state of which there was no copy; it may still be there."""
        self._alone: Step | None = None
        """Where a process could not be forked that may have something worth storing."""
        self._ran: dict[str, Step] = {}
        """Where the worker was after each cell, by what it is called in the worker's own log."""

    def _note_cell(self, seq: int, step: Step) -> None:
        self._ran[str(seq)] = step

    def _step_of_cell(self, uid: str) -> Step | None:
        return self._ran.get(uid.rpartition(".")[2])

    def _set_persist(self, ask: Ask) -> None:
        mode = ask.args.get("mode") or self.persist
        self._is_due = self._is_due or (self.persist == "never" != mode)
        self.persist = mode
        if ask.args.get("wait") and self._is_writing:
            self._waiting.append(ask)
        else:
            self._do(do.Answer(ask, self.persist))

    def _tell_images(self, ask: Ask) -> None:
        if ask.args.get("wait") and self._is_writing:
            self._waiting.append(ask)
            return
        found = {
            "images": [to_json(each.known()) for each in self.images],
            "is_writing": self._is_writing,
            "why_not": self.unkept,
        }
        self._do(do.Answer(ask, found))

    @property
    def _is_writing(self) -> bool:
        if self._making is not None or self._wanted:
            return True
        # It may have been chosen already what to write of a copy that is on its way, or due.
        asks = [each for each in self.queue if isinstance(each, Ask)]
        if isinstance(self.doing, Forking):
            asks.append(self.doing.ask)
        return any(each.args.get("artifacts") for each in asks)

    def _may_image(self, request: Request) -> bool:
        """Return whether there may be something to keep after a request.

        Magics of our own leave the state alone, but the one that turns this on is about the state
        that is there.
        """
        was_due, self._is_due = self._is_due, False
        if request.kind != "execute" or request.cell is None:
            return False
        return was_due or request.cell.needs_state

    def _is_worth_imaging(self) -> bool:
        if self.time.worker.absent:
            return False
        if self.persist != "rule":
            return self.persist == "always"
        cost_s = self.images.unsaved_s(self.time.worker)
        return worth_imaging(cost_s=cost_s, image_s=self._image_s)

    # ------------------------------------------------------------ writing

    def _taken(self, checkpoint: Checkpoint, args: Mapping[str, Any]) -> None:
        """A checkpoint was taken: see whether it becomes an image."""
        is_named = checkpoint.name not in {None, ROOT}
        is_whole = not self.time.worker.absent
        is_kept = is_named and self.persist != "never"
        is_wanted = is_whole and bool(args.get("image") or is_kept)
        if is_wanted:
            self._wanted.append(_Wanted(self.time.worker, checkpoint.id))
        if args.get("artifacts"):
            self._await_choice(checkpoint.id)
        if (is_wanted or args.get("artifacts")) and not args.get("hold", True):
            self._passing.add(checkpoint.id)

    def _refused(self, reasons: tuple[Hazard, ...], args: Mapping[str, Any]) -> None:
        """A process cannot be forked: it has to write its image itself, if that holds it all."""
        if args.get("artifacts"):
            self._alone = self.time.worker
            self._choose_early()
        if not args.get("image"):
            return
        if why := beyond_hazards(reasons):
            self._is_not_kept(self.time.worker, why)
        else:
            self._make_image(_Wanted(self.time.worker))

    def _next_image(self) -> None:
        """Begin with the next image, if it is time."""
        while self._making is None and self._wanted:
            wanted = self._wanted[0]
            checkpoint = wanted.checkpoint
            if checkpoint is None:
                if not isinstance(self.doing, Idle):
                    return
                self._wanted.popleft()
                if self.time.worker is wanted.step:
                    self._make_image(wanted)
            elif checkpoint not in self.held:
                self._wanted.popleft()
                self._ended(wanted, None, "its checkpoint went before it was written")
            elif not self.held[checkpoint].pid:
                return  # not frozen yet
            else:
                self._wanted.popleft()
                self._make_image(wanted)
        if not self._is_writing:
            self._tell_waiting()

    def _tell_waiting(self) -> None:
        """All images are written: answer those who wanted to know."""
        waiting, self._waiting = self._waiting, []
        for ask in waiting:
            match ask.op:
                case "drain":  # what was written has yet to be recorded
                    self._do(do.Drain(ask))
                case "images":
                    self._tell_images(ask)
                case _:
                    self._do(do.Answer(ask, self.persist))

    def _make_image(self, wanted: _Wanted) -> None:
        self._images_made += 1
        name = ImageName(f"{self._session}-{self._images_made}")
        checkpoint, step, like = wanted.checkpoint, wanted.step, None
        if wanted.artifact is not None:
            # Somebody else may store the same at this moment.
            name = ImageName(f"artifact-{wanted.artifact}-{name}")
        elif (near := self.images.nearest(step)) is not None:
            like = near.name
        cost_s = self.images.unsaved_s(step)
        self._making = name, wanted
        if checkpoint is None:
            self.doing = Imaging(name)
        else:
            self._do(do.SetTimer("image", _IMAGE_TIMEOUT_S))
        has_more = any(each.checkpoint == checkpoint for each in self._wanted)
        self._do(do.MakeImage(name, checkpoint, like, cost_s, wanted.names, has_more))

    def _image_ended(self, event: ev.Imaged | ev.ImageFailed) -> None:
        if isinstance(event, ev.Imaged):
            self._imaged(event.info)
        else:
            self._image_failed(event.name, event.why)

    def _imaged(self, info: ImageInfo) -> None:
        wanted = self._made(info.name)
        if wanted is None:
            return
        if wanted.artifact is not None:
            self._ended(wanted, info)
            return
        made = wanted.step
        self._image_s += 0.5 * (info.seconds - self._image_s)
        picture = picture_of(info, made, self._step_of_cell)
        if isinstance(picture, Picture):
            self.images.add(picture)
            # Images take their time: a later state may have been given up meanwhile.
            if self._unkept_at is None or not self._unkept_at.follows(made):
                self.unkept, self._unkept_at = "", None
            self._do(do.KeepImage(made, picture.known()))
        else:
            self._is_not_kept(made, picture)
            self._do(do.ForgetImage(info.name))

    def _image_failed(self, name: ImageName, why: str) -> None:
        wanted = self._made(name)
        if wanted is not None:
            self._ended(wanted, None, why)

    def _ended(self, wanted: _Wanted, info: ImageInfo | None, why: str = "") -> None:
        """Tell what has become of an artifact, or why a state was not kept."""
        if wanted.artifact is not None:
            self._do(do.KeepArtifact(wanted.artifact, info, why))
        else:
            self._is_not_kept(wanted.step, why)

    def _is_not_kept(self, step: Step, why: str) -> None:
        self.unkept, self._unkept_at = why, step

    def _made(self, name: ImageName) -> _Wanted | None:
        """An image has come to its end, good or bad: return what it was."""
        if self._making is None or self._making[0] != name:
            return None
        (_, wanted), self._making = self._making, None
        self._do(do.ClearTimer("image"))
        if isinstance(self.doing, Imaging):
            self.doing = Idle()
        if wanted.checkpoint is not None:
            self._let_pass(wanted.checkpoint)
        return wanted

    def _let_pass(self, checkpoint: CheckpointId) -> None:
        """Let a checkpoint go that was held for images alone, if there is none more to come."""
        wanted = [*self._wanted, *([self._making[1]] if self._making is not None else [])]
        is_awaited = checkpoint in self._undecided or any(
            each.checkpoint == checkpoint for each in wanted
        )
        if checkpoint in self._passing and not is_awaited:
            self._passing.discard(checkpoint)
            if checkpoint in self.held and checkpoint != self._thawing():
                self._evict(checkpoint)

    def _drained(self, ask: Ask) -> None:
        """All that cells did is recorded, except for images that are on their way."""
        if self._is_writing:
            self._waiting.append(ask)
        else:
            self._do(do.Answer(ask, self.persist))

    # ------------------------------------------------------------ artifacts

    def _may_keep(self, event: ev.RequestDone) -> bool:
        """Return whether there may be something that is worth storing for others."""
        may_store = self.keeps_artifacts and event.outcome == "ok"
        return may_store and bool(event.keepable_bytes or self._put_off_groups)

    def _is_worth_a_copy(self, event: ev.RequestDone) -> bool:
        """Return whether to copy the process for what may be worth storing.

        What a cell gives saves no more than the cell took, given that what it needs can be loaded.
        Results of quick cells are put off, until a copy costs little beside the cells since the
        last one, or beside writing them, or the worker is idle: most of them are still there.
        """
        least_s = max(_LEAST_KEPT_S, event.keepable_bytes / _LOAD_BYTES_PER_S)
        if event.seconds > max(least_s, _FORKS * self._fork_s):
            return True
        if self._put_off is None or not self._put_off.groups:
            return False
        is_long = self._put_off.write_s > _FORKS_LONG * self._fork_s
        known_s = max(_LEAST_KEPT_S, _FORKS_KNOWN * self._fork_s)
        return self._seconds > known_s or (is_long and not self._is_writing)

    @property
    def _put_off_groups(self) -> Groups:
        return self._put_off.groups if self._put_off is not None else ()

    def _await_choice(self, checkpoint: CheckpointId) -> None:
        """Hold a checkpoint until it is known what of it is worth storing."""
        self._undecided[checkpoint] = None
        while len(self._undecided) > _MOST_UNDECIDED:
            first = next(iter(self._undecided))
            del self._undecided[first]
            self._let_pass(first)
        self._choose_early()

    def _choose_early(self) -> None:
        """Take a choice that was made before there was anything to take it from."""
        choice, self._put_off = self._put_off, None
        if choice is not None:
            self._chosen(choice)

    def _chosen(self, event: ev.Chosen) -> None:
        """Store what was found to be worth it."""
        self._leave_out(event.unused)
        groups = self._still_to_store(event)
        marks = {each: self.time.marked(each) for each in self._undecided}
        found = next((each for each, mark in marks.items() if mark is event.step), None)
        if found is not None or self._alone is event.step:
            self._wanted.extend(
                _Wanted(event.step, found, artifact, names) for artifact, names in groups
            )
        if found is not None:
            del self._undecided[found]
            self._let_pass(found)
        if self._alone is event.step:
            self._alone = None
        elif found is None:
            self._put_off = ev.Chosen(event.step, groups, write_s=event.write_s)
            is_free = isinstance(self.doing, Idle) and not self.queue
            if groups and is_free and event.step is self.time.worker:
                args = {"hold": False, "image": False, "artifacts": True}
                self.queue.append(Ask(-1, "checkpoint", args, automatic=True))

    def _still_to_store(self, event: ev.Chosen) -> Groups:
        """Return what of a choice is not on its way; give up what was put off and is gone now."""
        making = {self._making[1].artifact} if self._making is not None else set()
        coming = making | {each.artifact for each in self._wanted}
        groups = {artifact: names for artifact, names in event.groups if artifact not in coming}
        here = {a: names for a, names in groups.items() if event.step.absent.isdisjoint(names)}
        for artifact in {**dict(self._put_off_groups), **groups}.keys() - here.keys():
            self._do(do.KeepArtifact(artifact, None, _OVERTAKEN))
        self._put_off = None
        return tuple(here.items())

    def _leave_out(self, artifacts: Collection[ArtifactId]) -> None:
        """Do not store what turned out to be of no use, if it has not been begun."""
        left_out = [each for each in self._wanted if each.artifact in artifacts]
        for each in left_out:
            self._wanted.remove(each)
            self._ended(each, None, _UNUSED)
            if each.checkpoint is not None:
                self._let_pass(each.checkpoint)

    def _image_timed_out(self) -> None:
        if self._making is not None:
            name = self._making[0]
            self._do(do.GiveUpImage(name))
            self._image_failed(name, "writing it did not end")

    def _image_here_lost(self) -> None:
        """The worker died while it wrote an image of itself."""
        if self._making is not None and self._making[1].checkpoint is None:
            (_, wanted), self._making = self._making, None
            self._ended(wanted, None, "the process ended")
