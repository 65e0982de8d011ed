"""Plans are cut in two where both parts are done earliest."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, NodeId, PlanStep, TreeNode
from chexpoint.plan import plan, sample_tree
from chexpoint.replay.course import Course
from chexpoint.replay.replayer import STEP_COSTS
from chexpoint.replay.shared_course import SharedCourse
from chexpoint.replay.sharing import Reach, best_cut


def star(prefix: float, leaves: int, cost: float) -> ExecutionTree:
    first = TreeNode(id=NodeId("p"), parent=None, cost=prefix, size=1)
    rest = (
        TreeNode(id=NodeId(f"l{n}"), parent=NodeId("p"), cost=cost, size=1) for n in range(leaves)
    )
    return ExecutionTree([first, *rest])


def course(tree: ExecutionTree, *, is_keeping: bool = True) -> Course:
    return Course(
        tree,
        plan(tree, math.inf, costs=STEP_COSTS),
        budget=math.inf,
        costs=STEP_COSTS,
        planner="pc-move",
        is_keeping=is_keeping,
    )


def leaves_of(tree: ExecutionTree) -> set[NodeId]:
    return {node for node in tree.nodes if not tree.children(node)}


def follow(way: Course, tree: ExecutionTree) -> list[PlanStep]:
    """Make all steps of a course, and return them."""
    made = []
    while (step := way.next()) is not None:
        made.append(step)
        if step.action == "compute" and step.node is not None:
            way.computed(step.node, tree.nodes[step.node].cost, tree.nodes[step.node].size)
        else:
            way.done(step)
    return made


def test_half_of_the_leaves_is_left_to_who_has_the_state_above_them() -> None:
    tree = star(10, 8, 1)
    way = course(tree)
    for _ in range(2):  # the prefix is computed and held
        step = way.next()
        assert step is not None
        way.done(step) if step.action != "compute" else way.computed(NodeId("p"), 10, 1)
    given_away = way.give_away(Reach(states={NodeId("p"): 0.01}))
    assert len(given_away) == 4
    assert given_away | way.leaves == leaves_of(tree)
    computed = {step.node for step in follow(way, tree) if step.action == "compute"}
    assert computed == leaves_of(tree) - given_away


def test_nothing_is_left_to_who_would_need_longer() -> None:
    assert course(star(10, 4, 1)).give_away(Reach(start_s=20)) == frozenset()
    assert course(star(0.1, 1, 50)).give_away(Reach()) == frozenset()  # the leaf it is at


def test_what_is_loaded_counts_with_what_loading_takes() -> None:
    tree = star(10, 8, 1)
    steps = plan(tree, math.inf).steps[2:]
    by_computing = best_cut(tree, steps, leaves_of(tree), Reach())
    by_loading = best_cut(tree, steps, leaves_of(tree), Reach(states={NodeId("p"): 2.0}))
    assert by_computing is None  # ten seconds, to save four
    assert by_loading is not None
    assert len(by_loading.leaves) == 3  # five seconds here, and two and three there


def test_a_course_that_has_run_dry_keeps_its_states_and_goes_on_from_them() -> None:
    tree = star(10, 3, 1)
    way = course(tree)
    way.give_away(Reach(states={NodeId("p"): 0.0}))
    follow(way, tree)
    assert way.held == {NodeId("p"): 1}
    left = leaves_of(tree) - way.leaves
    way.take_in(left)
    assert NodeId("p") not in {s.node for s in follow(way, tree) if s.action == "compute"}
    assert not way.leaves


def waiting_course(tree: ExecutionTree) -> SharedCourse:
    """Return the course of an engine that was started before there was a plan."""
    return SharedCourse(tree, None, budget=math.inf, costs=STEP_COSTS, planner="pc-move")


def test_an_engine_that_was_started_before_there_was_a_plan_follows_it() -> None:
    tree = star(10, 3, 1)
    made = plan(tree, math.inf, costs=STEP_COSTS)
    way = waiting_course(tree)
    assert way.next() is None
    assert way.given(made.versions, made)
    assert way.wait_for_more(lambda: True)
    follow(way, tree)
    assert way.plans == 1
    assert not way.leaves


def test_what_is_given_just_before_the_end_is_computed_and_later_things_are_refused() -> None:
    tree = star(10, 3, 1)
    way = waiting_course(tree)
    assert way.next() is None
    assert way.given(leaves_of(tree))
    way.finish()
    assert way.wait_for_more(lambda: True)
    assert {s.node for s in follow(way, tree) if s.action == "compute"} == set(tree.nodes)
    assert not way.wait_for_more(lambda: True)
    assert not way.given(leaves_of(tree))


def test_a_course_without_time_for_its_leaves_waits_for_nothing() -> None:
    way = waiting_course(star(10, 3, 1))
    way.given([NodeId("l1")])
    assert way.next(seconds_left=0.0) is None
    assert not way.wait_for_more(lambda: True)


@given(st.sampled_from(["ci", "binary", "star"]), st.integers(0, 50), st.integers(0, 6))
@settings(deadline=None, max_examples=40)
def test_nothing_is_forgotten_or_computed_in_vain(kind: str, seed: int, done: int) -> None:
    tree = sample_tree(kind, seed=seed, nodes=15)
    mine = course(tree)
    for _ in range(done):
        step = mine.next()
        if step is not None and step.action == "compute" and step.node is not None:
            mine.computed(step.node, tree.nodes[step.node].cost, tree.nodes[step.node].size)
        elif step is not None:
            mine.done(step)
    before = mine.leaves
    away = mine.give_away(Reach())
    assert away | mine.leaves == before
    assert not away & mine.leaves
    needed = {node.id for leaf in mine.leaves for node in tree.path(leaf)}
    assert {s.node for s in follow(mine, tree) if s.action == "compute"} <= needed
