"""An experiment graph as one SVG: cells, what they made, what of it is stored, who reads it.

What is stored is told by the border, the sign and a word, so that no colour has to be told apart.
"""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator, Mapping

from chexpoint.model import (
    Artifact,
    ArtifactId,
    Operation,
    OperationId,
    format_seconds,
    format_size,
)
from chexpoint.palette import CHECKPOINT, DARK, GREY, HERE, LIGHT, RECOMPUTED, REUSED
from chexpoint.view.graph_layout import (
    ARTIFACT_HEIGHT,
    BOX_WIDTH,
    CELL_HEIGHT,
    GRAPH_MARGIN,
    CellPlace,
    GraphLayout,
    GraphPart,
    graph_part,
    lay_out_graph,
)
from chexpoint.view.graph_rows import ArtifactRow, artifact_facts, cell_line, what_text
from chexpoint.view.layout import LETTER
from chexpoint.view.style import TREE_RULES
from chexpoint.view.svg import box, cross, path, px, written
from chexpoint.view.text import clipped, count, printable, source_lines, xml_lines

GRAPH_START = '<svg class="chex-graph'
"""How every picture of an experiment graph begins, so that it is known again."""

_LEAST_WIDTH = 640.0
_ROOM = int((BOX_WIDTH - 12) / LETTER)
_SMALL_ROOM = int((BOX_WIDTH - 12) / 5.5)  # letters of 9 pixels
_TITLE_LINES, _TITLE_COLUMNS = 14, 160
_LINE = 20.0

GRAPH_RULES = f"""{TREE_RULES}
.chex-graph .paper {{
  fill: var(--jp-layout-color0, var(--vscode-editor-background, Canvas)); }}
.chex-graph .cellbox {{ fill: {GREY}; fill-opacity: 0.16; stroke: currentColor; }}
.chex-graph .open {{ fill: none; stroke: {GREY}; stroke-width: 1.2; stroke-dasharray: 4 3; }}
.chex-graph .inline {{ fill: none; stroke: {CHECKPOINT.colour}; stroke-width: 1.2; }}
.chex-graph .kept {{ fill: {CHECKPOINT.colour}; fill-opacity: 0.14;
  stroke: {CHECKPOINT.colour}; stroke-width: 2.2; }}
.chex-graph .keptsign {{ fill: {CHECKPOINT.colour}; stroke: {CHECKPOINT.colour}; }}
.chex-graph .halfsign {{ fill: none; stroke: {CHECKPOINT.colour}; stroke-width: 1.4; }}
.chex-graph .no {{ fill: none; stroke: {GREY}; stroke-width: 1.6; }}
.chex-graph .run {{ fill: none; stroke: {RECOMPUTED.colour}; stroke-width: 2.6; }}
.chex-graph .load {{ fill: none; stroke: {REUSED.colour}; stroke-width: 2.6; }}
.chex-graph .aim {{ fill: none; stroke: {HERE.colour}; stroke-width: 2.6; }}
.chex-graph .edge {{ fill: none; stroke: {GREY}; stroke-width: 1.2; }}
.chex-graph .idle {{ opacity: 0.55; }}
svg:root.chex-graph .paper, .chex-graph.chex-light .paper {{ fill: {LIGHT[1]}; }}
@media (prefers-color-scheme: dark) {{
svg:root.chex-graph .paper {{ fill: {DARK[1]}; }}
}}
svg:root.chex-graph.chex-light .paper {{ fill: {LIGHT[1]}; }}
.chex-graph.chex-dark .paper, svg:root.chex-graph.chex-dark .paper {{ fill: {DARK[1]}; }}
"""


def graph_svg(
    operations: Mapping[OperationId, Operation],
    artifacts: Mapping[ArtifactId, Artifact],
    *,
    target: ArtifactId | None = None,
    run: Collection[OperationId] = (),
    load: Collection[ArtifactId] = (),
    needed: Collection[OperationId] | None = None,
    width: int = 960,
    dark: bool | None = None,
) -> str:
    """Return a picture of an experiment graph.

    Of a large one only the newest and the most useful cells are drawn, and it says so.

    Parameters
    ----------
    target
        An artifact that is wanted.
    run, load
        What would be run and loaded to have it.
    needed
        Draw only these operations.
    width
        How wide it may be, in pixels.
    dark
        The theme; None takes that of the page, or of the system where there is no page.
    """
    part = graph_part(operations, artifacts, wanted=needed)
    layout = lay_out_graph(part, width=max(float(width), _LEAST_WIDTH))
    picture = _Picture(part, layout, target=target, run=run, load=load)
    return picture.svg(whole=needed is None, dark=dark)


