"""Trees merge in any order and grouping, and as often as one likes, to the same tree."""

from __future__ import annotations

import json
import math
from functools import reduce
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, NodeId, TreeNode, Version, tree_from_json

OUTCOMES: tuple[Literal["ok", "error"], ...] = ("ok", "error")
IDS = [NodeId(letter * 4) for letter in "abcd"]

# Runs of a few nodes, which often have the same id and time, but differ otherwise.  Parents come
# before their children, so that there are no circles.
NODES = [
    TreeNode(id=ident, parent=parent, cell=cell, delta=delta, status=status, last_run=last_run)
    for n, ident in enumerate(IDS)
    for parent in (None, *IDS[:n])
    for cell in ("x = 1", "x = 1  # again")
    for delta in (None, 0, 1)
    for status in OUTCOMES
    for last_run in (0.0, 1.5)
]
VERSIONS = [
    Version(
        name="a",
        number=number,
        path=path,
        created=created,
        origin=origin,
        parameters=parameters,
        status=status,
    )
    for number in (1, 2)
    for path in ((), (IDS[0],), (IDS[0], IDS[2]))
    for created in (0.0, 1.5)
    for origin in ("", "a.ipynb")
    for parameters in ((), (("alpha", "1"),))
    for status in OUTCOMES
]


def trees() -> st.SearchStrategy[ExecutionTree]:
    runs = st.lists(st.sampled_from(NODES), max_size=6)
    return st.builds(ExecutionTree, runs, st.lists(st.sampled_from(VERSIONS), max_size=6))


def shown(tree: ExecutionTree) -> str:
    """Return all of a tree, its order included."""
    return repr((tree.nodes, tree.versions))


@given(st.lists(trees(), min_size=1, max_size=5), st.randoms(use_true_random=False))
def test_the_order_and_the_grouping_of_merges_do_not_matter(
    parts: list[ExecutionTree], rng: Any
) -> None:
    expected = reduce(ExecutionTree.merge, parts)
    left = list(parts)
    rng.shuffle(left)
    while len(left) > 1:
        at = rng.randrange(len(left) - 1)
        left[at : at + 2] = [left[at].merge(left[at + 1])]
    assert left[0] == expected
    assert list(left[0].nodes) == list(expected.nodes)
    assert left[0].versions == expected.versions
    assert [left[0].labels[v] for v in left[0].versions] == [
        expected.labels[v] for v in expected.versions
    ]


@given(st.lists(trees(), min_size=1, max_size=4))
def test_merging_again_changes_nothing(parts: list[ExecutionTree]) -> None:
    whole = reduce(ExecutionTree.merge, parts)
    for part in (*parts, whole, ExecutionTree()):
        assert shown(whole.merge(part)) == shown(whole)


@given(st.lists(st.sampled_from(NODES), max_size=12))
def test_of_each_node_the_newest_run_is_kept_and_a_known_parent(runs: list[TreeNode]) -> None:
    tree = ExecutionTree(runs)
    assert set(tree.nodes) == {run.id for run in runs}
    for ident, node in tree.nodes.items():
        same = [run for run in runs if run.id == ident]
        assert node.last_run == max(run.last_run for run in same)
        assert (node.parent is None) == all(run.parent is None for run in same)


@given(trees())
def test_a_tree_file_comes_back_as_it_was(tree: ExecutionTree) -> None:
    whole = tree.merge(ExecutionTree([TreeNode(id=ident, parent=None) for ident in IDS]))
    again = tree_from_json(json.loads(json.dumps(whole.to_json({IDS[0]: "named"}))))
    assert again == whole


NODE = {"id": "a", "parent": None, "cost": 1, "size": 2}
VERSION = {
    "name": "v",
    "number": 1,
    "path": ["a"],
    "created": 0,
    "origin": "",
    "parameters": {},
    "status": "ok",
}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "a tree file is"),
        ({"nodes": 3}, "a tree file is"),
        ({"nodes": [3]}, "has no id"),
        ({"nodes": [NODE | {"parent": [3]}]}, "neither an id nor null"),
        ({"nodes": [NODE, NODE]}, "same id"),
        ({"nodes": [NODE | {"parent": "b"}]}, "parent 'b' of node 'a' is not in the file"),
        ({"nodes": [NODE | {"parent": "a"}]}, "its own ancestor"),
        ({"nodes": [NODE | {"cost": math.nan}]}, "cost of node 'a' is not a number"),
        ({"nodes": [NODE | {"size": -1}]}, "size of node 'a' is not a number"),
        ({"nodes": [NODE], "versions": [VERSION | {"path": ["b"]}]}, "node 'b' of version 'v'"),
        ({"nodes": [NODE], "versions": [VERSION | {"number": math.inf}]}, "number of version 'v'"),
        ({"nodes": [NODE], "versions": [VERSION | {"created": "x"}]}, "created of version 'v'"),
        ({"nodes": [NODE], "versions": [VERSION | {"parameters": 3}]}, "cannot be read"),
        ({"nodes": [NODE], "versions": [3]}, "cannot be read"),
        ({"nodes": [NODE], "versions": 3}, "cannot be read"),
    ],
)
def test_a_wrong_tree_file_is_explained(data: object, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        tree_from_json(data)


def test_a_right_tree_file_is_not_refused() -> None:
    assert len(tree_from_json({"nodes": [NODE], "versions": [VERSION]})) == 1
