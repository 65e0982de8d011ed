"""The difference of two versions, as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from chexpoint.model import Digest, InputKind
from chexpoint.view.difference import CellPair, Diff, InputChange, Side
from chexpoint.view.line_pairs import LinePair, line_pairs, near_changes
from chexpoint.view.outputs import OutputChange
from chexpoint.view.text import LONG, clipped, count, first_line, printable, source_lines, wrapped

MOST_LINES = 200
"""Lines of one text that are shown."""

MOST_INPUTS = 20

_CONTEXT = 2
_SIGNS = {"same": "=", "changed": "~", "added": "+", "removed": "-"}
_ROLES: dict[InputKind, str] = {
    "file": "reads",
    "folder": "lists",
    "look": "looks at",
    "variable": "variable",
    "network": "network",
    "packages": "packages",
}
_WORDS = {
    "volatile": "changed while it was read",
    "unreadable": "could not be read",
    "fifo": "a pipe",
    "socket": "a socket",
    "device": "a device",
}


def diff_text(found: Diff, width: int = 100) -> str:
    """Return a difference for terminals; lines with - are those of the left side.

    Parameters
    ----------
    width
        How many columns a line may take.
    """
    lines = [f"--- {side_title(found.left)}", f"+++ {side_title(found.right)}", ""]
    for head, pairs in cell_groups(found):
        sign = ">" if pairs[0].is_moved else _SIGNS[pairs[0].state]
        lines.append(f"{sign} {head}")
        if pairs[0].state != "same":
            lines += _details(pairs[0], width)
            lines.append("")
    if lines[-1]:
        lines.append("")
    lines.append(found.summary)
    return "\n".join(clipped(line, width).rstrip() for line in lines)


def cell_groups(found: Diff) -> Iterator[tuple[str, list[CellPair]]]:
    """Yield cells with what to write above them; those with no differences together."""

    def alike(pair: CellPair) -> tuple[object, ...]:
        if pair.state == "same" and not pair.is_moved:
            return (pair.is_shared, pair.has_same_node, pair.knows_inputs)
        return (pair.left_number, pair.right_number)

    for _, group in groupby(found.pairs, alike):
        pairs = list(group)
        yield f"{_numbers(pairs)}: {_what(pairs[0], found, len(pairs) > 1)}", pairs


def side_title(side: Side) -> str:
    """Return what a side is called, and how long it is."""
    return f"{printable(side.label)} ({count(len(side.cells), 'cell')})"


def input_line(change: InputChange) -> str:
    """Return an input that differs, in a line."""
    name = printable(change.name)
    role = _ROLES[change.kind]
    start = f"{role} {name}".rstrip()
    if change.left is None:
        return f"{start}: only on the right"
    if change.right is None:
        return f"{start}: only on the left"
    return f"{start}: {_digests(change.left)} -> {_digests(change.right)}"


def text_lines(text: str) -> tuple[list[str], int]:
    """Return the lines of an output that are shown, and how many are not."""
    lines = text.expandtabs(8).split("\n")
    return [printable(line) for line in lines[:MOST_LINES]], max(len(lines) - MOST_LINES, 0)


def output_pairs(change: OutputChange) -> tuple[list[LinePair], int]:
    """Return the lines of two texts side by side, and how many are not among them."""
    left, more_left = ([], 0) if change.left is None else text_lines(change.left)
    right, more_right = ([], 0) if change.right is None else text_lines(change.right)
    return line_pairs(left, right), max(more_left, more_right)


def source_pairs(pair: CellPair) -> list[LinePair]:
    """Return the lines of the sources side by side."""
    left = [] if pair.left is None else source_lines(pair.left.cell.source)
    right = [] if pair.right is None else source_lines(pair.right.cell.source)
    return line_pairs(left, right)


def _numbers(pairs: Sequence[CellPair]) -> str:
    first, last = pairs[0], pairs[-1]
    numbers = []
    for low, high in (
        (first.left_number, last.left_number),
        (first.right_number, last.right_number),
    ):
        if low is not None and high is not None:
            numbers.append(str(low) if low == high else f"{low}-{high}")
    noun = "cell" if len(pairs) == 1 else "cells"
    return f"{noun} {' -> '.join(dict.fromkeys(numbers))}"


def _what(pair: CellPair, found: Diff, is_plural: bool) -> str:
    moved = "moved" if pair.is_moved else ""
    if pair.state == "removed":
        return f"only in {printable(found.left.label)}"
    if pair.state == "added":
        return f"only in {printable(found.right.label)}"
    if pair.state == "changed":
        return ", ".join(part for part in (moved, *pair.parts) if part)
    if pair.is_shared:
        return "the same states" if is_plural else "the same state"
    if pair.is_moved and pair.right is not None:
        return f"moved, {clipped(first_line(pair.right.cell.source), 60)}"
    doubt = "" if pair.knows_inputs else "; not all inputs are known"
    where = "in another run" if pair.has_same_node else "after another state"
    return f"the same code, inputs and outputs, {where}{doubt}"


def _details(pair: CellPair, width: int) -> Iterator[str]:
    if pair.code != "same":
        yield from _changed_lines(source_pairs(pair), width)
    for change in pair.inputs[:MOST_INPUTS]:
        yield f"    {input_line(change)}"
    if len(pair.inputs) > MOST_INPUTS:
        yield f"    and {count(len(pair.inputs) - MOST_INPUTS, 'more input')}"
    for output in pair.outputs:
        yield f"    output {printable(output.summary)}"
        if output.kind == "text":
            pairs, more = output_pairs(output)
            yield from _changed_lines(pairs, width)
            if more:
                yield f"      ... {count(more, 'more line')}"


def _changed_lines(pairs: Sequence[LinePair], width: int) -> Iterator[str]:
    """Yield lines as a patch has them; long ones go on in the next line."""
    for shown, entry in enumerate(near_changes(pairs, _CONTEXT)):
        if shown >= MOST_LINES:
            yield "      ..."
            return
        if isinstance(entry, int):
            yield f"      ... {count(entry, 'line')} the same"
        elif entry.is_same:
            yield from _wrapped("      ", entry.left or "", width)
        else:
            if entry.left is not None:
                yield from _wrapped("    - ", entry.left, width)
            if entry.right is not None:
                yield from _wrapped("    + ", entry.right, width)


def _wrapped(mark: str, line: str, width: int) -> Iterator[str]:
    pieces = list(wrapped(line, max(width - len(mark), 10)))
    for piece in pieces[:MOST_LINES]:
        yield f"{mark}{piece}"
    if len(pieces) > MOST_LINES:
        yield f"{mark}..."


def _digests(digests: Sequence[Digest]) -> str:
    return ", then ".join(_shown_digest(digest) for digest in digests) or "unknown"


def _shown_digest(digest: Digest) -> str:
    word, _, rest = digest.partition(":")
    if word == "cell" and rest.isdecimal():
        return f"as cell {rest} left it"
    if word == "size" and rest:
        return f"of size and time {printable(rest)}"
    return _WORDS.get(digest, printable(digest[:LONG]))
