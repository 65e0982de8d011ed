"""Carries versions from one project to another, with what their cells have written.

Runs that versions share are carried once, and stay shared.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from chexpoint.lineage import Places
from chexpoint.model import CellLineage, CellRecord, Digest, PathCell, Version
from chexpoint.project.kept_files import keep_files
from chexpoint.project.project import Project


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedCell:
    """A cell of a version, as it ran."""

    execution: int
    """The run that is meant, in the project that it comes from."""
    source: str
    cell_id: str
    is_reused: bool
    record: CellRecord | None
    """None if it was carried before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CarriedVersion:
    """A version on its way."""

    name: str
    origin: str
    parameters: tuple[tuple[str, str], ...]
    cells: tuple[CarriedCell, ...]

    def written(self) -> Mapping[str, Digest]:
        """Return what the files of the project have in them that its cells have written."""
        found: dict[str, Digest] = {}
        for cell in self.cells:
            if cell.record is not None:
                found |= _written(cell.record.lineage)
        return found

    def contents(self) -> frozenset[Digest]:
        """Return the digests of all that was ever in these files."""
        records = (cell.record for cell in self.cells if cell.record is not None)
        return frozenset(
            digest for record in records for digest in _written(record.lineage).values()
        )


def _written(lineage: CellLineage) -> dict[str, Digest]:
    return {
        effect.path: effect.digest
        for effect in lineage.audit.effects
        if effect.kind == "written" and effect.digest and _is_inside(effect.path)
    }


def _is_inside(name: str) -> bool:
    parts = name.split("/")
    return parts[0] == "." and not {"..", ".chex"} & set(parts) and "\0" not in name


def pick_up(project: Project, version: Version, carried: Collection[int]) -> CarriedVersion:
    """Return a version of a project, ready to travel.

    Parameters
    ----------
    carried
        Runs that have travelled before.

    Raises
    ------
    CatalogError
        If the catalog is damaged.
    """
    cells: list[CarriedCell] = []
    before = ""
    for cell in project.cells(version):
        record = None
        if cell.execution not in carried:
            record = CellRecord(
                lineage=project.lineage(cell.execution),
                taint=cell.taint,
                parent_taint=before,
                outputs=project.outputs(cell.execution),
                cell_id=cell.cell_id,
            )
        before = cell.taint
        cells.append(
            CarriedCell(
                execution=cell.execution,
                source=cell.source,
                cell_id=cell.cell_id,
                is_reused=cell.is_reused,
                record=record,
            )
        )
    return CarriedVersion(
        name=version.name,
        origin=version.origin,
        parameters=version.parameters,
        cells=tuple(cells),
    )


class Importer:
    """Puts versions of one other project into a project."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._session = f"carried-{uuid.uuid4().hex}"
        self._executions: dict[int, PathCell] = {}
        self._places = Places(str(project.folder))

    def add(
        self, version: CarriedVersion, find: Callable[[Digest], Path | None]
    ) -> tuple[int | None, tuple[str, ...]]:
        """Record a version here; return its number, and the files that could not be had.

        Parameters
        ----------
        find
            Returns a file with some contents, None if nobody has them.

        Raises
        ------
        CatalogError
            If it cannot be recorded.
        """
        ident = self._project.new_version(
            version.name,
            session=self._session,
            origin=version.origin,
            parameters=version.parameters,
        )
        missing = self._place(version, find)
        nodes = []
        for cell in version.cells:
            if cell.record is not None:
                ran = self._project.record(cell.record, session=self._session, version=ident)
                self._executions[cell.execution] = PathCell.recorded(cell.record, ran)
                keep_files(self._project, cell.record.lineage, self._places)
            else:
                known = self._executions[cell.execution]
                self._project.recall(
                    ident, known.execution, source=cell.source, cell_id=cell.cell_id
                )
            nodes.append(self._executions[cell.execution].node)
        alike = [
            each.number
            for each in self._project.versions()
            if each.name == version.name and each.path == tuple(nodes)
        ]
        return (alike[-1] if alike else None), missing

    def _place(
        self, version: CarriedVersion, find: Callable[[Digest], Path | None]
    ) -> tuple[str, ...]:
        """Keep all contents, and have in the folder what the version has left there."""
        found = {digest: find(digest) for digest in version.contents()}
        for digest, path in found.items():
            if path is not None:
                self._project.keep_file(path, digest)
        missing = []
        for name, digest in version.written().items():
            path = found[digest]
            target = self._project.folder / name
            if path is None or not _is_below(target, self._project.folder):
                missing.append(name)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.{os.getpid()}")
            shutil.copyfile(path, part)
            os.replace(part, target)
        return tuple(missing)


def _is_below(path: Path, folder: Path) -> bool:
    """Return whether a path leads into a folder, whatever links are on the way."""
    return path.parent.resolve().is_relative_to(folder.resolve())
