"""Where everything of a picture of a tree stands; drawing it is left to others.

From left to right, one column for each cell.  Each end of a branch has a row of its own, and a cell
stands in the row of the first one after it; so right of an end there is only its label, and lines
that go down from a cell meet no label.  Letters have a fixed width, so that what fits can be known
without measuring.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chexpoint.model import ExecutionTree, Version
from chexpoint.view.outline import LABELS, Item, Outline, label_rows
from chexpoint.view.scale import SizeScale
from chexpoint.view.text import clipped, columns, count, printable, short

LETTER = 7.0
"""Width of a letter of 11 px; where letters are not rounded, it is 6.6."""

MARGIN = 18.0
MIN_GAP, MAX_GAP = 22.0, 120.0
LABEL_LETTERS = 28
LABEL_LEAD = 14.0
"""Between the largest disc and a label."""

# Sources are written above the discs where columns are wide and rows few.
_SOURCE_GAP, _SOURCE_ROWS = 72.0, 24
_SOURCE_ROW, _WIDE_ROW, _NARROW_ROW = 48.0, 27.0, 21.0
_LABEL_ROW = 18.0
_WIDE_ROWS = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Spot:
    """An item and its middle."""

    item: Item
    x: float
    y: float
    radius: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """A text right of an item, and the box it takes."""

    spot: int
    """The place of the item it belongs to."""
    text: str
    versions: tuple[Version, ...] = ()
    """Those that are meant; none if it names a node."""
    is_name: bool
    """Whether it is the label of a version; else it counts them, or names a node."""
    x: float
    """Its left end."""
    y: float
    """Its middle."""
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A tree with all its positions, in pixels."""

    spots: tuple[Spot, ...]
    """In the order of the outline."""
    labels: tuple[Label, ...]
    gap: float
    """From one column to the next."""
    largest: float
    """Radius of the largest disc."""
    has_sources: bool
    """Whether there is room for sources above the discs."""
    width: float
    height: float


def columns_that_fit(width: float) -> int:
    """Return how many columns a picture can have beside the longest labels."""
    return max(4, int((width - 2 * MARGIN - LABEL_LEAD - 9 - LABEL_LETTERS * LETTER) / MIN_GAP))


def lay_out(tree: ExecutionTree, items: Outline, *, width: float = 960) -> Layout:
    """Return where the items of an outline stand.

    Parameters
    ----------
    width
        How wide the picture should be at most; it is wider if it must.
    """
    rows, label_starts, row_count = _rows(items)
    texts = [_labels(tree.labels, item, _is_leaf(items, place)) for place, item in enumerate(items)]
    deepest = max(item.column for item in items)
    longest = max((columns(text) for found in texts for text, _ in found), default=0)
    room = width - 2 * MARGIN - LABEL_LEAD - 9 - longest * LETTER
    gap = min(max(room / max(deepest, 1), MIN_GAP), MAX_GAP)
    has_sources = gap >= _SOURCE_GAP and row_count <= _SOURCE_ROWS
    row = _SOURCE_ROW if has_sources else _WIDE_ROW if row_count <= _WIDE_ROWS else _NARROW_ROW
    largest = 9.0 if gap >= 30 and row >= _WIDE_ROW else 6.0
    scale = SizeScale(
        largest=max((node.size for node in tree.nodes.values()), default=0),
        least_px=3.5,
        most_px=largest,
    )
    heights = _heights(rows, row_count, row, MARGIN + (14 if has_sources else 0))
    spots = tuple(
        Spot(
            item=item,
            x=MARGIN + item.column * gap,
            y=heights[rows[place]],
            radius=_radius(tree, item, scale),
        )
        for place, item in enumerate(items)
    )
    labels = tuple(
        Label(
            spot=place,
            text=text,
            versions=versions,
            is_name=len(versions) == 1 and items[place].kind != "bundle",
            x=spots[place].x + largest + LABEL_LEAD,
            y=heights[label_starts[place] + index],
            width=columns(text) * LETTER,
        )
        for place, found in enumerate(texts)
        for index, (text, versions) in enumerate(found)
    )
    right = max([spot.x + largest for spot in spots] + [lab.x + lab.width for lab in labels])
    return Layout(
        spots=spots,
        labels=labels,
        gap=gap,
        largest=largest,
        has_sources=has_sources,
        width=right + MARGIN,
        height=heights[-1] + MARGIN,
    )


def _is_leaf(items: Outline, place: int) -> bool:
    """Return whether nothing hangs at an item: what does comes right after it."""
    return place + 1 == len(items) or items[place + 1].parent != place


def _rows(items: Outline) -> tuple[list[int], list[int], int]:
    """Return the row of each item, that of its first label, and how many rows there are."""
    below: list[list[int]] = [[] for _ in items]
    for place, item in enumerate(items[1:], start=1):
        below[item.parent].append(place)
    rows, labels, used = [0] * len(items), [0] * len(items), 0
    # A place is waiting twice: to be entered, and, once all below it is done, to be left.
    waiting = [(0, False)]
    while waiting:
        place, is_done = waiting.pop()
        item = items[place]
        if not is_done and below[place]:
            waiting.append((place, True))
            waiting += [(child, False) for child in reversed(below[place])]
            continue
        rows[place] = rows[below[place][0]] if below[place] else used
        labels[place] = used
        if item.kind == "bundle" or not below[place]:
            used += max(1, 0 if item.kind == "bundle" else label_rows(item.ends))
        else:
            used += label_rows(item.ends)
    return rows, labels, used


def _heights(rows: list[int], row_count: int, row: float, top: float) -> list[float]:
    """Return how far down each row is; rows with nothing but a label take less."""
    with_items = set(rows)
    heights = [top]
    for index in range(1, row_count):
        heights.append(heights[-1] + (row if index in with_items else min(row, _LABEL_ROW)))
    return heights


def _labels(
    names: Mapping[Version, str], item: Item, is_leaf: bool
) -> list[tuple[str, tuple[Version, ...]]]:
    """Return what is written beside an item, and the versions that are meant."""
    if item.kind == "bundle":
        what = count(len(item.ends), "version") if item.ends else count(len(item.nodes), "cell")
        return [(f"+{what}", item.ends)]
    if not item.ends:
        return [(short(item.nodes[-1]), ())] if is_leaf and item.nodes else []
    alone = item.ends if len(item.ends) <= LABELS else item.ends[: LABELS - 1]
    rest = item.ends[len(alone) :]
    found: list[tuple[str, tuple[Version, ...]]]
    found = [(clipped(printable(names[end]), LABEL_LETTERS), (end,)) for end in alone]
    return [*found, (f"+{count(len(rest), 'version')}", rest)] if rest else found


def _radius(tree: ExecutionTree, item: Item, scale: SizeScale) -> float:
    if item.kind == "node":
        return scale.radius(tree.nodes[item.nodes[0]].size)
    return {"root": 4.0, "chain": 7.0, "bundle": 6.0}[item.kind]
