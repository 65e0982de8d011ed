"""Which statement of a program is which of another version of it."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator, Sequence

from chexpoint.hindsight.program.names import FunctionNode, LoopNode

Row = Sequence[ast.stmt]
Weigh = Callable[[ast.stmt, ast.stmt], float]


def rows(node: ast.AST) -> dict[str, list[ast.stmt]]:
    """Return the rows of statements inside a statement: ``body``, ``orelse``, ``handlers[0]``..."""
    found: dict[str, list[ast.stmt]] = {}
    for name, value in ast.iter_fields(node):
        if not isinstance(value, list):
            continue
        if name in {"body", "orelse", "finalbody"}:
            found[name] = value
        elif name in {"handlers", "cases"}:
            found.update({f"{name}[{i}]": each.body for i, each in enumerate(value)})
    return found


def head(node: ast.stmt) -> ast.stmt:
    """Return a statement without the statements in it."""
    new = copy.copy(node)
    for name, value in ast.iter_fields(node):
        if isinstance(value, list) and name in {"body", "orelse", "finalbody"}:
            setattr(new, name, [])
        elif isinstance(value, list) and name in {"handlers", "cases"}:
            empty = [copy.copy(each) for each in value]
            for each in empty:
                each.body = []
            setattr(new, name, empty)
    return new


def head_text(node: ast.stmt) -> str:
    """Return the text of a statement, of one that holds others the first line."""
    if not rows(node):
        return ast.unparse(node)
    if isinstance(node, ast.Try | ast.TryStar):
        return "try:"
    new = head(node)
    for name in rows(node):
        if name == "body":
            setattr(new, name, [ast.Pass()])
    text = ast.unparse(ast.fix_missing_locations(new))
    lines = [line for line in text.splitlines() if not line.startswith("@")]
    return lines[0].removesuffix(" pass") if lines else text


def short(node: ast.stmt) -> str:
    """Return the text of a statement, for a message."""
    text = " ".join(head_text(node).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def first_line(node: ast.stmt) -> int:
    """Return the line a statement begins in, decorators included."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def last_line(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements in a node, and itself if it is one."""
    return (each for each in ast.walk(node) if isinstance(each, ast.stmt))


class Weights:
    """Weighs pairs of statements, each pair once; those of different kinds weigh nothing."""

    def __init__(self) -> None:
        self._weights: dict[tuple[int, int], float] = {}

    def __call__(self, old: ast.stmt, new: ast.stmt) -> float:
        if type(old) is not type(new):
            return 0
        key = id(old), id(new)
        if key not in self._weights:
            self._weights[key] = self._weigh(old, new)
        return self._weights[key]

    def _weigh(self, old: ast.stmt, new: ast.stmt) -> float:
        """Return the weight of two statements of one kind."""
        raise NotImplementedError


class Sameness(Weights):
    """Weighs pairs of statements by how much of them is exactly the same.

    Comments and layout do not count.  Statements that hold others are the same as far
    as what they hold is, if their own text is the same.
    """

    def __init__(self) -> None:
        super().__init__()
        self._dumps: dict[int, str] = {}
        self._heads: dict[int, str] = {}

    def dump(self, node: ast.stmt) -> str:
        found = self._dumps.get(id(node))
        if found is None:
            found = self._dumps[id(node)] = ast.dump(node)
        return found

    def is_same(self, old: ast.stmt, new: ast.stmt) -> bool:
        return type(old) is type(new) and self.dump(old) == self.dump(new)

    def _weigh(self, old: ast.stmt, new: ast.stmt) -> float:
        if self.is_same(old, new):
            return 2.0 * sum(1 for _ in statements(old))
        inside, others = rows(old), rows(new)
        if not inside or inside.keys() != others.keys() or self._head(old) != self._head(new):
            return 0
        return 1 + sum(
            self(row[i], others[name][j])
            for name, row in inside.items()
            for i, j in align(row, others[name], self)
        )

    def _head(self, node: ast.stmt) -> str:
        found = self._heads.get(id(node))
        if found is None:
            found = self._heads[id(node)] = ast.dump(head(node))
        return found


def align(old: Row, new: Row, weigh: Weigh) -> list[tuple[int, int]]:
    """Return the pairs of places, in order on both sides, that weigh most together."""
    start = 0
    is_same = weigh.is_same if isinstance(weigh, Sameness) else _never
    while start < min(len(old), len(new)) and is_same(old[start], new[start]):
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and is_same(old[-1 - end], new[-1 - end]):
        end += 1
    middle = _align(old[start : len(old) - end], new[start : len(new) - end], weigh)
    return [
        *((i, i) for i in range(start)),
        *((i + start, j + start) for i, j in middle),
        *((len(old) - i, len(new) - i) for i in range(end, 0, -1)),
    ]


def _never(_old: ast.stmt, _new: ast.stmt) -> bool:
    return False


def _align(old: Row, new: Row, weigh: Weigh) -> list[tuple[int, int]]:
    best = [[0.0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            weight = weigh(old[i], new[j])
            both = weight + best[i + 1][j + 1] if weight > 0 else 0.0
            best[i][j] = max(both, best[i + 1][j], best[i][j + 1])
    pairs: list[tuple[int, int]] = []
    i = j = 0
    while i < len(old) and j < len(new):
        weight = weigh(old[i], new[j])
        if weight > 0 and best[i][j] == weight + best[i + 1][j + 1]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1
    return pairs


def inner_name(node: ast.stmt, outer: str) -> str:
    """Return what qualified names in a definition begin with."""
    return f"{outer}{node.name}{'.<locals>.' if isinstance(node, FunctionNode) else '.'}"  # type: ignore[attr-defined]


def is_loop(node: ast.AST) -> bool:
    return isinstance(node, LoopNode)
