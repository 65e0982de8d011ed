"""A store as text: its size, its images and how it grew; what a check found; what a sweep freed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo

from chexpoint.model import Damage, FsckReport, GcReport, StoreUsage, format_size
from chexpoint.view.store_rows import (
    HEAD,
    NUMBERS,
    StoreRow,
    lost_text,
    lost_variables,
    row_texts,
    store_facts,
    store_rows,
)
from chexpoint.view.text import aligned, clipped, columns, count, listed, padded, printable

MOST_ROWS = 30
"""More images would push what matters off the screen."""

_MOST_LOST = 8
_LONGEST_NAME = 44  # columns
_CHART_ROWS, _CHART_COLUMNS = 6, 60
_STATE, _STORED = ":", "#"  # letters that every terminal has


def store_text(
    usage: StoreUsage,
    *,
    names: Mapping[str, str] | None = None,
    width: int = 100,
    zone: tzinfo | None = None,
) -> str:
    """Return a store as text: facts, images with the newest last, and how it grew.

    Parameters
    ----------
    names
        What to call images; see `image_names`.
    width
        How many columns a line may take.
    zone
        Where times are told; by default, here.
    """
    rows = store_rows(usage, names)
    blocks = [aligned([(f"{name}:", value) for name, value in store_facts(usage)])]
    if rows:
        blocks += [list(_table(rows, zone)), list(_lost(usage)), list(_chart(rows, width))]
    return "\n\n".join(
        "\n".join(clipped(line, width) for line in lines) for lines in blocks if lines
    )


def fsck_text(report: FsckReport) -> str:
    """Return what a check found, and what to do about it."""
    checked = (
        f"{format_size(report.checked_bytes)} checked: {count(report.images, 'image')} in "
        f"{count(report.packs, 'pack')}"
    )
    if not report.damages:
        return f"{checked}, nothing is damaged"
    lines = [f"{checked}, {count(len(report.damages), 'damage')}"]
    for damage in report.damages:
        lines += _damage(damage)
    left = sum(not damage.repaired for damage in report.damages)
    if left:
        lines.append(f"{left:,} not repaired: chex fsck --repair does what can be done")
    else:
        lines.append("all is repaired: states that were lost are computed again when needed")
    return "\n".join(lines)


def gc_text(report: GcReport, *, is_dry: bool = False) -> str:
    """Return what a sweep freed.

    Parameters
    ----------
    is_dry
        Whether it is only what a sweep would free, as far as that is known before.
    """
    numbers = ((report.images, "image"), (report.packs, "pack"))
    gone = " and ".join(count(number, noun) for number, noun in numbers if number)
    what = f": {gone}" if gone else ""
    verb = (
        "would free at least" if is_dry and report.images else "would free" if is_dry else "freed"
    )
    lines = [f"{verb} {format_size(report.freed_bytes)}{what}"]
    if report.kept_busy:
        lines.append(
            f"{count(report.kept_busy, 'more pack')} in use now: run chex gc again when the "
            "kernels have ended"
        )
    return "\n".join(lines)


# ---------------------------------------------------------------- images


def _table(rows: Sequence[StoreRow], zone: tzinfo | None) -> Iterator[str]:
    older = len(rows) - MOST_ROWS
    if older > 0:
        yield f"{count(older, 'older image')}; --json lists all"
    texts = [HEAD, *(row_texts(row, zone) for row in rows[-MOST_ROWS:])]
    # Columns that say nothing are left out; what matters less stands further right, and is cut.
    kept = [i for i in range(len(HEAD)) if any(text[i] for text in texts[1:])]
    table = [[clipped(text[i], _LONGEST_NAME) for i in kept] for text in texts]
    yield from aligned(table, [kept.index(i) for i in NUMBERS])


def _lost(usage: StoreUsage) -> Iterator[str]:
    lost = lost_variables(usage)
    if lost:
        yield "not stored, and made again by their cells:"
        yield from (f"  {lost_text(each)}" for each in lost[:_MOST_LOST])
    if len(lost) > _MOST_LOST:
        yield f"  and {len(lost) - _MOST_LOST:,} more"


def _damage(damage: Damage) -> Iterator[str]:
    yield f"  {printable(damage.what)}: {printable(damage.why)}"
    lost = [printable(name) for name in damage.images if damage.what != f"image {name}"]
    if lost:
        yield f"    lost with it: {listed(lost, 80)}"
    if damage.repaired:
        yield f"    repaired: {printable(damage.repaired)}"


# ---------------------------------------------------------------- growth


def _chart(rows: Sequence[StoreRow], width: int) -> Iterator[str]:
    """Yield a small chart: how the states grew, and how the store did."""
    last = rows[-1]
    top = max(last.states, last.stored)
    if len(rows) < 2 or not top:
        return
    label = format_size(top)
    room = max(min(width - columns(label) - 2, _CHART_COLUMNS), 10)
    places = [rows[place * len(rows) // room] for place in range(room)]
    states = [_height(row.states, top) for row in places]
    stored = [_height(row.stored, top) for row in places]
    for level in range(_CHART_ROWS, 0, -1):
        bars = "".join(
            _STORED if low >= level else _STATE if high >= level else " "
            for high, low in zip(states, stored, strict=True)
        )
        yield f"{padded(label if level == _CHART_ROWS else '', columns(label))} │{bars.rstrip()}"
    yield f"{' ' * columns(label)} ├{'─' * room}"
    yield (
        f"{' ' * columns(label)}  {_STATE} {format_size(last.states)} of states   "
        f"{_STORED} {format_size(last.stored)} stored   from the first to the last image"
    )


def _height(size: int, top: int) -> int:
    """Return the rows that a size takes; what is there is seen."""
    return max(round(_CHART_ROWS * size / top), 1) if size else 0
