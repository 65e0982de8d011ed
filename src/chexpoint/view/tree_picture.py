"""A tree as one SVG: draws what the layout says, and decides nothing about places."""

from __future__ import annotations

import math
from collections.abc import Mapping

from chexpoint.model import ExecutionTree, NodeId, Version, format_seconds, format_size
from chexpoint.palette import VERSION_COLOURS
from chexpoint.view.layout import LETTER, Label, Layout, Spot, columns_that_fit, lay_out
from chexpoint.view.legend import Marks, legend
from chexpoint.view.outline import outline
from chexpoint.view.scale import cost_scale
from chexpoint.view.style import TREE_RULES
from chexpoint.view.svg import box, cross, diamond, disc, elbow, path, px, wedge, written
from chexpoint.view.text import (
    LONG,
    clipped,
    count,
    first_line,
    printable,
    source_lines,
    xml_lines,
)

TREE_START = '<svg class="chex-tree'
"""How every picture of a tree begins, so that it is known again."""

_STRANDS = 3
"""Up to so many versions have a line each where they go the same way."""

_PITCH = 2.6
_CHAIN = 18.0  # width of a chain
_LISTED = 12  # versions or cells of a tooltip
_LONGEST = 200  # columns of one of its lines
_LEAST_WIDTH = 600.0  # so that the legend does not become a tower


def tree_svg(
    tree: ExecutionTree,
    *,
    checkpoints: Mapping[NodeId, str] | None = None,
    here: NodeId | None = None,
    width: int = 960,
    dark: bool | None = None,
) -> str:
    """Return a picture of a tree.

    Parameters
    ----------
    checkpoints
        The nodes that a checkpoint is held of, and what to call it.
    here
        The node of the live state.
    width
        How wide it should be at most, in pixels; it is wider if it must.
    dark
        Whether it is for a dark page; by default it takes the colours of the page around it, or,
        on its own, those that the system prefers.
    """
    held = dict(checkpoints or {})
    items = outline(tree, marked=held, here=here, most_columns=columns_that_fit(width))
    return _Picture(tree, held, here, lay_out(tree, items, width=width)).svg(width, dark)


