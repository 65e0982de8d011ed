"""Cells that versions of a sweep begin with: run once, and kept as a checkpoint.

A state is shared only if running the cells again would surely give it: by the rules that decide
whether a recorded cell must be run again.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from chexpoint.engine import Engine
from chexpoint.errors import ForkRefused
from chexpoint.lineage import Present, default_cache_folder
from chexpoint.model import CellLineage, CheckpointId, Output, PathCell
from chexpoint.project.project import Project
from chexpoint.project.reuse import Reuse
from chexpoint.project.sources import SourceCell

if TYPE_CHECKING:
    from chexpoint.project.batch import CellRun


@dataclass(frozen=True, slots=True, kw_only=True)
class RanCell:
    """A cell that was run, with all that came of it."""

    run: CellRun
    lineage: CellLineage | None
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStart:
    """The state after some cells, and how it came about."""

    checkpoint: CheckpointId
    cells: tuple[RanCell, ...]
    path: tuple[PathCell, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(each.run.cell.source for each in self.cells)

    @property
    def strict(self) -> str:
        """The strict lineage of the last cell that has one."""
        return next((each.strict for each in reversed(self.lineages)), "")

    @property
    def lineages(self) -> tuple[CellLineage, ...]:
        return tuple(each.lineage for each in self.cells if each.lineage is not None)

    def runs(self, cells: Sequence[SourceCell]) -> Iterator[CellRun]:
        """Yield the runs, as those of the first cells of another version."""
        for cell, ran in zip(cells, self.cells, strict=False):
            yield replace(ran.run, cell=cell, seconds=0.0, is_reused=True)


class SharedStarts:
    """The states that the versions to come may begin with, the shortest way first.

    Parameters
    ----------
    without
        Environment variables of this process that engines do not find.
    """

    def __init__(self, without: Collection[str] = ()) -> None:
        self._without = without
        self._found: list[SharedStart] = []
        self.why_not = ""
        """Why the last state that was to be kept was not, or could not be used."""

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def checkpoints(self) -> set[CheckpointId]:
        return {start.checkpoint for start in self._found}

    def clear(self) -> None:
        """Forget them, because the engine that held them is gone."""
        self._found.clear()

    def keep(self, engine: Engine, cells: Sequence[RanCell], path: Sequence[PathCell]) -> None:
        """Keep the present state, if another run of its cells would surely lead to it."""
        self.why_not = ""
        for each in cells:
            if doubt := _doubt(each):
                self.why_not = f"'{_title(each.run.cell)}': {doubt}"
                return
        try:
            taken = engine.checkpoint()
        except ForkRefused as error:
            self.why_not = str(error).split(". ")[0]
            return
        self._found.append(SharedStart(checkpoint=taken.id, cells=tuple(cells), path=tuple(path)))

    def only_for(self, engine: Engine, cells: Sequence[SourceCell]) -> None:
        """Let go of the states that a version does not begin with: its turn has come."""
        sources = [cell.source for cell in cells]
        for start in tuple(self._found):
            if tuple(sources[: len(start.cells)]) != start.sources:
                self._found.remove(start)
                engine.evict(start.checkpoint)

    def longest(self, project: Project) -> SharedStart | None:
        """Return the state after most cells that is still what running them would give."""
        self.why_not = ""
        environ = {name: value for name, value in os.environ.items() if name not in self._without}
        present = Present(
            str(project.folder),
            cache_folder=default_cache_folder(),
            environ=environ,
            hash_seed=environ.get("PYTHONHASHSEED", "0"),
        )
        reuse = Reuse(project, present)
        best = None
        checked = 0
        for start in self._found:
            path: list[CellLineage] = []
            for at, each in enumerate(start.cells):
                if each.lineage is None:
                    continue
                if at >= checked and (why := reuse.objection(path, each.lineage, each.outputs)):
                    self.why_not = f"'{_title(each.run.cell)}': {why}"
                    return best
                path.append(each.lineage)
            best, checked = start, len(start.cells)
        return best


def _doubt(each: RanCell) -> str:
    """Return why another run of a cell may lead elsewhere, or do something else besides."""
    source = each.run.cell.source
    if each.run.error is not None:
        return "it failed"
    if "%chex_" in source or (each.lineage is None and not _is_empty(source)):
        return "it has a magic, which may do more than change the state"
    return "" if each.lineage is None else each.lineage.doubt()


def _is_empty(source: str) -> bool:
    try:
        return not ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _title(cell: SourceCell) -> str:
    return next((line for line in cell.source.splitlines() if line.strip()), "").strip()[:60]
