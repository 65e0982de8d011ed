"""Plans and schedules as one SVG: what is held over time, and below it the tree they go through."""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Iterator, Sequence

from chexpoint.model import (
    Bytes,
    CheckpointUse,
    ExecutionTree,
    Explanation,
    NodeId,
    Schedule,
    Seconds,
    Version,
    format_seconds,
    format_size,
)
from chexpoint.palette import CHECKPOINT, GREY, RECOMPUTED, REUSED, VERSION_COLOURS
from chexpoint.view.layout import (
    LABEL_LEAD,
    LABEL_LETTERS,
    LETTER,
    MARGIN,
    Label,
    Layout,
    Spot,
    lay_out,
)
from chexpoint.view.legend import Marks, legend
from chexpoint.view.outline import outline
from chexpoint.view.plan_chart import Bar, Chart, Lane, draw_chart
from chexpoint.view.plan_lines import plan_head, schedule_head
from chexpoint.view.plan_story import End, Names, Stretch, stretches, told
from chexpoint.view.scale import cost_scale
from chexpoint.view.style import TREE_RULES
from chexpoint.view.svg import box, disc, elbow, path, px, wedge, written
from chexpoint.view.text import (
    clipped,
    count,
    first_line,
    listed,
    printable,
    source_lines,
    xml,
    xml_lines,
)

PLAN_START = '<svg class="chex-plan'
"""How every picture of a plan begins, so that it is known again."""

_GAP = 40.0
"""From one column of cells to the next, at least: there must be room for a number in between."""

_AROUND = 2 * MARGIN + LABEL_LEAD + 9 + LABEL_LETTERS * LETTER
_LEAST_WIDTH = 600.0
_CHAIN = 18.0  # width of a chain
_TIMES = "\N{MULTIPLICATION SIGN}"
_BARS = 600  # more of them would be thinner than can be seen
_SOURCE_LINES = 6  # of a tooltip
_LISTED = 200  # columns of names in a tooltip

_FILLS = "\n".join(
    f".chex-tree .{style} {{ fill: {colour}; fill-opacity: 0.65; }}"
    for style, colour in (
        *((f"f{i}", colour) for i, colour in enumerate(VERSION_COLOURS)),
        *((look.style, look.colour) for look in (RECOMPUTED, REUSED, CHECKPOINT)),
    )
)

PLAN_RULES = f"""{TREE_RULES}
.chex-tree .area {{ fill: {CHECKPOINT.colour}; fill-opacity: 0.35;
  stroke: {CHECKPOINT.colour}; stroke-width: 1.2; }}
.chex-tree .budget {{ fill: none; stroke: currentColor; stroke-width: 1.6; stroke-dasharray: 6 3; }}
.chex-tree .axis {{ fill: none; stroke: currentColor; stroke-opacity: 0.6; }}
.chex-tree .grid {{ fill: none; stroke: currentColor; stroke-opacity: 0.15; }}
.chex-tree .bar {{ fill: {GREY}; fill-opacity: 0.5; stroke: currentColor; stroke-width: 0.6; }}
.chex-tree .starting {{ fill-opacity: 0.1; }}
{_FILLS}
"""


def plan_svg(
    tree: ExecutionTree, explanation: Explanation, *, width: int = 960, dark: bool | None = None
) -> str:
    """Return a picture of a plan.

    Parameters
    ----------
    width, dark
        As for `tree_svg`.
    """
    picture = _Picture(tree, [explanation])
    head = plan_head(explanation, picture.names)
    return picture.svg(head, explanation.plan.budget, width, dark)


def schedule_svg(
    tree: ExecutionTree,
    schedule: Schedule,
    explanations: Sequence[Explanation],
    *,
    width: int = 960,
    dark: bool | None = None,
) -> str:
    """Return a picture of what engines do side by side.

    Parameters
    ----------
    explanations
        One for each lane.
    width, dark
        As for `tree_svg`.
    """
    picture = _Picture(tree, explanations)
    head = schedule_head(schedule, explanations, picture.names)
    return picture.svg(head, schedule.budget, width, dark)


