"""What a cell may do, told from its source alone."""

from __future__ import annotations

import ast
import types
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from chexpoint.image.quiet import without_warnings

# Whoever has one of these can reach every variable without naming it.
OPAQUE = frozenset(
    {
        "__builtins__",
        "__globals__",
        "__import__",
        "__main__",
        "_getframe",
        "_current_frames",
        "currentframe",
        "eval",
        "exec",
        "f_back",
        "f_globals",
        "f_locals",
        "gc",
        "get_ipython",
        "get_objects",
        "get_referrers",
        "globals",
        "inspect",
        "locals",
        "tb_frame",
        "user_ns",
        "vars",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CellNames:
    """The names a cell uses."""

    is_opaque: bool = False
    """Whether it may use any name."""
    direct: frozenset[str] = frozenset()
    """What runs with the cell uses these; attributes are among them."""
    deferred: frozenset[str] = frozenset()
    """Functions and generators that it defines use these, whenever they are called."""
    imports: tuple[str, ...] = ()
    """Modules that it imports, by their full names."""
    targets: tuple[str, ...] = ()
    """Attributes that it sets or deletes, by dotted names: ``np.random.default``."""


def read_cell(source: str) -> CellNames:
    """Return the names that a cell uses; one that cannot be parsed may use any."""
    try:
        tree, code = _compile(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return CellNames(is_opaque=True)
    direct = frozenset(code.co_names) | _strings(code)
    deferred = frozenset(names_of_functions(code))
    used = direct | deferred
    is_opaque = not OPAQUE.isdisjoint(used) or "*" in used or {"modules", "__name__"} <= used
    return CellNames(
        is_opaque=is_opaque,
        direct=direct,
        deferred=deferred,
        imports=tuple(imports_in(ast.walk(tree))),
        targets=tuple(targets_in(ast.walk(tree))),
    )


def _compile(source: str) -> tuple[ast.Module, types.CodeType]:
    """Parse and compile a cell, without a word about what is odd in it."""
    with without_warnings():
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = ast.parse(source)
        return tree, compile(tree, "<cell>", "exec", flags, dont_inherit=True)


def names_of_functions(code: types.CodeType) -> Iterator[str]:
    """Yield the names that the functions in a code object use, however deep."""
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from const.co_names
            yield from _strings(const)
            yield from names_of_functions(const)


def _strings(code: types.CodeType) -> frozenset[str]:
    """Return the short strings in a code object: names may hide in them."""
    return frozenset(
        text
        for const in code.co_consts
        for text in (const if isinstance(const, tuple) else (const,))
        if isinstance(text, str) and (text == "*" or text in OPAQUE)
    )


def imports_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules that a cell imports, by their full names."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def targets_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the attributes that a cell sets or deletes, by dotted names."""
    for node in nodes:
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            dotted = ast.unparse(node)
        elif (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in {"setattr", "delattr"}
            and len(node.args) >= 2
            and isinstance(node.args[1], ast.Constant)
        ):
            dotted = f"{ast.unparse(node.args[0])}.{node.args[1].value!s}"
        else:
            continue
        if all(part.isidentifier() for part in dotted.split(".")):
            yield dotted
