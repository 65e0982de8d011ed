"""Text with the colours of terminals, as HTML with classes that a page gives its own colours."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from chexpoint.view.text import xml_lines

COLOURS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
"""What a terminal calls its colours, in the order of their numbers."""

_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
# Moves of the cursor, titles and links: nothing that could be shown.
_OTHER = re.compile(r"\x1b\[[0-?]*[ -/]*[@-ln-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\^_=>]")
_GREY = 40  # a colour whose parts differ less than this has no hue


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ink:
    colour: str = ""
    is_bold: bool = False
    is_marked: bool = False
    """Whether it has a colour behind it: tracebacks mark with it what failed."""

    @property
    def style(self) -> str:
        names = [f"ansi-{self.colour}"] if self.colour else []
        return " ".join(names + ["ansi-bold"] * self.is_bold + ["ansi-marked"] * self.is_marked)


def ansi_html(text: str) -> str:
    """Return text as it must stand in HTML, with a span for each run of a colour."""
    ink = _Ink()
    parts = []
    # Every second part is what stands in a command.
    for at, part in enumerate(_SGR.split(_OTHER.sub("", text))):
        if at % 2:
            ink = _after(ink, part)
        elif part:
            shown = xml_lines(part.expandtabs(8).replace("\r\n", "\n").split("\n"))
            style = ink.style
            parts.append(f'<span class="{style}">{shown}</span>' if style else shown)
    return "".join(parts)


def _after(ink: _Ink, command: str) -> _Ink:
    """Return the ink after a command."""
    numbers = iter([int(n) if n else 0 for n in re.split("[;:]", command[:200])])
    for number in numbers:
        if number == 0:
            ink = _Ink()
        elif number in {1, 22}:
            ink = replace(ink, is_bold=number == 1)
        elif number in {38, 48}:
            colour = _long_colour(numbers)
            ink = replace(ink, colour=colour) if number == 38 else replace(ink, is_marked=True)
        elif 30 <= number <= 39 or 90 <= number <= 97:
            ink = replace(ink, colour="" if number == 39 else COLOURS[number % 10])
        elif 40 <= number <= 49 or 100 <= number <= 107:
            ink = replace(ink, is_marked=number != 49)
    return ink


def _long_colour(numbers: Iterator[int]) -> str:
    """Return the name that comes nearest to one of 256 colours, or of all."""
    kind = next(numbers, 0)
    if kind == 2:
        return _nearest(next(numbers, 0), next(numbers, 0), next(numbers, 0))
    number = next(numbers, 0) if kind == 5 else 0
    if number < 16:
        return COLOURS[number % 8]
    if number >= 232:
        return ""
    red, rest = divmod(number - 16, 36)
    green, blue = divmod(rest, 6)
    return _nearest(red * 51, green * 51, blue * 51)


def _nearest(red: int, green: int, blue: int) -> str:
    low, high = min(red, green, blue), max(red, green, blue)
    if high - low < _GREY:
        return ""
    middle = (low + high) / 2
    return COLOURS[(red > middle) + 2 * (green > middle) + 4 * (blue > middle)]
