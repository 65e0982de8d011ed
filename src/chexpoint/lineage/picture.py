"""A path of cells, with the files they read and wrote, as one SVG.

Cells stand in the middle, one below the other; what they read is on their left, what they wrote
on their right.  An object stands beside the first cell that used it.  A file that an earlier cell
of the path wrote has its arrow come back from the right.

Letters have a fixed width, so that what fits can be known without measuring.  There are no ids, and
all rules of style are below one class, so that several pictures can be put into one page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from typing import TypeVar

from chexpoint.lineage.table import columns, printable, shown_digest
from chexpoint.model import CellLineage, NodeId, format_seconds, format_size
from chexpoint.palette import DARK, LIGHT, ORANGE, SKY

T = TypeVar("T")

MANY = 8
"""More objects than this beside one cell are collapsed by folder."""

_LETTER = 7  # px, of a monospaced letter of 11 px; where letters are not rounded, 6.6
_FILE_WIDTH, _FILE_HEIGHT, _FILE_GAP = 240, 22, 6
_CELL_WIDTH, _CELL_GAP, _LINE = 300, 30, 16
_CHANNEL = 84
_MARGIN, _TOP = 12, 34
_LISTED = 20  # lines of a tooltip
_FILE_LETTERS = int((_FILE_WIDTH - 16) / _LETTER)
_CELL_LETTERS = int((_CELL_WIDTH - 20) / _LETTER)

_LEFT = _MARGIN
_CELLS = _LEFT + _FILE_WIDTH + _CHANNEL
_RIGHT = _CELLS + _CELL_WIDTH + _CHANNEL
_WIDTH = _RIGHT + _FILE_WIDTH + _MARGIN

# Only a picture that is a document of its own may choose its ink; in a page it takes the page's.
_STYLE = f"""
.chex-lineage text {{ font: 11px monospace; fill: currentColor; }}
.chex-lineage .strong {{ font-weight: bold; }}
.chex-lineage .faint {{ fill-opacity: 0.75; }}
.chex-lineage rect {{ fill: currentColor; fill-opacity: 0.05; }}
.chex-lineage .cell {{ stroke: currentColor; stroke-width: 1; }}
.chex-lineage .focus {{ stroke-width: 3; }}
.chex-lineage .incomplete {{ stroke-dasharray: 7 4; }}
.chex-lineage .mark {{ fill: none; stroke: currentColor; stroke-width: 1.2; }}
.chex-lineage .chain {{ fill: none; stroke: currentColor; stroke-width: 1.5; }}
.chex-lineage .chain-head {{ fill: currentColor; }}
.chex-lineage .read {{ stroke: {SKY}; }}
.chex-lineage .wrote {{ stroke: {ORANGE}; }}
.chex-lineage .missing {{ stroke-dasharray: 3 3; fill-opacity: 0; }}
.chex-lineage path.read, .chex-lineage path.wrote {{ fill: none; stroke-width: 1.3; }}
.chex-lineage polygon.read {{ fill: {SKY}; stroke: none; }}
.chex-lineage polygon.wrote {{ fill: {ORANGE}; stroke: none; }}
:root.chex-lineage {{ color: {LIGHT[0]}; }}
@media (prefers-color-scheme: dark) {{
:root.chex-lineage {{ color: {DARK[0]}; }}
}}
"""


def lineage_svg(path: Sequence[CellLineage], focus: NodeId | None = None) -> str:
    """Return a picture of some cells and their files.

    Parameters
    ----------
    path
        The cells, from the root on.
    focus
        The cell to draw with a thick border.
    """
    rows = _rows(path)
    height = _place(rows)
    body = [_head(path, height), *(_draw_cell(row, focus) for row in rows)]
    body += [_chain(above, below) for above, below in pairwise(rows)]
    body += _arrows(rows)
    body += [_draw_box(box) for row in rows for box in (*row.left, *row.right)]
    body.append("</svg>")
    return "\n".join(body) + "\n"


# ------------------------------------------------------------ what is drawn


@dataclass(frozen=True, slots=True)
class _Thing:
    """One object beside a cell."""

    name: str
    note: str = ""
    """What it is, if it is not just a file."""
    noun: str = "files"
    """What several of them are called."""
    is_missing: bool = False
    detail: str = ""


@dataclass(slots=True, eq=False)
class _Box:
    """One thing, or several of a folder."""

    label: str
    title: str
    is_missing: bool
    style: str = ""
    x: float = 0.0
    middle: float = 0.0


@dataclass(slots=True, eq=False)
class _Row:
    """A cell and the objects that stand beside it."""

    cell: CellLineage
    lines: list[tuple[str, str]]
    """What is written in the box: a mark and a text."""
    left: list[_Box] = field(default_factory=list)
    right: list[_Box] = field(default_factory=list)
    reads: list[_Box] = field(default_factory=list)
    """Boxes of any row, whose arrows lead here."""
    middle: float = 0.0

    @property
    def height(self) -> float:
        return _LINE * len(self.lines) + 14


def _rows(path: Sequence[CellLineage]) -> list[_Row]:
    counts = {cell.number: cell.execution_count for cell in path}
    rows: list[_Row] = []
    sources: dict[_Thing, _Box] = {}
    products: dict[tuple[int, str], _Box] = {}
    for cell in path:
        row = _Row(cell, _cell_lines(cell))
        outside, inside = _inputs(cell, products, counts)
        new = [thing for thing in outside if thing not in sources]
        row.left = _collapse(new, "read", sources)
        row.reads = _distinct([*(sources[thing] for thing in outside), *inside])
        written: dict[_Thing, _Box] = {}
        things = _effects(cell)
        row.right = _collapse(list(things.values()), "wrote", written)
        products |= {(cell.number, name): written[thing] for name, thing in things.items()}
        rows.append(row)
    return rows


def _inputs(
    cell: CellLineage, products: dict[tuple[int, str], _Box], counts: dict[int, int]
) -> tuple[list[_Thing], list[_Box]]:
    """Return what a cell took from outside the path, and from earlier cells of it."""
    outside, inside = [], []
    for found in cell.audit.inputs:
        unknown = []
        for digest in found.digests:
            word, _, number = digest.partition(":")
            is_product = word == "cell" and number.isdecimal()
            box = products.get((int(number), found.name)) if is_product else None
            if box is None:
                unknown.append(digest)
            else:
                inside.append(box)
        if not unknown and found.digests:
            continue
        is_missing = unknown[:1] == ["absent"]
        note, noun = {
            "file": ("", "files"),
            "folder": ("listed", "folders listed"),
            "look": ("looked at", "paths looked at"),
            "variable": ("variable", "variables"),
            "network": ("network", "peers"),
            "packages": ("packages", "packages"),
        }[found.kind]
        if is_missing:
            note, noun = f"{note} absent".strip(), f"absent {noun}"
        detail = ", then ".join(shown_digest(digest, counts) for digest in unknown)
        outside.append(_Thing(found.name, note, noun, is_missing, detail))
    return outside, inside


def _effects(cell: CellLineage) -> dict[str, _Thing]:
    """Return what a cell left behind, by name."""
    things = {}
    for effect in cell.audit.effects:
        if effect.kind == "transient":
            continue
        note, noun = {
            "written": ("", "files"),
            "held": ("still open", "files"),
            "deleted": ("deleted", "files deleted"),
            "folder": ("folder", "folders"),
        }[effect.kind]
        detail = shown_digest(effect.digest)
        if effect.digest:
            detail += f", {format_size(effect.size_bytes)}"
        things[effect.path] = _Thing(effect.path, note, noun, effect.kind == "deleted", detail)
    return things


def _cell_lines(cell: CellLineage) -> list[tuple[str, str]]:
    head = [f"[{cell.execution_count}]", format_seconds(cell.seconds)]
    if cell.size_bytes:
        head.append(format_size(cell.size_bytes))
    if cell.status == "error":
        head.append("failed")
    first = next((line for line in cell.source.splitlines() if line.strip()), "")
    lines = [("", " · ".join(head)), ("", first.strip())]
    if cell.audit.gaps or cell.audit.mechanism == "off":
        lines.append(("triangle", "inputs may be missing"))
    if cell.audit.hints:
        kinds = ", ".join(_distinct(hint.kind for hint in cell.audit.hints))
        lines.append(("diamond", f"may differ: {kinds}"))
    return lines


def _distinct(values: Iterable[T]) -> list[T]:
    return list(dict.fromkeys(values))


# ------------------------------------------------------------ boxes


def _collapse(things: list[_Thing], style: str, boxes: dict[_Thing, _Box]) -> list[_Box]:
    """Return the boxes of some things, and enter which thing went into which box."""
    made = []
    for noun in _distinct(thing.noun for thing in things):
        for folder, members in _by_folder([t for t in things if t.noun == noun]).items():
            box = _single(members[0]) if len(members) == 1 else _several(folder, members)
            box.style = style
            boxes |= dict.fromkeys(members, box)
            made.append(box)
    return made


def _by_folder(things: list[_Thing]) -> dict[str, list[_Thing]]:
    """Return things by name, or, if they are many, by the deepest folders that are few."""
    if len(things) <= MANY:
        return {thing.name: [thing] for thing in things}
    parts = [thing.name.split("/") for thing in things]
    for depth in range(max(map(len, parts)), 0, -1):
        groups: dict[str, list[_Thing]] = {}
        for thing, words in zip(things, parts, strict=True):
            groups.setdefault("/".join(words[:depth]) + "/", []).append(thing)
        if len(groups) <= MANY:
            return groups
    return {"": things}


def _single(thing: _Thing) -> _Box:
    name = printable(thing.name) or thing.noun
    note = f" ({thing.note})" if thing.note and thing.note != name else ""
    title = "\n".join(filter(None, (name + note, thing.detail)))
    return _Box(shortened(name, _FILE_LETTERS - len(note)) + note, title, thing.is_missing)


def _several(folder: str, things: list[_Thing]) -> _Box:
    count = f"{len(things)} {things[0].noun}"
    title = [f"{printable(folder)} {count}".strip()]
    title += [printable(thing.name) for thing in things[:_LISTED]]
    if len(things) > _LISTED:
        title.append(f"and {len(things) - _LISTED} more")
    name = shortened(printable(folder), _FILE_LETTERS - len(count) - 1)
    return _Box(f"{name} {count}".strip(), "\n".join(title), things[0].is_missing)


def shortened(text: str, room: int) -> str:
    """Return a text with as much of its middle left out as does not fit into some columns."""
    if columns(text) <= room:
        return text
    half = (len(text) + 1) // 2
    head, tail = text[: min(half, room)], text[max(half, len(text) - room) :]
    while columns(head) > (room - 1) // 2:
        head = head[:-1]
    while columns(tail) > room - 1 - columns(head):
        tail = tail[1:]
    return f"{head}…{tail}"


# ------------------------------------------------------------ where it stands


def _place(rows: list[_Row]) -> float:
    """Give everything its place, and return the height of the picture."""
    top = float(_TOP)
    for row in rows:
        stacks = ((_LEFT, row.left), (_RIGHT, row.right))
        step = _FILE_HEIGHT + _FILE_GAP
        height = max(row.height, *(len(boxes) * step - _FILE_GAP for _, boxes in stacks))
        row.middle = top + height / 2
        for x, boxes in stacks:
            for index, box in enumerate(boxes):
                box.x = x
                box.middle = row.middle + (index - (len(boxes) - 1) / 2) * step
        top += height + _CELL_GAP
    return max(top - _CELL_GAP, _TOP) + _MARGIN


# ------------------------------------------------------------ SVG


def _head(path: Sequence[CellLineage], height: float) -> str:
    if not path:
        middle = "no cells"
    elif path[0].number > 1:
        middle = "cells (earlier ones are not recorded)"
    else:
        middle = "cells"
    label = f"Lineage of {len(path)} cell{'' if len(path) == 1 else 's'}"
    heads = (
        (_LEFT + _FILE_WIDTH / 2, "read"),
        (_CELLS + _CELL_WIDTH / 2, middle),
        (_RIGHT + _FILE_WIDTH / 2, "written"),
    )
    return (
        '<svg class="chex-lineage" xmlns="http://www.w3.org/2000/svg" role="img"'
        f' width="{_WIDTH}" height="{_px(height)}" viewBox="0 0 {_WIDTH} {_px(height)}">\n'
        f"<title>{label}</title>\n<style>{_STYLE}</style>\n"
        + "".join(_text(x, 20, text, "faint", "middle") for x, text in heads)
    )


def _draw_cell(row: _Row, focus: NodeId | None) -> str:
    cell = row.cell
    style = "cell"
    if cell.node == focus:
        style += " focus"
    if any(mark == "triangle" for mark, _ in row.lines):
        style += " incomplete"
    top = row.middle - row.height / 2
    source = [printable(line) for line in cell.source.expandtabs(4).splitlines()]
    more = ["..."] if len(source) > _LISTED else []
    remarks = [printable(text) for text in (*cell.audit.gaps, *(h.what for h in cell.audit.hints))]
    parts = [
        f"<g><title>{escape(chr(10).join([*source[:_LISTED], *more, *remarks]))}</title>",
        _rect(_CELLS, top, _CELL_WIDTH, row.height, 6, style),
    ]
    for index, (mark, text) in enumerate(row.lines):
        base = top + 18 + index * _LINE
        indent = 16 if mark else 0
        fitting = shortened(printable(text), _CELL_LETTERS - (3 if mark else 0))
        if mark:
            parts.append(f'<path class="mark" d="{_MARKS[mark](_CELLS + 10, base)}"/>')
        look = "strong" if index == 0 else ""
        parts.append(_text(_CELLS + 10 + indent, base, fitting, look))
    return "".join([*parts, "</g>"])


_MARKS = {
    "triangle": lambda x, base: f"M{_px(x)} {_px(base)}l5 -9l5 9z",
    "diamond": lambda x, base: f"M{_px(x)} {_px(base - 4)}l5 -5l5 5l-5 5z",
}


def _draw_box(box: _Box) -> str:
    style = f"{box.style} missing" if box.is_missing else box.style
    top = box.middle - _FILE_HEIGHT / 2
    return (
        f"<g><title>{escape(box.title)}</title>"
        + _rect(box.x, top, _FILE_WIDTH, _FILE_HEIGHT, 3, style)
        + _text(box.x + 8, box.middle + 4, box.label)
        + "</g>"
    )


def _chain(above: _Row, below: _Row) -> str:
    x = _CELLS + _CELL_WIDTH / 2
    start, end = above.middle + above.height / 2, below.middle - below.height / 2
    return (
        f'<path class="chain" d="M{_px(x)} {_px(start)}V{_px(end - 7)}"/>'
        f'<polygon class="chain-head" points="{_px(x - 4)},{_px(end - 8)} {_px(x + 4)},'
        f'{_px(end - 8)} {_px(x)},{_px(end - 1)}"/>'
    )


def _arrows(rows: list[_Row]) -> list[str]:
    arrows = []
    for row in rows:
        left = sorted((b for b in row.reads if b.x == _LEFT), key=lambda box: box.middle)
        back = sorted((b for b in row.reads if b.x == _RIGHT), key=lambda box: box.middle)
        ports = _ports(row, len(left))
        arrows += [
            _arrow("read", _LEFT + _FILE_WIDTH, box.middle, _CELLS, port)
            for box, port in zip(left, ports, strict=True)
        ]
        # What comes back comes from above, so its ports are above those of what goes out.
        ports, edge = _ports(row, len(back) + len(row.right)), _CELLS + _CELL_WIDTH
        arrows += [
            _arrow("read", _RIGHT, box.middle + 6, edge, port)
            for box, port in zip(back, ports[: len(back)], strict=True)
        ]
        arrows += [
            _arrow("wrote", edge, port, _RIGHT, box.middle)
            for box, port in zip(row.right, ports[len(back) :], strict=True)
        ]
    return arrows


def _ports(row: _Row, count: int) -> list[float]:
    """Return where arrows touch a cell, evenly along its side."""
    top = row.middle - row.height / 2
    return [top + row.height * (index + 1) / (count + 1) for index in range(count)]


def _arrow(style: str, x1: float, y1: float, x2: float, y2: float) -> str:
    way = 1 if x2 > x1 else -1
    bend, base = way * _CHANNEL * 0.55, x2 - way * 7
    return (
        f'<path class="{style}" d="M{_px(x1)} {_px(y1)}C{_px(x1 + bend)} {_px(y1)} '
        f'{_px(base - bend)} {_px(y2)} {_px(base)} {_px(y2)}"/>'
        f'<polygon class="{style}" points="{_px(base)},{_px(y2 - 3.5)} {_px(base)},'
        f'{_px(y2 + 3.5)} {_px(x2 - way)},{_px(y2)}"/>'
    )


def _rect(x: float, y: float, width: float, height: float, corner: int, style: str) -> str:
    return (
        f'<rect class="{style}" x="{_px(x)}" y="{_px(y)}" width="{_px(width)}"'
        f' height="{_px(height)}" rx="{corner}"/>'
    )


def _text(x: float, y: float, text: str, style: str = "", anchor: str = "start") -> str:
    look = f' class="{style}"' if style else ""
    where = f' text-anchor="{anchor}"' if anchor != "start" else ""
    return f'<text{look} x="{_px(x)}" y="{_px(y)}"{where}>{escape(text)}</text>'


def _px(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
