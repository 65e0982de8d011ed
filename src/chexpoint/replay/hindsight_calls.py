"""Which code may come to run a function, told from the text of all cells."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from chexpoint.replay.hindsight_source import parsed


def callers_of(functions: Collection[str], sources: Sequence[str]) -> frozenset[str] | None:
    """Return the names of functions that may lead to some, with their own.

    Code that calls none of these names does not come to run the functions.

    Parameters
    ----------
    functions
        Qualified names, as they are at the top level of cells.

    Returns
    -------
    frozenset[str] | None
        None if that cannot be told: a method is called through its object, and a function that is
        handed on may be called from anywhere.
    """
    found = set(functions)
    if any(not name.isidentifier() for name in found):
        return None
    trees = [tree for tree in map(parsed, sources) if tree is not None]
    while True:
        around: set[str] = set()
        for tree in trees:
            for place in _mentions(tree, found):
                if place is None:
                    return None
                around.add(place)
        around.discard("")
        if around <= found:
            return frozenset(found)
        found |= around


def _mentions(tree: ast.Module, names: Collection[str]) -> Iterator[str | None]:
    """Yield the function that each mention of some names is in; None if it may be anywhere.

    Empty at the top level.
    """
    waiting: list[tuple[ast.AST, str | None, bool]] = [(tree, "", False)]
    while waiting:
        node, place, is_called = waiting.pop()
        match node:
            case ast.Name(id=name, ctx=ast.Load()) if name in names:
                yield place if is_called else None
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                if node.name in names and node.decorator_list:
                    yield None
                inside = node.name if place == "" else None
                waiting += [(child, inside, False) for child in ast.iter_child_nodes(node)]
            case ast.Lambda() | ast.ClassDef():
                waiting += [(child, None, False) for child in ast.iter_child_nodes(node)]
            case ast.Call(func=called):
                waiting.append((called, place, True))
                others = [*node.args, *node.keywords]
                waiting += [(child, place, False) for child in others]
            case _:
                waiting += [(child, place, False) for child in ast.iter_child_nodes(node)]
