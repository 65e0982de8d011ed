"""Runs versions from top to bottom in an engine, and records them.

    with Batch() as batch:
        for task in plan_versions([read_source("train.py")], combinations(["lr=0.1,0.01"])):
            print(batch.record(task).status)

Each version begins in the fresh interpreter: the engine goes back to it, which takes milliseconds,
or a new one is started where it cannot.  If versions of a sweep begin alike, the state where they
part can be kept (`sweep.in_turns`), and the next one begins there.  A version ends with its first
cell that fails; what was recorded of it stays.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from chexpoint.engine import Engine, Guest
from chexpoint.errors import EngineClosed, EngineError, EngineTimeout, WorkerDied
from chexpoint.model import (
    ROOT,
    Bytes,
    CellError,
    CellLineage,
    CellResult,
    NodeId,
    Output,
    Seconds,
    Status,
    format_seconds,
)
from chexpoint.project.batch_plan import VersionTask
from chexpoint.project.path_writer import PathWriter
from chexpoint.project.project import Project
from chexpoint.project.script_mode import END_QUESTION, ENDED, EXIT, end_source
from chexpoint.project.shared_start import RanCell, SharedStart, SharedStarts
from chexpoint.project.sources import SourceCell

RunStatus = Literal["ok", "error", "interrupted"]

_RUN_RECORDED = Path(__file__).with_name("run_recorded_engine.py")

# How long the last checkpoints of a loop may take to be written.
_LOOPS_S = 600

Progress = Callable[[int, int], None]
"""Called before each cell and after the last one: how many cells have run, and of how many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRun:
    """A cell that was run."""

    cell: SourceCell
    node: NodeId | None
    """The state after it; None if it left the state as it was."""
    seconds: Seconds
    error: CellError | None = None
    is_reused: bool = False
    """Whether an earlier run stood for it."""

    @property
    def status(self) -> Literal["ok", "error"]:
        return "ok" if self.error is None else "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRun:
    """A version that was recorded, as far as it got."""

    task: VersionTask
    status: RunStatus
    cells: tuple[CellRun, ...]
    seconds: Seconds
    number: int | None
    """Tells it from other versions of its name; None if nothing was recorded."""
    host: str = ""
    """Where it ran, if not here."""


