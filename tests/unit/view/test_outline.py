"""What is drawn fits, and nothing is lost without something standing for it."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, TreeNode, Version
from chexpoint.view.outline import ALL, MOST_ITEMS, NEWEST, Outline, ends_of, outline
from tests.unit.view.worlds import ident, node, random_tree, tree_of


def kinds(items: Outline) -> Counter[str]:
    return Counter(item.kind for item in items)


def chain(length: int, *, first: int = 1, parent: int | None = None) -> list[TreeNode]:
    numbers = range(first, first + length)
    return [node(n, n - 1 if n > first else parent) for n in numbers]


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 10**6), st.sampled_from([1, 3, 12, 50, 90]), st.integers(1, 33))
def test_every_node_and_version_is_in_one_item(seed: int, versions: int, cells: int) -> None:
    tree = random_tree(seed, versions, cells)
    items = outline(tree, most_columns=30)
    assert sorted(n for item in items for n in item.nodes) == sorted(tree.nodes)
    assert Counter(end for item in items for end in item.ends) == Counter(tree.versions)
    assert len(items) <= MOST_ITEMS
    for place, item in enumerate(items[1:], start=1):
        assert item.parent < place
        assert item.column == items[item.parent].column + 1
        above = items[item.parent].nodes
        if item.kind != "bundle":
            parent = tree.nodes[item.nodes[0]].parent
            assert parent == (above[-1] if above else None)


def test_a_small_tree_is_drawn_node_by_node() -> None:
    tree = tree_of([*chain(5), node(6, 2), node(7, 6)], 5, 7)
    items = outline(tree)
    assert kinds(items) == {"root": 1, "node": 7}
    assert [item.nodes[0] for item in items[1:]] == [ident(n) for n in (1, 2, 3, 4, 5, 6, 7)]


def test_long_runs_become_chains_where_columns_are_few() -> None:
    tree = tree_of([*chain(60), *chain(40, first=100, parent=30)], 60, 139, 45)
    items = outline(tree, most_columns=10)
    assert max(item.column for item in items) <= 10
    assert kinds(items)["chain"] >= 3
    # Ends, branches and the last cells stay visible.
    drawn = {item.nodes[0] for item in items if item.kind == "node"}
    assert {ident(60), ident(139), ident(45), ident(30)} <= drawn


def test_what_is_marked_is_drawn_on_its_own() -> None:
    nodes = chain(80)
    nodes[20] = node(21, 20, status="error")
    tree = tree_of(nodes, 80)
    items = outline(tree, marked={ident(50)}, here=ident(70), most_columns=12)
    drawn = {item.nodes[0] for item in items if item.kind == "node"}
    assert {ident(21), ident(50), ident(70), ident(80)} <= drawn


def test_many_marks_give_way_but_the_position_does_not() -> None:
    tree = tree_of(chain(3000), 3000)
    items = outline(tree, marked=set(tree.nodes), here=ident(1500), most_columns=30)
    assert len(items) <= 6
    assert ident(1500) in {item.nodes[0] for item in items if item.kind == "node"}


@pytest.mark.parametrize("branches", [ALL, ALL + 1])
def test_branches_are_bundled_only_if_they_are_many(branches: int) -> None:
    numbers = range(2, branches + 2)
    items = outline(tree_of([node(1), *(node(n, 1) for n in numbers)], *numbers))
    assert (kinds(items)["bundle"] > 0) == (branches > ALL)
    if branches > ALL:
        drawn = [item for item in items if item.kind == "node" and item.ends]
        (bundle,) = (item for item in items if item.kind == "bundle")
        assert len(drawn) == NEWEST
        assert len(bundle.ends) == branches - NEWEST
        assert max(end.created for end in bundle.ends) < min(i.ends[0].created for i in drawn)


def test_the_position_is_drawn_also_in_an_old_branch() -> None:
    numbers = range(2, 302)
    items = outline(tree_of([node(1), *(node(n, 1) for n in numbers)], *numbers), here=ident(2))
    assert ident(2) in {item.nodes[0] for item in items if item.kind == "node"}


def test_bundles_along_a_path_are_joined() -> None:
    nodes = [node(1)]
    for n in range(1, 500):
        nodes += [node(2 * n, 2 * n - 2 if n > 1 else 1), node(2 * n + 1, 2 * n)]
    items = outline(tree_of(nodes, *range(3, 1000, 2)), most_columns=50)
    assert kinds(items)["bundle"] < 5
    assert len(items) < 3 * NEWEST


def test_nodes_without_parent_in_the_tree_hang_at_the_root() -> None:
    items = outline(ExecutionTree([node(7, 6), node(8, 7)]))
    assert [(item.kind, item.parent) for item in items] == [("root", -1), ("node", 0), ("node", 1)]


def test_a_version_ends_at_the_last_node_that_is_known() -> None:
    version = Version(name="v", path=(ident(1), ident(2)))
    nothing = Version(name="w")
    ends = ends_of(ExecutionTree([node(1)], [version, nothing]))
    assert ends == {ident(1): (version,), None: (nothing,)}
