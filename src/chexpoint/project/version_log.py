"""Writes cells into versions as they run: which one a cell belongs to, and when one begins.

Used by one thread.  A step that was not written, because recording was off or the disk was full,
is written later if a version needs it: a version is always whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from chexpoint.lineage import Step
from chexpoint.model import CellRecord, PathCell
from chexpoint.project.project import Parameters, Project

# Outputs that wait to be written, in memory, must not fill it.
_MOST_WAITING = 1000


@dataclass(slots=True)
class _Version:
    """One that is being written."""

    name: str
    head: Step
    """Its last cell; or where it begins, if it has none."""
    ident: int | None = None
    """None while there is no cell in it."""
    origin: str = ""
    parameters: Parameters = ()


class VersionLog:
    """The versions of one kernel.

    Parameters
    ----------
    name
        What to call a version that nobody has named.
    origin
        The notebook, if it is known.
    """

    def __init__(self, project: Project, *, session: str, name: str, origin: str = "") -> None:
        self._project = project
        self._session = session
        self._origin = origin
        self._unnamed = name
        self._versions: dict[str, _Version] = {}
        self._current: _Version | None = None
        self._waiting: dict[Step, CellRecord] = {}

    @property
    def name(self) -> str:
        """The version that cells are added to; empty before the first."""
        return self._current.name if self._current is not None else ""

    @property
    def cells(self) -> int:
        return self._current.head.number if self._current is not None else 0

    def begin(
        self, name: str, place: Step, *, origin: str = "", parameters: Parameters = ()
    ) -> None:
        """Add what follows to a new version that begins at a place."""
        version = _Version(name, place, origin=origin or self._origin, parameters=parameters)
        self._versions[name] = self._current = version

    def switch(self, name: str) -> tuple[PathCell, ...] | None:
        """Add what follows to the version of a name; return its cells so far.

        None if it is the present one already, and nothing moves.
        """
        if self.name == name:
            return None
        known = self._versions.get(name)
        if known is not None:
            self._current = known
            return tuple(path_cell(step) for step in known.head.path()[1:])
        recorded = [v for v in self._project.versions() if v.name == name]
        cells = self._project.cells(recorded[-1]) if recorded else ()
        # Two kernels may be open on the same version: this one goes on with a version of its own.
        self._versions[name] = self._current = _Version(name, _chain(cells))
        return cells

    def wait(self, step: Step, cell: CellRecord) -> None:
        """Do not write a cell, but remember it: a version may need it."""
        if len(self._waiting) < _MOST_WAITING:
            self._waiting[step] = cell

    def record(self, step: Step, cell: CellRecord, *, is_again: bool) -> None:
        """Write the run of a cell, and add it to the version unless it was in there already."""
        if is_again:
            step.written(self._project.record(cell, session=self._session), cell.taint)
            return
        version = self._version_after(step)
        run = self._project.record(cell, session=self._session, version=version.ident)
        step.written(run, cell.taint)
        version.head = step

    def recall(self, step: Step) -> None:
        """Add a cell to the version that shows an earlier run."""
        version = self._version_after(step)
        if version.ident is not None:
            self._project.recall(
                version.ident, step.execution, source=step.source, cell_id=step.cell_id
            )
        version.head = step

    def move(self, place: Step) -> None:
        """Add what follows to a version that leads to a place where the user is now."""
        if self._current is None or not _leads_through(self._current, place):
            self._current = self._version_at(place)

    def _version_at(self, place: Step) -> _Version:
        """Return the version to go on with at a place that the present one does not lead to."""
        mine = list(reversed(self._versions.values()))
        for version in mine:
            if version.head.is_same_state(place):
                return version
        names = [version.name for version in mine if _leads_through(version, place)]
        if not names and place.parent is not None:
            recorded = reversed(self._project.versions())
            names = [version.name for version in recorded if place.node in version.path]
        return _Version(names[0] if names else self.name or self._unnamed, place)

    def _version_after(self, step: Step) -> _Version:
        """Return the version that a step belongs to; history is a path, so it may be a new one."""
        parent = step.parent or step
        self.move(parent)
        version = self._current = self._current or _Version(self._unnamed, parent)
        if version.ident is None or not version.head.is_same_state(parent):
            version.ident = self._new_version(version, parent)
        self._versions[version.name] = version
        return version

    def _new_version(self, version: _Version, place: Step) -> int:
        steps = place.path()[1:]
        for step in steps:
            self._write_waiting(step)
        return self._project.branch(
            version.name,
            [replace(path_cell(step), taint=step.written_taint) for step in steps],
            session=self._session,
            origin=version.origin or self._origin,
            parameters=version.parameters,
        )

    def _write_waiting(self, step: Step) -> None:
        cell = self._waiting.get(step)
        if cell is not None and not step.execution:
            step.written(self._project.record(cell, session=self._session), cell.taint)
        self._waiting.pop(step, None)  # not before: there may still be no room for it


def _leads_through(version: _Version, place: Step) -> bool:
    return any(step.is_same_state(place) for step in version.head.path())


def path_cell(step: Step) -> PathCell:
    """Return a step as the catalog has it."""
    parent, record = step.parent, step.record
    if step.node is None or parent is None or parent.node is None:
        raise ValueError("the lineage of this step is not known")
    return PathCell(
        node=step.node,
        parent=parent.node,
        taint=step.taint,
        source=step.source,
        seconds=step.seconds,
        execution_count=record.execution_count if record is not None else step.number,
        status="error" if step.has_failed else "ok",
        execution=step.execution,
        cell_id=step.cell_id,
    )


def _chain(cells: tuple[PathCell, ...]) -> Step:
    at = Step(None)
    if cells:
        at.node = cells[0].parent
    for cell in cells:
        at = Step.recalled(at, cell)
    return at
