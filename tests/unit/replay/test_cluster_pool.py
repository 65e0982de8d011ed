"""What was lost on hosts is given to others, and what ends hosts is computed alone."""

from __future__ import annotations

from chexpoint.model import ExecutionTree, NodeId, TreeNode
from chexpoint.replay.cluster_pool import Pool

A, B, C, D, E = map(NodeId, "abcde")
# a -> b -> c, d; a -> e
TREE = ExecutionTree(
    TreeNode(id=node, parent=parent, cost=1.0, size=1)
    for node, parent in ((A, None), (B, A), (C, B), (D, B), (E, A))
)


def pool() -> Pool:
    return Pool(TREE, set())


def test_leaves_of_a_lost_part_are_to_be_planned_for_again() -> None:
    known = pool()
    assert known.is_empty
    assert known.lost([C, D], running=B) is None
    assert known.loose == {C, D}
    assert known.next_alone() is None


def test_a_cell_that_was_running_on_two_lost_hosts_is_put_aside_with_what_is_below_it() -> None:
    known = pool()
    known.lost([C, D], running=B)
    known.loose.clear()  # they were given to another host
    known.lost([C, D, E], running=B)
    assert known.loose == {E}
    assert known.next_alone() == (B, frozenset({C, D}))
    assert known.next_alone() is None


def test_a_cell_that_takes_its_host_with_it_even_alone_has_failed() -> None:
    known = pool()
    known.fatal(B, [C, D, E])
    assert known.loose == {E}
    assert known.next_alone() == (B, frozenset({C, D}))
    assert known.lost([C, D], running=B) == B
    assert known.loose == {E}
    assert not known.alone


def test_a_host_that_is_lost_between_cells_says_nothing_about_them() -> None:
    known = pool()
    for _ in range(3):
        known.lost([C], running=None)
    assert known.loose == {C}
    assert not known.alone


def test_what_is_nearest_to_the_root_is_tried_first_and_takes_its_leaves_along() -> None:
    known = pool()
    known.fatal(C, [C])
    known.fatal(E, [E])
    known.fatal(B, [D])
    assert known.next_alone() == (B, frozenset({C, D}))
    assert known.next_alone() == (E, frozenset({E}))
    assert known.is_empty