class _Picture:
    def __init__(self, tree: ExecutionTree, explanations: Sequence[Explanation]) -> None:
        self._tree = tree
        self._explanations = explanations
        self.names = Names(tree)
        self._numbers = {version: number for number, version in enumerate(tree.versions)}
        self._costs = cost_scale(node.cost for node in tree.nodes.values())
        self._times = Counter(
            moment.step.node
            for explanation in explanations
            for moment in explanation.moments
            if moment.step.action == "compute"
        )
        self._uses: dict[NodeId, list[CheckpointUse]] = {}
        for explanation in explanations:
            for use in explanation.uses:
                self._uses.setdefault(use.node, []).append(use)

    def svg(self, head: str, budget: float, width: int, dark: bool | None) -> str:
        most_columns = max(4, int((width - _AROUND) / _GAP))
        items = outline(self._tree, marked=self._uses, most_columns=most_columns)
        needed = _AROUND + _GAP * max(item.column for item in items)
        layout = lay_out(self._tree, items, width=max(width, needed))
        wide = max(layout.width, min(float(width), _LEAST_WIDTH))
        chart = draw_chart(self._chart(budget), top=MARGIN + 22, width=wide)
        foot, high = legend(layout, self._marks(layout, chart.unnamed), wide)
        tall = chart.height + layout.height + high
        theme = "" if dark is None else " chex-dark" if dark else " chex-light"
        room = int((wide - 2 * MARGIN) / LETTER)
        start = (
            f'{PLAN_START} chex-tree{theme}" xmlns="http://www.w3.org/2000/svg" role="img"'
            f' width="{px(wide)}" height="{px(tall)}" viewBox="0 0 {px(wide)} {px(tall)}">'
        )
        parts = [
            start,
            f"<title>{xml(head)}</title>",
            f"<style>{PLAN_RULES}</style>",
            written(MARGIN, MARGIN, clipped(head, room)),
            chart.svg,
            f'<g transform="translate(0 {px(chart.height)})">',
            *(self._edge(layout, spot) for spot in layout.spots[1:]),
            *(self._label(layout, label) for label in layout.labels),
            *(self._spot(layout, spot) for spot in layout.spots),
            foot,
            "</g>",
            "</svg>\n",
        ]
        return "\n".join(parts)

    def _marks(self, layout: Layout, unnamed: int) -> Marks:
        nodes = self._tree.nodes
        drawn = [n for s in layout.spots if s.item.kind != "bundle" for n in s.item.nodes]
        notes = []
        if any(self._times[node] > 1 for node in drawn):
            notes.append(f"A number such as {_TIMES}2 says how often a cell is computed.")
        if unnamed:
            notes.append(f"{count(unnamed, 'name')} did not fit below the bars.")
        if any(spot.item.kind == "bundle" for spot in layout.spots):
            notes.append("Not all of the tree is drawn.")
        return Marks(
            costs=self._costs,
            largest_size=max((node.size for node in nodes.values()), default=0),
            has_checkpoint=any(node in self._uses for node in drawn),
            note=" ".join(notes),
        )

    # ---------------------------------------------------------------- over time

    def _chart(self, budget: float) -> Chart:
        several = len(self._explanations) > 1
        return Chart(
            end=max((e.moments[-1].time for e in self._explanations if e.moments), default=0.0),
            held=held_together(self._explanations),
            budget=budget,
            lanes=tuple(
                Lane(
                    name=f"engine {number}" if several else "", bars=tuple(self._bars(explanation))
                )
                for number, explanation in enumerate(self._explanations, start=1)
            ),
        )

    def _bars(self, explanation: Explanation) -> Iterator[Bar]:
        found = stretches(explanation)
        least = found[-1].end / _BARS if found else 0.0
        group: list[Stretch] = []
        for stretch in found:
            group.append(stretch)
            if len(found) <= _BARS or stretch.end - group[0].start >= least:
                yield self._bar(group)
                group = []
        if group:
            yield self._bar(group)

    def _bar(self, group: Sequence[Stretch]) -> Bar:
        ends = [end for stretch in group for end in self.names.ends(stretch.nodes, stretch.leaf)]
        labels = [self.names.label(end) for end in ends]
        start, end = group[0].start, group[-1].end
        title = [
            listed(labels, _LISTED),
            f"{format_seconds(start)} to {format_seconds(end)}",
            *([told(group[0].steps, self.names)] if len(group) == 1 else []),
        ]
        return Bar(
            start=start,
            end=end,
            label=listed(labels, LABEL_LETTERS) if len(group) == 1 else "",
            title=tuple(title),
            colour=self._colour(ends[-1]),
        )

    def _colour(self, end: End) -> int | None:
        """Return the place of the colour of a version; none if it has no name."""
        if not isinstance(end, Version):
            return None
        return self._numbers[end] % len(VERSION_COLOURS)

    # ---------------------------------------------------------------- the tree

    def _edge(self, layout: Layout, spot: Spot) -> str:
        above = layout.spots[spot.item.parent]
        x1, y1 = above.x, above.y
        if above.item.kind == "chain":
            x1, y1 = (x1 + _CHAIN / 2, y1) if spot.y == y1 else (x1, y1 + above.radius)
        aside = {"chain": _CHAIN / 2, "bundle": 5.0}.get(spot.item.kind, 0.0)
        times = self._times[spot.item.nodes[0]]
        thick = min(1.5 + math.log2(max(times, 1)), 6.0)
        return path("shared", elbow(x1, y1, spot.x - aside, spot.y), thick)

    def _label(self, layout: Layout, label: Label) -> str:
        spot = layout.spots[label.spot]
        style = f"v{self._colour(label.versions[0])}" if label.is_name else "shared"
        lead = path(f"lead {style}", elbow(spot.x, spot.y, label.x - 4, label.y))
        text = written(label.x, label.y, label.text, "" if label.is_name else "faint")
        names = listed([self.names.label(version) for version in label.versions], _LISTED)
        return f"<g><title>{xml(names or label.text)}</title>{lead}{text}</g>"

    def _spot(self, layout: Layout, spot: Spot) -> str:
        kind, x, y, nodes = spot.item.kind, spot.x, spot.y, spot.item.nodes
        if kind == "root":
            return f"<g><title>fresh interpreter</title>{box(x, y, 8, 8, 'root')}</g>"
        title = xml_lines(self._node_title(nodes[0]) if kind == "node" else self._title(nodes))
        if kind == "bundle":
            return f"<g><title>{title}</title>{path('bundle', wedge(x, y))}</g>"
        half = _CHAIN / 2 if kind == "chain" else spot.radius
        if kind == "chain":
            number = str(len(nodes)) if len(nodes) < 1000 else f"{len(nodes) // 1000}k"
            shape = box(x, y, _CHAIN, 14, "chain", 7) + written(x, y, number, "small", "middle")
        else:
            shape = disc(x, y, half, "node", self._costs.colour(self._tree.nodes[nodes[0]].cost))
        if any(node in self._uses for node in nodes):
            is_chain = kind == "chain"
            ring = box(x, y, _CHAIN + 5, 19, "ring", 9.5) if is_chain else ""
            shape += ring or disc(x, y, half + 3, "ring")
        times = max(self._times[node] for node in nodes)
        again = written(x + half + 4, y - 9, f"{_TIMES}{times}", "small") if times > 1 else ""
        return f"<g><title>{title}</title>{shape}{again}{self._source(layout, spot)}</g>"

    def _source(self, layout: Layout, spot: Spot) -> str:
        if not layout.has_sources or spot.item.kind != "node":
            return ""
        line = first_line(self._tree.nodes[spot.item.nodes[0]].cell)
        text = clipped(line, int((layout.gap - 6) / LETTER))
        # Above the numbers of times, too.
        return written(spot.x, spot.y - layout.largest - 14, text, "faint", "middle")

    # ---------------------------------------------------------------- tooltips

    def _node_title(self, ident: NodeId) -> list[str]:
        node = self._tree.nodes[ident]
        changed = "" if node.delta is None else f", {format_size(node.delta)} of it changed"
        times = self._times[ident]
        lines = [
            clipped(printable(ident[:_LISTED]), _LISTED),
            f"{format_seconds(node.cost)}, {format_size(node.size)}{changed}",
            f"computed {count(times, 'time')}" if times else "not computed",
        ]
        for use in self._uses.get(ident, ()):
            saved = f", saves {format_seconds(use.saved)}" if use.saved > 0 else ""
            restored = f"restored {count(use.restores, 'time')}"
            lines.append(f"checkpoint of {format_size(use.bytes)}, {restored}{saved}")
        if not node.cell.strip():
            return lines
        source = source_lines(node.cell[:4000])
        more = ["..."] if len(source) > _SOURCE_LINES else []
        return [*lines, "", *(clipped(line, 120) for line in source[:_SOURCE_LINES]), *more]

    def _title(self, nodes: Sequence[NodeId]) -> list[str]:
        """Return what is said of several cells."""
        cost = math.fsum(self._tree.nodes[node].cost for node in nodes)
        times = sum(self._times[node] for node in nodes)
        lines = [
            f"{count(len(nodes), 'cell')}, {format_seconds(cost)}",
            f"computed {count(times, 'time')} together",
        ]
        held = [node for node in nodes if node in self._uses]
        if held:
            lines.append(f"{count(len(held), 'checkpoint')}: {self.names.nodes(held)}")
        return lines


def held_together(explanations: Sequence[Explanation]) -> list[tuple[Seconds, Bytes]]:
    """Return what engines that begin together hold together, from each time on."""
    changes = []
    for explanation in explanations:
        before = 0
        own = []
        for moment in explanation.moments:
            own.append((moment.time, moment.held_bytes - before))
            before = moment.held_bytes
        changes.append(own)
    found, held = [], 0
    for time, change in heapq.merge(*changes, key=lambda item: item[0]):
        held += change
        found.append((time, held))
    return found
