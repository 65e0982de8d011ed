"""Values over the iterations of a training, as one SVG: a line for each version and name."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from chexpoint.model import HindsightResult, HindsightRow
from chexpoint.palette import DIFFERENT, VERSION_COLOURS
from chexpoint.view.hindsight_rows import hindsight_summary, label_names, wanted_rows
from chexpoint.view.layout import LETTER, MARGIN
from chexpoint.view.plan_chart import LEFT, RIGHT
from chexpoint.view.plan_picture import PLAN_RULES
from chexpoint.view.svg import disc, path, px, written
from chexpoint.view.text import clipped, columns, count, xml

HINDSIGHT_START = '<svg class="chex-hindsight'
"""How every picture of values begins, so that it is known again."""

_HIGH = 240.0
_ROW = 16.0  # of the legend
_TICK_ROOM, _TICK_HEIGHT = 64.0, 44.0
_MOST_DOTS = 80  # of a line; more of them would hide it
_ROUND = (1.0, 2.0, 5.0, 10.0)

HINDSIGHT_RULES = f"""{PLAN_RULES}
.chex-tree .apart {{ fill: none; stroke: {DIFFERENT.colour}; stroke-width: 1.6; }}
"""


@dataclass(frozen=True, slots=True)
class _Point:
    x: float
    y: float
    row: HindsightRow


@dataclass(frozen=True, slots=True)
class _Line:
    """The values of one name in one version."""

    title: str
    points: tuple[_Point, ...]


def hindsight_svg(
    results: Sequence[HindsightResult],
    *,
    names: Collection[str] = (),
    width: int = 960,
    dark: bool | None = None,
) -> str:
    """Return a picture of the values that are numbers.

    Values of the inner loop stand between those of the outer one.  A value that diverged has a
    ring around it.

    Parameters
    ----------
    names
        Values to draw; by default, what was added to the program.
    width
        How wide the picture is, in pixels.
    dark
        The theme; None takes that of the page, or of the system where there is no page.
    """
    rows = wanted_rows(results, names)
    lines = _lines(rows)
    wide = max(float(width), 320.0)
    top, floor = MARGIN + 22, MARGIN + 22 + _HIGH
    tall = floor + 44 + _ROW * max(len(lines), 1)
    head = hindsight_summary(results, names).removeprefix("CHEX: ")
    theme = "" if dark is None else " chex-dark" if dark else " chex-light"
    start = (
        f'{HINDSIGHT_START} chex-tree{theme}" xmlns="http://www.w3.org/2000/svg" role="img"'
        f' width="{px(wide)}" height="{px(tall)}" viewBox="0 0 {px(wide)} {px(tall)}">'
    )
    parts = [
        start,
        f"<title>{xml(head)}</title>",
        f"<style>{HINDSIGHT_RULES}</style>",
        written(MARGIN, MARGIN, clipped(head, int((wide - 2 * MARGIN) / LETTER))),
    ]
    if lines:
        scale = _Scale(lines, wide - RIGHT, top, floor)
        parts += _axes(scale, (label_names(rows) or ["iteration"])[0])
        for number, line in enumerate(lines):
            parts += _drawn(line, number, scale)
        parts += _legend(lines, floor + 44, wide)
    else:
        parts.append(written(LEFT, (top + floor) / 2, "there are no numbers to draw"))
    return "\n".join([*parts, "</svg>\n"])


# ---------------------------------------------------------------- what is drawn


def _lines(rows: Sequence[HindsightRow]) -> list[_Line]:
    several = len({row.version for row in rows}) > 1
    widths = _widths(rows)
    found: dict[tuple[str, str, int], list[_Point]] = {}
    for row in rows:
        value, at = row.value.value, row.value.at
        if isinstance(value, int | float) and math.isfinite(value) and at:
            inner = at[1] / widths[row.version, at[0]] if len(at) > 1 else 0.0
            key = row.version, row.value.name, row.value.loop
            found.setdefault(key, []).append(_Point(at[0] + inner, float(value), row))
    return [
        _Line(
            f"{version}: {name}" if several else name,
            tuple(sorted(points, key=lambda point: point.x)),
        )
        for (version, name, _), points in found.items()
    ]


def _widths(rows: Sequence[HindsightRow]) -> dict[tuple[str, int], int]:
    """Return how many steps each iteration has, as far as values tell."""
    found: dict[tuple[str, int], int] = {}
    for row in rows:
        match row.value.at:
            case (outer, inner, *_):
                key = row.version, outer
                found[key] = max(found.get(key, 1), inner + 1)
    return found


class _Scale:
    """Where iterations and values stand."""

    def __init__(self, lines: Sequence[_Line], right: float, top: float, floor: float) -> None:
        xs = [point.x for line in lines for point in line.points]
        ys = [point.y for line in lines for point in line.points]
        self.right, self.top, self.floor = right, top, floor
        self.first, self.last = min(xs), max(xs)
        self.low, self.high = min(ys), max(ys)
        if self.low == self.high:
            room = abs(self.low) / 2 or 1.0
            self.low, self.high = self.low - room, self.high + room

    def x(self, at: float) -> float:
        span = self.last - self.first
        return LEFT + (self.right - LEFT) * ((at - self.first) / span if span else 0.5)

    def y(self, value: float) -> float:
        # Halves, because the difference of two large numbers may be too large for one.
        share = (value / 2 - self.low / 2) / (self.high / 2 - self.low / 2)
        return self.floor - (self.floor - self.top) * share


def _axes(scale: _Scale, name: str) -> Iterator[str]:
    most = max(int((scale.floor - scale.top) / _TICK_HEIGHT), 1)
    for value in round_values(scale.low, scale.high, most):
        y = scale.y(value)
        yield path("grid", f"M{px(LEFT)} {px(y)}H{px(scale.right)}")
        yield written(LEFT - 6, y, f"{value:.4g}", "small faint", "end")
    axis = f"M{px(LEFT)} {px(scale.top)}V{px(scale.floor)}H{px(scale.right)}"
    yield path("axis", axis)
    most = max(int((scale.right - LEFT) / _TICK_ROOM), 1)
    for at in round_values(scale.first, scale.last, most):
        if at == int(at):
            yield path("axis", f"M{px(scale.x(at))} {px(scale.floor)}v4")
            yield written(scale.x(at), scale.floor + 11, f"{at:g}", "small faint", "middle")
    yield written(scale.right, scale.floor + 25, name, "small faint", "end")


def round_values(low: float, high: float, most: int) -> list[float]:
    """Return round numbers from one number to another, about as many as asked."""
    span = high / most - low / most
    if not math.isfinite(span) or span <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(span))
    step = next(r * power for r in _ROUND if r * power >= span * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [n * step for n in range(first, last + 1)]


def _drawn(line: _Line, number: int, scale: _Scale) -> Iterator[str]:
    points = _thinned(line.points, int(scale.right - LEFT))
    way = "L".join(f"{px(scale.x(point.x))} {px(scale.y(point.y))}" for point in points)
    colour = number % len(VERSION_COLOURS)
    yield f"<g><title>{xml(line.title)}</title>"
    yield path(f"line v{colour}", f"M{way}", 1.6)
    for point in points:
        if point.row.standing == "diverged":
            yield disc(scale.x(point.x), scale.y(point.y), 5, "apart")
        if len(points) <= _MOST_DOTS:
            yield disc(scale.x(point.x), scale.y(point.y), 2.2, "", VERSION_COLOURS[colour])
    yield "</g>"


def _thinned(points: Sequence[_Point], room: int) -> list[_Point]:
    """Return as many points as can be seen: the least and the most of those in one place."""
    if len(points) <= 2 * room:
        return list(points)
    kept: list[_Point] = []
    for place in range(room):
        first, end = len(points) * place // room, len(points) * (place + 1) // room
        here = points[first:end]
        pair = min(here, key=lambda p: p.y), max(here, key=lambda p: p.y)
        kept += sorted(pair, key=lambda p: p.x)
    return kept


def _legend(lines: Sequence[_Line], y: float, wide: float) -> Iterator[str]:
    for number, line in enumerate(lines):
        at, colour = y + number * _ROW, number % len(VERSION_COLOURS)
        yield path(f"line v{colour}", f"M{px(LEFT)} {px(at)}h22", 1.6)
        apart = sum(point.row.standing == "diverged" for point in line.points)
        told = count(len(line.points), "value") + (f", {apart} diverged" if apart else "")
        room = int((wide - LEFT - 40 - MARGIN) / LETTER) - columns(told) - 2
        text = f"{clipped(line.title, max(room, 8))}  {told}"
        yield written(LEFT + 30, at, text)
