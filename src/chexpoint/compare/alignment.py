"""Which output of a replay is which of those that were recorded."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

_FEW = 10_000  # pairs; of more, keys are paired by counting them


class Keys(NamedTuple):
    """What outputs have in common."""

    content: Hashable
    """Those that show exactly the same have the same."""
    kind: Hashable
    """Those that can be compared have the same."""


def align(
    recorded: Sequence[Keys], replayed: Sequence[Keys]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the places of outputs on both sides, each once and in order; None if it is not there.

    Outputs that show exactly the same are pairs.  Between them, those of the same kind are.
    """
    contents = [keys.content for keys in recorded], [keys.content for keys in replayed]
    i = j = 0
    for next_i, next_j in [*_by_count(*contents), (len(recorded), len(replayed))]:
        left = [keys.kind for keys in recorded[i:next_i]]
        right = [keys.kind for keys in replayed[j:next_j]]
        for a, b in _fill(len(left), len(right), _by_kind(left, right)):
            yield None if a is None else i + a, None if b is None else j + b
        if next_i < len(recorded):
            yield next_i, next_j
        i, j = next_i + 1, next_j + 1


def _by_kind(left: list[Hashable], right: list[Hashable]) -> list[tuple[int, int]]:
    if len(left) * len(right) > _FEW:
        return _by_count(left, right)
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    return [(i + k, j + k) for i, j, size in matcher.get_matching_blocks() for k in range(size)]


def _by_count(left: Sequence[Hashable], right: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return as many pairs of equal keys as are in the same order on both sides.

    The first of a key is that of the other side, the second the second: that takes
    ``n log n``, and is the best there is where keys do not repeat.
    """
    places = {key: place for place, key in enumerate(_counted(right))}
    pairs = [(i, places[key]) for i, key in enumerate(_counted(left)) if key in places]
    return _longest_rising(pairs)


def _counted(keys: Sequence[Hashable]) -> Iterator[tuple[Hashable, int]]:
    seen: Counter[Hashable] = Counter()
    for key in keys:
        yield key, seen[key]
        seen[key] += 1


def _longest_rising(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    tails: list[int] = []  # the least right place at which a row of each length can end
    ends: list[int] = []
    before: list[int] = []
    for at, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        before.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [at]
    chosen = []
    at = ends[-1] if ends else -1
    while at >= 0:
        chosen.append(pairs[at])
        at = before[at]
    return chosen[::-1]


def _fill(
    left: int, right: int, pairs: list[tuple[int, int]]
) -> Iterator[tuple[int | None, int | None]]:
    """Yield the pairs, and between them what has no partner."""
    i = j = 0
    for next_i, next_j in [*pairs, (left, right)]:
        yield from ((k, None) for k in range(i, next_i))
        yield from ((None, k) for k in range(j, next_j))
        if (next_i, next_j) != (left, right):
            yield next_i, next_j
        i, j = next_i + 1, next_j + 1
