"""What is to be replayed of a version after log statements were added to it.

The recorded cells are compared with the changed ones.  If nothing but log statements was added,
the main loops that these may run in are found, and their iterations are shared out.
"""

from __future__ import annotations

import ast
import math
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from chexpoint.errors import InvalidValue
from chexpoint.hindsight import AddedStatement, expected_seconds, split
from chexpoint.model import LoopRecord, Seconds
from chexpoint.replay.hindsight_edits import compared_cells, with_callers
from chexpoint.replay.hindsight_source import parsed
from chexpoint.replay.hindsight_values import (
    Epochs,
    HindsightPlan,
    NewCell,
    OldCell,
    Probe,
    ProbedCell,
)


def plan_hindsight(
    version: str,
    old: Sequence[OldCell],
    new: Sequence[NewCell],
    *,
    workers: int = 1,
    epochs: Epochs | None = None,
) -> HindsightPlan:
    """Return what is to be replayed.

    Parameters
    ----------
    workers
        How many engines may run side by side.
    epochs
        Which iterations of the main loops; all by default.

    Raises
    ------
    InvalidValue
        If there are no such iterations.
    ChexError
        If what was recorded of the loops cannot be read.
    """
    cells, problems = compared_cells(old, new)
    if problems:
        return HindsightPlan(version=version, problems=tuple(problems))
    cells = with_callers(cells)
    wanted, notes, problems = _probed_loops(cells)
    if problems:
        return HindsightPlan(version=version, cells=tuple(cells), problems=tuple(problems))
    if kept := kept_by_added(cells):
        # What they have gathered before an iteration is there only if they have run before it.
        workers, epochs = 1, None if epochs is None else (0, epochs[1])
        notes.append(
            f"the added statements keep {', '.join(kept)} from iteration to iteration, so all of "
            "them are replayed, from the first on and by one worker"
        )
    probes = list(_shared_out(cells, wanted, workers, epochs, notes))
    lanes = max(1, min(workers, len(probes)))
    last = max((probe.cell for probe in probes), default=0)
    before = math.fsum(cell.seconds for cell in cells[:last] if cell.run is None)
    return HindsightPlan(
        version=version,
        cells=tuple(cells[: last + 1]),
        probes=tuple(probes),
        notes=tuple(notes),
        seconds=before + math.fsum(probe.seconds for probe in probes) / lanes,
        recorded_seconds=math.fsum(
            _recorded_seconds(record) for record in _records(cells, wanted).values()
        ),
    )


def _recorded_seconds(record: LoopRecord) -> Seconds:
    return math.fsum(iteration.seconds for iteration in record.iterations)


# ---------------------------------------------------------------- which loops


_DEFINITIONS = ("def ", "async def ", "class ", "@")
"""What is only called by what was added elsewhere."""

_LoopKey = tuple[int, int]
"""The place of a cell, and which main loop of its run."""


@dataclass(slots=True)
class _Wanted:
    loops: dict[_LoopKey, None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def _probed_loops(cells: Sequence[ProbedCell]) -> tuple[list[_LoopKey], list[str], list[str]]:
    """Return the main loops that may run what was added, in order, with notes and problems."""
    wanted = _Wanted()
    for at, cell in enumerate(cells):
        for statement in cell.statements:
            _add_loops(wanted, cells, at, statement)
    if wanted.loops:
        return sorted(wanted.loops), [*wanted.notes, *wanted.problems], []
    return [], [], list(dict.fromkeys([*wanted.problems, *wanted.notes]))


def _add_loops(
    wanted: _Wanted, cells: Sequence[ProbedCell], at: int, statement: AddedStatement
) -> None:
    cell = cells[at]
    line = statement.line + cell.line - 1
    around = [
        (at, n)
        for n, record in enumerate(cell.run.loops if cell.run else ())
        if record.site in statement.sites
    ]
    if around:
        wanted.loops.update(dict.fromkeys(around))
    elif statement.function:
        later = [
            (place, n)
            for place, other in enumerate(cells[at:], start=at)
            for n in range(len(other.run.loops) if other.run else 0)
        ]
        wanted.loops.update(dict.fromkeys(later))
        if not later:
            wanted.problems.append(
                f"line {line} is in the function {statement.function}, and no loop was recorded "
                "that may call it"
            )
    elif statement.sites:
        wanted.problems.append(_not_recorded(cell, statement))
    elif statement.is_log and not statement.text.lstrip().startswith(_DEFINITIONS):
        wanted.notes.append(
            f"line {line} is in no loop: what it logs is not replayed; run it as a cell instead"
        )


def kept_by_added(cells: Sequence[ProbedCell]) -> list[str]:
    """Return variables that added statements bind outside of all loops, and use inside of one."""
    bound: set[str] = set()
    used: set[str] = set()
    for cell in cells:
        for statement in (*cell.statements, *cell.helpers):
            if statement.sites or statement.function:
                used |= statement.reads
            else:
                bound |= _assigned(statement.text)
    return sorted(bound & used)


def _assigned(text: str) -> set[str]:
    """Return the names that a statement binds to a value; not those of modules and functions."""
    tree = parsed(textwrap.dedent(text))
    kinds = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.For, ast.With)
    return {
        name.id
        for node in (ast.walk(tree) if tree is not None else ())
        if isinstance(node, kinds)
        for name in ast.walk(node)
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)
    }


def _not_recorded(cell: ProbedCell, statement: AddedStatement) -> str:
    """Return why nothing is known of the loop around a statement."""
    site = next((each for each in cell.sites if each.site == statement.sites[0]), None)
    line = "" if site is None else f" in line {site.line + cell.line - 1}"
    refused = {} if cell.run is None else cell.run.refused
    if why := refused.get(statement.sites[0]):
        return f"the loop{line} was not recorded: {why}"
    return (
        f"the loop{line} was not recorded: run it with %chex_overhead other than off, or with "
        "chex record"
    )


def _records(
    cells: Sequence[ProbedCell], wanted: Iterable[_LoopKey]
) -> Mapping[_LoopKey, LoopRecord]:
    return {(at, n): run.loops[n] for at, n in wanted if (run := cells[at].run) is not None}


def _shared_out(
    cells: Sequence[ProbedCell],
    wanted: Sequence[_LoopKey],
    workers: int,
    epochs: Epochs | None,
    notes: list[str],
) -> Iterator[Probe]:
    """Yield the iterations of each loop in parts, as many as there are workers for."""
    for (at, n), record in _records(cells, wanted).items():
        if not record.iterations:
            continue
        steps_into = _steps_into(cells, at, record)
        try:
            segments = split(record, workers=workers, epochs=epochs, steps_into=steps_into)
        except InvalidValue as error:
            if len(wanted) == 1:
                raise
            notes.append(f"loop {n + 1} of cell {at + 1} is left out: {error}")
            continue
        if steps_into and workers > 1 and not record.can_jump and record.why_not:
            notes.append(f"its iterations cannot be passed over: {record.why_not}")
        for segment in segments:
            seconds = expected_seconds(record, (segment,), steps_into)
            yield Probe(cell=at, loop=n, segment=segment, seconds=seconds)


def _steps_into(cells: Sequence[ProbedCell], at: int, record: LoopRecord) -> bool:
    """Return whether a block of a main loop has to be executed."""
    own, others = len(cells[at].sites), [cell for i, cell in enumerate(cells) if i != at]
    for iteration in record.iterations:
        for block in iteration.blocks:
            # Loops of other cells have the numbers after those of the cell itself.
            if block.site in cells[at].step_into:
                return True
            if block.site >= own and any(cell.step_into for cell in others):
                return True
    return False
