"""What a terminal shows in the end of a text that was written to it.

Progress bars draw over themselves.  How often they did so depends on time; what counts is what
they look like when they are done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# Colors, titles and links change nothing about what is written where.
_DECORATION = re.compile(r"\x1b\[[0-9;:]*m|\x1b\][^\x07\x1b\n]*+(?:\x07|\x1b\\)")
_MOVE = re.compile(r"\x1b\[(\d{0,6}+)[0-9;?]*+([@-~])|\x1b[ -~]?|[\r\n\b]|[^\x1b\r\n\b]++")
_WIDEST = 10_000  # columns; wide enough for any line that is drawn over


def shown_lines(text: str) -> Iterator[str]:
    """Return the lines that one sees in the end, without white space at their ends."""
    text = text.replace("\r\n", "\n").rstrip()
    if "\x1b" in text:
        text = _DECORATION.sub("", text)
    if any(char in text for char in "\x1b\r\b"):
        return (row.rstrip() for row in _draw(text))
    return (line.rstrip() for line in _lines(text))


def _lines(text: str) -> Iterator[str]:
    """Yield the lines of a text, one at a time: there may be very many."""
    at = 0
    while (end := text.find("\n", at)) >= 0:
        yield text[at:end]
        at = end + 1
    yield text[at:]


def _draw(text: str) -> Iterable[str]:
    """Return the rows of a terminal, without empty ones at the end."""
    screen = _Screen()
    for match in _MOVE.finditer(text):
        piece = match[0]
        if piece == "\n":
            screen.move_down()
        elif piece == "\r":
            screen.column = 0
        elif piece == "\b":
            screen.column = max(0, screen.column - 1)
        elif not piece.startswith("\x1b"):
            screen.write(piece)
        elif match[2] == "A":
            screen.row = max(0, screen.row - int(match[1] or 1))
        elif match[2] == "K":
            screen.erase(match[1])
    while len(screen.rows) > 1 and not screen.rows[-1].strip():
        screen.rows.pop()
    return screen.rows


class _Screen:
    """Rows of text and a cursor.  Long rows are wrapped, so that drawing over them is cheap."""

    def __init__(self) -> None:
        self.rows = [""]
        self.row = 0
        self.column = 0

    def move_down(self) -> None:
        self.row += 1
        self.column = 0
        if self.row == len(self.rows):
            self.rows.append("")

    def write(self, text: str) -> None:
        at = 0
        while at < len(text):
            if self.column >= _WIDEST:
                self.move_down()
            piece = text[at : at + _WIDEST - self.column]
            row = self.rows[self.row].ljust(self.column)
            end = self.column + len(piece)
            self.rows[self.row] = row[: self.column] + piece + row[end:]
            self.column = end
            at += len(piece)

    def erase(self, how: str) -> None:
        """Erase from the cursor to the end (0, or nothing), up to the cursor (1), or all (2)."""
        row = self.rows[self.row]
        if how in {"", "0"}:
            self.rows[self.row] = row[: self.column]
        else:
            rest = row[self.column :] if how == "1" else ""
            self.rows[self.row] = " " * min(self.column, len(row)) + rest
