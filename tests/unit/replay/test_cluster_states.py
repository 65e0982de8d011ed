"""A state is loaded where that is faster than computing what leads to it."""

from __future__ import annotations

from chexpoint.model import ExecutionTree, NodeId, TreeNode
from chexpoint.replay.cluster_states import ShippedState, States, is_worth_sending

A, B, LEAF = NodeId("a"), NodeId("b"), NodeId("leaf")
HERE = NodeId("root")
TREE = ExecutionTree(
    [
        TreeNode(id=A, parent=None, cost=10, size=1),
        TreeNode(id=B, parent=A, cost=2, size=1),
        TreeNode(id=LEAF, parent=B, cost=1, size=1),
    ]
)


def states(bandwidth: float, *known: tuple[NodeId, int]) -> States:
    found = States(TREE, bandwidth, load_s=1.0)
    for node, size in known:
        found.known[node] = ShippedState(node=node, digest="d", size_bytes=size, root=HERE)
    return found


def test_the_state_that_saves_most_is_loaded() -> None:
    assert states(100, (A, 100), (B, 100)).for_leaves([LEAF], (), HERE) == {B: 2.0}
    assert states(100, (A, 100), (B, 900)).for_leaves([LEAF], (), HERE) == {A: 2.0}


def test_nothing_is_loaded_that_is_computed_as_fast_or_held() -> None:
    assert states(100, (A, 900)).for_leaves([LEAF], (), HERE) == {}  # ten seconds either way
    assert states(0, (A, 1)).for_leaves([LEAF], (), HERE) == {}  # there is no store
    assert states(100, (A, 100), (B, 150)).for_leaves([LEAF], (A,), HERE) == {}
    assert states(100, (A, 100)).for_leaves([LEAF], (B,), HERE) == {}


def test_nothing_is_loaded_that_was_computed_with_other_packages() -> None:
    assert states(100, (A, 100)).for_leaves([LEAF], (), NodeId("other")) == {}


def test_the_bandwidth_becomes_what_was_measured_and_bad_states_are_forgotten() -> None:
    known = states(2e6)
    known.stored(ShippedState(node=A, digest="d", size_bytes=4 * 10**6), seconds=1.0)
    assert known.bandwidth == 3e6
    known.loaded(A, moving_s=0.5, seconds=3.5)
    assert (known.bandwidth, known.load_s) == (5.5e6, 2.0)
    known.useless(A)
    assert known.for_leaves([LEAF], (), HERE) == {}


def test_images_are_written_of_what_took_several_times_as_long() -> None:
    assert is_worth_sending(60, 10**6, 1e8)
    assert not is_worth_sending(2, 10**6, 1e8)
    assert not is_worth_sending(60, 10**10, 1e8)
    assert not is_worth_sending(60, 10**6, 0)
