"""What comparing two things finds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chexpoint.model import OutputDifference

Likeness = Literal["same", "close", "different"]
"""How two things compare, from good to bad; ``close`` is the same as far as it matters."""

_LIKENESSES: tuple[Likeness, ...] = ("same", "close", "different")
_SHOWN = 60  # characters of a text that a sentence shows
_BEFORE = 20  # of them, how many stand before the first difference
_LONGEST = 300  # characters of a sentence


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """How all that a cell showed, or a file that it wrote, compares with what was recorded."""

    status: Likeness
    differences: tuple[OutputDifference, ...] = ()
    """One for each output that is not the same, also if it is close."""


class Finding(NamedTuple):
    """How two things compare, and how one can see that."""

    status: Likeness
    what: str = ""
    """What to say of the thing: ``differs in line 3: 'a' -> 'b'``; empty if it is the same."""


SAME = Finding("same")


def worst(findings: Iterable[Finding]) -> Finding:
    """Return the first of the worst findings; the rest is not looked at once one is different."""
    found = SAME
    for finding in findings:
        if _LIKENESSES.index(finding.status) > _LIKENESSES.index(found.status):
            found = finding
        if found.status == "different":
            break
    return found


def change(old: str, new: str) -> str:
    """Return how a text has changed, short, on one line: ``'loss 0.5' -> 'loss 0.6'``."""
    at = max(0, _first_difference(old, new) - _BEFORE)
    if max(len(old), len(new)) <= _SHOWN:
        at = 0
    return f"{_quoted(old, at)} -> {_quoted(new, at)}"


def quoted(text: str) -> str:
    """Return a text in quotes, short and on one line."""
    return _quoted(text, 0)


def sentence(text: str) -> str:
    """Return what is to be said, fit to be shown: names in it may be anything."""
    return _printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _quoted(text: str, at: int) -> str:
    piece = _printable(text[at : at + _SHOWN])
    return f"'{'…' if at else ''}{piece}{'…' if at + _SHOWN < len(text) else ''}'"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _first_difference(old: str, new: str) -> int:
    """Return where two texts begin to differ; halving, because texts may be very long."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
