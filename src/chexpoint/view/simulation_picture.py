"""Simulations of clusters as SVG: what each host does over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from chexpoint.model import (
    ExecutionTree,
    HostRun,
    HostStep,
    NodeId,
    Seconds,
    Simulation,
    format_seconds,
    format_size,
)
from chexpoint.palette import CHECKPOINT, RECOMPUTED, REUSED
from chexpoint.view.layout import LETTER, MARGIN
from chexpoint.view.plan_chart import LEFT, RIGHT, time_ticks
from chexpoint.view.plan_picture import PLAN_RULES, PLAN_START
from chexpoint.view.simulation_lines import simulation_head
from chexpoint.view.svg import box, cross, path, px, written
from chexpoint.view.text import clipped, count, xml, xml_lines

_KINDS: Mapping[str, tuple[str, str]] = {
    "first": ("bar", "computes cells for the first time"),
    "again": (f"bar {RECOMPUTED.style}", "computes cells again"),
    "load": (f"bar {REUSED.style}", "loads an image"),
    "state": (f"bar {CHECKPOINT.style}", "checkpoints, restores"),
    "start": ("bar starting", "starts"),
}
"""What a host does: its style, and what it is called."""

_KIND_OF = {"start": "start", "load": "load"}
_ROW, _LOW_ROW, _BAR = 22.0, 11.0, 0.7
_MANY = 24  # hosts whose rows are low
_TICK_ROOM = 76.0
_COLUMNS = 2  # for each unit of length


def simulation_svg(
    tree: ExecutionTree, simulation: Simulation, *, width: int = 960, dark: bool | None = None
) -> str:
    """Return a picture of what hosts do over time.

    Parameters
    ----------
    width, dark
        As for `tree_svg`.
    """
    picture = _Picture(simulation, float(width))
    head = simulation_head(tree, simulation)
    theme = "" if dark is None else " chex-dark" if dark else " chex-light"
    room = int((width - 2 * MARGIN) / LETTER)
    start = (
        f'{PLAN_START} chex-tree{theme}" xmlns="http://www.w3.org/2000/svg" role="img"'
        f' width="{px(width)}" height="{px(picture.height)}"'
        f' viewBox="0 0 {px(width)} {px(picture.height)}">'
    )
    parts = [
        start,
        f"<title>{xml(head)}</title>",
        f"<style>{PLAN_RULES}</style>",
        written(MARGIN, MARGIN, clipped(head, room)),
        *picture.times(),
        *(picture.host(number, run) for number, run in enumerate(simulation.hosts)),
        *picture.legend(),
        "</svg>\n",
    ]
    return "\n".join(parts)


class _Picture:
    def __init__(self, simulation: Simulation, width: float) -> None:
        self._simulation = simulation
        self._right = width - RIGHT
        self._row = _ROW if len(simulation.hosts) <= _MANY else _LOW_ROW
        self._top = MARGIN + 40
        self._floor = self._top + self._row * len(simulation.hosts)
        self.height = self._floor + 2 * MARGIN + 18
        self._first = _first_times(simulation)

    def _x(self, time: Seconds) -> float:
        end = self._simulation.makespan
        return LEFT + (self._right - LEFT) * (time / end if end > 0 else 0.0)

    def times(self) -> Iterator[str]:
        most = max(int((self._right - LEFT) / _TICK_ROOM), 1)
        for time, text in time_ticks(self._simulation.makespan, most):
            x = self._x(time)
            yield path("grid", f"M{px(x)} {px(self._top - 4)}V{px(self._floor)}")
            yield written(x, self._top - 12, text, "small faint", "middle")
        yield path("axis", f"M{px(LEFT)} {px(self._top - 4)}V{px(self._floor)}")

    def host(self, number: int, run: HostRun) -> str:
        middle = self._top + self._row * (number + 0.5)
        is_named = self._row == _ROW or number % 2 == 0
        style = "" if self._row == _ROW else "small"
        name = written(LEFT - 6, middle, f"host {number + 1}", style, "end") if is_named else ""
        bars = "".join(
            f'<rect class="{_KINDS[kind][0]}" x="{px(left)}" width="{px(right - left)}"'
            f' y="{px(middle - self._row * _BAR / 2)}" height="{px(self._row * _BAR)}"/>'
            for kind, left, right in self._bars(number, run)
        )
        lost = ""
        if run.lost is not None:
            lost = path("cross", cross(self._x(run.lost), middle, self._row / 3))
        return f"<g><title>{xml_lines(_title(number, run))}</title>{name}{bars}{lost}</g>"

    def _bars(self, number: int, run: HostRun) -> Iterator[tuple[str, float, float]]:
        """Yield what is done from where to where, as fine as can be seen.

        Where several things are done within less, what takes longest is shown.
        """
        columns: dict[int, dict[str, float]] = {}
        for step in run.steps:
            left, right = (self._x(time) * _COLUMNS for time in (step.start, step.end))
            at = left
            while at < right:
                column = int(at)
                until = min(right, column + 1.0)
                here = columns.setdefault(column, {})
                kind = self._kind(number, step)
                here[kind] = here.get(kind, 0.0) + until - at
                at = until
        shown = [(column, max(here, key=here.__getitem__)) for column, here in columns.items()]
        # Neighbours of one kind are one bar; a gap begins another.
        for (kind, _), group in groupby(
            enumerate(shown), key=lambda item: (item[1][1], item[1][0] - item[0])
        ):
            places = [column for _, (column, _) in group]
            yield kind, places[0] / _COLUMNS, (places[-1] + 1) / _COLUMNS

    def _kind(self, number: int, step: HostStep) -> str:
        if step.action == "compute" and step.node is not None:
            return "first" if self._first.get(step.node) == (step.end, number) else "again"
        return _KIND_OF.get(step.action, "state")

    def legend(self) -> Iterator[str]:
        y, x = self._floor + MARGIN + 6, MARGIN
        for style, text in _KINDS.values():
            yield box(x + 6, y, 12, 10, style)
            yield written(x + 18, y, text, "faint")
            x += 18 + (len(text) + 3) * LETTER
        if any(run.lost is not None for run in self._simulation.hosts):
            yield path("cross", cross(x + 6, y, 4))
            yield written(x + 18, y, "is lost", "faint")


def _first_times(simulation: Simulation) -> dict[NodeId, tuple[Seconds, int]]:
    """Return when and where each node is computed first."""
    found: dict[NodeId, tuple[Seconds, int]] = {}
    for number, run in enumerate(simulation.hosts):
        for step in run.steps:
            if step.node is not None and run.has_computed(step):
                here = (step.end, number)
                found[step.node] = min(found.get(step.node, here), here)
    return found


def _title(number: int, run: HostRun) -> list[str]:
    lines = [
        f"host {number + 1}: {count(len(run.computed), 'cell')} in {format_seconds(run.end)}",
        f"{format_size(run.peak_bytes)} at most are held",
    ]
    if run.lost is not None:
        lines.append(f"lost after {format_seconds(run.lost)}")
    return lines
