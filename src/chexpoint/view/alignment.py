"""Which cell of one path is which cell of another."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from chexpoint.model import PathCell

ALIKE = 0.5
"""Cells of which at least so much is the same, in the same order, are taken for the same cell."""

_WORD = re.compile(r"\w+|[^\w\s]")
_WORDS = 400  # of a cell that are compared
_MANY = 2500  # pairs; of more, only those at about the same place are compared
_NEAR = 6


class Pair(NamedTuple):
    """Places of a cell on both sides; None where it is not there."""

    left: int | None
    right: int | None
    is_moved: bool = False


def align(left: Sequence[PathCell], right: Sequence[PathCell]) -> list[Pair]:
    """Return all cells of both sides, each once, in an order in which they can be read.

    Cells with equal nodes at the beginning are pairs.  After them, notebooks tell which cells are
    the same by their ids; where there are none, or none in common, it is by what they say.
    """
    start = 0
    while start < min(len(left), len(right)) and left[start].node == right[start].node:
        start += 1
    rest_left, rest_right = left[start:], right[start:]
    if _have_common_ids(left, right):
        matches = _by_id(rest_left, rest_right)
    else:
        matches = _by_source(rest_left, rest_right)
    pairs = [Pair(i, i) for i in range(start)]
    for pair in _in_order(len(rest_left), len(rest_right), matches):
        i = None if pair.left is None else pair.left + start
        j = None if pair.right is None else pair.right + start
        pairs.append(Pair(i, j, pair.is_moved))
    return pairs


# ------------------------------------------------------------ by id


def _have_common_ids(left: Sequence[PathCell], right: Sequence[PathCell]) -> bool:
    ids = {cell.cell_id for cell in left}
    others = {cell.cell_id for cell in right}
    return "" not in ids | others and not ids.isdisjoint(others)


def _by_id(left: Sequence[PathCell], right: Sequence[PathCell]) -> dict[int, int]:
    places = {key: place for place, key in enumerate(_keys(right))}
    return {place: places[key] for place, key in enumerate(_keys(left)) if key in places}


def _keys(cells: Sequence[PathCell]) -> list[tuple[str, int]]:
    """Return the id of each cell, and how many times it ran before."""
    seen: Counter[str] = Counter()
    keys = []
    for cell in cells:
        keys.append((cell.cell_id, seen[cell.cell_id]))
        seen[cell.cell_id] += 1
    return keys


# ------------------------------------------------------------ by source


def _by_source(left: Sequence[PathCell], right: Sequence[PathCell]) -> dict[int, int]:
    a, b = [cell.source.strip() for cell in left], [cell.source.strip() for cell in right]
    matches: dict[int, int] = {}
    for tag, i1, i2, j1, j2 in SequenceMatcher(None, a, b, autojunk=False).get_opcodes():
        if tag == "equal":
            matches |= zip(range(i1, i2), range(j1, j2), strict=True)
        elif tag == "replace":
            alike = _most_alike(a[i1:i2], b[j1:j2])
            matches |= {i1 + i: j1 + j for i, j in alike.items()}
    matches |= _elsewhere(a, b, matches)
    return matches | _alone(len(a), len(b), matches)


def _elsewhere(a: list[str], b: list[str], matches: dict[int, int]) -> dict[int, int]:
    """Return cells that say exactly the same at another place."""
    taken = set(matches.values())
    free: dict[str, list[int]] = {}
    for j in reversed(range(len(b))):
        if j not in taken and b[j]:
            free.setdefault(b[j], []).append(j)
    return {i: free[text].pop() for i, text in enumerate(a) if i not in matches and free.get(text)}


def _alone(left: int, right: int, matches: dict[int, int]) -> dict[int, int]:
    """Return cells that are the only ones without a partner between two pairs, on both sides."""
    taken = set(matches.values())
    found = {}
    i = j = 0
    for next_i, next_j in [*_longest_rising(matches).items(), (left, right)]:
        lefts = [k for k in range(i, next_i) if k not in matches]
        rights = [k for k in range(j, next_j) if k not in taken]
        if len(lefts) == len(rights) == 1:
            found[lefts[0]] = rights[0]
        i, j = next_i + 1, next_j + 1
    return found


def _most_alike(a: list[str], b: list[str]) -> dict[int, int]:
    """Return pairs in order that have most in common altogether."""
    words = [_WORD.findall(text)[:_WORDS] for text in a]
    others = [_WORD.findall(text)[:_WORDS] for text in b]
    is_large = len(a) * len(b) > _MANY
    best = [[0.0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a)):
        for j in range(len(b)):
            found = max(best[i][j + 1], best[i + 1][j])
            if not is_large or abs(i * len(b) / len(a) - j) <= _NEAR:
                same = _likeness(words[i], others[j])
                if same >= ALIKE:
                    found = max(found, best[i][j] + same)
            best[i + 1][j + 1] = found
    pairs = {}
    i, j = len(a), len(b)
    while i and j:
        if best[i][j] == best[i - 1][j]:
            i -= 1
        elif best[i][j] == best[i][j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs[i] = j
    return pairs


def _likeness(words: list[str], others: list[str]) -> float:
    matcher = SequenceMatcher(None, words, others, autojunk=False)
    return matcher.ratio() if matcher.real_quick_ratio() >= ALIKE else 0.0


# ------------------------------------------------------------ in order


def _in_order(left: int, right: int, matches: dict[int, int]) -> list[Pair]:
    """Return all cells in the order of the right side, and those that it lacks where they were."""
    straight = _longest_rising(matches)
    back = {j: i for i, j in matches.items()}
    pairs: list[Pair] = []
    i = j = 0
    for next_i, next_j in [*straight.items(), (left, right)]:
        pairs += [Pair(k, None) for k in range(i, next_i) if k not in matches]
        pairs += [Pair(back.get(k), k, k in back) for k in range(j, next_j)]
        if next_i < left:
            pairs.append(Pair(next_i, next_j))
        i, j = next_i + 1, next_j + 1
    return pairs


def _longest_rising(matches: dict[int, int]) -> dict[int, int]:
    """Return the most pairs that are in the same order on both sides."""
    lefts = sorted(matches)
    tails: list[int] = []  # the least right place at which a row of each length can end
    ends: list[int] = []
    before: dict[int, int | None] = {}
    for i in lefts:
        length = bisect_left(tails, matches[i])
        before[i] = ends[length - 1] if length else None
        tails[length:] = [matches[i], *tails[length + 1 :]]
        ends[length:] = [i, *ends[length + 1 :]]
    chosen: list[int] = []
    at: int | None = ends[-1] if ends else None
    while at is not None:
        chosen.append(at)
        at = before[at]
    return {i: matches[i] for i in reversed(chosen)}
