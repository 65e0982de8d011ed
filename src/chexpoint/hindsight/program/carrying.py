"""Puts log statements that were added to a program at the same place of an older version of it."""

from __future__ import annotations

import ast
import builtins
from dataclasses import dataclass

from chexpoint.hindsight.program.added import compare_programs
from chexpoint.hindsight.program.edit_align import first_line, last_line, rows, short
from chexpoint.hindsight.program.edit_difference import Addition, Difference
from chexpoint.hindsight.program.edit_match import Matching
from chexpoint.hindsight.program.edit_rules import names_of
from chexpoint.hindsight.program.edit_text import indented, split_lines, statement_text
from chexpoint.hindsight.program.names import bindings, own_nodes, reads


@dataclass(frozen=True, slots=True, kw_only=True)
class Carried:
    """An older version with the statements in it; or why there is none."""

    source: str = ""
    problem: str = ""
    """In one sentence; empty if it could be done."""


class _NoPlace(Exception):
    """A statement cannot be carried; the message is the sentence for the user."""


def carry(old: str, new: str, other: str) -> Carried:
    """Return ``other`` with what was added to ``old`` in ``new``, at the matching places.

    All three are versions of one program.  The text of ``other`` stays as it is; the
    added statements come with the indentation that is used there.
    """
    edit = compare_programs(old, new)
    if edit.problems:
        return Carried(problem=edit.problems[0])
    try:
        before, after, target = ast.parse(old), ast.parse(new), ast.parse(other)
    except SyntaxError as error:
        return Carried(problem=f"Line {error.lineno} of the version cannot be read: {error.msg}.")
    difference = Difference(before, {})
    difference.compare(after)
    try:
        source = _Carrier(before, target, other).carry(difference.added, new)
    except _NoPlace as why:
        return Carried(problem=str(why))
    except RecursionError:
        return Carried(problem="The program is nested too deep to be compared.")
    check = compare_programs(other, source)
    return Carried(problem=check.problems[0]) if check.problems else Carried(source=source)


@dataclass(frozen=True, slots=True)
class _Insertion:
    line: int
    """After which line of the version; 0 is its beginning."""
    order: int
    text: str


class _Carrier:
    def __init__(self, old: ast.Module, other: ast.Module, source: str) -> None:
        self._old = old
        self._other = other
        self._lines = split_lines(source)
        self._matching = Matching(old, other)

    def carry(self, added: list[Addition], new: str) -> str:
        self._check_names([addition.node for addition in added])
        found = [
            self._insertion(addition, order, statement_text(new, addition.node))
            for order, addition in enumerate(added)
        ]
        lines = [line if line.endswith("\n") else f"{line}\n" for line in self._lines]
        for each in sorted(found, key=lambda each: (each.line, each.order), reverse=True):
            lines.insert(each.line, f"{each.text}\n")
        return "".join(lines)

    def _check_names(self, added: list[ast.stmt]) -> None:
        """Refuse statements that read what the old program has and the version has not."""
        used, here = names_of(self._old), names_of(self._other)
        gone = used - here - set(vars(builtins))
        for node in added:
            for name in sorted(reads(node) & gone):
                raise _NoPlace(f"`{short(node)}` reads `{name}`, which the version does not have.")

    def _insertion(self, addition: Addition, order: int, text: str) -> _Insertion:
        node, spot = addition.node, addition.spot
        parent = self._matching.partner(spot.parent)
        row = rows(parent).get(spot.name, []) if parent is not None else []
        if parent is None or (not row and parent is not self._other):
            where = short(spot.parent) if isinstance(spot.parent, ast.stmt) else "the program"
            raise _NoPlace(f"There is no place for `{short(node)}`: the version has no `{where}`.")
        place = self._place(addition, row)
        line, indentation = self._line(node, row, place)
        try:
            return _Insertion(line, order, indented(text, indentation))
        except SyntaxError:  # such as an `elif`
            raise _NoPlace(f"`{short(node)}` cannot stand by itself.") from None

    def _place(self, addition: Addition, row: list[ast.stmt]) -> int:
        """Return before which statement of the row of the version an added one comes."""
        places = {id(each): place for place, each in enumerate(row)}
        partners = [places.get(id(self._matching.partner(each))) for each in addition.spot.row]
        before = [place for place in partners[: addition.index] if place is not None]
        after = [place for place in partners[addition.index :] if place is not None]
        if before:
            lowest = before[-1] + 1
            highest = min([place for place in after if place >= lowest], default=len(row))
        elif after:
            lowest = highest = after[0]
        else:
            lowest, highest = (0, len(row)) if addition.index == 0 else (len(row), len(row))
        return self._after_bindings(addition.node, row, lowest, highest)

    def _after_bindings(
        self, node: ast.stmt, row: list[ast.stmt], lowest: int, highest: int
    ) -> int:
        """Move on, as far as there is room, until what the statement reads is bound."""
        needed = reads(node) - {name for each in row[:lowest] for name in _binds(each)}
        for place in range(highest, lowest, -1):
            if needed & _binds(row[place - 1]):
                return place
        return lowest

    def _line(self, node: ast.stmt, row: list[ast.stmt], place: int) -> tuple[int, str]:
        """Return after which line of the version to put a statement, and how far in."""
        if not row:
            return len(self._lines), ""
        neighbour = row[place - 1] if place else row[0]
        start = self._lines[first_line(neighbour) - 1]
        indentation = start[: len(start) - len(start.lstrip())]
        line = last_line(neighbour) if place else first_line(neighbour) - 1
        is_alone = len(indentation.encode()) == neighbour.col_offset
        if not is_alone or (place and self._is_shared(row, place)):
            number = first_line(neighbour)
            raise _NoPlace(f"There is no place for `{short(node)}`: line {number} is shared.")
        return line, indentation

    def _is_shared(self, row: list[ast.stmt], place: int) -> bool:
        return place < len(row) and first_line(row[place]) <= last_line(row[place - 1])


def _binds(node: ast.stmt) -> set[str]:
    return bindings([node, *own_nodes(ast.Module([node], []))])