class _Picture:
    def __init__(
        self,
        part: GraphPart,
        layout: GraphLayout,
        *,
        target: ArtifactId | None,
        run: Collection[OperationId],
        load: Collection[ArtifactId],
    ) -> None:
        self._part, self._layout = part, layout
        self._target, self._run, self._load = target, frozenset(run), frozenset(load)

    def svg(self, *, whole: bool, dark: bool | None) -> str:
        layout, part = self._layout, self._part
        wide = max(layout.width, _LEAST_WIDTH)
        foot, high = self._legend(wide, whole=whole)
        theme = "" if dark is None else " chex-dark" if dark else " chex-light"
        size = f"{px(wide)} {px(layout.height + high)}"
        cells = count(len(part.operations), "cell")
        start = (
            f'{GRAPH_START} chex-tree{theme}" xmlns="http://www.w3.org/2000/svg" role="img"'
            f' width="{px(wide)}" height="{px(layout.height + high)}" viewBox="0 0 {size}">'
        )
        return "\n".join(
            [
                start,
                f"<title>Experiment graph of {cells} and {len(part.artifacts):,} artifacts</title>",
                f"<style>{GRAPH_RULES}</style>",
                *self._lines(),
                *(self._cell(place) for place in layout.cells),
                foot,
                "</svg>\n",
            ]
        )

    # ---------------------------------------------------------------- lines

    def _lines(self) -> Iterator[str]:
        tops = {place.operation.id: place for place in self._layout.cells}
        for artifact, operation in self._layout.lines:
            x1, y1 = self._layout.spots[artifact]
            place = tops[operation]
            y1, y2 = y1 + ARTIFACT_HEIGHT / 2, place.y - CELL_HEIGHT / 2
            yield path(self._faded("edge", operation=operation), _curve(x1, y1, place.x, y2))
        for place in self._layout.cells:
            for _, x, y in place.artifacts:
                start, end = place.y + CELL_HEIGHT / 2, y - ARTIFACT_HEIGHT / 2
                style = self._faded("edge", operation=place.operation.id)
                yield path(style, _curve(place.x, start, x, end))

    def _faded(
        self,
        style: str,
        *,
        operation: OperationId | None = None,
        artifact: ArtifactId | None = None,
    ) -> str:
        """Return a style, fainter for what has no part in the plan."""
        if self._target is None or operation in self._run:
            return style
        return style if artifact in self._load or artifact == self._target else f"{style} idle"

    # ---------------------------------------------------------------- boxes

    def _cell(self, place: CellPlace) -> str:
        operation = place.operation
        x, y = place.x, place.y
        runs = f" x{operation.frequency}" if operation.frequency > 1 else ""
        word = "run, " if operation.id in self._run else ""
        more = f", +{place.more} variables" if place.more else ""
        mark = "" if not operation.doubt else ", never reused"
        told = f"{word}{format_seconds(operation.seconds)}{runs}{mark}{more}"
        # Never faint, so that no line is seen through it.
        paper = box(x, y, BOX_WIDTH, CELL_HEIGHT, "paper", 3)
        shape = box(x, y, BOX_WIDTH, CELL_HEIGHT, "cellbox", 3)
        if operation.id in self._run:
            shape += box(x, y, BOX_WIDTH + 3, CELL_HEIGHT + 3, "run", 4)
        shape += written(x, y - 8, clipped(cell_line(operation.source), _ROOM), "", "middle")
        shape += written(x, y + 8, clipped(told, _SMALL_ROOM), "small faint", "middle")
        style = self._faded("", operation=operation.id).strip()
        look = f' class="{style}"' if style else ""
        title = _title(_cell_title(operation))
        below = "".join(
            self._artifact(artifact, place.operation, ax, ay)
            for artifact, ax, ay in place.artifacts
        )
        return f"{paper}<g{look}>{title}{shape}</g>{below}"

    def _artifact(self, artifact: Artifact, operation: Operation, x: float, y: float) -> str:
        stored = artifact.stored
        style = "open" if stored is None else "kept" if stored.image else "inline"
        paper = box(x, y, BOX_WIDTH, ARTIFACT_HEIGHT, "paper", 12)
        shape = box(x, y, BOX_WIDTH, ARTIFACT_HEIGHT, style, 12)
        if artifact.id == self._target:
            shape += box(x, y, BOX_WIDTH + 5, ARTIFACT_HEIGHT + 5, "aim", 14)
        elif artifact.id in self._load:
            shape += box(x, y, BOX_WIDTH + 3, ARTIFACT_HEIGHT + 3, "load", 13)
        names = printable(", ".join(artifact.group.names))
        shape += written(x, y - 15, clipped(names, _ROOM), "", "middle")
        shape += written(x, y, clipped(what_text(artifact), _SMALL_ROOM), "small faint", "middle")
        sign, room = _sign(artifact, x - BOX_WIDTH / 2 + 12, y + 14)
        told = clipped(self._told(artifact), _SMALL_ROOM - 1)
        shape += sign + written(x + room, y + 14, told, "small", "middle")
        faded = self._faded("", operation=operation.id, artifact=artifact.id).strip()
        look = f' class="{faded}"' if faded else ""
        facts = artifact_facts(ArtifactRow(artifact=artifact, operation=operation))
        lines = [f"{name}: {value}" for name, value in facts if name not in {"cell", "computing"}]
        return f"{paper}<g{look}>{_title(lines)}{shape}</g>"

    def _told(self, artifact: Artifact) -> str:
        words = [format_size(artifact.group.size_bytes)]
        if artifact.score is not None:
            words.insert(0, f"score {artifact.score:.4g}")
        if artifact.id in self._load:
            words.insert(0, "load")
        elif artifact.stored is not None:
            words.append("stored" if artifact.stored.image else "in graph")
        return ", ".join(words)

    # ---------------------------------------------------------------- below

    def _legend(self, wide: float, *, whole: bool) -> tuple[str, float]:
        """Return what the signs mean as SVG, and its height."""
        x, y, drawn = GRAPH_MARGIN, self._layout.height + _LINE / 2, []
        for style, text in self._entries():
            room = 34 + (len(text) + 3) * LETTER
            if x > GRAPH_MARGIN and x + room > wide - GRAPH_MARGIN:
                x, y = GRAPH_MARGIN, y + _LINE
            corner = 3 if style in {"cellbox", "run"} else 7
            drawn.append(box(x + 12, y, 24, 14, style, corner) + written(x + 32, y, text, "faint"))
            x += room
        for line in textwrap.wrap(self._note(whole=whole), int((wide - 2 * GRAPH_MARGIN) / LETTER)):
            y += _LINE
            drawn.append(written(GRAPH_MARGIN, y, line, "faint"))
        return "".join(drawn), y + _LINE - self._layout.height

    def _entries(self) -> Iterator[tuple[str, str]]:
        if not self._part.operations:
            return
        yield "cellbox", "cell"
        stored = [each.stored for each in self._part.artifacts.values()]
        if any(each is not None and each.image for each in stored):
            yield "kept", "variable, stored"
        if any(each is not None and not each.image for each in stored):
            yield "inline", "little, in the graph itself"
        if any(each is None for each in stored):
            yield "open", "not stored"
        if self._target is not None:
            yield "aim", "wanted"
        if self._load:
            yield "load", "would be loaded"
        if self._run:
            yield "run", "would be run"

    def _note(self, *, whole: bool) -> str:
        drawn, known = len(self._part.operations), self._part.all_operations
        if not known:
            return "no cell is in the graph yet"
        if whole and drawn < known:
            return (
                f"{drawn:,} of {count(known, 'cell')} are drawn: the newest, and older ones that "
                "are worth most. chex graph --json tells all, --for VARIABLE draws what leads to "
                "one."
            )
        if not whole:
            return f"Drawn is what leads to the variable: {drawn:,} of {count(known, 'cell')}."
        return ""


