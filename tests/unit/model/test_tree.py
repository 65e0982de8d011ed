"""The execution tree as a value, and as a file."""

from __future__ import annotations

import json
from typing import Any

import pytest

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, NodeId, TreeNode, Version, tree_from_json


def node(name: str, parent: str | None = None, **fields: Any) -> TreeNode:
    above = None if parent is None else NodeId(parent)
    return TreeNode(id=NodeId(name), parent=above, **fields)


def version(name: str, path: str, number: int = 1, created: float = 0.0) -> Version:
    nodes = tuple(NodeId(path[: at + 1]) for at in range(len(path)))
    return Version(name=name, number=number, path=nodes, created=created)


NODES = [node("a"), node("ab", "a"), node("abc", "ab"), node("abd", "ab")]


def test_children_and_paths() -> None:
    tree = ExecutionTree(NODES)
    assert tree.children(None) == ("a",)
    assert tree.children(NodeId("ab")) == ("abc", "abd")
    assert tree.children(NodeId("abd")) == ()
    assert [n.id for n in tree.path(NodeId("abd"))] == ["a", "ab", "abd"]


def test_the_newer_run_of_a_node_is_kept() -> None:
    old, new = node("a", cost=5.0, last_run=1.0), node("a", cost=2.0, last_run=2.0)
    for tree in (ExecutionTree([old, new]), ExecutionTree([new]).merge(ExecutionTree([old]))):
        assert tree.nodes[NodeId("a")].cost == 2.0


def test_the_newest_version_of_a_name_is_called_by_it() -> None:
    first, second = version("v", "abc"), version("v", "abd", number=2, created=1.0)
    other = version("w", "abc", created=2.0)
    tree = ExecutionTree(NODES, [second, first, other])
    assert [tree.labels[v] for v in tree.versions] == ["v@1", "v", "w"]
    assert tree.through[NodeId("abc")] == (first, other)


def test_a_version_that_was_run_again_is_not_current() -> None:
    runs = [
        version("v", "ab"),
        version("v", "abc", number=2),
        version("v", "abc", number=3),
        version("v", "abd", number=4),
        version("w", "ab"),
    ]
    tree = ExecutionTree(NODES, runs)
    assert set(tree.current().versions) == {runs[2], runs[3], runs[4]}
    assert tree.current().nodes == tree.nodes
    assert len(tree.versions) == 5


def test_a_tree_file_comes_back_as_it_was() -> None:
    nodes = [node("a", cost=1.5, size=10, delta=3, cell="x = 1"), *NODES[1:]]
    tree = ExecutionTree(nodes, [version("v", "abc", created=3.0)])
    data = json.loads(json.dumps(tree.to_json({NodeId("ab"): "c1"})))
    assert tree_from_json(data) == tree
    by_id = {entry["id"]: entry for entry in data["nodes"]}
    assert by_id["a"]["delta"] == 3
    assert "delta" not in by_id["ab"]
    assert by_id["ab"]["checkpoint"] == "c1"
    assert by_id["abc"]["versions"] == ["v"]


def test_a_tree_file_needs_only_ids_parents_costs_and_sizes() -> None:
    data = {"nodes": [{"id": "a", "parent": None, "cost": 1, "size": 2}]}
    (found,) = tree_from_json(data).nodes.values()
    assert found == node("a", cost=1.0, size=2)


def test_whole_numbers_are_ids_too() -> None:
    entry = {"cost": 1, "size": 2}
    data = {"nodes": [{"id": 0, "parent": None, **entry}, {"id": 1, "parent": 0, **entry}]}
    tree = tree_from_json(data)
    assert tree.children(NodeId("0")) == (NodeId("1"),)
    assert tree.children(None) == (NodeId("0"),)


@pytest.mark.parametrize(
    ("data", "what"),
    [
        ([], "a tree file is"),
        ({"nodes": {}}, "a tree file is"),
        ({"nodes": [7]}, "has no id"),
        ({"nodes": [{"id": 1.5, "parent": None, "cost": 1, "size": 1}]}, "has no id"),
        ({"nodes": [{"id": True, "parent": None, "cost": 1, "size": 1}]}, "has no id"),
        ({"nodes": [{"id": 2**64, "parent": None, "cost": 1, "size": 1}]}, "has no id"),
        ({"nodes": [{"id": "a", "parent": 1.5, "cost": 1, "size": 1}]}, "neither an id nor null"),
        ({"nodes": [{"id": "a", "parent": 3, "cost": 1, "size": 1}]}, "is not in the file"),
        ({"nodes": [{"id": "a", "parent": "z", "cost": 1, "size": 1}]}, "is not in the file"),
        ({"nodes": [{"id": "a", "parent": None, "cost": -1, "size": 1}]}, "not a number >= 0"),
        ({"nodes": [{"id": "a", "parent": None, "cost": True, "size": 1}]}, "not a number >= 0"),
        ({"nodes": [{"id": "a", "parent": None, "size": 1}]}, "not a number >= 0"),
        ({"nodes": [{"id": "a", "parent": "a", "cost": 1, "size": 1}]}, "its own ancestor"),
        ({"nodes": [{"id": "a", "parent": None, "cost": 1, "size": 1}] * 2}, "the same id 'a'"),
        (
            {"nodes": [{"id": i, "parent": None, "cost": 1, "size": 1} for i in ("7", 7)]},
            "the same id '7'",
        ),
        ({"nodes": [], "versions": [{"name": "v"}]}, "number of version .v. is not"),
    ],
)
def test_a_wrong_tree_file_is_refused_with_the_reason(data: object, what: str) -> None:
    with pytest.raises(InvalidValue, match=what):
        tree_from_json(data)
