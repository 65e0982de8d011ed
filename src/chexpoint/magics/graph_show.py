"""What there is to say about variables: what each is, if it was loaded or computed, and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from IPython.core.error import UsageError

from chexpoint.errors import suggestion
from chexpoint.magics.engine_access import EngineAccess
from chexpoint.magics.replay_program import batches, start
from chexpoint.model import CellLineage, VariableGroup, format_seconds, format_size

_LONGEST = 60


@dataclass(frozen=True, slots=True)
class Made:
    """A variable as a cell of the path left it."""

    cell: CellLineage
    group: VariableGroup


def asked(engine: EngineAccess, folder: str, words: Sequence[str]) -> str | None:
    """Return what ``chex graph`` prints; None if the cell only brings back a state.

    It is another process: what this one reads outside the project would count as input of the cell.
    """
    program = start(engine, "graph", ["--project", folder, *words])
    if program is None:
        return None
    with program:
        printed = "\n".join(line for lines in batches(program) for line in lines)
        if not printed and (errors := program.errors()):
            raise UsageError("\n".join(errors))
    return printed


def made_on(path: Iterable[CellLineage]) -> dict[str, Made] | None:
    """Return which cell of a path made each variable; None if that was not followed."""
    found: dict[str, Made] = {}
    for cell in path:
        variables = cell.variables
        if variables is None:
            return None
        for name in variables.deleted:
            found.pop(name, None)
        for group in variables.writes:
            found |= {name: Made(cell, group) for name in group.names}
    return {name: made for name, made in found.items() if not name.startswith(":")}


def why_lines(
    wanted: Sequence[str], made: Mapping[str, Made], told: Mapping[str, str]
) -> list[str]:
    """Return a line or two for each variable.

    Parameters
    ----------
    wanted
        Variables; all if there are none.
    told
        What was done for each, and why, as far as it was decided.

    Raises
    ------
    UsageError
        If there is no such variable.
    """
    lines = []
    for name in wanted or sorted(made):
        if name not in made:
            known = suggestion(name, made) if made else "No cell has made one yet."
            raise UsageError(f"no variable '{name}' is known here. {known}")
        lines.append(f"{name}: {_what(name, made[name])}")
        lines += [f"    {text}" for text in [_why(made[name], told.get(name, ""))] if text]
    return lines


def _what(name: str, made: Made) -> str:
    cell, group = made.cell, made.group
    kind = group.kinds[group.names.index(name)].rpartition(".")[2]
    lines = [each.strip() for each in cell.source.splitlines() if each.strip()]
    line = next((each for each in lines if not each.startswith("#")), "".join(lines[:1]))
    short = line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…"
    others = [each for each in group.names if each != name]
    shared = f", shares objects with {', '.join(others)}" if others else ""
    size = f", {format_size(group.size_bytes)}" if group.size_bytes else ""
    return (
        f"{kind}{size}, of cell [{cell.execution_count}] '{short}' "
        f"({format_seconds(cell.seconds)}){shared}"
    )


def _why(made: Made, told: str) -> str:
    """Return what was done for a variable, and whether it is stored."""
    words = [told] if told else ["computed here"]
    if doubt := made.cell.doubt():
        words.append(f"nobody else can use it: {doubt}")
    elif made.group.why_not:
        words.append(f"it cannot be stored: {made.group.why_not}")
    elif made.group.contents:
        words.append("it is little, and kept in the graph itself")
    return "; ".join(words)