class Batch:
    """Records one version after the other; to be used by one thread.

    Parameters
    ----------
    timeout_s
        How long a cell may take.
    is_reusing
        Whether cells are answered from earlier runs, in this project or in the experiment graph.
    guest
        Given, engines are guests here, and loops are not recorded; see `Engine`.
    budget_bytes
        Memory for the states that versions share; half of what is available by default.
    """

    def __init__(
        self,
        *,
        timeout_s: Seconds | None = None,
        is_reusing: bool = False,
        guest: Guest | None = None,
        budget_bytes: Bytes | None = None,
    ) -> None:
        self._budget_bytes = budget_bytes
        self._timeout_s = timeout_s
        self._guest = guest
        self._is_reusing = is_reusing
        self._catalog: Project | None = None
        self._engine: Engine | None = None
        self._folder: Path | None = None
        self._first: Status | None = None
        self._starts = SharedStarts(guest.without if guest is not None else ())
        self._is_running = False
        self.is_interrupted = False
        """Whether `interrupt` was called."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engine."""
        self._starts.clear()
        if self._catalog is not None:
            self._catalog.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def kill(self) -> None:
        """End the engine at once, whatever it does."""
        self._starts.clear()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.kill()

    def interrupt(self) -> None:
        """Interrupt the running cell and run no other; may be called from a signal handler."""
        self.is_interrupted = True
        if self._is_running and self._engine is not None:
            with contextlib.suppress(EngineClosed):
                self._engine.interrupt()

    @property
    def why_not_shared(self) -> str:
        """Why the cells that a version shares with others were run, or will be; or nothing."""
        return self._starts.why_not

    def record(
        self, task: VersionTask, progress: Progress | None = None, *, keep: Collection[int] = ()
    ) -> VersionRun:
        """Run the cells of a version and record them; return what came of it.

        Parameters
        ----------
        keep
            After how many cells later versions part from it: they begin with the states there, if
            these are surely what running the cells again would give.

        Raises
        ------
        CatalogError
            If they cannot be recorded.
        EngineError
            If no engine can be started.
        """
        if self._is_reusing:
            return self._record_reusing(task, progress or _nowhere, keep)
        started = time.perf_counter()
        cells = task.cells()
        writer = PathWriter(self._project(task.folder), task)
        start = self._begin(task, cells, writer) if cells else None
        known = () if start is None else tuple(start.runs(cells))
        ran = [] if start is None else list(start.cells)
        runs = (*known, *self._runs(task, cells, writer, progress or _nowhere, ran, keep))
        return VersionRun(
            task=task,
            status=self._status(runs),
            cells=runs,
            seconds=time.perf_counter() - started,
            number=writer.number(),
        )

    def _project(self, folder: Path) -> Project:
        if self._catalog is None or self._catalog.folder != folder:
            self._catalog = Project.at(folder)
        return self._catalog

    def _status(self, runs: tuple[CellRun, ...]) -> RunStatus:
        if self.is_interrupted:
            return "interrupted"
        return "error" if runs and runs[-1].error is not None else "ok"

    # ------------------------------------------------------------ cells

    def _begin(
        self, task: VersionTask, cells: tuple[SourceCell, ...], writer: PathWriter
    ) -> SharedStart | None:
        """Have an engine where the version begins; return what it begins with, if that is known."""
        start = self._shared_start(task.folder, cells)
        if start is None:
            writer.begin()  # before hours of work that could not be recorded
            self._make_fresh(task.folder)
        else:
            writer.go_on_from(start.path, start.strict)
        self._record_loops(writer)
        return start

    def _shared_start(self, folder: Path, cells: tuple[SourceCell, ...]) -> SharedStart | None:
        """Go to the state after cells that another version has run, if there is one."""
        engine = self._engine
        if not self._starts or engine is None or folder != self._folder:
            return None
        with contextlib.suppress(EngineError):  # then the cells are run
            if self._is_as_started(engine.status()):
                self._starts.only_for(engine, cells)
                start = self._starts.longest(self._project(folder))
                if start is not None:
                    engine.restore(start.checkpoint)
                return start
        return None

    def _runs(
        self,
        task: VersionTask,
        cells: tuple[SourceCell, ...],
        writer: PathWriter,
        progress: Progress,
        ran: list[RanCell],
        keep: Collection[int],
    ) -> Iterator[CellRun]:
        """Run the cells after those that have run."""
        for at in range(len(ran), len(cells)):
            progress(at, len(cells))
            if self.is_interrupted:
                return
            ran.append(self._run(cells[at], writer))
            yield ran[-1].run
            if ran[-1].run.error is not None or _shown(ran[-1].outputs, EXIT) is not None:
                return
            if at + 1 in keep and self._engine is not None:
                with contextlib.suppress(EngineError):  # then they are run again
                    self._starts.keep(self._engine, ran, writer.path)
        if task.file.kind == "script" and not self.is_interrupted and self._needs_end():
            yield self._run(SourceCell(source=end_source(), kind="end"), writer).run
        progress(len(cells), len(cells))

    def _run(self, cell: SourceCell, writer: PathWriter) -> RanCell:
        """Run and record one cell."""
        result, lineage = self._outcome(cell, writer)
        if lineage is None and result.error is not None:
            lineage = writer.failed(cell, result, root=self._root)
        if lineage is not None:
            writer.add(lineage, result.outputs, cell)
        run = CellRun(
            cell=cell,
            node=None if lineage is None else lineage.node,
            seconds=result.seconds if lineage is None else lineage.seconds,
            error=self._told(result),
        )
        return RanCell(run=run, lineage=lineage, outputs=tuple(result.outputs))

    def _outcome(
        self, cell: SourceCell, writer: PathWriter
    ) -> tuple[CellResult, CellLineage | None]:
        """Return what running a cell gave, and its lineage if it has led to a state."""
        started = time.perf_counter()
        try:
            result = self._result(cell.source)
            if _has_died(result) or self._engine is None:
                return result, None
            return result, writer.follow(self._engine.lineage, cell.source)
        except EngineError as problem:
            self.kill()
            return _failure(problem, time.perf_counter() - started), None

    def _result(self, source: str) -> CellResult:
        if self._engine is None:
            raise EngineClosed("the engine has ended")
        self._is_running = True
        try:
            return self._engine.run(source, timeout_s=self._timeout_s)
        finally:
            self._is_running = False

    def _told(self, result: CellResult) -> CellError | None:
        """Return the error of a cell, in words that say what happened."""
        error = result.error
        if error is None:
            return None
        is_late = self._timeout_s is not None and result.seconds >= self._timeout_s
        if is_late and (_has_died(result) or error.ename == "KeyboardInterrupt"):
            how = "nor when it was interrupted" if _has_died(result) else "and was interrupted"
            told = f"the cell did not end in {format_seconds(self._timeout_s or 0)}, {how}"
            return replace(error, ename=EngineTimeout.__name__, evalue=told)
        if _has_died(result) and self._has_ended():
            told = "the cell has ended the process that runs the cells"
            return replace(error, ename=WorkerDied.__name__, evalue=told)
        if _has_died(result):
            # What follows is about how to go on, which this version will not.
            return replace(error, evalue=error.evalue.split(". ")[0])
        return error

    def _has_ended(self) -> bool:
        if self._engine is not None:
            with contextlib.suppress(EngineError):
                self._engine.status()
                return False
        return True

    def _needs_end(self) -> bool:
        with contextlib.suppress(EngineError):
            answer = _shown(self._result(END_QUESTION).outputs, ENDED)
            return not isinstance(answer, dict) or bool(answer.get("needed", True))
        return False  # then there is nothing left to end

    # ------------------------------------------------------------ reuse

    def _record_reusing(
        self, task: VersionTask, progress: Progress, keep: Collection[int]
    ) -> VersionRun:
        """Have the cells of a version run, as far as they must, by an engine with a journal."""
        started = time.perf_counter()
        project = self._project(task.folder)
        cells = task.cells()
        runs: list[CellRun] = []
        before = len(project.versions())
        if cells:
            project.prepare()  # before hours of work that could not be recorded
            engine = self._recorded_engine(task, cells)
            for at, cell in enumerate(cells):
                progress(at, len(cells))
                if self.is_interrupted:
                    break
                result = self._tried(cell, is_kept=at + 1 in keep)
                runs.append(
                    CellRun(cell=cell, node=None, seconds=result.seconds, error=self._told(result))
                )
                if result.error is not None or _shown(result.outputs, EXIT) is not None:
                    break
            else:
                progress(len(cells), len(cells))
            with contextlib.suppress(EngineError):
                engine.drain()
        number, runs = self._as_recorded(project, task, runs, before)
        return VersionRun(
            task=task,
            status=self._status(tuple(runs)),
            cells=tuple(runs),
            seconds=time.perf_counter() - started,
            number=number,
        )

    def _recorded_engine(self, task: VersionTask, cells: tuple[SourceCell, ...]) -> Engine:
        if self._engine is None or task.folder != self._folder:
            self.close()
            self._engine = Engine(cwd=task.folder, program=_RUN_RECORDED)
            self._folder = task.folder
            self._engine.set_reuse(graph=True)
        chosen = [[each.name, each.text] for each in task.parameters]
        sources = [cell.source for cell in cells]
        about = {"origin": task.place, "parameters": chosen, "cells": sources}
        self._engine.begin_version(task.name, about)
        return self._engine

    def _tried(self, cell: SourceCell, *, is_kept: bool) -> CellResult:
        """Run a cell, if it must be; hold the state after it if that is to be kept.

        Nobody goes back to another one, and what a held state shares with the cells after it has
        to be copied before they change it.
        """
        started = time.perf_counter()
        try:
            if self._engine is not None:
                self._engine.set_auto("always" if is_kept else "never")
            return self._result(cell.source)
        except EngineError as problem:
            self.kill()
            return _failure(problem, time.perf_counter() - started)

    def _as_recorded(
        self, project: Project, task: VersionTask, runs: list[CellRun], before: int
    ) -> tuple[int | None, list[CellRun]]:
        """Return the number of the version, and the cells with what the catalog has of them."""
        versions = project.versions()
        mine = [each for each in versions[before:] if each.name == task.name]
        if not mine:
            return None, runs
        recorded = list(project.cells(mine[-1]))
        found = []
        for run in runs:
            cell = recorded.pop(0) if recorded and recorded[0].source == run.cell.source else None
            node = None if cell is None else cell.node
            is_reused = cell is not None and cell.is_reused
            found.append(replace(run, node=node, is_reused=is_reused))
        return mine[-1].number, found

    # ------------------------------------------------------------ engines

    def _make_fresh(self, folder: Path) -> None:
        """Have an engine in a folder that is in the state of the fresh interpreter."""
        if self._engine is not None and folder == self._folder:
            with contextlib.suppress(EngineError):
                if self._is_as_started(self._engine.status()):
                    self._engine.restore(ROOT)
                    return
        self.close()
        self._engine = Engine(cwd=folder, guest=self._guest, budget_bytes=self._budget_bytes)
        self._folder = folder
        self._first = self._engine.status()

    def _record_loops(self, writer: PathWriter) -> None:
        if self._engine is not None and self._catalog is not None and self._guest is None:
            place = {
                "folder": str(self._catalog.loop_folder),
                "store": str(self._catalog.store_folder),
                "session": writer.session,
                # Nobody is there who would like to go on.
                "wait_s": str(_LOOPS_S),
            }
            self._engine.record_loops(place)

    def _is_as_started(self, now: Status) -> bool:
        """Return whether no magic of a notebook has left a checkpoint or a setting behind."""
        first = self._first
        is_same = first is not None and (first.auto, first.budget_bytes) == (
            now.auto,
            now.budget_bytes,
        )
        kept = self._starts.checkpoints
        return is_same and all(each.name == ROOT or each.id in kept for each in now.checkpoints)

    def _root(self) -> NodeId:
        """Return the node of the fresh interpreter."""
        with Engine(cwd=self._folder, guest=self._guest) as engine:
            engine.run("pass")
            (cell,) = engine.lineage(last=1)
        return cell.parent


def _nowhere(done: int, total: int) -> None:
    """Show no progress."""


def _shown(outputs: list[Output] | tuple[Output, ...], kind: str) -> object | None:
    """Return what a cell showed of some type."""
    for output in outputs:
        if output["output_type"] == "display_data" and kind in output["data"]:
            found: object = output["data"][kind]
            return found
    return None


def _has_died(result: CellResult) -> bool:
    """Return whether the worker gave no answer; cells that it has run are counted from 1."""
    return result.error is not None and not result.execution_count


def _failure(problem: EngineError, seconds: Seconds) -> CellResult:
    """Return the result of a cell that the engine could not run."""
    what = {"ename": type(problem).__name__, "evalue": str(problem)}
    text = f"{what['ename']}: {what['evalue']}"
    return CellResult(
        status="error",
        execution_count=None,
        outputs=({"output_type": "error", **what, "traceback": [text]},),
        seconds=seconds,
        error=CellError(**what, traceback=(text,)),
    )
