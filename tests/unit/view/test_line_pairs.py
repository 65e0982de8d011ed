"""Two texts side by side lose no line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chexpoint.view.line_pairs import MANY, LinePair, changed_spans, line_pairs, near_changes

LINES = st.lists(st.sampled_from(["a", "b", "c", "d", ""]), max_size=12)


@given(LINES, LINES)
def test_both_sides_are_complete_and_in_order(left: list[str], right: list[str]) -> None:
    pairs = line_pairs(left, right)
    assert [pair.left for pair in pairs if pair.left is not None] == left
    assert [pair.right for pair in pairs if pair.right is not None] == right
    assert all(pair.left is not None or pair.right is not None for pair in pairs)


def test_changed_lines_stand_beside_each_other() -> None:
    assert line_pairs(["a", "x = 1", "c"], ["a", "x = 2", "y", "c"]) == [
        LinePair("a", "a"),
        LinePair("x = 1", "x = 2"),
        LinePair(None, "y"),
        LinePair("c", "c"),
    ]


def test_very_long_texts_are_paired_by_their_place() -> None:
    left = [f"l{i}" for i in range(MANY + 5)]
    pairs = line_pairs(left, ["same", *left[1:-1], "end"])
    assert pairs[0] == LinePair("l0", "same")
    assert len(pairs) == MANY + 5


def test_only_lines_near_a_change_are_shown() -> None:
    left = [str(i) for i in range(20)]
    right = [*left[:10], "ten", *left[11:]]
    assert list(near_changes(line_pairs(left, right), 1)) == [
        9,
        LinePair("9", "9"),
        LinePair("10", "ten"),
        LinePair("11", "11"),
        8,
    ]
    assert list(near_changes(line_pairs(left, left), 1)) == [20]


def test_what_changed_within_a_line_is_found() -> None:
    assert changed_spans("x = 10", "x = 20") == ([(4, 5)], [(4, 5)])
    assert changed_spans("completely", "1234567") == ([], [])
    assert changed_spans("a" * 500, "b" * 500) == ([], [])
