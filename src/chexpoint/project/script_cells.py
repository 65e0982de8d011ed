"""Splits a script into cells; pure text in, pure text out.

A script has cells where it has marks of the percent format of Jupytext, VS Code and Spyder
(``# %%``), and else where its top-level paragraphs are: statements between blank lines or
comments.  Boundaries are looked for between top-level statements only, so whatever is inside of
one, such as a mark in a string or in the body of a function, is none.

The cells in order are the script, line for line: nothing is moved, added or left out.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

PARAMETERS = "parameters"
"""The tag of the cell that sets the parameters of a notebook or script."""

# As in Jupytext: "# %%timeit" is a magic in a comment, and no mark.
_MARK = re.compile(r"#\s*%%+(?:\s+(?P<words>.*))?")
_TEXT_MARK = re.compile(r"\[(?:markdown|md|raw)\]", re.IGNORECASE)
_TAGS = re.compile(r"""["']?\btags["']?\s*[=:]\s*(?:\[(?P<several>[^\]]*)\]|["'](?P<one>[^"']*))""")
_PARAMETERS_COMMENT = re.compile(r"#+\s*parameters\s*:?", re.IGNORECASE)
# What Python takes for white space.
_BLANK = " \t\f\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCell:
    """Some consecutive lines of a script."""

    text: str
    """With the ends of all lines."""
    line: int
    """The number of its first line, counted from 1."""
    is_code: bool = True
    """False if there is nothing in it to run: comments, or text for readers."""
    is_head: bool = False
    """Whether it is nothing but the docstring of the script and ``__future__`` imports."""
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Block:
    """Top-level statements that share lines; the numbers count from 0, the last one is included."""

    first: int
    last: int
    statements: tuple[ast.stmt, ...]


def split_script(text: str) -> tuple[ScriptCell, ...]:
    """Return the cells of a script, whose lines end in ``\\n``.

    Raises
    ------
    SyntaxError, ValueError, RecursionError, MemoryError
        If it is not Python.
    """
    lines = _lines(text)
    tree = _parse(text)
    blocks = _blocks(tree.body, lines)
    marks = [at for at in _gaps(blocks, len(lines)) if _MARK.fullmatch(lines[at].rstrip(_BLANK))]
    starts = marks or _paragraphs(blocks, lines)
    cells = tuple(_cells(lines, blocks, starts))
    if any(cell.is_code and not _is_python(cell.text) for cell in cells):
        # A layout that is not understood: better one cell than a script that is cut in pieces.
        cells = tuple(_cells(lines, blocks, []))
    return cells


def _lines(text: str) -> list[str]:
    """Return the lines with their ends; unlike for `str.splitlines`, a form feed ends none."""
    return re.findall(r"[^\n]*\n|[^\n]+", text)


def _parse(text: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are shown when the cell runs
        return ast.parse(text)


def _is_python(text: str) -> bool:
    try:
        _parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


# ---------------------------------------------------------------- statements


def _blocks(statements: Sequence[ast.stmt], lines: Sequence[str]) -> list[_Block]:
    blocks: list[_Block] = []
    for statement in statements:
        first = _first_line(statement)
        last = _last_line(statement, lines)
        if blocks and first <= blocks[-1].last:
            together = (*blocks[-1].statements, statement)
            blocks[-1] = _Block(blocks[-1].first, max(last, blocks[-1].last), together)
        else:
            above = blocks[-1].last + 1 if blocks else 0
            blocks.append(_Block(_with_beginning(first, above, lines), last, (statement,)))
    return blocks


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)]) - 1


def _last_line(statement: ast.stmt, lines: Sequence[str]) -> int:
    """Return the line where the line of a statement ends, which a backslash may continue."""
    at = (statement.end_lineno or statement.lineno) - 1
    rest = lines[at].encode()[statement.end_col_offset :].decode(errors="replace")
    while "#" not in rest and rest.rstrip("\n").endswith("\\") and at + 1 < len(lines):
        at += 1
        rest = lines[at]
    return at


def _with_beginning(first: int, above: int, lines: Sequence[str]) -> int:
    """Return where a statement begins that may have more above: ``@(``, or a lone backslash."""
    for at in range(above, first):
        line = lines[at].strip(_BLANK)
        if line and not line.startswith("#"):
            return at
    return first


def _gaps(blocks: Sequence[_Block], count: int) -> Iterator[int]:
    """Yield the lines that are in no statement; they are blank, or comments."""
    at = 0
    for block in blocks:
        yield from range(at, block.first)
        at = block.last + 1
    yield from range(at, count)


# ---------------------------------------------------------------- cells


def _paragraphs(blocks: Sequence[_Block], lines: Sequence[str]) -> list[int]:
    """Return where paragraphs begin: comments go with what is below, blank lines with the above."""
    starts = []
    for above, below in pairwise(blocks):
        gap = range(above.last + 1, below.first)
        if gap:
            starts.append(next((at for at in gap if lines[at].strip(_BLANK)), below.first))
    return starts


def _cells(
    lines: Sequence[str], blocks: Sequence[_Block], starts: Sequence[int]
) -> Iterator[ScriptCell]:
    borders = sorted({0, *starts, len(lines)})
    heads = _head(blocks)
    for first, end in pairwise(borders):
        inside = [block for block in blocks if first <= block.first < end]
        statements = [statement for block in inside for statement in block.statements]
        cell = ScriptCell(
            text="".join(lines[first:end]),
            line=first + 1,
            is_code=bool(statements),
            is_head=bool(statements) and all(statement in heads for statement in statements),
            tags=_tags(lines[first:end]),
        )
        if _is_text(lines[first]) and all(_is_string(statement) for statement in statements):
            # A string that is the first statement of all is the docstring, wherever it stands.
            cell = replace(cell, is_code=cell.is_head)
        yield cell


def _head(blocks: Sequence[_Block]) -> list[ast.stmt]:
    """Return the docstring of a script and its ``__future__`` imports."""
    statements = [statement for block in blocks for statement in block.statements]
    head = [statement for statement in statements[:1] if _is_string(statement)]
    for statement in statements[len(head) :]:
        if not (isinstance(statement, ast.ImportFrom) and statement.module == "__future__"):
            break
        head.append(statement)
    return head


def _is_string(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(ast.Constant(value)):
            return isinstance(value, str)
    return False


def _is_text(line: str) -> bool:
    mark = _MARK.fullmatch(line.rstrip(_BLANK))
    return mark is not None and _TEXT_MARK.search(mark["words"] or "") is not None


def _tags(lines: Sequence[str]) -> frozenset[str]:
    """Return the tags that the mark of a cell, and the first comment of it, give it."""
    tags: set[str] = set()
    for line in lines:
        words = line.strip(_BLANK)
        if words and not words.startswith("#"):
            break
        mark = _MARK.fullmatch(words)
        title = f"# {mark['words'] or ''}" if mark else words
        if _PARAMETERS_COMMENT.fullmatch(title.strip()):
            tags.add(PARAMETERS)
        for found in _TAGS.finditer(title):
            tags.update(re.findall(r"[\w.-]+", found["one"] or found["several"] or ""))
        if words and not mark:
            break
    return frozenset(tags)
