"""Takes one engine through a course."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, Protocol

from chexpoint.compare import Tolerance
from chexpoint.engine import Engine, Guest, body_of
from chexpoint.errors import (
    EngineClosed,
    EngineError,
    EngineTimeout,
    ForkRefused,
    RestoreFailed,
    UnknownCheckpoint,
    WorkerDied,
)
from chexpoint.model import (
    ROOT,
    SKIP_TAG,
    Bytes,
    CellLineage,
    CellResult,
    CheckpointId,
    NodeId,
    PlanStep,
    RecordedCell,
    Recording,
    ReplayedCell,
    Seconds,
    format_seconds,
)
from chexpoint.replay.checking import Checker
from chexpoint.replay.course import Course
from chexpoint.replay.files import FileSource, lay_out, make_ready, missing_file
from chexpoint.replay.scratch import FolderState, Scratch

# A cell that ends its process is given so many chances: it may not have been its fault.
_MOST_ATTEMPTS = 2
_OWN_MAGIC = re.compile(r"^([ \t]*)%chex_\w+[^\n]*$", re.MULTILINE)
_LOOKS = re.compile(r"\s*%%chex_hindsight\b")


class Place(NamedTuple):
    """Where an engine is: after how many cells, and at which node of its own."""

    number: int
    node: NodeId | None


class Watcher(Protocol):
    """What a lane tells; called by the thread of the lane."""

    def begins(self, lane: Lane, node: NodeId) -> None:
        """A cell is about to be computed."""

    def computed(self, lane: Lane, cell: ReplayedCell) -> None:
        """A cell was computed, or failed."""

    def gave_up(self, lane: Lane, node: NodeId, reason: str) -> None:
        """Nothing below a node can be computed."""

    def held(self, lane: Lane, size_bytes: Bytes) -> None:
        """What checkpoints hold has changed."""

    def spent(self, seconds: Seconds) -> None:
        """Time was spent on something other than computing."""

    def note(self, text: str) -> None:
        """Something happened that the user should know."""


class Lane:
    """One engine with a folder of its own; its methods belong to one thread.

    Parameters
    ----------
    base
        An empty folder.
    seconds_left
        Returns how much time there is for what follows; None is no limit.
    guest
        Given, the engine is a guest here; see `Engine`.
    """

    def __init__(  # noqa: PLR0913
        self,
        number: int,
        recording: Recording,
        files: FileSource,
        *,
        base: Path,
        budget_bytes: Bytes,
        timeout_s: Seconds | None,
        tolerance: Tolerance,
        seconds_left: Callable[[], Seconds | None],
        watcher: Watcher,
        guest: Guest | None = None,
    ) -> None:
        self.number = number
        self.is_interrupted = False
        self._recording = recording
        self._files = files
        self._budget_bytes = budget_bytes
        self._timeout_s = timeout_s
        self._seconds_left = seconds_left
        self._watcher = watcher
        self._guest = guest
        self._scratch = Scratch(base)
        folders = (*tolerance.folders, recording.folder, str(self._scratch.folder))
        self._checker = Checker(files, replace(tolerance, folders=folders))
        lay_out(recording, files, self._scratch)
        self._folders: dict[NodeId | None, FolderState] = {None: self._scratch.state()}
        self._checkpoints: dict[NodeId, CheckpointId] = {}
        self._effects: dict[NodeId, frozenset[str]] = {}
        self._places: dict[NodeId | None, Place] = {None: Place(0, None)}
        """What the engine itself calls each node."""
        self._attempts: dict[NodeId, int] = {}
        self._engine: Engine | None = None
        self._wants_image = False
        """Whether the checkpoint that is taken next is also written as an image."""

    def start(self) -> None:
        """Start the engine.

        Raises
        ------
        EngineError
            If that fails.
        """
        self._engine = Engine(
            cwd=self._scratch.folder,
            budget_bytes=self._budget_bytes,
            auto="never",
            guest=self._guest,
        )

    def interrupt(self) -> None:
        """Interrupt the running cell and run no other; may be called by another thread."""
        self.is_interrupted = True
        engine = self._engine
        if engine is not None:
            with contextlib.suppress(EngineClosed):
                engine.interrupt()

    def kill(self) -> None:
        """End the engine although a cell does not listen; may be called by another thread."""
        self.is_interrupted = True
        engine = self._engine
        if engine is not None:
            engine.stop()

    def close(self) -> None:
        """End the engine, at once: its states have nothing left to say."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.kill()

    def follow(self, course: Course) -> None:
        """Make steps until there is nothing left to do."""
        while not self.is_interrupted:
            with self._spending():
                step = course.next(self._seconds_left())
            if step is None:
                return
            try:
                self._step(course, step)
            except EngineError as error:
                self._recover(course, step, error)

    def _step(self, course: Course, step: PlanStep) -> None:
        if step.action == "compute" and step.node is not None:
            self._compute(course, step.node)
            return
        with self._spending():
            if step.action == "checkpoint" and step.node is not None:
                self._checkpoint(course, step.node)
            elif step.action == "evict" and step.node is not None:
                self._evict(step.node)
                course.done(step)
            else:
                self._go(course, step)
            self._measure(course)

    # ------------------------------------------------------------ states

    def _checkpoint(self, course: Course, node: NodeId) -> None:
        try:
            taken = self._running().checkpoint(image=self._wants_image)
        except ForkRefused as error:
            self._watcher.note(f"{self._title(node)}: {error}")
            course.not_held(node)
            return
        self._checkpoints[node] = taken.id
        self._folders[node] = self._scratch.state()
        course.done(PlanStep("checkpoint", node))

    def _go(self, course: Course, step: PlanStep) -> None:
        """Bring the worker to a state that is held, or to the fresh interpreter."""
        node = step.node
        ref = ROOT if node is None else self._checkpoints[node]
        self._scratch.go_back(self._folders[node])
        try:
            if step.action == "take":
                self._running().take(ref)
            else:
                self._running().restore(ref)
        except (UnknownCheckpoint, RestoreFailed) as error:
            self._watcher.note(f"a checkpoint is gone, what it held is computed again: {error}")
            if node is None:
                raise EngineClosed("the fresh interpreter cannot be restored") from error
            course.lost([node])
            course.adrift()
            self._forget(node)
            return
        course.done(step)
        if step.action == "take" and node is not None:
            self._forget(node)

    def _evict(self, node: NodeId) -> None:
        with contextlib.suppress(UnknownCheckpoint):
            self._running().evict(self._checkpoints[node])
        self._forget(node)

    def _forget(self, node: NodeId) -> None:
        self._checkpoints.pop(node, None)
        self._folders.pop(node, None)

    def _measure(self, course: Course) -> None:
        """Tell what is held, and find out what is not held any more."""
        status = self._running().status()
        there = {checkpoint.id for checkpoint in status.checkpoints if not checkpoint.bad}
        gone = [node for node, ident in self._checkpoints.items() if ident not in there]
        if gone:
            self._watcher.note("checkpoints are lost, perhaps for lack of memory: planned again")
            course.lost(gone)
            for node in gone:
                self._forget(node)
        self._watcher.held(self, status.held_bytes)

    def _recover(self, course: Course, step: PlanStep, error: EngineError) -> None:
        """Go on after the loss of a worker, or of a whole engine."""
        if self.is_interrupted:
            return
        why = str(error).split(". ")[0]
        is_stuck = isinstance(error, EngineTimeout)
        if step.node is not None and (is_stuck or self._is_hopeless(step.node)):
            self._lose(course, step.node, why, is_stuck=is_stuck)
        else:
            self._watcher.note(f"a worker is lost, and what it had is computed again: {why}")
        course.adrift()
        if isinstance(error, WorkerDied):
            with contextlib.suppress(EngineError):
                self._measure(course)
                return
        if self._engine is not None:
            self._engine.kill()
        course.lost(list(course.held))
        self._checkpoints.clear()
        self._folders = {None: self._folders[None]}
        self.start()

    # ------------------------------------------------------------ cells

    def _compute(self, course: Course, node: NodeId) -> None:
        cell = self._recording.cells[node]
        self._watcher.begins(self, node)
        if SKIP_TAG in cell.tags:
            self._skip(course, cell)
            return
        parent = course.at
        written = self._written(parent)
        try:
            missing = missing_file(cell.lineage, self._files)
            if missing is not None:
                self._fail(course, node, f"{missing}, which it reads, is gone")
                return
            make_ready(cell.lineage, self._recording, self._files, self._scratch, written)
        except OSError as error:
            self._fail(course, node, f"what it reads cannot be put in its place: {error}")
            return
        result = self._running().run(_source(cell.source), timeout_s=self._timeout_s)
        if self.is_interrupted:
            return
        if result.error is not None and not result.execution_count:  # those that ran have one
            raise WorkerDied(result.error.evalue)
        lineage = self._lineage(parent)
        if parent is None and lineage is not None and lineage.parent != cell.lineage.parent:
            self._watcher.note(
                "Python or its packages are not those that the versions were recorded with"
            )
        self._places[node] = self._places[parent] if lineage is None else _place(lineage)
        effects = frozenset(e.path for e in lineage.audit.effects) if lineage else frozenset()
        self._effects[node] = effects
        self._scratch.touched(name.removeprefix("./") for name in effects)
        replayed = self._checker.check(
            cell, self._told(result), lineage, folder=self._scratch.folder, doubt=self._doubt(node)
        )
        if replayed.status == "failed":
            self._watcher.computed(self, replayed)
            self._give_up(course, node)
            return
        course.computed(node, replayed.seconds, replayed.size_bytes)
        self._watcher.computed(self, replayed)

    def _skip(self, course: Course, cell: RecordedCell) -> None:
        node, parent = cell.node, course.at
        self._places[node] = self._places[parent]
        course.computed(node, 0.0, 0)
        reason = f"it is tagged {SKIP_TAG}"
        self._watcher.computed(
            self, ReplayedCell(node=node, status="skipped", reasons=(reason,), is_excused=True)
        )

    def _lineage(self, parent: NodeId | None) -> CellLineage | None:
        """Return the lineage of the cell that was run just now; None if it changed nothing.

        Raises
        ------
        WorkerDied
            If the cell did not run where it should have: the worker was lost and revived.
        """
        before = self._places[parent]
        last = self._running().lineage(last=1)
        if not last:
            if before.number == 0:
                return None
        elif _place(last[-1]) == before:
            return None
        elif last[-1].number == before.number + 1 and before.node in {None, last[-1].parent}:
            return last[-1]
        raise WorkerDied("the worker was lost between two cells")

    def _written(self, node: NodeId | None) -> frozenset[str]:
        """Return the names of everything that cells on the way to a node have changed."""
        found: set[str] = set()
        while node is not None:
            found |= self._effects.get(node, frozenset())
            node = self._recording.tree.nodes[node].parent
        return frozenset(found)

    def _doubt(self, node: NodeId) -> str:
        for at in self._recording.tree.path(node):
            if doubt := self._recording.cells[at.id].lineage.doubt():
                where = "" if at.id == node else f"in cell {self._number(at.id)}, "
                return f"{where}{doubt}"
        return ""

    def _is_hopeless(self, node: NodeId) -> bool:
        self._attempts[node] = self._attempts.get(node, 0) + 1
        return self._attempts[node] >= _MOST_ATTEMPTS

    def _fail(self, course: Course, node: NodeId, reason: str) -> None:
        self._watcher.computed(self, ReplayedCell(node=node, status="failed", reasons=(reason,)))
        self._give_up(course, node)

    def _lose(self, course: Course, node: NodeId, why: str, *, is_stuck: bool) -> None:
        """Give up a cell that has ended its engine each time, or that does not end itself."""
        del is_stuck
        self._fail(course, node, why)

    def _give_up(self, course: Course, node: NodeId) -> None:
        course.gave_up(node)
        self._watcher.gave_up(self, node, f"{self._title(node)} failed")

    def _told(self, result: CellResult) -> CellResult:
        """Return a result that says so if the cell was too slow."""
        error, limit = result.error, self._timeout_s
        if error is None or limit is None or result.seconds < limit:
            return result
        told = f"the cell did not end in {format_seconds(limit)}, and was interrupted"
        return replace(result, error=replace(error, ename=EngineTimeout.__name__, evalue=told))

    def _number(self, node: NodeId) -> int:
        return len(self._recording.tree.path(node))

    def _title(self, node: NodeId) -> str:
        versions = self._recording.tree.through.get(node, ())
        label = self._recording.tree.labels[versions[-1]] if versions else str(node)[:8]
        return f"cell {self._number(node)} of {label}"

    # ------------------------------------------------------------ engine

    def _running(self) -> Engine:
        if self._engine is None:
            raise EngineClosed("the engine has ended")
        return self._engine

    @contextlib.contextmanager
    def _spending(self) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            self._watcher.spent(time.perf_counter() - started)


def _source(source: str) -> str:
    """Return what is run of a cell: without magics of ours, which talk of another engine."""
    body = body_of(source)
    return "pass" if _LOOKS.match(body) else _OWN_MAGIC.sub(r"\1pass", body)


def _place(lineage: CellLineage) -> Place:
    return Place(lineage.number, lineage.node)
