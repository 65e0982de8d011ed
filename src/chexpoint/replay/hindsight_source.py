"""Cells as they are compared and replayed in hindsight; pure text in, pure text out."""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

from chexpoint.engine import body_of

LineRange = tuple[int, int]
"""The first and the last line of a statement, counted from 1."""

_OWN_MAGIC = re.compile(r"^([ \t]*)%chex_\w+[^\n]*$", re.MULTILINE)
_OWN_CELL = re.compile(r"\s*%%chex_(?!record\b)")
# They time or catch what a cell shows, and leave what it computes as it is.
_AROUND = re.compile(r"(\s*)%%(?:time|capture)\b[^\n]*")
_LINE = re.compile(r"\b([Ll]ine) (\d+)")
_NOT_PYTHON = (SyntaxError, ValueError, RecursionError, MemoryError)


def is_own_cell(source: str) -> bool:
    """Return whether a cell is nothing but a question to CHEX, such as ``%%chex_hindsight``."""
    return _OWN_CELL.match(source) is not None


def runnable(source: str, *, is_script: bool = False) -> str:
    """Return what is compared and run of a cell: plain Python, line for line.

    Magics of ours are left out, because they talk of another engine.
    """
    if is_script:
        return source
    text = _OWN_MAGIC.sub(r"\1pass", body_of(source))
    text = _AROUND.sub(r"\1#", text, count=1) if _AROUND.match(text) else text
    # IPython leaves out empty lines above a cell, and counts from there.
    text = re.sub(r"\A(?:[ \t]*\n)+", "", text)
    return text if parsed(text) is not None else _without_magics(text)


def _without_magics(source: str) -> str:
    from IPython.core.inputtransformer2 import TransformerManager

    try:
        text = str(TransformerManager().transform_cell(source))
    except _NOT_PYTHON:
        return source
    return text.removesuffix("\n") if parsed(text) is not None else source


def parsed(source: str) -> ast.Module | None:
    """Return the syntax tree of a cell; None if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they are shown when the cell runs
            return ast.parse(source)
    except _NOT_PYTHON:
        return None


def similarity(a: str, b: str) -> float:
    """Return how many lines two sources have in common, from 0 to 1; blank lines do not count."""
    ours, theirs = _lines(a), _lines(b)
    if not ours or not theirs:
        return 0.0
    common = (Counter(ours) & Counter(theirs)).total()
    return 2 * common / (len(ours) + len(theirs))


def most_similar(source: str, cells: Sequence[str]) -> tuple[int, float]:
    """Return the place of the cell that is most like a source, the last one of equals."""
    found = [(similarity(source, cell), at) for at, cell in enumerate(cells)]
    share, at = max(found, default=(0.0, -1))
    return at, share


def _lines(source: str) -> list[str]:
    return [line.strip() for line in source.splitlines() if line.strip()]


# ---------------------------------------------------------------- lines


def moved_lines(text: str, by: int) -> str:
    """Return a sentence in which the numbers of lines count from elsewhere; code is left alone."""
    parts = text.split("`")
    for at in range(0, len(parts), 2):
        parts[at] = _LINE.sub(lambda found: f"{found[1]} {int(found[2]) + by}", parts[at])
    return "`".join(parts)


def line_map(
    old: str, new: str, *, added: Collection[LineRange], removed: Collection[int]
) -> Callable[[int], int]:
    """Return what gives the line in a new source that stands for one of the old source.

    Parameters
    ----------
    added
        Statements of the new source that are not in the old one.
    removed
        Lines of statements of the old source that are not in the new one.
    """
    ours = [line for line in _statements(old) if line not in set(removed)]
    theirs = [
        line for line in _statements(new) if not any(first <= line <= last for first, last in added)
    ]
    if len(ours) != len(theirs):
        return lambda line: line
    pairs = dict(zip(ours, theirs, strict=True))
    starts = sorted(pairs)

    def mapped(line: int) -> int:
        at = bisect_right(starts, line) - 1
        return line if at < 0 else pairs[starts[at]] + line - starts[at]

    return mapped


def _statements(source: str) -> Iterator[int]:
    """Yield the lines where statements begin, in the order of the text."""
    tree = parsed(source)
    waiting: list[ast.AST] = [] if tree is None else [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.stmt):
            yield node.lineno
        waiting += reversed(list(ast.iter_child_nodes(node)))
