"""Finds the statements of a program again in an older version of it.

From the top down, rows of statements are aligned by how alike they are; what then
has no partner and holds other statements, such as a loop that was put into a
function, is looked for everywhere.  This is the idea of GumTree (Falleri et al.,
ASE 2014), on statements.
"""

from __future__ import annotations

import ast
import re
from collections import Counter

from chexpoint.hindsight.program.edit_align import Weights, align, head_text, rows, statements

_WORD = re.compile(r"\w+|[^\w\s]")
_ALIKE = 0.5


class Likeness(Weights):
    """Weighs pairs of statements by how alike they are: up to 1 for each statement in them."""

    def __init__(self) -> None:
        super().__init__()
        self._words: dict[int, Counter[str]] = {}

    def _weigh(self, old: ast.stmt, new: ast.stmt) -> float:
        own = self._heads(old, new)
        inside, others = rows(old), rows(new)
        if not inside:
            return own if own >= _ALIKE else 0
        held = sum(
            self(row[i], others[name][j])
            for name, row in inside.items()
            if name in others
            for i, j in align(row, others[name], self)
        )
        size = sum(1 for _ in statements(old)) + sum(1 for _ in statements(new)) - 2
        share = 2 * held / size if size else 0
        return own + held if (own + share) / 2 >= _ALIKE or share > _ALIKE else 0

    def _heads(self, old: ast.stmt, new: ast.stmt) -> float:
        name = getattr(old, "name", None)
        if name is not None and name == getattr(new, "name", None):
            return 1
        one, other = self._count(old), self._count(new)
        return 2 * (one & other).total() / ((one.total() + other.total()) or 1)

    def _count(self, node: ast.stmt) -> Counter[str]:
        found = self._words.get(id(node))
        if found is None:
            found = self._words[id(node)] = Counter(_WORD.findall(head_text(node)))
        return found


class Matching:
    """Which statement of an old program is which of another one."""

    def __init__(self, old: ast.Module, other: ast.Module) -> None:
        self._likeness = Likeness()
        self._partners: dict[int, ast.AST] = {}
        self._taken: set[int] = set()
        self._pair(old, other)
        for node in statements(old):
            if rows(node) and id(node) not in self._partners:
                self._look_everywhere(node, other)

    def partner(self, node: ast.AST) -> ast.AST | None:
        return self._partners.get(id(node))

    def _pair(self, old: ast.AST, other: ast.AST) -> None:
        self._partners[id(old)] = other
        self._taken.add(id(other))
        others = rows(other)
        for name, row in rows(old).items():
            free = [each for each in others.get(name, []) if id(each) not in self._taken]
            left = [each for each in row if id(each) not in self._partners]
            for i, j in align(left, free, self._likeness):
                self._pair(left[i], free[j])

    def _look_everywhere(self, node: ast.stmt, other: ast.Module) -> None:
        weights = [
            (self._likeness(node, each), -place, each)
            for place, each in enumerate(statements(other))
            if id(each) not in self._taken
        ]
        weight, _, best = max(weights, key=lambda found: found[:2], default=(0, 0, None))
        if best is not None and weight > 0:
            self._pair(node, best)
