"""Nothing overlaps: labels have rows of their own, and nothing stands right of them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, Version
from chexpoint.view.layout import (
    LABEL_LETTERS,
    Label,
    Layout,
    columns_that_fit,
    lay_out,
)
from chexpoint.view.outline import LABELS, outline
from chexpoint.view.text import columns
from tests.unit.view.worlds import ident, node, random_tree, tree_of

LABEL_HEIGHT = 14.0
"""Of 11 px letters, with the room that they need."""


def laid_out(tree: ExecutionTree, width: int = 960) -> Layout:
    return lay_out(tree, outline(tree, most_columns=columns_that_fit(width)), width=width)


def box(label: Label) -> tuple[float, float, float, float]:
    half = LABEL_HEIGHT / 2
    return label.x, label.y - half, label.x + label.width, label.y + half


def is_apart(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]


@pytest.mark.slow
@settings(deadline=None, max_examples=30)
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 12, 50, 200]), st.integers(1, 40))
def test_no_label_overlaps_another_or_a_disc(seed: int, versions: int, cells: int) -> None:
    layout = laid_out(random_tree(seed, versions, cells))
    boxes = [box(label) for label in layout.labels]
    assert all(is_apart(one, other) for one, other in combinations(boxes, 2))
    discs = [(s.x - s.radius, s.y - s.radius, s.x + s.radius, s.y + s.radius) for s in layout.spots]
    assert all(is_apart(one, disc) for one in boxes for disc in discs)
    assert all(is_apart(one, other) for one, other in combinations(discs, 2))
    for left, top, right, bottom in (*boxes, *discs):
        assert left >= 0
        assert top >= 0
        assert right <= layout.width
        assert bottom <= layout.height


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from([3, 50]))
def test_lines_meet_no_label(seed: int, versions: int) -> None:
    layout = laid_out(random_tree(seed, versions, 20))
    for spot in layout.spots[1:]:
        above = layout.spots[spot.item.parent]
        down = (above.x - 4, above.y, above.x + 4, spot.y)
        right = (above.x, spot.y - 4, spot.x, spot.y + 4)
        for label in layout.labels:
            assert is_apart(box(label), down)
            assert is_apart(box(label), right)


@pytest.mark.slow
@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10**6))
def test_fifty_versions_fit_into_the_width_with_all_their_labels(seed: int) -> None:
    tree = random_tree(seed, 50, 20)
    layout = laid_out(tree)
    names = [label.versions[0] for label in layout.labels if label.is_name]
    counted = [v for label in layout.labels if not label.is_name for v in label.versions]
    assert sorted((*names, *counted), key=lambda v: v.created) == list(tree.versions)
    assert len(counted) <= len(tree.versions) // 4
    assert layout.width <= 960


def test_later_cells_stand_further_right_and_branches_further_down() -> None:
    tree = tree_of([node(1), node(2, 1), node(3, 2), node(4, 1)], 3, 4)
    places = {spot.item.nodes: spot for spot in laid_out(tree).spots}
    one, two, three, four = (places[(ident(n),)] for n in (1, 2, 3, 4))
    assert one.x < two.x < three.x
    assert one.y == two.y == three.y < four.y
    assert two.x == four.x


def test_larger_states_have_larger_discs() -> None:
    tree = tree_of([node(1, size=10), node(2, 1, size=2**30), node(3, 2, size=2**20)], 3)
    radii = {spot.item.nodes: spot.radius for spot in laid_out(tree).spots}
    assert radii[(ident(1),)] < radii[(ident(3),)] < radii[(ident(2),)]


def test_a_version_that_ends_before_others_has_its_own_row() -> None:
    layout = laid_out(tree_of([node(1), node(2, 1), node(3, 2)], 2, 3, names=["early", "late"]))
    early, late = sorted(layout.labels, key=lambda label: label.text)
    assert early.y > late.y
    assert early.x < late.x


def test_many_versions_of_one_node_are_counted() -> None:
    layout = laid_out(tree_of([node(1)], *[1] * 30))
    texts = [label.text for label in layout.labels]
    assert texts == ["v29", "v28", "+28 versions"]
    assert len(laid_out(tree_of([node(1)], *[1] * LABELS)).labels) == LABELS


def test_long_names_are_cut_and_unnamed_ends_have_their_node() -> None:
    name = "a very long name " * 9
    layout = laid_out(tree_of([node(1), node(2, 1), node(3, 1)], 2, names=[name]))
    texts = {label.text for label in layout.labels}
    assert ident(3)[:8] in texts
    (cut,) = (text for text in texts if text.startswith("a very"))
    assert columns(cut) == LABEL_LETTERS


def test_sources_are_written_only_where_there_is_room() -> None:
    assert laid_out(tree_of([node(1), node(2, 1)], 2)).has_sources
    assert not laid_out(random_tree(1, 50, 20)).has_sources


def test_a_deep_tree_is_no_obstacle() -> None:
    count = 2000
    nodes = [node(1), *(node(n, n - 1 if n % 2 else max(n - 2, 1)) for n in range(2, count))]
    layout = laid_out(tree_of(nodes, count - 1, count - 2))
    assert len(layout.spots) < 1000


def test_nothing_is_a_layout_too() -> None:
    assert len(laid_out(ExecutionTree()).spots) == 1
    layout = laid_out(ExecutionTree((), [Version(name="empty")]))
    assert [label.text for label in layout.labels] == ["empty"]
