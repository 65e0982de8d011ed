"""The code hash of a cell: what it says, not how it is laid out.

It is taken on the syntax tree of the cell as IPython would run it.  Comments,
white space, redundant parentheses, the style of quotes and the semicolon that
hides an output do not count; everything else does.  A cell that is not Python
is hashed byte for byte.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from chexpoint.lineage.digest import digest
from chexpoint.model import Digest

_OWN_MAGICS = "chex_"
_OWN_EXTENSION = "chexpoint"
# Only these have a body that is surely Python for the user's namespace; so have those of CHEX.
_PYTHON_MAGICS = frozenset({"capture", "debug", "prun", "time", "timeit"})
# Records its body, and so is the same cell as the body alone.
_RECORDING_MAGIC = "chex_record"
# Runs its body in another process, and leaves the state alone unless it binds the result.
_CHANGING_MAGIC = "chex_warmstart"
_LOOKING_MAGIC = "chex_hindsight"
_BINDS = re.compile(r"(?:^|\s)--into\b")
_NESTED_MAGICS = 20
# These say nothing that the rest of the tree does not say; type parameters see `_serialised`.
_SKIPPED_FIELDS = frozenset({"ctx", "kind", "type_comment", "type_ignores", "type_params"})


class _Fields(dict[type, tuple[str, ...] | None]):
    """The fields that count of each class of nodes; None for what is not a node."""

    def __missing__(self, kind: type) -> tuple[str, ...] | None:
        fields = None
        if issubclass(kind, ast.AST):
            fields = tuple(name for name in kind._fields if name not in _SKIPPED_FIELDS)
        self[kind] = fields
        return fields


_FIELDS = _Fields()


def code_hash(source: str, transform: Callable[[str], str]) -> Digest:
    """Return the hash of a cell's code; never raises.

    Parameters
    ----------
    source
        The cell as the user wrote it.
    transform
        Turns a cell into the Python that runs: ``shell.transform_cell`` of IPython.
    """
    outer: list[bytes] = []
    with _no_warnings():
        for _ in range(_NESTED_MAGICS):
            body = _parsed(source, transform)
            if body is None:
                break
            magic = _cell_magic(body)
            if magic is None:
                kept = [statement for statement in body if not _is_own_line_magic(statement)]
                return digest("code", *outer, _encoded(_serialised(kept)))
            name, line, source = magic
            if name == _LOOKING_MAGIC and not _BINDS.search(line):
                return digest("code", *outer, _encoded(_serialised([])))
            if name != _RECORDING_MAGIC:
                outer += [_encoded(name), _encoded(line.strip())]
                if name not in _PYTHON_MAGICS and not name.startswith(_OWN_MAGICS):
                    return digest("code of magic", *outer, _encoded(source))
    return digest("code as bytes", *outer, _encoded(source))


@contextmanager
def _no_warnings() -> Iterator[None]:
    """Silence the warnings of the parser: the user has seen them when the cell ran.

    Not with `warnings.catch_warnings`: it makes Python forget which warnings it has shown already,
    and the user would see all of them again after every cell.
    """
    filters = warnings.filters
    warnings.filters = [("ignore", None, Warning, None, 0)]
    try:
        yield
    finally:
        warnings.filters = filters


def _parsed(source: str, transform: Callable[[str], str]) -> list[ast.stmt] | None:
    """Return the statements of a cell, or None if it is not Python."""
    try:
        return ast.parse(transform(source)).body
    # Transformers may be the user's own; the parser raises SyntaxError, ValueError for null bytes,
    # RecursionError and MemoryError for deep nesting.
    except Exception:
        return None


def _cell_magic(body: list[ast.stmt]) -> tuple[str, str, str] | None:
    """Return name, line and body if a cell is nothing but a cell magic."""
    if len(body) != 1:
        return None
    args = _shell_call(body[0], "run_cell_magic")
    if args is None or len(args) != 3:
        return None
    return args[0], args[1], args[2]


def _is_own_line_magic(statement: ast.stmt) -> bool:
    """Return whether a statement is a line magic of CHEX that leaves the state alone."""
    args = _shell_call(statement, "run_line_magic")
    if args is None or len(args) != 2:
        return False
    name, line = args
    is_loading = name in {"load_ext", "reload_ext"} and line.strip() == _OWN_EXTENSION
    return is_loading or (name.startswith(_OWN_MAGICS) and name != _CHANGING_MAGIC)


def _shell_call(statement: ast.stmt, method: str) -> list[str] | None:
    """Return the arguments of ``get_ipython().method("...", "...")``."""
    match statement:
        case ast.Expr(
            ast.Call(ast.Attribute(ast.Call(ast.Name("get_ipython"), [], []), name), args, [])
        ) if name == method:
            texts = [arg.value for arg in args if isinstance(arg, ast.Constant)]
            strings = [text for text in texts if isinstance(text, str)]
            return strings if len(strings) == len(args) else None
    return None


def _serialised(statements: list[ast.stmt]) -> str:
    """Return a text that is the same for equal syntax trees, and for no others.

    Nodes come before their fields, the fields of a class have a fixed order, and lists and strings
    carry their lengths, so the tree could be read back.  This takes half the time of
    `ast.dump`, and no recursion, which would make the hash depend on the depth of the caller.
    """
    out: list[str] = []
    stack: list[Any] = [statements]
    push = stack.append
    while stack:
        value = stack.pop()
        kind = value.__class__
        fields = _FIELDS[kind]
        if fields is not None:
            out.append(kind.__name__)
            attributes = value.__dict__
            # Python 3.11 has no such field: a class or function without them must look the same.
            if attributes.get("type_params"):
                out.append("type_params")
                push(attributes["type_params"])
            for name in fields:
                push(attributes.get(name))
        elif kind is str:
            out.append(f"{len(value)}:{value}")
        elif kind is list:
            out.append(f"[{len(value)}")
            stack.extend(reversed(value))
        elif value is None:
            out.append("-")
        elif kind is int:
            out.append(f"int {value:x}")  # unlike str(), it has no limit
        else:
            out.append(f"{kind.__name__} {value!r}")
    return "\n".join(out)


def _encoded(text: str) -> bytes:
    # Lone surrogates are allowed in literals, and the notebook may contain any text.
    return text.encode("utf-8", "surrogatepass")
