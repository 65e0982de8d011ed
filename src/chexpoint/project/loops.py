"""The loops that were recorded in a project, and the versions that they belong to.

Each run of a cell or script with loops has a folder in ``.chex/loops``; its session and execution
count tell which run of a node it is.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from chexpoint.errors import ChexError, InvalidValue
from chexpoint.hindsight import RunHead, carry, list_runs, read_run, wait_written
from chexpoint.model import LoopRun, NodeId, PathCell, Version
from chexpoint.project.batch_plan import with_parameters
from chexpoint.project.project import FOLDER, Project
from chexpoint.project.recordings import ProjectFiles, recording_of
from chexpoint.project.script_mode import PARAMETERS_TITLE, end_source, set_up_source
from chexpoint.project.sources import SourceCell, SourceFile
from chexpoint.replay import (
    FolderWorld,
    NewCell,
    OldCell,
    RecordedWorld,
    World,
    is_own_cell,
    most_similar,
    runnable,
    similarity,
)

LOOPS = "loops"
"""The folder in ``.chex`` with a folder for each run."""

_FOLDER_CELL = "# The folder of the notebook\n"
_PARAMETERS_CELL = "# Parameters\n"
# The last states of a training may still be on their way to the disk.
_WRITER_S = 30.0
_BORDER = "# ---- chex: the next cell ----"
_SCRIPT_CALL = set_up_source("", ()).split("\n", 1)[1].split("(''", 1)[0]
_HELPERS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def loops_folder(project: Project) -> Path:
    """Return where the runs of a project are; it may not exist."""
    return project.folder / FOLDER / LOOPS


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProgram:
    """The cells of a version, or a script, and what was recorded of their loops."""

    label: str
    cells: tuple[OldCell, ...]
    origin: str = ""
    """The file, relative to the project."""
    is_script: bool = False
    has_parameters: bool = False
    is_plain: bool = False
    """Whether it ran without CHEX around it, so that nobody knows what it has read."""

    @property
    def sources(self) -> tuple[str, ...]:
        """The cells that are the user's own."""
        return tuple(cell.source for cell in self.cells if not cell.is_own)

    @property
    def has_loops(self) -> bool:
        return any(cell.run is not None for cell in self.cells)


