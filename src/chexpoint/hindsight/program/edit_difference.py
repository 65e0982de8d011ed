"""The difference between two versions of a program, statement by statement."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher

from chexpoint.hindsight.program.edit_align import (
    Row,
    Sameness,
    align,
    inner_name,
    is_loop,
    rows,
    short,
    statements,
)
from chexpoint.hindsight.program.edit_rules import only_logs
from chexpoint.hindsight.program.names import FunctionNode

_ALIKE = 0.5


@dataclass(frozen=True, slots=True)
class Spot:
    """A row of statements of the old program."""

    parent: ast.AST
    name: str
    """Which row of it."""
    row: Row
    sites: tuple[int, ...] = ()
    """Of the loops around it, in its function, from the outermost on."""
    function: str = ""
    inner: str = ""


@dataclass(frozen=True, slots=True)
class Addition:
    """A statement that only the new program has."""

    node: ast.stmt
    spot: Spot
    index: int
    """Before which statement of the row it stands."""


@dataclass(slots=True)
class Difference:
    """What differs between an old and a new program."""

    old: ast.Module
    sites: Mapping[int, int]
    """Sites of the old program, by line."""
    added: list[Addition] = field(default_factory=list)
    removed: list[ast.stmt] = field(default_factory=list)
    """Statements that only logged."""
    problems: list[str] = field(default_factory=list)
    sameness: Sameness = field(default_factory=Sameness)

    def compare(self, new: ast.Module) -> None:
        """Add how a new program differs."""
        self._row(Spot(self.old, "body", self.old.body), new.body)

    def _row(self, spot: Spot, new: Row) -> None:
        i = j = 0
        for next_i, next_j in [*align(spot.row, new, self.sameness), (len(spot.row), len(new))]:
            self._gap(spot, (i, next_i), list(new[j:next_j]))
            if next_i < len(spot.row) and not self.sameness.is_same(spot.row[next_i], new[next_j]):
                self._inside(spot, spot.row[next_i], new[next_j])
            i, j = next_i + 1, next_j + 1

    def _inside(self, spot: Spot, old: ast.stmt, new: ast.stmt) -> None:
        others = rows(new)
        for name, row in rows(old).items():
            if is_loop(old) and name == "orelse" and not row and others[name]:
                text = f"Line {new.lineno}, `{short(new)}`, got an `else` clause."
                self.problems.append(text)
                continue
            self._row(self._spot_in(spot, old, name, row), others[name])

    def _spot_in(self, spot: Spot, node: ast.stmt, name: str, row: Row) -> Spot:
        inner = replace(spot, parent=node, name=name, row=row)
        if isinstance(node, FunctionNode):
            function = f"{spot.inner}{node.name}"
            return replace(inner, sites=(), function=function, inner=inner_name(node, spot.inner))
        if isinstance(node, ast.ClassDef):
            return replace(inner, sites=(), inner=inner_name(node, spot.inner))
        if is_loop(node) and name == "body" and node.lineno in self.sites:
            return replace(inner, sites=(*spot.sites, self.sites[node.lineno]))
        return inner

    def _gap(self, spot: Spot, places: tuple[int, int], new: list[ast.stmt]) -> None:
        """Compare what is between two statements that both programs have."""
        for old in spot.row[slice(*places)]:
            if only_logs(old):
                self.removed.append(old)
                continue
            partner = _partner(old, new)
            if partner is not None:
                new.remove(partner)
                self.problems.append(
                    f"Line {old.lineno}, `{short(old)}`, was changed to `{short(partner)}` "
                    f"(line {partner.lineno})."
                )
                continue
            self.problems.append(self._loss(old, new))
            new = [each for each in new if not self._holds(each, old)]
        self.added += [Addition(node, spot, places[1]) for node in new]

    def _loss(self, old: ast.stmt, new: list[ast.stmt]) -> str:
        for each in new:
            if self._holds(each, old):
                return (
                    f"Line {old.lineno}, `{short(old)}`, was moved into `{short(each)}` "
                    f"(line {each.lineno})."
                )
        return f"Line {old.lineno}, `{short(old)}`, is missing."

    def _holds(self, outer: ast.stmt, old: ast.stmt) -> bool:
        return any(self.sameness.is_same(old, inner) for inner in statements(outer))


def _partner(old: ast.stmt, new: list[ast.stmt]) -> ast.stmt | None:
    """Return what a statement was most likely changed to."""
    alike = [
        (SequenceMatcher(None, short(old), short(each), autojunk=False).ratio(), -place)
        for place, each in enumerate(new)
        if type(each) is type(old) and not only_logs(each)
    ]
    ratio, place = max(alike, default=(0.0, 0))
    return new[-place] if ratio >= _ALIKE else None
