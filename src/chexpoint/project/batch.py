"""Runs versions from top to bottom in an engine, and records them.

    with Batch() as batch:
        for task in plan_versions([read_source("train.py")], combinations(["lr=0.1,0.01"])):
            print(batch.record(task).status)

Each version begins in the fresh interpreter: the engine goes back to it, which takes milliseconds,
or a new one is started where it cannot.  A version ends with its first cell that fails; what was
recorded of it stays.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Self

from chexpoint.engine import Engine
from chexpoint.errors import EngineClosed, EngineError, EngineTimeout, WorkerDied
from chexpoint.model import (
    ROOT,
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
from chexpoint.project.sources import SourceCell

RunStatus = Literal["ok", "error", "interrupted"]

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


class Batch:
    """Records one version after the other; to be used by one thread.

    Parameters
    ----------
    timeout_s
        How long a cell may take.
    """

    def __init__(self, *, timeout_s: Seconds | None = None) -> None:
        self._timeout_s = timeout_s
        self._catalog: Project | None = None
        self._engine: Engine | None = None
        self._folder: Path | None = None
        self._first: Status | None = None
        self._is_running = False
        self.is_interrupted = False
        """Whether `interrupt` was called."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the engine."""
        if self._catalog is not None:
            self._catalog.close()
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def kill(self) -> None:
        """End the engine at once, whatever it does."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.kill()

    def interrupt(self) -> None:
        """Interrupt the running cell and run no other; may be called from a signal handler."""
        self.is_interrupted = True
        if self._is_running and self._engine is not None:
            with contextlib.suppress(EngineClosed):
                self._engine.interrupt()

    def record(self, task: VersionTask, progress: Progress | None = None) -> VersionRun:
        """Run the cells of a version and record them; return what came of it.

        Raises
        ------
        CatalogError
            If they cannot be recorded.
        EngineError
            If no engine can be started.
        """
        started = time.perf_counter()
        cells = task.cells()
        writer = PathWriter(self._project(task.folder), task)
        if cells:
            writer.begin()  # before hours of work that could not be recorded
            self._make_fresh(task.folder)
        runs = tuple(self._runs(task, cells, writer, progress or _nowhere))
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

    def _runs(
        self,
        task: VersionTask,
        cells: tuple[SourceCell, ...],
        writer: PathWriter,
        progress: Progress,
    ) -> Iterator[CellRun]:
        for at, cell in enumerate(cells):
            progress(at, len(cells))
            if self.is_interrupted:
                return
            outputs: list[Output] = []
            run = self._run(cell, writer, outputs)
            yield run
            if run.error is not None or _shown(outputs, EXIT) is not None:
                return
        if task.file.kind == "script" and not self.is_interrupted and self._needs_end():
            yield self._run(SourceCell(source=end_source(), kind="end"), writer, [])
        progress(len(cells), len(cells))

    def _run(self, cell: SourceCell, writer: PathWriter, shown: list[Output]) -> CellRun:
        """Run and record one cell; what it showed is added to a list."""
        result, lineage = self._outcome(cell, writer)
        shown.extend(result.outputs)
        if lineage is None and result.error is not None:
            lineage = writer.failed(cell, result, root=self._root)
        if lineage is not None:
            writer.add(lineage, result.outputs, cell)
        return CellRun(
            cell=cell,
            node=None if lineage is None else lineage.node,
            seconds=result.seconds if lineage is None else lineage.seconds,
            error=self._told(result),
        )

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

    # ------------------------------------------------------------ engines

    def _make_fresh(self, folder: Path) -> None:
        """Have an engine in a folder that is in the state of the fresh interpreter."""
        if self._engine is not None and folder == self._folder:
            with contextlib.suppress(EngineError):
                if self._is_as_started(self._engine.status()):
                    self._engine.restore(ROOT)
                    return
        self.close()
        self._engine, self._folder = Engine(cwd=folder), folder
        self._first = self._engine.status()

    def _is_as_started(self, now: Status) -> bool:
        """Return whether no magic of a notebook has left a checkpoint or a setting behind."""
        first = self._first
        is_same = first is not None and (first.auto, first.budget_bytes) == (
            now.auto,
            now.budget_bytes,
        )
        return is_same and all(checkpoint.name == ROOT for checkpoint in now.checkpoints)

    def _root(self) -> NodeId:
        """Return the node of the fresh interpreter."""
        with Engine(cwd=self._folder) as engine:
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
