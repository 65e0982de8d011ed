"""How two texts compare: line by line, apart from volatile parts, with numbers that are close."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from chexpoint.compare.finding import SAME, Finding, change, quoted
from chexpoint.compare.numbers import has_close_numbers
from chexpoint.compare.screen import shown_lines
from chexpoint.compare.tolerance import Tolerance
from chexpoint.compare.volatile import is_fleeting, without_volatile
from chexpoint.model import format_size

LARGEST_TEXT = 16 * 2**20
"""Characters; longer texts are the same or different, and not looked at in detail."""
_MOST_DETAIL = 4 * 2**20  # characters of lines that differ, and have to be looked at


def compare_texts(recorded: str, replayed: str, tolerance: Tolerance) -> Finding:
    """Return how two texts compare.

    Lines are compared at their places, not aligned: the first that differs is what matters.
    """
    if recorded == replayed:
        return SAME
    longest = max(len(recorded), len(replayed))
    if longest > LARGEST_TEXT:
        size = format_size(longest)
        return Finding("different", f"differs, and is too long ({size}) to be compared by line")
    close: Finding | None = None
    effort = 0
    lines = zip_longest(lasting_lines(recorded), lasting_lines(replayed))
    for number, (old, new) in enumerate(lines, start=1):
        if old == new:
            continue
        if old is None or new is None:
            return _missing_line(number, old, new)
        effort += max(len(old), len(new))
        if effort > _MOST_DETAIL:
            return Finding("different", "differs, in more than can be compared in detail")
        nearness = _nearness(old, new, tolerance)
        if not nearness:
            return Finding("different", f"differs in line {number}: {change(old, new)}")
        if close is None:
            close = Finding("close", f"{nearness}, first in line {number}: {change(old, new)}")
    return close or Finding("close", "looks the same in the end")


def lasting_lines(text: str) -> Iterator[str]:
    """Return the lines that one sees in the end, and would see each time."""
    return (line for line in shown_lines(text) if not is_fleeting(line))


def _missing_line(number: int, old: str | None, new: str | None) -> Finding:
    if new is None:
        return Finding("different", f"ends before line {number}: {quoted(old or '')}")
    return Finding("different", f"goes on with line {number}: {quoted(new)}")


def _nearness(old: str, new: str, tolerance: Tolerance) -> str:
    """Return in which way two different lines are close; empty if they are not."""
    if old.split() == new.split():
        return "differs only in white space"
    if has_close_numbers(old, new, tolerance):
        return "has close numbers"
    old, new = without_volatile(old, tolerance), without_volatile(new, tolerance)
    if old.split() == new.split():
        return "differs only in volatile parts"
    if has_close_numbers(old, new, tolerance):
        return "has close numbers and volatile parts"
    return ""
