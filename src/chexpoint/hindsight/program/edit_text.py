"""The text of statements: taken out of one program, put into another."""

from __future__ import annotations

import ast

from chexpoint.hindsight.program.edit_align import first_line, last_line


def statement_text(source: str, node: ast.stmt) -> str:
    """Return the lines of a statement, without the indentation it has."""
    lines = split_lines(source)
    inside = _inside_texts(node)
    result = []
    for number in range(first_line(node), last_line(node) + 1):
        line = lines[number - 1].rstrip("\n")
        # What is inside a text has no indentation to lose.
        result.append(line if number in inside else _less(line, node.col_offset))
    return "\n".join(result)


def _less(line: str, columns: int) -> str:
    blank = len(line) - len(line.lstrip())
    return line[min(blank, columns) :]


def indented(text: str, indentation: str) -> str:
    """Return the text of a statement, further in."""
    (node,) = ast.parse(text).body
    inside = _inside_texts(node)
    return "\n".join(
        line if number in inside or not line.strip() else indentation + line
        for number, line in enumerate(split_lines(text, keep=False), start=1)
    )


def _inside_texts(node: ast.AST) -> set[int]:
    """Return the lines that begin inside a literal text."""
    return {
        number
        for each in ast.walk(node)
        if isinstance(each, ast.JoinedStr)
        or (isinstance(each, ast.Constant) and isinstance(each.value, str | bytes))
        for number in range(each.lineno + 1, (each.end_lineno or each.lineno) + 1)
    }


def split_lines(source: str, *, keep: bool = True) -> list[str]:
    """Return the lines of a program as Python counts them.

    `str.splitlines` would also split at form feeds and the like.
    """
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not keep:
        return lines
    return [*(f"{line}\n" for line in lines[:-1]), *([lines[-1]] if lines[-1] else [])]
