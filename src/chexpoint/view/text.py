"""Texts that fit: into a line, into some columns, into XML."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from html import escape

from chexpoint.model import NodeId

SHORT = 8
"""Digits of a node where there is little room."""

LONG = 12
"""Digits of a node elsewhere."""


def printable(text: str) -> str:
    """Return a text in which whatever cannot be shown on one line is a backslash escape.

    Sources, names and outputs may hold terminal commands, bytes that are not UTF-8, and characters
    that XML forbids.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )


def xml(text: str) -> str:
    """Return one line of text as it must stand in XML, HTML and their attributes."""
    return escape(printable(text))


def xml_lines(lines: Sequence[str]) -> str:
    """Return several lines as they must stand in XML and HTML."""
    return "\n".join(xml(line) for line in lines)


def columns(text: str) -> int:
    """Return how many columns a text takes in a terminal."""
    if text.isascii():
        return len(text)
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in text)


def clipped(text: str, room: int) -> str:
    """Return a text with as much of its end left out as does not fit into some columns."""
    if columns(text) <= room:
        return text
    return f"{_start(text, room - 1)}…" if room > 0 else ""


def padded(text: str, room: int) -> str:
    """Return a text with blanks up to some columns."""
    return text + " " * (room - columns(text))


def wrapped(text: str, room: int) -> Iterator[str]:
    """Yield a text in pieces that fit into some columns; an empty one as it is."""
    start = used = 0
    for place, letter in enumerate(text):
        wide = columns(letter)
        if used + wide > room and place > start:
            yield text[start:place]
            start, used = place, 0
        used += wide
    yield text[start:]


def _start(text: str, room: int) -> str:
    """Return as much of the beginning of a text as fits into some columns."""
    start = text[: max(room, 0)]
    while columns(start) > room:
        start = start[: -max(1, (columns(start) - room) // 2)]
    return start


def source_lines(source: str) -> list[str]:
    """Return the lines of a source, each fit to be shown."""
    lines = source.expandtabs(4).strip("\n").split("\n")
    return [printable(line.rstrip("\r")) for line in lines]


def first_line(source: str) -> str:
    """Return the first line of a source that says something."""
    # Sources may be very long; only the beginning is looked at.
    start = source[:2000].lstrip()
    return printable(start.split("\n", 1)[0].rstrip()[:400].expandtabs(4))


def short(node: NodeId) -> str:
    """Return enough digits of a node to know it in a picture."""
    return printable(node[:SHORT])


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``"1 cell"``, ``"3 cells"``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], room: int) -> str:
    """Return as many names as fit into some columns, and how many more there are."""
    whole = ", ".join(names)
    if columns(whole) <= room:
        return whole
    for shown in range(len(names) - 1, 0, -1):
        text = f"{', '.join(names[:shown])}, +{len(names) - shown}"
        if columns(text) <= room:
            return text
    rest = f", +{len(names) - 1}" if len(names) > 1 else ""
    return f"{clipped(names[0], max(room - len(rest), 2))}{rest}"


def aligned(rows: Sequence[Sequence[str]], right: Sequence[int] = ()) -> list[str]:
    """Return rows as lines in which columns stand below each other.

    Parameters
    ----------
    right
        Columns whose texts end below each other, as numbers do.
    """
    if not rows:
        return []
    widths = [max(columns(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for index, (text, width) in enumerate(zip(row, widths, strict=True)):
            blanks = " " * (width - columns(text))
            cells.append(blanks + text if index in right else text + blanks)
        lines.append("  ".join(cells).rstrip())
    return lines
