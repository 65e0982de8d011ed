"""The tree of a replay as SVG: what became of each node, with links to the cells of the page."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace

from chexpoint.model import ExecutionTree, NodeId, Replay, ReplayStatus, Version, format_seconds
from chexpoint.palette import LIGHT, LOOKS
from chexpoint.view.layout import LETTER, Label, Layout, Spot, columns_that_fit, lay_out
from chexpoint.view.outline import outline
from chexpoint.view.replay_facts import BAD_FIRST, head_line, look_of, tally, why, word_of
from chexpoint.view.style import TREE_RULES
from chexpoint.view.svg import box, disc, elbow, path, px, wedge, written
from chexpoint.view.text import clipped, count, printable, xml_lines

REPLAY_TREE_START = '<svg class="chex-tree chex-replay'
"""How every picture of a replay begins, so that it is known again."""

_CHAIN = 18.0  # width of a chain
_SIGN_ROOM = 22.0  # right of a label
_LISTED = 12  # versions of a tooltip
_LONGEST = 120  # columns of one of its lines

_FILLS = "\n".join(
    f".chex-replay .{look.style} {{ fill: {look.colour}; stroke: {look.colour}; }}"
    for look in LOOKS.values()
)

_RULES = f"""{TREE_RULES}
{_FILLS}
.chex-replay .todo {{ fill: none; stroke-width: 1.5; stroke-dasharray: 2 2; }}
.chex-replay .excused {{ fill-opacity: 0.25; stroke-width: 1.5; }}
.chex-replay text.sign {{ fill: {LIGHT[1]}; font-size: 10px; font-weight: bold; stroke: none; }}
.chex-replay text.plain, .chex-replay text.end {{ stroke: none; font-weight: bold; }}
.chex-replay text.end {{ font-size: 13px; }}
.chex-replay text.plain, .chex-replay text.end.todo {{ fill: currentColor; }}
.chex-replay a:focus-visible circle {{ stroke: currentColor; stroke-width: 3; }}
"""


def replay_tree_svg(
    replay: Replay, *, links: Mapping[NodeId, str] | None = None, width: int = 1100
) -> tuple[str, str]:
    """Return a picture of what became of each node, and a sentence about what is not drawn.

    Parameters
    ----------
    links
        Where a node leads to in the page around the picture.
    width
        How wide it should be at most, in pixels; it is wider if it must.
    """
    tree = _bad_ones_newest(replay)
    marked = {node for node, cell in replay.cells.items() if cell.status != "same"}
    items = outline(tree, marked=marked, most_columns=columns_that_fit(width))
    picture = _Picture(replay, tree, lay_out(tree, items, width=width), links or {})
    return picture.svg(), picture.note()


def _bad_ones_newest(replay: Replay) -> ExecutionTree:
    """Return the tree as if the versions one wants to see were the newest.

    Of very many versions only the newest are drawn, and here these should be the bad ones.
    """
    tree = replay.recording.tree
    ranked = sorted(
        tree.versions,
        key=lambda version: -BAD_FIRST.index(replay.version_status(version)),
    )
    return ExecutionTree(
        tree.nodes.values(),
        [replace(version, created=float(rank)) for rank, version in enumerate(ranked, start=1)],
    )


class _Picture:
    def __init__(
        self, replay: Replay, tree: ExecutionTree, layout: Layout, links: Mapping[NodeId, str]
    ) -> None:
        self._replay = replay
        self._tree = tree
        self._layout = layout
        self._links = links

    def svg(self) -> str:
        layout = self._layout
        size = f"{px(layout.width + _SIGN_ROOM)} {px(layout.height)}"
        wide, high = size.split()
        name = f"{count(len(self._tree), 'cell')} of {count(len(self._tree.versions), 'version')}"
        start = (
            f'{REPLAY_TREE_START}" xmlns="http://www.w3.org/2000/svg" role="group"'
            f' aria-label="Execution tree: {name}"'
            f' width="{wide}" height="{high}" viewBox="0 0 {size}">'
        )
        parts = [
            start,
            f"<style>{_RULES}</style>",
            *(self._edge(spot) for spot in layout.spots[1:]),
            *(self._label(label) for label in layout.labels),
            *(self._spot(spot) for spot in layout.spots),
            "</svg>",
        ]
        return "\n".join(parts)

    def note(self) -> str:
        bundles = [spot.item for spot in self._layout.spots if spot.item.kind == "bundle"]
        hidden, versions = sum(len(item.ends) for item in bundles), len(self._tree.versions)
        if not hidden:
            return ""
        return (
            f"{versions - hidden:,} of {count(versions, 'version')} are drawn, those first that"
            " are not reproduced; the others are counted where they branch off."
        )

    # ---------------------------------------------------------------- lines

    def _edge(self, spot: Spot) -> str:
        above = self._layout.spots[spot.item.parent]
        x1, y1 = above.x, above.y
        if above.item.kind == "chain":
            x1, y1 = (x1 + _CHAIN / 2, y1) if spot.y == y1 else (x1, y1 + above.radius)
        aside = {"chain": _CHAIN / 2, "bundle": 5.0}.get(spot.item.kind, 0.0)
        through = len(self._tree.through.get(spot.item.nodes[0], ()))
        thick = min(1.5 + math.log2(max(through, 1)), 8.0)
        return path("shared", elbow(x1, y1, spot.x - aside, spot.y), thick)

    def _label(self, label: Label) -> str:
        spot = self._layout.spots[label.spot]
        lead = path("lead shared", elbow(spot.x, spot.y, label.x - 4, label.y))
        text = written(label.x, label.y, label.text, "" if label.is_name else "faint")
        words = [LOOKS[self._replay.version_status(v)].word for v in label.versions]
        look = LOOKS[worst(self._replay.version_status(v) for v in label.versions)]
        sign = written(label.x + label.width + 6, label.y, look.sign, f"end {look.style}")
        title = [f"{', '.join(self._names(label.versions))}: {tally(words)}"]
        return f"<g>{_title(title)}{lead}{text}{sign if label.versions else ''}</g>"

    # ---------------------------------------------------------------- things

    def _spot(self, spot: Spot) -> str:
        kind, x, y, nodes = spot.item.kind, spot.x, spot.y, spot.item.nodes
        if kind == "root":
            return f"<g>{_title(['fresh interpreter'])}{box(x, y, 8, 8, 'root')}</g>"
        found = [self._replay.cells.get(node) for node in nodes]
        if kind == "node":
            return self._node(spot, nodes[0])
        look = LOOKS[worst(cell.status if cell else None for cell in found)]
        title = [count(len(nodes), "cell"), tally(word_of(cell).split(",")[0] for cell in found)]
        if kind == "bundle":
            title += self._names(spot.item.ends)
            return f"<g>{_title(title)}{path(look.style, wedge(x, y))}</g>"
        number = str(len(nodes)) if len(nodes) < 1000 else f"{len(nodes) // 1000}k"
        style = "small plain" if look.style == "todo" else "small sign"
        shape = box(x, y, _CHAIN, 14, look.style, 7) + written(x, y, number, style, "middle")
        if look.style != "same":
            shape += written(x, y - 13, look.sign, f"end {look.style}", "middle")
        return f"<g>{_title(title)}{shape}</g>"

    def _node(self, spot: Spot, node: NodeId) -> str:
        cell = self._replay.cells.get(node)
        look, is_excused = look_of(cell), bool(cell and cell.is_excused)
        radius = self._layout.largest
        shape = disc(spot.x, spot.y, radius, f"{look.style} excused" if is_excused else look.style)
        style = "small plain" if is_excused or cell is None else "small sign"
        shape += written(spot.x, spot.y, look.sign, style, "middle")
        drawn = f"{_title(self._node_title(node))}{shape}{self._source(spot, node)}"
        link = self._links.get(node)
        return f'<a href="#{link}">{drawn}</a>' if link else f"<g>{drawn}</g>"

    def _source(self, spot: Spot, node: NodeId) -> str:
        if not self._layout.has_sources:
            return ""
        line = head_line(self._tree.nodes[node].cell)
        text = clipped(line, int((self._layout.gap - 6) / LETTER))
        return written(spot.x, spot.y - self._layout.largest - 10, text, "faint", "middle")

    def _node_title(self, node: NodeId) -> list[str]:
        cell = self._replay.cells.get(node)
        place = self._replay.recording.cells[node].lineage.number
        lines = [f"cell {place}: {word_of(cell)}"]
        if cell and cell.computed:
            lines[0] += f", {format_seconds(cell.seconds)}"
        if cell and (reason := why(cell)):
            lines.append(reason)
        lines.append(head_line(self._tree.nodes[node].cell))
        return [*lines, *self._names(self._tree.through.get(node, ()))]

    def _names(self, versions: tuple[Version, ...]) -> list[str]:
        names = [clipped(printable(self._tree.labels[v]), 40) for v in versions[:_LISTED]]
        more = len(versions) - _LISTED
        return [", ".join(names) + (f" and {more} more" if more > 0 else "")] if names else []


def worst(statuses: Iterable[ReplayStatus | None]) -> ReplayStatus | None:
    """Return the status one wants to know about first."""
    return min(statuses, key=BAD_FIRST.index, default="same")


def _title(lines: list[str]) -> str:
    return f"<title>{xml_lines([clipped(printable(line), _LONGEST) for line in lines])}</title>"