class RecordedLoops:
    """Finds what was recorded of loops in a project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.folder = loops_folder(project)
        self._complete: dict[str, bool] = {}

    @cached_property
    def _heads(self) -> tuple[RunHead, ...]:
        return list_runs(self.folder)

    @cached_property
    def _by_execution(self) -> Mapping[tuple[str, int], list[RunHead]]:
        found: dict[tuple[str, int], list[RunHead]] = {}
        for head in self._heads:
            found.setdefault((head.session, head.execution_count), []).append(head)
        return found

    # ------------------------------------------------------------ runs

    def run_of(self, node: NodeId) -> Path | None:
        """Return the folder of the newest run of a node that has come to its end, else of any."""
        heads = [
            head
            for session, count, first, last in self.project.executions(node)
            for head in self._by_execution.get((session, count), ())
            if first <= head.time <= last
        ]
        return self._best(heads)

    def _best(self, heads: Sequence[RunHead]) -> Path | None:
        paths = [self.folder / head.run for head in heads]
        for path in paths[:1]:
            wait_written(path, _WRITER_S)
        good = [path for path in paths if self._is_complete(path)]
        return next(iter([*good, *paths]), None)

    def _is_complete(self, path: Path) -> bool:
        if path.name not in self._complete:
            try:
                loops = read_run(path).loops
                self._complete[path.name] = bool(loops) and all(loop.how for loop in loops)
            except ChexError:
                self._complete[path.name] = False
        return self._complete[path.name]

    # ------------------------------------------------------------ programs

    def version(self, ref: str) -> RecordedProgram:
        """Return the version that a user means.

        Raises
        ------
        InvalidValue
            If there is none.
        """
        version = self.project.version(ref)
        tree = self.project.tree()
        return self._program(version, tree.labels.get(version, ref))

    def versions(self) -> Iterator[RecordedProgram]:
        """Yield the versions, the newest first; without those that a newer one has run again."""
        tree = self.project.tree().current()
        for version in reversed(tree.versions):
            yield self._program(version, tree.labels[version])

    def scripts(self) -> Iterator[RecordedProgram]:
        """Yield the scripts that were run with Python itself, each as it ran last."""
        by_file: dict[str, list[RunHead]] = {}
        for head in self._heads:
            if head.file:
                by_file.setdefault(os.path.realpath(head.file), []).append(head)
        for file, heads in by_file.items():
            best = self._best(heads)
            if best is not None:
                yield self._script(file, read_run(best))

    def _script(self, file: str, run: LoopRun) -> RecordedProgram:
        place = os.path.relpath(file, os.path.realpath(self.project.folder))
        argv = run.facts.get("argv") or [""]
        set_up = set_up_source(place, tuple(str(word) for word in argv[1:]))
        return RecordedProgram(
            label=os.path.basename(file),
            cells=(
                OldCell(source=set_up, is_own=True),
                OldCell(source=run.source, run=self.folder / run.run, seconds=run.seconds),
            ),
            origin=place,
            is_script=True,
            is_plain=True,
        )

    def world(self, program: RecordedProgram) -> World:
        """Return the files that the cells of a program find when they are run again.

        Raises
        ------
        ChexError
            If the way to the cells is not recorded completely.
        """
        if program.is_plain:
            return FolderWorld(self.project.folder)
        recording = recording_of(self.project, [program.label])
        return RecordedWorld(recording, ProjectFiles(self.project))

    def _program(self, version: Version, label: str) -> RecordedProgram:
        path = [cell for cell in self.project.cells(version) if not is_own_cell(cell.source)]
        is_script = any(_SCRIPT_CALL in cell.source for cell in path[:1])
        has_parameters = bool(version.parameters)
        return RecordedProgram(
            label=label,
            cells=tuple(self._cell(cell, is_script, has_parameters) for cell in path),
            origin=version.origin,
            is_script=is_script,
            has_parameters=has_parameters,
        )

    def _cell(self, cell: PathCell, is_script: bool, has_parameters: bool) -> OldCell:
        return OldCell(
            source=runnable(cell.source, is_script=is_script),
            node=cell.node,
            run=self.run_of(cell.node),
            seconds=cell.seconds,
            is_own=_is_added(cell.source, has_parameters=has_parameters),
            is_failing=cell.status == "error",
            cell_id=cell.cell_id,
        )


def _is_added(source: str, *, has_parameters: bool) -> bool:
    """Return whether CHEX has put a cell into a version: no file has it."""
    if _SCRIPT_CALL in source or source == end_source() or source.startswith(_FOLDER_CELL):
        return True
    titles = (f"{PARAMETERS_TITLE}\n", _PARAMETERS_CELL)
    return has_parameters and source.startswith(titles)


# ---------------------------------------------------------------- which one


def best_match(programs: Iterable[RecordedProgram], text: str, *, is_cell: bool) -> RecordedProgram:
    """Return the program that a text was made from, the newest of equals.

    Parameters
    ----------
    text
        A whole program, or one cell of it.

    Raises
    ------
    InvalidValue
        If no program with loops is like it.
    """
    best, most = None, 0.0
    for program in programs:
        if program.has_loops:
            if is_cell:
                _, share = most_similar(text, program.sources)
            else:
                share = similarity(text, "\n".join(program.sources))
            if share > most:
                best, most = program, share
    if best is None:
        what = "cell" if is_cell else "file"
        raise InvalidValue(
            f"no version with recorded loops is like this {what}: run it with the CHEX kernel or "
            "chex record first"
        )
    return best


# ---------------------------------------------------------------- what it is now


def _file_cells(program: RecordedProgram, file: SourceFile) -> list[SourceCell]:
    """Return the cells of a file that stand for those of a version."""
    # Parameters that were given take the place of those that papermill has put into a notebook.
    cells = with_parameters(file, ()) if program.has_parameters else file.cells
    return [cell for cell in cells if cell.kind == "cell" and not is_own_cell(cell.source)]


def changed_by_file(program: RecordedProgram, file: SourceFile) -> tuple[NewCell, ...]:
    """Return a program as a file has it now.

    The cells of a notebook that were run are known by their ids: then those that have run, in the
    order in which they ran, are what counts.
    """
    if program.is_plain:
        lines = [cell.source for cell in file.cells]
        return (NewCell(source="\n".join(lines), line=1),)
    is_script = file.kind == "script"
    cells = [
        (NewCell(source=runnable(c.source, is_script=is_script), line=c.line or 0), c.cell_id)
        for c in _file_cells(program, file)
    ]
    old = [cell for cell in program.cells if not cell.is_own]
    known = {cell.cell_id: at for at, cell in enumerate(old) if cell.cell_id}  # the last run of it
    if not any(cell_id in known for _, cell_id in cells):
        return tuple(cell for cell, _ in cells)
    now = [[NewCell(source=cell.source)] for cell in old]
    waiting: list[NewCell] = []
    for cell, cell_id in cells:
        if cell_id in known:
            now[known[cell_id]] = [*waiting, cell]
            waiting = []
        elif _is_helper(cell.source):
            waiting.append(cell)
    return tuple(cell for cells_here in now for cell in cells_here)


def _is_helper(source: str) -> bool:
    """Return whether a cell does nothing but give names to functions, classes and modules."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return bool(statements) and all(isinstance(each, _HELPERS) for each in statements)


def changed_by_cell(program: RecordedProgram, text: str) -> tuple[NewCell, ...]:
    """Return a program in which a text stands for the cell that is most like it.

    Raises
    ------
    InvalidValue
        If no cell is.
    """
    source = runnable(text, is_script=program.is_script)
    at, share = most_similar(source, program.sources)
    if not share:
        raise InvalidValue(f"no cell of version {program.label} is like this one")
    return tuple(
        NewCell(source=source if place == at else old) for place, old in enumerate(program.sources)
    )


def carried_to(
    other: RecordedProgram, old: Sequence[str], new: Sequence[str]
) -> tuple[tuple[NewCell, ...], str]:
    """Return another version with what was added to one, or why that cannot be.

    Parameters
    ----------
    old, new
        The cells of the one, as they were recorded and as they are now.
    """
    border = f"\n{_BORDER}\n"
    found = carry(border.join(old), border.join(new), border.join(other.sources))
    if found.problem:
        return (), found.problem
    cells, line = [], 1
    for source in found.source.removesuffix("\n").split(border):
        cells.append(NewCell(source=source, line=line if other.is_script else 0))
        line += source.count("\n") + 1
    if len(cells) != len(other.sources):
        return (), "its cells could not be told apart any more"
    return tuple(cells), ""
