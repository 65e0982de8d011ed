"""How two tables compare: cell by cell."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from chexpoint.replay.compare_finding import Finding, change, worst
from chexpoint.replay.compare_numbers import has_close_numbers
from chexpoint.replay.compare_texts import compare_texts
from chexpoint.replay.tolerance import Tolerance

Row = Sequence[str]


def compare_tables(
    recorded: Iterable[Row], replayed: Iterable[Row], tolerance: Tolerance
) -> Finding:
    """Return how two tables compare; the header is the first row."""
    return worst(_findings(recorded, replayed, tolerance))


def _findings(
    recorded: Iterable[Row], replayed: Iterable[Row], tolerance: Tolerance
) -> Iterator[Finding]:
    for number, (old, new) in enumerate(zip_longest(recorded, replayed), start=1):
        if old is None or new is None:
            what = "ends before" if new is None else "goes on with"
            yield Finding("different", f"{what} row {number}")
        elif len(old) != len(new):
            what = f"has {len(new)} columns instead of {len(old)} in row {number}"
            yield Finding("different", what)
        elif old != new:
            for column, (left, right) in enumerate(zip(old, new, strict=True), start=1):
                if left != right:
                    where = f"row {number}, column {column}: {change(left, right)}"
                    yield _compare_cells(left, right, where, tolerance)


def _compare_cells(old: str, new: str, where: str, tolerance: Tolerance) -> Finding:
    if has_close_numbers(old, new, tolerance):
        return Finding("close", f"has close numbers, first in {where}")
    if compare_texts(old, new, tolerance).status == "different":
        return Finding("different", f"differs in {where}")
    return Finding("close", f"differs only in volatile parts, first in {where}")