class _Picture:
    def __init__(
        self,
        tree: ExecutionTree,
        checkpoints: Mapping[NodeId, str],
        here: NodeId | None,
        layout: Layout,
    ) -> None:
        self._tree = tree
        self._checkpoints = checkpoints
        self._here = here
        self._layout = layout
        self._costs = cost_scale(node.cost for node in tree.nodes.values())
        self._numbers = {version: number for number, version in enumerate(tree.versions)}
        self._lines = 12 if len(layout.spots) <= 200 else 4  # of a source in a tooltip

    def svg(self, width: int, dark: bool | None) -> str:
        layout = self._layout
        wide = max(layout.width, min(float(width), _LEAST_WIDTH))
        foot, high = legend(layout, self._marks(), wide)
        theme = "" if dark is None else " chex-dark" if dark else " chex-light"
        tree = self._tree
        size = f"{count(len(tree), 'cell')} and {count(len(tree.versions), 'version')}"
        area = f"{px(wide)} {px(layout.height + high)}"
        start = (
            f'{TREE_START}{theme}" xmlns="http://www.w3.org/2000/svg" role="img"'
            f' width="{px(wide)}" height="{px(layout.height + high)}" viewBox="0 0 {area}">'
        )
        parts = [
            start,
            f"<title>Execution tree of {size}</title>",
            f"<style>{TREE_RULES}</style>",
            *(self._edge(spot) for spot in sorted(layout.spots[1:], key=self._load, reverse=True)),
            *(self._label(label) for label in layout.labels),
            *(self._spot(spot) for spot in layout.spots),
            foot,
            "</svg>\n",
        ]
        return "\n".join(parts)

    def _marks(self) -> Marks:
        nodes = self._tree.nodes
        return Marks(
            costs=self._costs,
            largest_size=max((node.size for node in nodes.values()), default=0),
            has_checkpoint=any(node in nodes for node in self._checkpoints),
            has_here=self._here in nodes,
            has_failed=any(node.status == "error" for node in nodes.values()),
            note=self._note(),
        )

    def _note(self) -> str:
        if not self._tree.nodes:
            return "no cells are recorded yet"
        bundles = [spot.item for spot in self._layout.spots if spot.item.kind == "bundle"]
        if not bundles:
            return ""
        hidden = sum(len(item.ends) for item in bundles)
        cells = sum(len(item.nodes) for item in bundles)
        versions = len(self._tree.versions)
        if not hidden:
            return f"{count(cells, 'cell')} that no version leads through are counted, not drawn."
        return (
            f"{versions - hidden:,} of {count(versions, 'version')} are drawn, the newest ones; "
            f"the others, with {count(cells, 'cell')}, are counted where they branch off."
        )

    # ---------------------------------------------------------------- lines

    def _edge(self, spot: Spot) -> str:
        above = self._layout.spots[spot.item.parent]
        x1, y1 = above.x, above.y
        if above.item.kind == "chain":
            x1, y1 = (x1 + _CHAIN / 2, y1) if spot.y == y1 else (x1, y1 + above.radius)
        x2 = spot.x - _CHAIN / 2 if spot.item.kind == "chain" else spot.x
        if spot.item.kind == "bundle":
            return path("shared", elbow(x1, y1, x2 - 5, spot.y), self._thick(self._load(spot)))
        through = self._tree.through.get(spot.item.nodes[0], ())
        if not 0 < len(through) <= _STRANDS:
            return path("shared", elbow(x1, y1, x2, spot.y), self._thick(len(through)))
        return "".join(
            path(
                f"line {self._colour(version)}",
                elbow(x1, y1, x2, spot.y, (index - (len(through) - 1) / 2) * _PITCH),
            )
            for index, version in enumerate(through)
        )

    def _load(self, spot: Spot) -> int:
        """Return how many versions go through an item; lines of few must lie above others."""
        if spot.item.kind == "bundle":
            return len(spot.item.ends)
        return len(self._tree.through.get(spot.item.nodes[0], ()))

    @staticmethod
    def _thick(versions: int) -> float:
        return min(1.5 + math.log2(max(versions, 1)), 8.0)

    def _colour(self, version: Version) -> str:
        return f"v{self._numbers[version] % len(VERSION_COLOURS)}"

    def _label(self, label: Label) -> str:
        spot = self._layout.spots[label.spot]
        style = self._colour(label.versions[0]) if label.is_name else "shared"
        lead = ""
        if label.versions:
            lead = path(f"lead {style}", elbow(spot.x, spot.y, label.x - 4, label.y))
        text = written(label.x, label.y, label.text, "" if label.is_name else "faint")
        return f"<g>{self._title(self._label_title(label))}{lead}{text}</g>"

    def _label_title(self, label: Label) -> list[str]:
        if not label.is_name:
            return self._names(label.versions) or [
                str(self._layout.spots[label.spot].item.nodes[-1])
            ]
        (version,) = label.versions
        cost = sum(self._tree.nodes[n].cost for n in version.path if n in self._tree.nodes)
        lines = [self._tree.labels[version]]
        lines.append(f"{count(len(version.path), 'cell')}, {format_seconds(cost)}")
        lines += [f"{name} = {clipped(value, 80)}" for name, value in version.parameters[:_LISTED]]
        return [*lines, version.origin] if version.origin else lines

    # ---------------------------------------------------------------- things

    def _spot(self, spot: Spot) -> str:
        kind, x, y = spot.item.kind, spot.x, spot.y
        nodes = spot.item.nodes
        if kind == "root":
            shape = box(x, y, 8, 8, "root")
            return f"<g>{self._title(['fresh interpreter'])}{shape}</g>"
        if kind == "bundle":
            return f"<g>{self._title(self._bundle_title(spot))}{path('bundle', wedge(x, y))}</g>"
        if kind == "chain":
            number = str(len(nodes)) if len(nodes) < 1000 else f"{len(nodes) // 1000}k"
            shape = box(x, y, _CHAIN, 14, "chain", 7)
            shape += written(x, y, number, "small", "middle")
        else:
            colour = self._costs.colour(self._tree.nodes[nodes[0]].cost)
            shape = disc(x, y, spot.radius, "node", colour)
        title = self._node_title(nodes[0]) if kind == "node" else self._chain_title(nodes)
        return f"<g>{self._title(title)}{shape}{self._signs(spot)}{self._source(spot)}</g>"

    def _signs(self, spot: Spot) -> str:
        x, y, radius = spot.x, spot.y, spot.radius
        nodes = spot.item.nodes
        signs = ""
        if any(node in self._checkpoints for node in nodes):
            is_chain = spot.item.kind == "chain"
            around = box(x, y, _CHAIN + 5, 19, "ring", 9.5) if is_chain else ""
            signs += around or disc(x, y, radius + 3, "ring")
        if any(self._tree.nodes[node].status == "error" for node in nodes):
            # Beside the number of a chain, which must stay readable.
            aside = _CHAIN / 2 if spot.item.kind == "chain" else 0.0
            signs += path("cross", cross(x + aside, y - aside * 0.8, max(radius * 0.8 - aside, 4)))
        if self._here in nodes:
            signs += path("here", diamond(x, y, radius + 6))
        return signs

    def _source(self, spot: Spot) -> str:
        if not self._layout.has_sources or spot.item.kind != "node":
            return ""
        room = int((self._layout.gap - 6) / LETTER)
        line = clipped(first_line(self._tree.nodes[spot.item.nodes[0]].cell), room)
        # Above the largest disc and its signs, so that all sources of a row stand on one line.
        return written(spot.x, spot.y - self._layout.largest - 10, line, "faint", "middle")

    # ---------------------------------------------------------------- tooltips

    @staticmethod
    def _title(lines: list[str]) -> str:
        short = [clipped(printable(line[:_LONGEST]), _LONGEST) for line in lines]
        return f"<title>{xml_lines(short)}</title>"

    def _node_title(self, ident: NodeId) -> list[str]:
        node = self._tree.nodes[ident]
        changed = "" if node.delta is None else f", {format_size(node.delta)} of it changed"
        lines = [f"[{node.execution_count}] {ident[:LONG]}"]
        lines.append(f"{format_seconds(node.cost)}, {format_size(node.size)}{changed}")
        if ident in self._checkpoints:
            lines.append(f"checkpoint {self._checkpoints[ident]}".rstrip())
        if ident == self._here:
            lines.append("you are here")
        if node.status == "error":
            lines.append("failed")
        elif node.doubt:
            lines.append(f"may differ: {clipped(node.doubt, 120)}")
        lines += self._names(self._tree.through.get(ident, ()))
        source = source_lines(node.cell[:4000])
        more = ["..."] if len(source) > self._lines else []
        return [*lines, "", *(clipped(line, 120) for line in source[: self._lines]), *more]

    def _chain_title(self, nodes: tuple[NodeId, ...]) -> list[str]:
        lines = [self._sum(nodes), *self._names(self._tree.through.get(nodes[0], ())), ""]
        for ident in nodes[:_LISTED]:
            node = self._tree.nodes[ident]
            line = clipped(first_line(node.cell), 80)
            lines.append(f"[{node.execution_count}] {format_seconds(node.cost)}  {line}")
        return [*lines, "..."] if len(nodes) > _LISTED else lines

    def _bundle_title(self, spot: Spot) -> list[str]:
        return [self._sum(spot.item.nodes), *self._names(spot.item.ends)]

    def _sum(self, nodes: tuple[NodeId, ...]) -> str:
        found = [self._tree.nodes[node] for node in nodes]
        parts = [count(len(found), "cell"), format_seconds(sum(node.cost for node in found))]
        if held := sum(node in self._checkpoints for node in nodes):
            parts.append(count(held, "checkpoint"))
        if failed := sum(node.status == "error" for node in found):
            parts.append(f"{failed} failed")
        return ", ".join(parts)

    def _names(self, versions: tuple[Version, ...]) -> list[str]:
        """Return a line that names some versions, or none."""
        if not versions:
            return []
        names = [clipped(printable(self._tree.labels[v]), 60) for v in versions[:_LISTED]]
        if len(versions) > _LISTED:
            names.append(f"and {len(versions) - _LISTED} more")
        return [f"{'version' if len(versions) == 1 else 'versions'}: {', '.join(names)}"]
