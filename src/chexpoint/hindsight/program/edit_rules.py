"""What may be added to a recorded program without changing what it computes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from chexpoint.hindsight.program.edit_align import first_line, last_line, short, statements
from chexpoint.hindsight.program.names import (
    FunctionNode,
    LoopNode,
    bases,
    bindings,
    is_log_call,
    mentioned,
    own_nodes,
)

# They turn gradients off, or tell whether there are any; none of them is one.
_NO_GRADIENTS = frozenset(
    {"no_grad", "enable_grad", "set_grad_enabled", "inference_mode", "is_grad_enabled"}
    | {"requires_grad", "requires_grad_", "zero_grad", "stop_gradient"}
)
_LEAVING = {
    ast.Return: "return",
    ast.Raise: "raise",
    ast.Global: "global",
    ast.Nonlocal: "nonlocal",
    ast.Yield: "yield",
    ast.YieldFrom: "yield",
    ast.Await: "await",
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
}


def names_of(tree: ast.AST) -> frozenset[str]:
    """Return all names that a program uses, those of parameters included."""
    others = {
        name
        for node in ast.walk(tree)
        for name in (
            [node.arg]
            if isinstance(node, ast.arg)
            else node.names
            if isinstance(node, ast.Global | ast.Nonlocal)
            else []
        )
    }
    return frozenset({*mentioned(tree), *others})


def imports_of(tree: ast.AST) -> frozenset[str]:
    """Return what a program imports, in a form that can be compared."""
    return frozenset(key for node in ast.walk(tree) for key in _import_keys(node))


def _import_keys(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (f"{alias.name} as {alias.asname}" for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        where = f"{'.' * node.level}{node.module or ''}"
        yield from (f"{where}: {alias.name} as {alias.asname}" for alias in node.names)


def objections(
    node: ast.stmt, used: frozenset[str], imported: frozenset[str], new: frozenset[str]
) -> Iterator[str]:
    """Yield why a statement may not be added, one sentence each.

    Parameters
    ----------
    used, imported
        `names_of` and `imports_of` the recorded program.
    new
        Names that added statements bind.
    """
    where = f"Line {node.lineno}, `{short(node)}`,"
    if isinstance(node, ast.Import | ast.ImportFrom):
        if isinstance(node, ast.ImportFrom) and node.module == "__future__":
            yield f"{where} changes how the program is read."
            return
        if any(alias.name == "*" for alias in node.names):
            yield f"{where} binds names that nobody knows: import them one by one."
            return
        if imported.issuperset(_import_keys(node)):
            return
    own = [node] if isinstance(node, FunctionNode | ast.ClassDef) else [node, *own_nodes(node)]
    for name in sorted(bindings(own) & (used | {"__chex__"})):
        yield f"{where} binds `{name}`, which the recorded program uses: take another name."
    for part in own:
        if isinstance(part, ast.Attribute | ast.Subscript) and not isinstance(part.ctx, ast.Load):
            found = bases(part)
            if not found or found - (new - used):
                text = ast.unparse(part)
                yield f"{where} changes `{text}`, which is part of the recorded program."
    for word in sorted({_LEAVING[type(part)] for part in own if type(part) in _LEAVING}):
        yield f"{where} has a `{word}`: an added statement may only look at values."
    yield from (f"{where} has a `{word}` of a recorded loop." for word in sorted(_jumps(node)))


def _jumps(node: ast.AST) -> set[str]:
    """Return ``break`` and ``continue`` if they leave ``node``."""
    if isinstance(node, ast.Break | ast.Continue):
        return {type(node).__name__.lower()}
    if isinstance(node, FunctionNode | ast.ClassDef | ast.Lambda):
        return set()
    if isinstance(node, LoopNode):
        return {word for each in node.orelse for word in _jumps(each)}
    return {word for each in ast.iter_child_nodes(node) for word in _jumps(each)}


def shares_line(node: ast.stmt, tree: ast.Module) -> bool:
    """Tell whether another statement is in the same line, so that lines cannot tell them apart."""
    inside = {id(each) for each in ast.walk(node)}
    first, last = first_line(node), last_line(node)
    return any(
        first_line(other) in {first, last}
        or (last_line(other) == first and not _holds(other, node))
        for other in statements(tree)
        if id(other) not in inside
    )


def _holds(outer: ast.stmt, inner: ast.stmt) -> bool:
    return any(each is inner for each in ast.walk(outer))


def logs(node: ast.AST, helpers: frozenset[str] = frozenset()) -> bool:
    """Tell whether a statement logs; ``helpers`` are functions that do."""
    return any(
        is_log_call(each) or (isinstance(each.func, ast.Name) and each.func.id in helpers)
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
    )


def only_logs(node: ast.stmt) -> bool:
    """Tell whether a statement does nothing but log."""
    match node:
        case ast.Expr(value=ast.Call() as call):
            return is_log_call(call)
        case ast.If(body=body, orelse=orelse) | ast.For(body=body, orelse=orelse):
            return all(only_logs(each) for each in [*body, *orelse])
        case ast.With(body=body):
            return all(only_logs(each) for each in body)
    return False


def reads_gradients(node: ast.AST) -> bool:
    """Tell whether a statement mentions gradients, as an attribute or in a text."""
    return any(
        "grad" in name and name not in _NO_GRADIENTS
        for each in ast.walk(node)
        for name in [
            each.attr
            if isinstance(each, ast.Attribute)
            else each.value
            if isinstance(each, ast.Constant) and isinstance(each.value, str)
            else ""
        ]
    )
