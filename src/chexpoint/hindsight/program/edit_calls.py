"""From which loops a function may be called, as far as names tell."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from chexpoint.hindsight.program.names import FunctionNode

# These are called without being named.
_UNNAMED = frozenset({"forward", "call", "<lambda>"})


def sites_that_call(
    tree: ast.Module,
    site_lines: Mapping[int, int],
    functions: Collection[str],
    *,
    definitions: ast.AST | None = None,
) -> tuple[int, ...]:
    """Return the sites of a program in which a call of one of the functions may happen.

    Parameters
    ----------
    site_lines
        The sites of ``tree``, by line.
    functions
        Qualified names; only the last part counts.
    definitions
        Where functions are defined through which they may be called, if not in ``tree``.
    """
    if not functions:
        return ()
    wanted = {name.rpartition(".")[2] for name in functions}
    bodies = [
        (node.name, _words(node.body))
        for node in ast.walk(definitions or tree)
        if isinstance(node, FunctionNode)
    ]
    while True:
        more = {name for name, words in bodies if words & wanted} - wanted
        if not more:
            break
        wanted |= more
    if any(name in _UNNAMED or name.startswith("__") for name in wanted):
        return tuple(sorted(site_lines.values()))
    return tuple(
        sorted(
            site_lines[node.lineno]
            for node in ast.walk(tree)
            if isinstance(node, ast.For | ast.While)
            and node.lineno in site_lines
            and _words([node]) & wanted
        )
    )


def _words(nodes: Sequence[ast.AST]) -> set[str]:
    return {
        each.id if isinstance(each, ast.Name) else each.attr
        for node in nodes
        for each in ast.walk(node)
        if isinstance(each, ast.Name | ast.Attribute)
    }
