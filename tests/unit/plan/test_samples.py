"""Sample trees are what their kind says, and always the same."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, NodeId, TreeNode
from chexpoint.plan.samples import KINDS, bin_packing_tree, sample_tree

GB = 1024**3
RANDOM = ("ci", "di", "an", "equal", "zero")


def leaves(tree: ExecutionTree) -> list[NodeId]:
    return [node for node in tree.nodes if not tree.children(node)]


def paths(tree: ExecutionTree) -> list[tuple[TreeNode, ...]]:
    return [tree.path(leaf) for leaf in leaves(tree)]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(KINDS), st.integers(0, 2**40), st.integers(1, 60), st.booleans())
def test_every_sample_is_one_tree_of_at_most_so_many_nodes(
    kind: str, seed: int, nodes: int, delta: bool
) -> None:
    tree = sample_tree(kind, seed=seed, nodes=nodes, delta=delta)
    assert nodes // 2 <= len(tree) <= nodes
    assert len(tree.children(None)) == 1
    assert sum(len(tree.children(node)) for node in tree.nodes) == len(tree) - 1
    assert len({n.id for path in paths(tree) for n in path}) == len(tree)


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_tree_and_another_one_another(kind: str) -> None:
    assert sample_tree(kind, seed=3) == sample_tree(kind, seed=3)
    assert sample_tree(kind, seed=3, delta=True) != sample_tree(kind, seed=4, delta=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nodes", [10, 200, 5500])
def test_a_sample_has_about_as_many_nodes_as_asked_for(kind: str, nodes: int) -> None:
    assert 0.9 * nodes <= len(sample_tree(kind, nodes=nodes)) <= nodes


@pytest.mark.slow
def test_a_sample_can_have_a_hundred_thousand_nodes() -> None:
    tree = sample_tree("an", nodes=100_000, length=33)
    assert 99_000 <= len(tree) <= 100_000
    assert max(len(path) for path in paths(tree)) == 33


@settings(deadline=None, max_examples=30)
@given(st.sampled_from(RANDOM), st.integers(0, 10**6))
def test_random_trees_have_the_shape_of_the_paper(kind: str, seed: int) -> None:
    tree = sample_tree(kind, seed=seed)
    assert len(leaves(tree)) <= 20
    assert {len(path) for path in paths(tree)} == {6}
    assert max(len(tree.children(node)) for node in tree.nodes) <= 4


def test_a_thousand_versions_of_33_cells_are_some_five_thousand_nodes() -> None:
    tree = sample_tree("an", versions=1000, length=33)
    assert len(leaves(tree)) == 1000
    assert 4900 <= len(tree) <= 5900


def test_a_random_tree_may_be_a_single_version_or_a_single_cell() -> None:
    assert len(sample_tree("ci", versions=1)) == 6
    assert len(sample_tree("ci", length=1)) == 1
    assert max(len(path) for path in paths(sample_tree("ci", branching=1))) == 6


def test_compute_intensive_cells_have_equal_states() -> None:
    nodes = sample_tree("ci").nodes.values()
    assert {node.size for node in nodes} == {GB // 2}
    assert all(100 <= node.cost <= 600 for node in nodes)
    assert len({node.cost for node in nodes}) > len(nodes) // 2


def test_data_intensive_cells_have_equal_costs() -> None:
    nodes = sample_tree("di").nodes.values()
    assert {node.cost for node in nodes} == {100.0}
    assert all(0.1 * GB - 1 <= node.size <= 0.6 * GB for node in nodes)
    assert len({node.size for node in nodes}) > len(nodes) // 2


def test_costs_and_sizes_of_analytic_cells_grow_along_each_version() -> None:
    tree = sample_tree("an", versions=50, length=17)
    for path in paths(tree):
        assert all(a.cost < b.cost and a.size < b.size for a, b in pairwise(path))
    nodes = tree.nodes.values()
    assert all(100 <= n.cost <= 600 and 0.1 * GB - 1 <= n.size <= 0.6 * GB for n in nodes)


def test_adversarial_kinds_are_what_they_are_called() -> None:
    chain = sample_tree("chain", nodes=300)
    assert len(leaves(chain)) == 4
    assert all(len(path) > 260 for path in paths(chain))
    assert {len(path) for path in paths(sample_tree("star", nodes=30))} == {2}
    caterpillar = sample_tree("caterpillar", nodes=30)
    assert len(leaves(caterpillar)) == 15
    assert max(len(caterpillar.children(node)) for node in caterpillar.nodes) == 2
    binary = sample_tree("binary", nodes=31)
    assert len(binary) == 31
    assert {len(path) for path in paths(binary)} == {5}
    assert {len(binary.children(node)) for node in binary.nodes} == {0, 2}
    equal = sample_tree("equal").nodes.values()
    assert len({(node.cost, node.size) for node in equal}) == 1
    free = [node for node in sample_tree("zero", nodes=200).nodes.values() if node.cost == 0]
    assert 100 < len(free) < 200


@pytest.mark.parametrize("kind", KINDS)
def test_deltas_are_added_and_nothing_else_changes(kind: str) -> None:
    plain, tree = sample_tree(kind), sample_tree(kind, delta=True)
    assert all(node.delta is None for node in plain.nodes.values())
    for node in tree.nodes.values():
        before = tree.nodes[node.parent].size if node.parent is not None else 0
        assert node.delta is not None
        assert max(node.size - before, 0) <= node.delta <= node.size
        found = plain.nodes[node.id]
        assert (found.parent, found.cost, found.size) == (node.parent, node.cost, node.size)


def test_the_gadget_has_the_numbers_of_the_proof() -> None:
    tree, budget, target = bin_packing_tree([3, 5, 2], 6, 2)
    assert (budget, target) == (18, 3 * 3 + 2 + 0.5)
    assert len(tree) == 1 + 7 * 3 + 3 * 2
    numbers = {name: (node.cost, node.size) for name, node in tree.nodes.items()}
    assert numbers[NodeId("a")] == (0.25, 12)
    assert [numbers[NodeId(f"b{i}")] for i in (1, 2, 3)] == [(1, 3), (1, 5), (1, 2)]
    assert numbers[NodeId("c2.1")] == numbers[NodeId("e1")] == (1, 12)
    assert numbers[NodeId("d2.1.2")] == numbers[NodeId("f2.1")] == (0, 24)
    assert tree.children(NodeId("a")) == ("b1", "b2", "b3", "e1", "e2")
    assert tree.children(NodeId("b1")) == ("c1.1", "c1.2")
    assert tree.children(NodeId("c1.2")) == ("d1.2.1", "d1.2.2")
    assert tree.children(NodeId("e2")) == ("f2.1", "f2.2")


def test_samples_that_cannot_be_are_refused() -> None:
    with pytest.raises(InvalidValue, match=r"no kind of sample 'cj'\. Did you mean ci"):
        sample_tree("cj")
    for name in ("versions", "length", "branching", "nodes"):
        with pytest.raises(InvalidValue, match=f"cannot have 0 {name}"):
            sample_tree("ci", **{name: 0})  # type: ignore[arg-type]
    for items, bins in (([7], 1), ([0], 1), ([1], 0)):
        with pytest.raises(InvalidValue, match="items must be"):
            bin_packing_tree(items, 6, bins)
