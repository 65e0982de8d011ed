"""Two texts line by line, side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import NamedTuple

MANY = 1000
"""Of more lines than this, it is not looked which of them are the same."""

_LONG = 400  # letters; in longer lines it is not looked what changed
_ALIKE = 0.4


class LinePair(NamedTuple):
    """A line on both sides; None where it is not there."""

    left: str | None
    right: str | None

    @property
    def is_same(self) -> bool:
        """Whether nothing differs."""
        return self.left == self.right


def line_pairs(left: Sequence[str], right: Sequence[str]) -> list[LinePair]:
    """Return all lines of both sides; changed ones stand beside each other."""
    start = 0
    while start < min(len(left), len(right)) and left[start] == right[start]:
        start += 1
    end = 0
    while end < min(len(left), len(right)) - start and left[-1 - end] == right[-1 - end]:
        end += 1
    a, b = left[start : len(left) - end], right[start : len(right) - end]
    pairs = [LinePair(line, line) for line in left[:start]]
    if max(len(a), len(b)) > MANY:
        pairs += map(LinePair._make, zip_longest(a, b))
    else:
        for _, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
            pairs += map(LinePair._make, zip_longest(a[i1:i2], b[j1:j2]))
    return pairs + [LinePair(line, line) for line in left[len(left) - end :]]


def near_changes(pairs: Sequence[LinePair], context: int) -> Iterator[LinePair | int]:
    """Yield the lines that differ with some around them, and how many are left out in between."""
    changed = [i for i, pair in enumerate(pairs) if not pair.is_same]
    kept = {k for i in changed for k in range(i - context, i + context + 1)}
    skipped = 0
    for i, pair in enumerate(pairs):
        if i not in kept:
            skipped += 1
            continue
        if skipped:
            yield skipped
            skipped = 0
        yield pair
    if skipped:
        yield skipped


def changed_spans(left: str, right: str) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return where two lines differ, on both sides; nothing if they have little in common."""
    if max(len(left), len(right)) > _LONG:
        return [], []
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    if matcher.ratio() < _ALIKE:
        return [], []
    codes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        [(i1, i2) for _, i1, i2, _, _ in codes if i1 < i2],
        [(j1, j2) for _, _, _, j1, j2 in codes if j1 < j2],
    )
