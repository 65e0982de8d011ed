"""How a store grew, as one SVG.

Above, all states so far as if each were stored whole, and in front of it what they take.  Below,
for each image, the size of its state and what it added, on a scale by orders of magnitude: the
longer the line between the two, the more was saved.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo

from chexpoint.model import Bytes, StoreUsage, format_seconds, format_size
from chexpoint.palette import CHECKPOINT, DIFFERENT, GREY
from chexpoint.view.layout import LETTER, MARGIN
from chexpoint.view.plan_chart import LEFT, RIGHT, size_ticks
from chexpoint.view.plan_picture import PLAN_RULES
from chexpoint.view.store_rows import StoreRow, saved, store_rows
from chexpoint.view.svg import disc, path, px, written
from chexpoint.view.text import clipped, columns, count, listed, xml, xml_lines
from chexpoint.view.version_table import shown_time

STORE_START = '<svg class="chex-store'
"""How every picture of a store begins, so that it is known again."""

_HIGH = 150.0  # of each of the two charts
_HEADROOM = 1.12  # so that there is room for a text above the budget
_BETWEEN = 34.0
_MOST_COLUMNS = 400  # more of them would be thinner than can be seen
_TICK_ROOM = 48.0  # least distance of numbers of images
_FAR = 4.0  # a budget so many times what is there is not drawn
_STEPS = (10, 5, 2, 1)  # in powers of two, between sizes on the lower scale
_LISTED = 120  # columns of names in a tooltip

STORE_RULES = f"""{PLAN_RULES}
.chex-tree .whole {{ fill: {GREY}; fill-opacity: 0.3; stroke: {GREY}; stroke-width: 1.2; }}
.chex-tree .stored {{ fill: {CHECKPOINT.colour}; fill-opacity: 0.75;
  stroke: {CHECKPOINT.colour}; stroke-width: 1.2; }}
