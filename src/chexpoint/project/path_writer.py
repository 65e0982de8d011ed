"""Writes the cells of one version into the catalog, as they lead from state to state."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Sequence

from chexpoint.engine import version_named
from chexpoint.errors import EngineError, InvalidValue
from chexpoint.lineage import (
    Places,
    code_hash,
    lineage_digest,
    strict_digest,
    taint_after,
)
from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellRecord,
    CellResult,
    NodeId,
    Output,
    PathCell,
)
from chexpoint.project.batch_plan import VersionTask
from chexpoint.project.kept_files import keep_files
from chexpoint.project.project import Project
from chexpoint.project.sources import SourceCell

AskLineage = Callable[..., tuple[CellLineage, ...]]
"""`Engine.lineage`."""


class PathWriter:
    """The path of one version, and what the catalog has of it."""

    def __init__(self, project: Project, task: VersionTask) -> None:
        self._project = project
        self._task = task
        self._name = task.name
        self.session = f"{time.time_ns():x}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._path: list[PathCell] = []
        self._version: int | None = None
        self._strict = ""
        self._places = Places(str(project.folder))

    def begin(self) -> None:
        """Begin the version."""
        chosen = tuple((each.name, each.text) for each in self._task.parameters)
        self._version = self._project.branch(
            self._name,
            self._path,
            session=self.session,
            origin=self._task.place,
            parameters=chosen,
        )

    @property
    def path(self) -> tuple[PathCell, ...]:
        """The cells so far."""
        return tuple(self._path)

    def go_on_from(self, path: Sequence[PathCell], strict: str) -> None:
        """Begin the version with cells that another one has run.

        Parameters
        ----------
        strict
            The strict lineage of the last of them.
        """
        self._path, self._strict = list(path), strict
        self.begin()

    def number(self) -> int | None:
        """Return the number of the version among those of its name; None if it has no cell."""
        if not self._path:
            return None
        nodes = tuple(cell.node for cell in self._path)
        newest = self._project.version(self._name)
        if newest.path == nodes:
            return newest.number
        # Somebody else has begun a version of this name meanwhile.
        alike = [v for v in self._project.versions() if v.name == newest.name and v.path == nodes]
        return alike[-1].number if alike else None

    def follow(self, lineage: AskLineage, source: str) -> CellLineage | None:
        """Return the cell that has led on from where the path is; None if none has.

        A magic may have gone to another state: then a new version begins there, with the next
        cell, because a version is a path.

        Raises
        ------
        EngineError
            If the engine is in a state that is not recorded.
        """
        if (name := version_named(source)) is not None:
            self._name, self._version = name, None
        last = lineage(last=1)
        number = last[-1].number if last else 0
        if number == len(self._path) + 1 and self._follows(last[-1]):
            return last[-1]
        if number <= len(self._path) and (not last or self._path[number - 1].node == last[-1].node):
            if number < len(self._path):
                del self._path[number:]
                self._version = None
            return None
        has_run = last[-1].source == source
        whole = lineage(last=None)
        self._go(whole[:-1] if has_run else whole)
        return last[-1] if has_run else None

    def _go(self, cells: tuple[CellLineage, ...]) -> None:
        """Go on from a state that was recorded before."""
        try:
            self._path = list(self._project.way_to(cells[-1].node)) if cells else []
        except InvalidValue as error:
            raise EngineError("the engine is in a state that is not recorded") from error
        self._version = None

    def _follows(self, cell: CellLineage) -> bool:
        return not self._path or cell.parent == self._path[-1].node

    def failed(
        self, cell: SourceCell, result: CellResult, *, root: Callable[[], NodeId]
    ) -> CellLineage:
        """Return what can be said of a cell that failed without leading to a state.

        Its process may have died, or it was a magic that could not do what it was told to.
        """
        parent = self._path[-1].node if self._path else root()
        code = code_hash(cell.source, self._transform())
        return CellLineage(
            node=lineage_digest(parent, code, ()),
            parent=parent,
            code=code,
            strict=strict_digest(self._strict or parent, code, ()),
            number=len(self._path) + 1,
            execution_count=len(self._path) + 1,
            source=cell.source,
            audit=CellAudit(gaps=("it did not come to an end",), mechanism="off"),
            seconds=result.seconds,
            size_bytes=0,
            status="error",
        )

    def _transform(self) -> Callable[[str], str]:
        if self._task.file.kind == "script":
            return str
        from IPython.core.inputtransformer2 import TransformerManager

        transform: Callable[[str], str] = TransformerManager().transform_cell
        return transform

    def add(self, lineage: CellLineage, outputs: Sequence[Output], cell: SourceCell) -> None:
        """Record a cell as the next one of the version."""
        if self._version is None:
            self.begin()
        before = self._path[-1].taint if self._path else ""
        record = CellRecord(
            lineage=lineage,
            taint=taint_after(lineage, before),
            parent_taint=before,
            outputs=tuple(outputs),
            cell_id=cell.cell_id,
        )
        execution = self._project.record(record, session=self.session, version=self._version)
        self._strict = lineage.strict
        self._path.append(PathCell.recorded(record, execution))
        keep_files(self._project, lineage, self._places)
