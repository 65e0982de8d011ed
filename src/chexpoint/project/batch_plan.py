"""Which versions are to be recorded of some files, and which cells each of them has.

Cells run in the project folder, so that whoever runs a version again knows where.  For a script
this is what ``python path/script.py`` means there.  A notebook expects to run in its own folder:
where that is another one, a first cell goes there.  Such cells are recorded like any other.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from chexpoint.project.journal import version_name
from chexpoint.project.names import LONGEST_NAME, check_version_name
from chexpoint.project.parameters import Parameter, parameters_source
from chexpoint.project.script_cells import PARAMETERS
from chexpoint.project.script_mode import PARAMETERS_TITLE, set_up_source
from chexpoint.project.sources import SourceCell, SourceFile

INJECTED = "injected-parameters"
"""The tag that papermill gives the cell which it has added to a notebook."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTask:
    """One version that is to be recorded."""

    file: SourceFile
    name: str
    folder: Path
    """The project folder."""
    parameters: tuple[Parameter, ...] = ()
    arguments: tuple[str, ...] = ()
    """``sys.argv[1:]`` of a script."""

    @property
    def place(self) -> str:
        """The file, relative to the project folder."""
        path = self.file.path
        return os.path.relpath(os.path.join(os.path.realpath(path.parent), path.name), self.folder)

    def cells(self) -> tuple[SourceCell, ...]:
        """Return everything that is run, in order; an end that a script may need comes later."""
        cells = self.file.cells
        if self.parameters:
            cells = with_parameters(self.file, self.parameters)
        if self.file.kind == "script":
            return SourceCell(
                source=set_up_source(self.place, self.arguments), kind="set-up"
            ), *cells
        folder = os.path.dirname(self.place)
        if not folder or not cells:
            return cells
        source = f"# The folder of the notebook\n__import__('os').chdir({folder!r})"
        return SourceCell(source=source, kind="set-up"), *cells

    def overridden(self) -> tuple[str, ...]:
        """Return the parameters that a cell sets to something else after they are set."""
        given = {each.name for each in self.parameters}
        are_set: set[str] = set()
        found: set[str] = set()
        for cell in self.cells():
            names = given.intersection(_assigned(cell.source))
            if cell.kind == "parameters":
                are_set |= names
            else:
                found |= names & are_set
        return tuple(each.name for each in self.parameters if each.name in found)


def plan_versions(
    files: Sequence[SourceFile],
    combinations: Sequence[tuple[Parameter, ...]],
    *,
    name: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    arguments: tuple[str, ...] = (),
) -> tuple[VersionTask, ...]:
    """Return the versions to record: every file with every combination of parameters.

    Parameters
    ----------
    name
        What to call them; by default they are called after their files.
    folder
        The project folder; by default that of each file.
    arguments
        For scripts.

    Raises
    ------
    InvalidValue
        If a version cannot have that name.
    """
    if name is not None:
        check_version_name(name)
    tasks = []
    for file in files:
        home = os.path.realpath(file.path.parent if folder is None else folder)
        titles: set[str] = set()
        for parameters in combinations:
            is_single = name is not None and len(combinations) == 1
            title = _unlike(titles, _name(file, name, () if is_single else parameters))
            titles.add(title)
            tasks.append(
                VersionTask(
                    file=file,
                    name=title,
                    folder=Path(home),
                    parameters=parameters,
                    arguments=arguments,
                )
            )
    return tuple(tasks)


def _name(file: SourceFile, name: str | None, parameters: Sequence[Parameter]) -> str:
    """Return what to call a version, such as ``train,lr=0.1``."""
    stem = file.path.stem
    # A number alone would be taken for that of a cell.
    start = name or version_name(stem) or version_name(f"run-{stem}") or "run"
    values = (version_name(f"{each.name}={each.text}") for each in parameters)
    return ",".join([start, *values])[:LONGEST_NAME]


def _unlike(others: set[str], name: str) -> str:
    """Return a name that others do not have: letters that it cannot have may have told them apart.

    Versions of one name would be told apart by when they were recorded, which says little.
    """
    found, number = name, 1
    while found in others:
        number += 1
        end = f",{number}"
        found = name[: LONGEST_NAME - len(end)] + end
    return found


def with_parameters(file: SourceFile, parameters: Sequence[Parameter]) -> tuple[SourceCell, ...]:
    """Return the cells of a file with one that sets parameters, where papermill would put it.

    In place of one that was added before, after the cell tagged ``parameters``, or at the
    beginning; in a script, below its docstring.  Where several cells are tagged, each parameter is
    set after the one that has its default, so that what is above can be shared.
    """
    cells = file.cells
    title = PARAMETERS_TITLE if file.kind == "script" else "# Parameters"

    def setting(some: Sequence[Parameter]) -> SourceCell:
        return SourceCell(source=parameters_source(some, title), kind="parameters")

    added = setting(parameters)
    for at, cell in enumerate(cells):
        if INJECTED in cell.tags:
            return *cells[:at], added, *cells[at + 1 :]
    tagged = [at for at, cell in enumerate(cells) if PARAMETERS in cell.tags]
    if tagged:
        homes = {name: at for at in reversed(tagged) for name in _assigned(cells[at].source)}
        found: list[SourceCell] = []
        for at, cell in enumerate(cells):
            found.append(cell)
            here = [each for each in parameters if homes.get(each.name, tagged[0]) == at]
            if here:
                found.append(setting(here))
        return tuple(found)
    first = next((at for at, cell in enumerate(cells) if not cell.is_head), len(cells))
    return *cells[:first], added, *cells[first:]


def _assigned(source: str) -> Iterator[str]:
    """Yield the names that the statements of a cell set, whatever happens."""
    try:
        statements = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return  # with magics in it; this is for a warning only
    for statement in statements:
        match statement:
            case ast.Assign(targets=targets):
                yield from (target.id for target in targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(name), value=ast.expr()):
                yield name
