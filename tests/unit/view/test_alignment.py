"""Edits are pairs; what was inserted, deleted or moved is told apart from them."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import PathCell
from chexpoint.view.alignment import Pair, align
from tests.unit.view.worlds import side_cell


def path(*sources: str, ids: str = "", start: int = 100) -> list[PathCell]:
    """Return cells; those with the same number so far and the same source have the same node."""
    return [
        side_cell(source, start + place, cell_id=ids[place] if ids else "").cell
        for place, source in enumerate(sources)
    ]


A, B, C, D = (
    "import numpy as np\nimport pandas as pd",
    "df = pd.read_csv('data.csv')\ndf = df.dropna()",
    "model = LinearRegression()\nmodel.fit(df.x, df.y)",
    "plt.plot(model.predict(df.x))\nplt.show()",
)


def shown(pairs: list[Pair]) -> list[tuple[int | None, int | None]]:
    return [(pair.left, pair.right) for pair in pairs if not pair.is_moved]


def moved(pairs: list[Pair]) -> list[tuple[int | None, int | None]]:
    return [(pair.left, pair.right) for pair in pairs if pair.is_moved]


def test_the_same_path_is_all_pairs() -> None:
    assert shown(align(path(A, B, C), path(A, B, C))) == [(0, 0), (1, 1), (2, 2)]


def test_an_edited_cell_is_a_pair() -> None:
    edited = C.replace("LinearRegression", "Ridge")
    assert shown(align(path(A, B, C, D), path(A, B, edited, D, start=200))) == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 3),
    ]


def test_several_edited_cells_are_pairs() -> None:
    pairs = align(path(A, B, C, D), path(A, B + "\n# b", C + "\n# c", D + "\n# d", start=200))
    assert shown(pairs) == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_an_inserted_and_a_deleted_cell_stand_alone() -> None:
    pairs = align(path(A, B, D), path(A, B, C, D, start=200))
    assert shown(pairs) == [(0, 0), (1, 1), (None, 2), (2, 3)]
    pairs = align(path(A, B, C, D), path(A, C, D, start=200))
    assert shown(pairs) == [(0, 0), (1, None), (2, 1), (3, 2)]


def test_an_insertion_before_an_edited_cell_is_not_taken_for_the_edit() -> None:
    pairs = align(path(A, C), path(A, D, C.replace("df.x", "df.z"), start=200))
    assert shown(pairs) == [(0, 0), (None, 1), (1, 2)]


def test_a_cell_that_was_replaced_by_another_is_a_pair() -> None:
    assert shown(align(path(A, B, C), path(A, D, C, start=200))) == [(0, 0), (1, 1), (2, 2)]


def test_a_moved_cell_is_a_pair_that_says_so() -> None:
    pairs = align(path(A, B, C, D), path(A, C, D, B, start=200))
    assert moved(pairs) == [(1, 3)]
    assert shown(pairs) == [(0, 0), (2, 1), (3, 2)]


def test_ids_tell_which_cells_are_the_same_whatever_they_say() -> None:
    left, right = path(A, B, C, ids="abc"), path(A, C, D, B, ids="acxb", start=200)
    pairs = align(left, right)
    assert {(p.left, p.right) for p in pairs} == {(0, 0), (2, 1), (None, 2), (1, 3)}
    assert len(moved(pairs)) == 1  # which of the two does not matter


def test_cells_with_other_ids_are_not_pairs_even_if_they_are_alone() -> None:
    pairs = align(path(A, B, ids="ab"), path(A, C, ids="ac", start=200))
    assert shown(pairs) == [(0, 0), (1, None), (None, 1)]


def test_a_cell_that_ran_twice_is_matched_run_by_run() -> None:
    left, right = path(A, B, B, ids="abb"), path(A, B, B, B, ids="abbb", start=200)
    assert shown(align(left, right)) == [(0, 0), (1, 1), (2, 2), (None, 3)]


def test_notebooks_with_no_id_in_common_are_compared_by_what_they_say() -> None:
    left, right = path(A, B, C, ids="abc"), path(A, B + "\nx", C, ids="xyz", start=200)
    assert shown(align(left, right)) == [(0, 0), (1, 1), (2, 2)]


def test_shared_nodes_are_pairs_even_if_ids_differ() -> None:
    left, right = path(A, B, ids="ab"), path(A, C, ids="bx")
    assert Pair(0, 0) in align(left, right)


def test_nothing_has_no_pairs() -> None:
    assert align([], []) == []
    assert shown(align([], path(A))) == [(None, 0)]
    assert shown(align(path(A), [])) == [(0, None)]


SOURCES = st.lists(st.sampled_from([A, B, C, D, A + "\n#", C + "\nx = 1", "", "x"]), max_size=8)
IDS = st.text("abcdefgh", min_size=8, max_size=8)


@pytest.mark.slow
@settings(deadline=None)
@given(SOURCES, SOURCES, st.booleans(), IDS, IDS)
def test_every_cell_is_there_once_and_the_right_side_is_in_order(
    left: list[str], right: list[str], has_ids: bool, ids: str, others: str
) -> None:
    a = path(*left, ids=ids if has_ids else "")
    b = path(*right, ids=others if has_ids else "", start=200)
    pairs = align(a, b)
    assert sorted(p.left for p in pairs if p.left is not None) == list(range(len(a)))
    assert [p.right for p in pairs if p.right is not None] == list(range(len(b)))
    straight = [p.left for p in pairs if p.left is not None and not p.is_moved]
    assert straight == sorted(straight)


@settings(deadline=None, max_examples=3)
@given(st.integers(60, 80))
def test_long_paths_are_aligned_near_their_place(length: int) -> None:
    a = path(*(f"value_{i} = compute({i}, 'a')" for i in range(length)))
    b = path(*(f"value_{i} = compute({i}, 'b')" for i in range(length)), start=500)
    assert shown(align(a, b)) == [(i, i) for i in range(length)]
