"""What is held over time, and what is replayed meanwhile, as the upper part of a picture."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chexpoint.model import Bytes, Seconds, format_size
from chexpoint.view.layout import LETTER, MARGIN
from chexpoint.view.svg import path, px, written
from chexpoint.view.text import clipped, columns, xml_lines

LEFT, RIGHT = 76.0, 30.0
"""Beside the axes, for what is written at them."""

MOST_ROWS = 5
"""Rows of labels below a lane."""

_HIGH = 112.0  # of the part that shows bytes
_HEADROOM = 1.2  # so that there is room for a text above the budget
_BAR, _ROW, _SPACE = 14.0, 14.0, 10.0
_TICK_ROOM = 76.0  # least distance of times
_FAR = 4.0  # a budget so many times what is held is not drawn
_LEAST_LETTERS = 3

_ROUND = (1.0, 2.0, 5.0)
_CLOCK = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0)
_UNITS = ("B", "KB", "MB", "GB", "TB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """What is done for a version, or for several that are too short to be told apart."""

    start: Seconds
    end: Seconds
    label: str
    title: tuple[str, ...]
    """Lines that are shown at the pointer."""
    colour: int | None = None
    """The place of the version's colour among ours; none for a version without a name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What one engine does."""

    name: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """All that is drawn over time."""

    end: Seconds
    held: Sequence[tuple[Seconds, Bytes]]
    """What is held from a time on; of several for the same time, the last one counts."""
    budget: float
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A part of a picture."""

    svg: str
    height: float
    unnamed: int = 0
    """Bars for whose label there was no room."""


def draw_chart(chart: Chart, *, top: float, width: float) -> Drawn:
    """Return a chart as SVG; the height is where it ends."""
    scale = _Scale(chart, width)
    floor = top + _HIGH
    parts = [*_sizes(scale, floor), _area(chart, scale, floor), *_budget(chart, scale, floor)]
    parts += _times(scale, top, floor)
    y, unnamed = floor + 26, 0
    for lane in chart.lanes:
        drawn = _lane(lane, scale, y)
        parts.append(drawn.svg)
        unnamed += drawn.unnamed
        y = drawn.height
    return Drawn(svg="\n".join(parts), height=y, unnamed=unnamed)


class _Scale:
    """Where times and bytes stand."""

    def __init__(self, chart: Chart, width: float) -> None:
        self.right = width - RIGHT
        self.end = chart.end
        self.peak = max((held for _, held in chart.held), default=0)
        reach = self.peak * _FAR if self.peak else sys.float_info.max
        self.has_budget = chart.budget <= reach
        self.top = max(self.peak, chart.budget if self.has_budget else 0.0) or 1.0

    def x(self, time: Seconds) -> float:
        share = min(max(time / self.end, 0.0), 1.0) if self.end > 0 else 0.0
        return LEFT + (self.right - LEFT) * share

    def up(self, held: float) -> float:
        """Return how far above the floor some bytes stand."""
        return _HIGH * held / (self.top * _HEADROOM)


# ---------------------------------------------------------------- bytes


def _area(chart: Chart, scale: _Scale, floor: float) -> str:
    """Return what is held over time, with as many points as can be seen."""
    seen: dict[int, tuple[float, float]] = {}  # by place, the most and the last
    for time, held in chart.held:
        place = round(scale.x(time) * 2)
        most, _ = seen.get(place, (0.0, 0.0))
        seen[place] = max(most, held), held
    way, before = f"M{px(LEFT)} {px(floor)}", 0.0
    for place, (most, last) in seen.items():
        peak = f"V{px(floor - scale.up(most))}" if most > max(before, last) else ""
        way += f"H{px(place / 2)}{peak}V{px(floor - scale.up(last))}"
        before = last
    return path("area", f"{way}H{px(scale.right)}V{px(floor)}z")


def _budget(chart: Chart, scale: _Scale, floor: float) -> Iterator[str]:
    if not math.isfinite(chart.budget):
        text, y = "no budget", floor - _HIGH + 7
    elif not scale.has_budget:
        text, y = f"budget {format_size(chart.budget)}, far above", floor - _HIGH + 7
    else:
        line = floor - scale.up(chart.budget)
        yield path("budget", f"M{px(LEFT)} {px(line)}H{px(scale.right)}")
        text, y = f"budget {format_size(chart.budget)}", line - 8
    yield written(scale.right, y, text, "", "end")


def _sizes(scale: _Scale, floor: float) -> Iterator[str]:
    """Yield the scale of bytes, left of the area."""
    for size, text in size_ticks(scale.top, 4):
        y = floor - scale.up(size)
        yield path("grid", f"M{px(LEFT)} {px(y)}H{px(scale.right)}")
        yield written(LEFT - 6, y, text, "small faint", "end")


def size_ticks(top: float, most: int) -> list[tuple[float, str]]:
    """Return round sizes from 0 up to one, at most so many above 0, and how to write them."""
    power = min(max(int(math.log(max(top, 1), 1024) + 1e-9), 0), len(_UNITS) - 1)
    unit = 1024.0**power
    step = _round_step(top / unit / most)
    if power == 0:
        step = max(step, 1.0)
    counts = range(int(top / unit / step + 1e-9) + 1)
    return [(n * step * unit, f"{n * step:g} {_UNITS[power]}" if n else "0") for n in counts]


# ---------------------------------------------------------------- times


def _times(scale: _Scale, top: float, floor: float) -> Iterator[str]:
    yield path("axis", f"M{px(LEFT)} {px(top)}V{px(floor)}H{px(scale.right)}")
    for time, text in time_ticks(scale.end, max(int((scale.right - LEFT) / _TICK_ROOM), 1)):
        x = scale.x(time)
        yield path("axis", f"M{px(x)} {px(floor)}v4")
        yield written(x, floor + 11, text, "small faint", "middle")


def time_ticks(end: Seconds, most: int) -> list[tuple[Seconds, str]]:
    """Return round times from 0 up to an end, at most so many after 0, and how to write them."""
    least = max(end / most, 1e-3)
    if least < 1:
        step, unit, name = _round_step(least), 1e-3, "ms"
    elif least <= 30:
        step, unit, name = next(s for s in _CLOCK if s >= least), 1.0, "s"
    elif least <= 1800:
        step, unit, name = next(60 * s for s in _CLOCK if 60 * s >= least), 60.0, "min"
    else:
        step, unit, name = 3600 * _round_step(least / 3600), 3600.0, "h"
    counts = range(int(end / step + 1e-9) + 1)
    return [(n * step, f"{n * step / unit:g} {name}" if n else "0") for n in counts]


def _round_step(least: float) -> float:
    """Return the first of 1, 2, 5, 10, 20, ..., or a tenth of them, that is not less."""
    power = 10.0 ** math.floor(math.log10(max(least, 1e-12)))
    return next((r * power for r in _ROUND if r * power >= least * (1 - 1e-9)), 10 * power)


# ---------------------------------------------------------------- lanes


def _lane(lane: Lane, scale: _Scale, y: float) -> Drawn:
    parts = []
    if lane.name:
        room = int((LEFT - 8) / LETTER)
        parts.append(written(LEFT - 6, y, clipped(lane.name, room), "", "end"))
    for bar in lane.bars:
        left, right = scale.x(bar.start), scale.x(bar.end)
        style = "bar" if bar.colour is None else f"bar f{bar.colour}"
        parts.append(
            f'<g><title>{xml_lines(bar.title)}</title><rect class="{style}"'
            f' x="{px(left)}" y="{px(y - _BAR / 2)}" width="{px(max(right - left, 0.5))}"'
            f' height="{px(_BAR)}"/></g>'
        )
    placed = _placed([(scale.x(bar.end), bar.label) for bar in lane.bars])
    rows = 0
    for bar, (row, text) in zip(lane.bars, placed, strict=True):
        if not text:
            continue
        rows = max(rows, row + 1)
        x, low = scale.x(bar.end), y + _BAR / 2 + 9 + row * _ROW
        style = "shared" if bar.colour is None else f"v{bar.colour}"
        parts.append(path(f"lead {style}", f"M{px(x)} {px(y + _BAR / 2)}V{px(low + 4)}"))
        parts.append(written(x - 3, low, text, "", "end"))
    unnamed = sum(not text for _, text in placed)
    bottom = y + _BAR + rows * _ROW + _SPACE
    return Drawn(svg="".join(parts), height=bottom, unnamed=unnamed)


def _placed(labels: Sequence[tuple[float, str]]) -> list[tuple[int, str]]:
    """Return the row of each label, and as much of it as fits; nothing if there is no row left.

    Labels stand left of a line that comes down from where a bar ends, the leftmost first.  So a
    label must be below all lines that it would cross, and with that below their labels.
    """
    found: list[tuple[int, str]] = []
    lines: list[tuple[float, int]] = []  # and how far down each goes
    for x, label in labels:
        text = clipped(label, int((x - 3 - MARGIN) / LETTER))
        start = x - 3 - columns(text) * LETTER - 2
        row = max((row + 1 for at, row in lines if at > start), default=0)
        if row >= MOST_ROWS or columns(text) < min(columns(label), _LEAST_LETTERS):
            found.append((0, ""))
            continue
        found.append((row, text))
        lines.append((x, row))
    return found
