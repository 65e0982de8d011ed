"""How two tables compare: cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from chexpoint.compare.finding import SAME, Finding, change, worst
from chexpoint.compare.numbers import has_close_numbers
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance

Row = Sequence[str]


def compare_tables(
    recorded: Iterable[Row], replayed: Iterable[Row], tolerance: Tolerance
) -> Finding:
    """Return how two tables compare; the header is the first row."""
    return worst(_findings(recorded, replayed, tolerance))


def _findings(
    recorded: Iterable[Row], replayed: Iterable[Row], tolerance: Tolerance
) -> Iterator[Finding]:
    is_close = False
    for number, (old, new) in enumerate(zip_longest(recorded, replayed), start=1):
        if old is None or new is None:
            what = "ends before" if new is None else "goes on with"
            yield Finding("different", f"{what} row {number}")
        elif len(old) != len(new):
            what = f"has {len(new)} columns instead of {len(old)} in row {number}"
            yield Finding("different", what)
        elif old != new:
            for column, (left, right) in enumerate(zip(old, new, strict=True), start=1):
                found = _compare_cells(left, right, tolerance)
                # Sentences take time, and of those about what is close only the first is used.
                if found.status == "different" or (found.status == "close" and not is_close):
                    is_close = True
                    where = f"row {number}, column {column}: {change(left, right)}"
                    yield found._replace(what=f"{found.what} {where}")


def _compare_cells(old: str, new: str, tolerance: Tolerance) -> Finding:
    if old == new:
        return SAME
    if has_close_numbers(old, new, tolerance):
        return Finding("close", "has close numbers, first in")
    if compare_texts(old, new, tolerance).status == "different":
        return Finding("different", "differs in")
    return Finding("close", "differs only in volatile parts, first in")