.chex-tree .between {{ fill: none; stroke: {GREY}; stroke-width: 1.2; }}
.chex-tree .lost {{ fill: none; stroke: {DIFFERENT.colour}; stroke-width: 1.6; }}
.chex-tree .touch {{ fill: currentColor; fill-opacity: 0; }}
.chex-tree .touch:hover {{ fill-opacity: 0.08; }}
"""


def store_svg(
    usage: StoreUsage,
    *,
    names: Mapping[str, str] | None = None,
    width: int = 960,
    dark: bool | None = None,
    zone: tzinfo | None = None,
) -> str:
    """Return a picture of how a store grew.

    Parameters
    ----------
    names
        What to call images; see `image_names`.
    width
        How wide the picture is, in pixels.
    dark
        The theme; None takes that of the page, or of the system where there is no page.
    zone
        Where times are told; by default, here.
    """
    rows = store_rows(usage, names)
    wide = max(float(width), 320.0)
    upper, lower = MARGIN + 22 + _HIGH, MARGIN + 22 + 2 * _HIGH + _BETWEEN
    tall = lower + 64
    head = store_head(usage)
    theme = "" if dark is None else " chex-dark" if dark else " chex-light"
    start = (
        f'{STORE_START} chex-tree{theme}" xmlns="http://www.w3.org/2000/svg" role="img"'
        f' width="{px(wide)}" height="{px(tall)}" viewBox="0 0 {px(wide)} {px(tall)}">'
    )
    parts = [
        start,
        f"<title>{xml(head)}</title>",
        f"<style>{STORE_RULES}</style>",
        written(MARGIN, MARGIN, clipped(head, int((wide - 2 * MARGIN) / LETTER))),
    ]
    if rows:
        bars = _bars(rows, wide)
        parts += _growth(usage, bars, upper, wide - RIGHT)
        parts += _each(bars, lower, wide - RIGHT)
        parts += _numbers(rows, lower, wide - RIGHT, zone)
        parts += _touched(bars, upper - _HIGH, lower, zone)
        parts += _legend(usage, lower + 46, wide)
    return "\n".join([*parts, "</svg>\n"])


def store_head(usage: StoreUsage) -> str:
    """Return what a store holds, in one line."""
    return (
        f"{count(len(usage.images), 'image')}: states of {format_size(usage.state_bytes)} in "
        f"{format_size(usage.pack_bytes)}{saved(usage)}"
    )


@dataclass(frozen=True, slots=True)
class _Bar:
    """One image, or several that are too many to be told apart."""

    rows: Sequence[StoreRow]
    first: int
    """Number of the first of them, from 1."""
    left: float
    right: float

    @property
    def middle(self) -> float:
        return (self.left + self.right) / 2

    @property
    def state(self) -> Bytes:
        """The state; of several, the mean."""
        return sum(row.image.state_bytes for row in self.rows) // len(self.rows)

    @property
    def added(self) -> Bytes:
        return sum(row.image.stored_bytes for row in self.rows) // len(self.rows)


def _bars(rows: Sequence[StoreRow], wide: float) -> list[_Bar]:
    size = math.ceil(len(rows) / _MOST_COLUMNS)
    starts = range(0, len(rows), size)
    unit = (wide - RIGHT - LEFT) / len(rows)
    return [
        _Bar(
            rows=(group := rows[start : start + size]),
            first=start + 1,
            left=LEFT + start * unit,
            right=LEFT + (start + len(group)) * unit,
        )
        for start in starts
    ]


# ---------------------------------------------------------------- all together


def _growth(usage: StoreUsage, bars: Sequence[_Bar], floor: float, right: float) -> Iterator[str]:
    last = bars[-1].rows[-1]
    most = max(last.states, last.stored, 1)
    budget = usage.budget_bytes
    has_line = budget is not None and budget <= most * _FAR
    top = max(most, budget or 0) if has_line else most

    def y(size: float) -> float:
        return floor - _HIGH * size / (top * _HEADROOM)

    for size, text in size_ticks(top, 5):
        yield path("grid", f"M{px(LEFT)} {px(y(size))}H{px(right)}")
        yield written(LEFT - 6, y(size), text, "small faint", "end")
    yield _area("whole", [(bar, y(bar.rows[-1].states)) for bar in bars], floor)
    yield _area("stored", [(bar, y(bar.rows[-1].stored)) for bar in bars], floor)
    yield path("axis", f"M{px(LEFT)} {px(floor - _HIGH)}V{px(floor)}H{px(right)}")
    if budget is not None and has_line:
        yield path("budget", f"M{px(LEFT)} {px(y(budget))}H{px(right)}")
        yield written(LEFT + 6, y(budget) - 8, f"budget {format_size(budget)}")


def _area(style: str, tops: Sequence[tuple[_Bar, float]], floor: float) -> str:
    steps = "".join(f"V{px(y)}H{px(bar.right)}" for bar, y in tops)
    return path(style, f"M{px(LEFT)} {px(floor)}{steps}V{px(floor)}z")


# ---------------------------------------------------------------- one by one


def _each(bars: Sequence[_Bar], floor: float, right: float) -> Iterator[str]:
    sizes = [max(size, 1) for bar in bars for size in (bar.state, bar.added)]
    least, most = math.log2(min(sizes)), math.log2(max(sizes))
    step = next((s for s in _STEPS if (most - least) / s >= 2), 1)
    low, high = math.floor(least / step) * step, math.ceil(most / step + 1e-9) * step

    def y(size: float) -> float:
        return floor - _HIGH * (math.log2(max(size, 1)) - low) / max(high - low, 1)

    for power in range(low, high + 1, step):
        yield path("grid", f"M{px(LEFT)} {px(y(2**power))}H{px(right)}")
        text = format_size(2**power).replace(".0 ", " ")
        yield written(LEFT - 6, y(2**power), text, "small faint", "end")
    radius = min(max((bars[0].right - bars[0].left) / 3, 1.0), 4.0)
    for bar in bars:
        x = bar.middle
        yield path("between", f"M{px(x)} {px(y(bar.state))}V{px(y(bar.added))}")
        yield disc(x, y(bar.state), radius, "whole") + disc(x, y(bar.added), radius, "stored")
        if any(row.image.lost for row in bar.rows):
            yield disc(x, y(bar.state), radius + 2.5, "lost")
    yield path("axis", f"M{px(LEFT)} {px(floor - _HIGH)}V{px(floor)}H{px(right)}")
    caption = "each image: the size of its state, and what it added"
    yield written(LEFT, floor - _HIGH - 9, caption, "small faint")


def _numbers(
    rows: Sequence[StoreRow], floor: float, right: float, zone: tzinfo | None
) -> Iterator[str]:
    """Yield the numbers of images, and below them when the first and the last were written."""
    unit = (right - LEFT) / len(rows)
    step = _round(math.ceil(_TICK_ROOM / unit))
    for number in sorted({1, *range(step, len(rows) + 1, step)}):
        x = LEFT + (number - 0.5) * unit
        yield path("axis", f"M{px(x)} {px(floor)}v4")
        yield written(x, floor + 11, str(number), "small faint", "middle")
    yield written(LEFT, floor + 25, shown_time(rows[0].image.time, zone), "small faint")
    if len(rows) > 1:
        yield written(
            right, floor + 25, shown_time(rows[-1].image.time, zone), "small faint", "end"
        )


def _round(least: int) -> int:
    """Return the first of 1, 2, 5, 10, 20, ... that is not less."""
    power = 1
    while True:
        for digit in (1, 2, 5):
            if digit * power >= least:
                return digit * power
        power *= 10


def _touched(bars: Sequence[_Bar], top: float, floor: float, zone: tzinfo | None) -> Iterator[str]:
    """Yield what is shown at the pointer."""
    for bar in bars:
        yield (
            f'<g><title>{xml_lines(list(_told(bar, zone)))}</title><rect class="touch"'
            f' x="{px(bar.left)}" y="{px(top)}" width="{px(bar.right - bar.left)}"'
            f' height="{px(floor - top)}"/></g>'
        )


def _told(bar: _Bar, zone: tzinfo | None) -> Iterator[str]:
    last = bar.rows[-1]
    if len(bar.rows) == 1:
        yield f"image {bar.first}: {clipped(last.name, _LISTED)}"
        yield (
            f"state of {format_size(bar.state)}, {format_size(bar.added)} added in "
            f"{format_seconds(last.image.seconds)}"
        )
    else:
        yield f"images {bar.first} to {bar.first + len(bar.rows) - 1}"
        yield f"states of {format_size(bar.state)} and {format_size(bar.added)} added, on average"
    yield f"so far: states of {format_size(last.states)}, {format_size(last.stored)} stored"
    lost = dict.fromkeys(each.name for row in bar.rows for each in row.image.lost)
    if lost:
        yield f"not stored: {listed(list(lost), _LISTED)}"
    if last.image.time:
        yield shown_time(last.image.time, zone)


# ---------------------------------------------------------------- legend


def _legend(usage: StoreUsage, y: float, wide: float) -> Iterator[str]:
    entries = [("whole", "states, each stored whole"), ("stored", "what is stored")]
    if any(image.lost for image in usage.images):
        entries.append(("lost", "variables are missing"))
    x = MARGIN
    for style, text in entries:
        if x + 14 + columns(text) * LETTER > wide - MARGIN:
            return
        yield disc(x + 4, y, 4, style) + written(x + 14, y, text)
        x += 14 + columns(text) * LETTER + 24
