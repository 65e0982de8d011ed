"""What was added to the cells of a version, and which loops have to be executed because of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from chexpoint.hindsight import (
    LogEdit,
    blocks_to_step_into,
    compare_cells,
    instrument,
    read_run,
)
from chexpoint.model import LoopSite
from chexpoint.replay.hindsight_calls import callers_of
from chexpoint.replay.hindsight_source import moved_lines, parsed
from chexpoint.replay.hindsight_values import NewCell, OldCell, ProbedCell


def compared_cells(
    old: Sequence[OldCell], new: Sequence[NewCell]
) -> tuple[list[ProbedCell], list[str]]:
    """Return the cells to run, with what was added to each; and what else was changed."""
    places = [at for at, cell in enumerate(old) if not cell.is_own]
    edits = compare_cells([old[at].source for at in places], [cell.source for cell in new])
    cells: list[ProbedCell] = []
    problems: list[str] = []
    done = 0
    for number, (cell, edit) in enumerate(zip(new, edits, strict=True), start=1):
        at = None if edit.cell is None else places[edit.cell]
        if at is not None:
            cells += [_as_it_was(own) for own in old[done:at] if own.is_own]
            done = at + 1
        cells.append(_probed(None if at is None else old[at], cell, edit))
        problems += [_placed(each, cell, number if len(new) > 1 else 0) for each in edit.problems]
    if not problems and not any(cell.statements for cell in cells):
        problems.append(
            "nothing was added that logs a value: add print(...) or chexpoint.log(...) to the loop"
        )
    return cells, problems


def _placed(problem: str, cell: NewCell, number: int) -> str:
    """Return a problem with the place where a user finds it: in a script, or in a cell."""
    if cell.line:
        return moved_lines(problem, cell.line - 1)
    is_of_cell = number and problem.startswith("Line ")
    return f"Cell {number}, l{problem[1:]}" if is_of_cell else problem


def _as_it_was(cell: OldCell) -> ProbedCell:
    return ProbedCell(
        source=cell.source,
        old_source=cell.source,
        node=cell.node,
        seconds=cell.seconds,
        is_failing=cell.is_failing,
    )


def _probed(old: OldCell | None, new: NewCell, edit: LogEdit) -> ProbedCell:
    source = "" if old is None else old.source
    return ProbedCell(
        source=new.source,
        old_source=source,
        line=max(new.line, 1),
        node=None if old is None else old.node,
        folder=None if old is None else old.run,
        run=None if old is None or old.run is None else read_run(old.run),
        added=tuple(edit.ranges),
        removed=tuple(edit.removed),
        statements=tuple(each for each in edit.added if each.is_log),
        helpers=tuple(each for each in edit.added if not each.is_log),
        sites=_sites(source),
        # Also of a cell that was left alone: it may call a function of another one.
        step_into=blocks_to_step_into(edit, _sites(source)),
        seconds=0.0 if old is None else old.seconds,
        is_failing=old is not None and old.is_failing,
    )


def _sites(source: str) -> tuple[LoopSite, ...]:
    tree = parsed(source)
    return () if tree is None else instrument(tree).sites


def with_callers(cells: Sequence[ProbedCell]) -> list[ProbedCell]:
    """Return cells with all loops to execute through which a function with a log may be called."""
    added = [each for cell in cells for each in cell.statements if each.function]
    if not added:
        return list(cells)
    # Gradients are not kept: whoever reads them needs the steps before.
    is_hidden = any(each.reads_grad for each in added)
    names = callers_of({each.function for each in added}, [cell.source for cell in cells])
    found = []
    for cell in cells:
        through = (
            {site.site for site in cell.sites}
            if names is None or is_hidden
            else {site.site for site in cell.sites if names.intersection(site.names)}
        )
        found.append(replace(cell, step_into=cell.step_into | through))
    return found
