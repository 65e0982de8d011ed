"""What the colours and shapes of a picture mean, below it."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass

from chexpoint.model import format_seconds, format_size
from chexpoint.view.layout import LETTER, MARGIN, Layout
from chexpoint.view.scale import CostScale, colour
from chexpoint.view.svg import box, cross, diamond, disc, path, wedge, written

_LINE, _TEXT_LINE, _SPACE = 22.0, 14.0, 20.0
_SWATCH, _SWATCHES = 13.0, 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Marks:
    """What there is to explain besides the shapes."""

    costs: CostScale
    largest_size: int
    has_checkpoint: bool = False
    has_here: bool = False
    has_failed: bool = False
    note: str = ""
    """A sentence about what is not drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One sign and what it means."""

    sign: str
    """SVG around the origin, from the left end on."""
    room: float
    """How wide the sign is."""
    text: str

    @property
    def width(self) -> float:
        """How wide sign and text are."""
        return self.room + 8 + len(self.text) * LETTER


def legend(layout: Layout, marks: Marks, width: float) -> tuple[str, float]:
    """Return the legend as SVG, and its height.

    Parameters
    ----------
    width
        Where a line must end.
    """
    x, y, drawn = MARGIN, layout.height + _LINE / 2, []
    for entry in _entries(layout, marks):
        if x > MARGIN and x + entry.width > width - MARGIN:
            x, y = MARGIN, y + _LINE
        drawn.append(f'<g transform="translate({x:.0f} {y:.0f})">{entry.sign}')
        drawn.append(written(entry.room + 8, 0, entry.text, "faint") + "</g>")
        x += entry.width + _SPACE
    for number, line in enumerate(textwrap.wrap(marks.note, int((width - 2 * MARGIN) / LETTER))):
        y += _TEXT_LINE if number else _LINE
        drawn.append(written(MARGIN, y, line, "faint"))
    return "".join(drawn), y + _LINE / 2 + 6 - layout.height


def _entries(layout: Layout, marks: Marks) -> Iterator[Entry]:
    kinds = {spot.item.kind for spot in layout.spots}
    if "node" not in kinds:
        return
    yield _costs(marks.costs)
    big = layout.largest
    if marks.largest_size:
        sign = disc(4, 0, 3, "chain") + disc(10 + big, 0, big, "chain")
        yield Entry(
            sign=sign, room=10 + 2 * big, text=f"size, up to {format_size(marks.largest_size)}"
        )
    if marks.has_checkpoint:
        sign = disc(9, 0, 5, "node", colour(0.5)) + disc(9, 0, 8, "ring")
        yield Entry(sign=sign, room=18, text="checkpoint")
    if marks.has_here:
        sign = disc(10, 0, 4, "node", colour(0.5)) + path("here", diamond(10, 0, 9))
        yield Entry(sign=sign, room=20, text="you are here")
    if marks.has_failed:
        yield Entry(sign=path("cross", cross(7, 0, 5)), room=14, text="failed")
    if "chain" in kinds:
        sign = box(11, 0, 20, 14, "chain", 7) + written(11, 0, "9", "small", "middle")
        yield Entry(sign=sign, room=22, text="so many cells in a row")
    if "bundle" in kinds:
        yield Entry(sign=path("bundle", wedge(6, 0)), room=12, text="not drawn one by one")


def _costs(costs: CostScale) -> Entry:
    if not costs.least < costs.most:
        sign = f'<rect x="0" y="-5" width="{_SWATCH}" height="10" fill="{colour(0)}"/>'
        return Entry(sign=sign, room=_SWATCH, text=f"cost {format_seconds(costs.least)}")
    sign = "".join(
        f'<rect x="{_SWATCH * i:.0f}" y="-5" width="{_SWATCH:.0f}" height="10"'
        f' fill="{colour(i / (_SWATCHES - 1))}"/>'
        for i in range(_SWATCHES)
    )
    text = f"cost, {format_seconds(costs.least)} to {format_seconds(costs.most)}"
    return Entry(sign=sign, room=_SWATCH * _SWATCHES, text=text)