def _curve(x1: float, y1: float, x2: float, y2: float) -> str:
    """Return the way from one point down to another."""
    bend = max(abs(y2 - y1) / 2, 6.0)
    return f"M{px(x1)} {px(y1)}C{px(x1)} {px(y1 + bend)} {px(x2)} {px(y2 - bend)} {px(x2)} {px(y2)}"


def _sign(artifact: Artifact, x: float, y: float) -> tuple[str, float]:
    """Return the sign for where the contents are, and how far the text moves for it."""
    if artifact.stored is None:
        sign = path("no", cross(x, y, 3.5)) if artifact.group.why_not else ""
        return sign, 6.0 if sign else 0.0
    return box(x, y, 8, 8, "keptsign" if artifact.stored.image else "halfsign", 1), 6.0


def _cell_title(operation: Operation) -> list[str]:
    lines = source_lines(operation.source)[:_TITLE_LINES]
    told = [f"{format_seconds(operation.seconds)}, {count(operation.frequency, 'run')}"]
    if operation.user:
        told.append(f"by {operation.user}")
    if operation.doubt:
        told.append(f"never reused: {operation.doubt}")
    if operation.sticky:
        told.append(f"always run: {operation.sticky}")
    return [*lines, *told]


def _title(lines: list[str]) -> str:
    """Return what is shown at the pointer."""
    short = [clipped(printable(line[: 4 * _TITLE_COLUMNS]), _TITLE_COLUMNS) for line in lines]
    return f"<title>{xml_lines(short)}</title>"
