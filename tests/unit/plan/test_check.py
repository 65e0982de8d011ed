"""Plans that are wrong are refused, with the step that is; plans that are right are followed."""

from __future__ import annotations

import ast
import inspect
import math
import pickle
from collections.abc import Iterable
from dataclasses import replace
from typing import cast

import pytest

from chexpoint.errors import InvalidPlan, InvalidValue
from chexpoint.model import (
    Action,
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    PlanStep,
    Schedule,
    StepCosts,
    TreeNode,
)
from chexpoint.plan import check
from chexpoint.plan.check import check_plan, check_schedule, judge_plan
from chexpoint.plan.problem import Problem
from chexpoint.plan.solving import solve


def tree_of(text: str) -> ExecutionTree:
    """Return a tree from lines of id, parent (or -), cost, size and perhaps delta."""
    nodes = []
    for line in text.strip().splitlines():
        ident, parent, cost, size, *delta = line.split()
        nodes.append(
            TreeNode(
                id=NodeId(ident),
                parent=None if parent == "-" else NodeId(parent),
                cost=float(cost),
                size=int(size),
                delta=int(delta[0]) if delta else None,
            )
        )
    return ExecutionTree(nodes)


def ids(text: str) -> tuple[NodeId, ...]:
    return tuple(NodeId(word) for word in text.split())


def steps_of(text: str) -> tuple[PlanStep, ...]:
    """Return steps from an action and the nodes that it is done to, one after the other."""
    return tuple(
        PlanStep(cast("Action", action), None if node == "-" else NodeId(node))
        for action, *nodes in (part.split() for part in text.split(","))
        for node in nodes
    )


def plan_of(
    steps: str, *, cost: float, versions: str, budget: float = math.inf, left_out: str = ""
) -> Plan:
    return Plan(
        planner="by hand",
        budget=budget,
        cost=cost,
        lower_bound=0.0,
        no_cache_cost=0.0,
        steps=steps_of(steps),
        versions=ids(versions),
        left_out=ids(left_out),
    )


def in_memory(text: str) -> tuple[HeldState, ...]:
    return tuple(HeldState(node=node) for node in ids(text))


TREE = tree_of("""
    a - 1 10
    b a 2 20
    c b 4 30
    d b 8 40
    e a 16 50
""")
RIGHT = plan_of(
    "compute a, checkpoint a, compute b, checkpoint b, compute c, restore b, compute d, evict b, "
    "take a, compute e",
    cost=31,
    versions="c d e",
    budget=30,
)


def changed(old: str, new: str) -> Plan:
    """Return the right plan with other steps instead of one."""
    [step] = steps_of(old)
    at = RIGHT.steps.index(step)
    new_steps = steps_of(new) if new else ()
    return replace(RIGHT, steps=RIGHT.steps[:at] + new_steps + RIGHT.steps[at + 1 :])


# ---------------------------------------------------------------- steps


def test_a_right_plan_is_followed_step_by_step() -> None:
    found = check_plan(TREE, RIGHT)
    assert tuple(moment.step for moment in found) == RIGHT.steps
    assert [moment.time for moment in found] == [1, 1, 3, 3, 7, 7, 15, 15, 15, 31]
    assert [moment.worker for moment in found] == list("aabbcbddae")
    assert ["".join(moment.held) for moment in found] == [
        "", "a", "a", "ab", "ab", "ab", "ab", "a", "", "",
    ]  # fmt: skip
    assert [moment.held_bytes for moment in found] == [0, 10, 10, 30, 30, 30, 30, 10, 0, 0]


def test_steps_that_do_not_change_what_is_held_share_it() -> None:
    found = check_plan(TREE, RIGHT)
    assert found[3].held is found[4].held is found[5].held is found[6].held


@pytest.mark.parametrize(
    ("old", "new", "number", "reason"),
    [
        ("compute c", "jump c", 4, "there is no action 'jump'"),
        ("compute c", "compute x", 4, "node 'x' is not in the tree"),
        ("restore b", "restore x", 5, "node 'x' is not in the tree"),
        ("compute c", "compute -", 4, "there is nothing to compute"),
        ("take a", "take -", 8, "there is nothing to take"),
        ("compute a", "compute e", 0, "the worker is fresh and not at 'a'"),
        ("compute b", "compute c", 2, "the worker is at 'a' and not at 'b'"),
        ("compute d", "compute a", 6, "the worker is at 'b' and not fresh"),
        ("restore b", "", 5, "the worker is at 'c' and not at 'b'"),
        ("checkpoint b", "checkpoint c", 3, "the worker is at 'b' and not at 'c'"),
        ("compute a", "checkpoint a", 0, "the worker is fresh and not at 'a'"),
        ("checkpoint b", "checkpoint b b", 4, "a checkpoint of 'b' is in memory already"),
        ("restore b", "restore c", 5, "no checkpoint of 'c' is in memory"),
        ("evict b", "evict c", 7, "no checkpoint of 'c' is in memory"),
        ("take a", "take c", 8, "no checkpoint of 'c' is in memory"),
        ("evict b", "evict b b", 8, "no checkpoint of 'b' is in memory"),
        ("take a", "take a a", 9, "no checkpoint of 'a' is in memory"),
        ("take a", "evict a, restore a", 9, "no checkpoint of 'a' is in memory"),
        ("compute c", "compute c, checkpoint c", 5, "60 B are taken, 30 B more than the budget"),
    ],
)
def test_a_wrong_step_is_refused(old: str, new: str, number: int, reason: str) -> None:
    wrong = changed(old, new)
    with pytest.raises(InvalidPlan) as refused:
        check_plan(TREE, wrong)
    assert reason in refused.value.reason
    assert refused.value.number == number
    assert refused.value.step == wrong.steps[number]
    with pytest.raises(InvalidPlan) as judged:
        judge_plan(TREE, wrong)
    assert str(judged.value) == str(refused.value)


def test_the_refusal_says_in_one_line_which_step_is_wrong() -> None:
    with pytest.raises(InvalidPlan) as refused:
        check_plan(TREE, changed("restore b", "restore -"))
    assert str(refused.value) == (
        "the plan cannot be run: step 6 (compute 'd'): the worker is fresh and not at 'b'. "
        "Plan again."
    )


def test_the_refusal_of_too_many_bytes_says_how_many() -> None:
    tree = tree_of("a - 1 3145728\nb a 1 0")
    plan = plan_of("compute a, checkpoint a, compute b", cost=2, versions="b", budget=2097152)
    with pytest.raises(InvalidPlan, match=r"3\.0 MB are taken, 1\.0 MB more .* of 2\.0 MB"):
        check_plan(tree, plan)


def test_the_refusal_survives_pickling() -> None:
    with pytest.raises(InvalidPlan) as refused:
        check_plan(TREE, changed("compute c", "compute x"))
    again = pickle.loads(pickle.dumps(refused.value))  # noqa: S301 - our own bytes
    assert type(again) is InvalidPlan
    assert str(again) == str(refused.value)
    assert vars(again) == vars(refused.value)


def test_every_step_costs_what_it_should() -> None:
    costs = StepCosts(
        checkpoint=0.5,
        checkpoint_per_byte=0.25,
        restore=0.125,
        restore_per_byte=2,
        take=64,
        fresh=128,
    )
    plan = plan_of(
        "compute a, checkpoint a, restore a, restore -, take a, compute e",
        cost=1 + 0.5 + 2.5 + 0.125 + 20 + 128 + 64 + 16,
        versions="e",
        left_out="c d",
    )
    times = [moment.time for moment in check_plan(TREE, plan, costs=costs)]
    assert times == [1, 4, 24.125, 152.125, 216.125, 232.125]


# ---------------------------------------------------------------- the plan as a whole


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (changed("compute e", ""), "version 'e' is not replayed"),
        (replace(RIGHT, steps=()), "version 'c' is not replayed, nor 2 more"),
        (replace(RIGHT, versions=ids("c d")), "version 2 that it replays is 'e', and it says none"),
        (
            replace(RIGHT, versions=ids("d c e")),
            "version 0 that it replays is 'c', and it says 'd'",
        ),
        (replace(RIGHT, versions=ids("c d e e")), "version 3 that it replays is none"),
        (replace(RIGHT, versions=ids("c d e b")), "version 3 that it replays is none"),
        (replace(RIGHT, left_out=ids("e")), "version 'e' is left out, but it is replayed"),
        (replace(RIGHT, left_out=ids("b")), "'b' is left out, but it is no version"),
        (replace(RIGHT, left_out=ids("x")), "'x' is left out, but it is no version"),
        (replace(RIGHT, cost=30), "it costs 31 s, and it says 30 s"),
        (replace(RIGHT, cost=31 * (1 + 1e-8)), "it costs 31 s, and it says 31.00000031 s"),
        (replace(RIGHT, cost=math.nan), "it costs 31 s, and it says nan s"),
        (replace(RIGHT, lower_bound=32), "it costs 31 s, less than its lower bound of 32 s"),
        (replace(RIGHT, lower_bound=math.nan), "less than its lower bound of nan s"),
    ],
)
def test_a_plan_that_is_not_what_it_says_is_refused(wrong: Plan, reason: str) -> None:
    with pytest.raises(InvalidPlan) as refused:
        check_plan(TREE, wrong)
    assert reason in refused.value.reason
    assert (refused.value.number, refused.value.step) == (None, None)
    assert str(refused.value) == f"the plan cannot be run: {refused.value.reason}. Plan again."


def test_a_cost_that_is_rounded_otherwise_is_not_wrong() -> None:
    check_plan(TREE, replace(RIGHT, cost=31 * (1 + 1e-10), lower_bound=31 * (1 + 2e-10)))


def test_a_version_may_be_left_out_once() -> None:
    plan = plan_of("compute a e", cost=17, versions="e", left_out="c d")
    check_plan(TREE, plan)
    with pytest.raises(InvalidPlan, match="left out twice"):
        check_plan(TREE, replace(plan, left_out=ids("c d c")))


def test_a_budget_that_is_no_number_is_never_kept() -> None:
    with pytest.raises(InvalidPlan, match="step 0"):
        check_plan(TREE, replace(RIGHT, budget=math.nan))


def test_a_version_that_is_replayed_twice_counts_where_it_is_replayed_first() -> None:
    plan = plan_of(
        "compute a e, restore -, compute a b c, restore -, compute a e, restore -, compute a b d",
        cost=17 + 7 + 17 + 11,
        versions="e c d",
    )
    check_plan(TREE, plan)


# ---------------------------------------------------------------- a part of the tree


def test_a_plan_for_some_versions_is_complete_with_these() -> None:
    plan = plan_of("compute a b c, restore -, compute a e", cost=24, versions="c e")
    check_plan(TREE, plan, leaves=ids("e c"))
    with pytest.raises(InvalidPlan, match="'d' is not replayed"):
        check_plan(TREE, plan)


def test_a_plan_for_some_versions_is_refused_if_one_of_them_is_missing() -> None:
    plan = plan_of("compute a e", cost=17, versions="e")
    with pytest.raises(InvalidPlan, match="'c' is not replayed"):
        check_plan(TREE, plan, leaves=ids("c e"))


def test_a_plan_for_some_versions_must_name_all_that_it_replays() -> None:
    plan = plan_of("compute a b c, restore -, compute a e", cost=24, versions="e")
    with pytest.raises(InvalidPlan, match="replays is 'c', and it says 'e'"):
        check_plan(TREE, plan, leaves=ids("e"))


def test_a_version_may_end_within_the_tree() -> None:
    check_plan(TREE, plan_of("compute a b", cost=3, versions="b"), leaves=ids("b"))


def test_a_version_that_leads_to_another_is_replayed_with_it() -> None:
    """As for the planners, which are given the same leaves."""
    plan = plan_of("compute a b c", cost=7, versions="c")
    assert plan.versions == solve(Problem(TREE, 0, leaves=ids("b c")), "none", seconds=1).versions
    check_plan(TREE, plan, leaves=ids("b c"))


def test_states_that_lead_to_none_of_the_versions_are_not_looked_at() -> None:
    plan = plan_of("compute a e", cost=17, versions="e", budget=0)
    check_plan(TREE, plan, leaves=ids("e"), held=in_memory("b"))


@pytest.mark.parametrize(
    ("held", "leaves", "message"),
    [
        ("x", None, "a state of node 'x' is held, which is not in the tree"),
        ("a a", None, "the state of node 'a' is held twice"),
        ("", "e x", "there is no node 'x' in the tree"),
    ],
)
def test_what_the_plan_is_judged_by_must_be_right(
    held: str, leaves: str | None, message: str
) -> None:
    wanted = None if leaves is None else ids(leaves)
    with pytest.raises(InvalidValue, match=message):
        check_plan(TREE, RIGHT, held=in_memory(held), leaves=wanted)


@pytest.mark.parametrize("lines", ["a - 1 1\nb b 1 1", "a - 1 1\nb x 1 1"])
def test_a_tree_with_a_node_that_cannot_be_reached_is_refused(lines: str) -> None:
    with pytest.raises(InvalidValue, match="no way leads from a fresh worker to node 'b'"):
        check_plan(tree_of(lines), plan_of("compute a", cost=1, versions="a"))


def test_an_empty_tree_needs_no_steps() -> None:
    assert check_plan(ExecutionTree(), replace(RIGHT, steps=(), versions=(), cost=0)) == ()


def test_a_forest_has_a_fresh_worker_above_it() -> None:
    tree = tree_of("a - 1 1\nb - 2 1")
    check_plan(tree, plan_of("compute a, restore -, compute b", cost=3, versions="a b"))


# ---------------------------------------------------------------- bytes

GROWING = tree_of("""
    a - 1 100 100
    b a 1 110 10
    c b 1 115 5
    d c 1 300 200
    e a 1 120 30
""")


def bytes_after(steps: str, tree: ExecutionTree = GROWING) -> list[int]:
    """Return what is held after each step that is not a computation."""
    computed = [step.node for step in steps_of(steps) if step.action == "compute"]
    leaves = [node for node in tree.nodes if not tree.children(node)]
    plan = replace(
        plan_of(
            steps, cost=math.fsum(tree.nodes[node].cost for node in computed if node), versions=""
        ),
        versions=tuple(node for node in computed if node in leaves),
        left_out=tuple(node for node in leaves if node not in computed),
    )
    found = check_plan(tree, plan)
    return [moment.held_bytes for moment in found if moment.step.action != "compute"]


def test_a_checkpoint_takes_what_changed_since_the_nearest_one_above_it() -> None:
    assert bytes_after("compute a, checkpoint a, compute b c, checkpoint c") == [100, 115]


def test_a_checkpoint_takes_no_more_than_its_state() -> None:
    """Of what changed since the first cell, 315 bytes, some changed twice."""
    assert bytes_after("compute a b c d, checkpoint d") == [300]


def test_without_one_above_it_a_checkpoint_takes_its_state() -> None:
    assert bytes_after("compute a b, checkpoint b") == [110]


def test_a_checkpoint_takes_more_when_the_one_above_it_is_evicted() -> None:
    steps = "compute a, checkpoint a, compute b, checkpoint b, compute c, checkpoint c, evict b a c"
    assert bytes_after(steps) == [100, 110, 115, 115, 115, 0]


def test_a_checkpoint_between_two_is_shared_by_the_lower_one() -> None:
    steps = "compute a b c d, checkpoint d, restore -, compute a, checkpoint a, compute b, "
    assert bytes_after(steps + "checkpoint b, evict a b") == [300, 300, 315, 315, 315, 300]


def test_checkpoints_side_by_side_share_nothing_but_what_is_above_them() -> None:
    steps = "compute a b, checkpoint b, restore -, compute a, checkpoint a, compute e, checkpoint e"
    assert bytes_after(steps) == [110, 110, 110, 140]


def test_without_deltas_checkpoints_take_their_sizes() -> None:
    steps = "compute a, checkpoint a, compute b, checkpoint b, compute c, checkpoint c, evict a"
    assert bytes_after(steps, TREE) == [10, 30, 60, 50]


def test_an_eviction_that_makes_another_checkpoint_too_large_is_refused() -> None:
    tree = tree_of("a - 1 1 90\nb a 1 100 1")
    plan = plan_of(
        "compute a, checkpoint a, compute b, checkpoint b, evict a", cost=2, versions="b", budget=9
    )
    with pytest.raises(InvalidPlan, match=r"step 4 \(evict 'a'\): 91 B are taken, 82 B more"):
        check_plan(tree, plan)


# ---------------------------------------------------------------- what is there before the plan


def test_a_checkpoint_that_was_there_is_used_like_any_other() -> None:
    plan = plan_of(
        "restore b, compute c, take b, compute d, restore -, compute a e", cost=29, versions="c d e"
    )
    found = check_plan(TREE, plan, held=in_memory("b"))
    assert [moment.held_bytes for moment in found] == [20, 20, 0, 0, 0, 0, 0]
    with pytest.raises(InvalidPlan, match=r"step 0 \(restore 'b'\): no checkpoint"):
        check_plan(TREE, plan)


def test_what_was_there_comes_first_and_in_its_order() -> None:
    found = check_plan(TREE, replace(RIGHT, budget=math.inf), held=in_memory("d c"))
    assert found[0].held == ids("d c")
    assert found[3].held == ids("d c a b")


def test_a_checkpoint_that_was_there_is_not_made_again() -> None:
    with pytest.raises(InvalidPlan, match=r"step 1 \(checkpoint 'a'\): .* in memory already"):
        check_plan(TREE, replace(RIGHT, budget=math.inf), held=in_memory("a"))


def test_a_state_elsewhere_is_loaded_as_often_as_one_likes_and_takes_no_memory() -> None:
    plan = plan_of(
        "restore b, compute c, restore b, compute d, restore -, compute a e",
        cost=0.5 + 4 + 0.5 + 8 + 17,
        versions="c d e",
        budget=0,
    )
    costs = StepCosts(restore=100, restore_per_byte=100)
    found = check_plan(TREE, plan, held=[HeldState(node=NodeId("b"), load=0.5)], costs=costs)
    assert {(moment.held, moment.held_bytes) for moment in found} == {((), 0)}


@pytest.mark.parametrize("action", ["take", "evict"])
def test_a_state_elsewhere_can_be_neither_taken_nor_evicted(action: str) -> None:
    plan = plan_of(f"{action} b", cost=0, versions="")
    with pytest.raises(InvalidPlan, match=r"step 0 .* no checkpoint of 'b' is in memory"):
        check_plan(TREE, plan, held=[HeldState(node=NodeId("b"), load=0.5)])


def test_a_state_elsewhere_may_be_held_in_memory_too_and_is_restored_from_there() -> None:
    plan = plan_of(
        "restore b, checkpoint b, compute c, restore b, compute d, evict b, restore b, "
        "restore -, compute a e",
        cost=0.5 + 4 + 0.25 + 8 + 0.5 + 17,
        versions="c d e",
    )
    held = [HeldState(node=NodeId("b"), load=0.5)]
    found = check_plan(TREE, plan, held=held, costs=StepCosts(restore=0.25))
    assert [moment.held_bytes for moment in found] == [0, 20, 20, 20, 20, 0, 0, 0, 0, 0]


def test_a_state_elsewhere_is_no_base_of_a_checkpoint() -> None:
    plan = plan_of(
        "restore b, compute c, checkpoint c", cost=1.5, versions="", left_out="d e", budget=115
    )
    held = [HeldState(node=NodeId("b"), load=0.5)]
    assert check_plan(GROWING, plan, held=held)[-1].held_bytes == 115


def test_too_much_must_be_evicted_before_anything_else() -> None:
    rest = "restore b, compute c, restore b, compute d, restore -, compute a e"
    plan = plan_of("evict d, evict c, " + rest, cost=29, versions="c d e", budget=20)
    found = check_plan(TREE, plan, held=in_memory("b c d"))
    assert [moment.held_bytes for moment in found[:3]] == [50, 20, 20]
    too_late = plan_of("evict d, " + rest, cost=29, versions="c d e", budget=20)
    with pytest.raises(InvalidPlan, match=r"step 1 \(restore 'b'\): 50 B are taken, 30 B more"):
        check_plan(TREE, too_late, held=in_memory("b c d"))
    in_between = plan_of(
        "evict d, restore -, evict c, " + rest, cost=29, versions="c d e", budget=20
    )
    with pytest.raises(InvalidPlan, match=r"step 1 \(restore a fresh worker\): 50 B are taken"):
        check_plan(TREE, in_between, held=in_memory("b c d"))


# ---------------------------------------------------------------- schedules


def lane(steps: str, *, cost: float, versions: str, budget: float = 0) -> Plan:
    return plan_of(steps, cost=cost, versions=versions, budget=budget)


LEFT = lane(
    "compute a b, checkpoint b, compute c, take b, compute d", cost=15, versions="c d", budget=20
)
SIDE = lane("compute a e", cost=17, versions="e")
SCHEDULE = Schedule(lanes=(LEFT, SIDE), budget=20, single=31)


def test_a_right_schedule_is_followed_lane_by_lane() -> None:
    left, side = check_schedule(TREE, SCHEDULE)
    assert left == check_plan(TREE, LEFT, leaves=ids("c d"))
    assert [moment.time for moment in side] == [1, 17]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (replace(SCHEDULE, lanes=()), "the schedule has no lanes"),
        (replace(SCHEDULE, lanes=(LEFT,)), "version 'e' is in no lane"),
        (replace(SCHEDULE, lanes=(LEFT, SIDE, SIDE)), "lane 2: version 'e' is in lane 1 too"),
        (
            replace(SCHEDULE, lanes=(LEFT, replace(SIDE, versions=ids("x")))),
            "lane 1: 'x' is no version",
        ),
        (
            replace(SCHEDULE, lanes=(LEFT, replace(SIDE, versions=ids("a e")))),
            "lane 1: 'a' is no version",
        ),
        (
            replace(SCHEDULE, lanes=(LEFT, replace(SIDE, steps=steps_of("compute e")))),
            r"lane 1: step 0 \(compute 'e'\): the worker is fresh and not at 'a'",
        ),
        (
            replace(SCHEDULE, lanes=(replace(LEFT, budget=19), SIDE)),
            r"lane 0: step 2 \(checkpoint 'b'\): 20 B are taken, 1 B more",
        ),
        (
            replace(SCHEDULE, lanes=(LEFT, replace(SIDE, steps=LEFT.steps, budget=20))),
            "lane 1: version 'e' is not replayed",
        ),
        (
            replace(SCHEDULE, lanes=(LEFT, replace(SIDE, versions=ids("e e")))),
            "lane 1: version 1 that it replays is none",
        ),
        (replace(SCHEDULE, budget=19), "shares of its lanes: 20 B are taken, 1 B more"),
        (replace(SCHEDULE, single=16), "its lanes take 17 s, and one engine alone 16 s"),
    ],
)
def test_a_wrong_schedule_is_refused(wrong: Schedule, message: str) -> None:
    with pytest.raises(InvalidPlan, match=message):
        check_schedule(TREE, wrong)


def test_a_lane_that_replays_a_version_of_another_lane_is_refused() -> None:
    both = lane("compute a e, restore -, compute a b c", cost=24, versions="e")
    with pytest.raises(InvalidPlan, match=r"lane 1: version 1 that it replays is 'c'"):
        check_schedule(TREE, replace(SCHEDULE, lanes=(LEFT, both)))


def test_a_version_that_a_lane_leaves_out_is_in_that_lane() -> None:
    partly = replace(lane("compute a b c", cost=7, versions="c"), left_out=ids("d"))
    check_schedule(TREE, replace(SCHEDULE, lanes=(partly, SIDE)))


def test_a_schedule_for_some_versions_is_complete_with_these() -> None:
    only = replace(SCHEDULE, lanes=(SIDE,))
    check_schedule(TREE, only, leaves=ids("e"))
    with pytest.raises(InvalidPlan, match="'c' is in no lane"):
        check_schedule(TREE, only, leaves=ids("c e"))


def test_lanes_may_share_a_budget_without_a_limit() -> None:
    free = replace(LEFT, budget=math.inf)
    check_schedule(TREE, Schedule(lanes=(free, SIDE), budget=math.inf, single=31))


def test_shares_may_be_rounded() -> None:
    sevenths = [lane(f"compute n{i}", cost=1, versions=f"n{i}", budget=0.1 / 7) for i in range(7)]
    tree = tree_of("\n".join(f"n{i} - 1 1" for i in range(7)))
    check_schedule(tree, Schedule(lanes=tuple(sevenths), budget=0.1 * (1 - 1e-12), single=7))


def test_what_is_in_memory_is_there_for_the_first_lane_and_what_can_be_loaded_for_all() -> None:
    left = lane("restore b, compute c, restore b, compute d", cost=13, versions="c d", budget=10)
    side = lane("take a, compute e", cost=16.5, versions="e", budget=10)
    held = (HeldState(node=NodeId("a")), HeldState(node=NodeId("b"), load=0.5))
    costs = StepCosts(take=0.5)
    schedule = Schedule(lanes=(side, left), budget=20, single=29.5)
    check_schedule(TREE, schedule, costs=costs, held=iter(held))
    with pytest.raises(InvalidPlan, match=r"lane 1: .* no checkpoint of 'a' is in memory"):
        check_schedule(TREE, replace(schedule, lanes=(left, side)), costs=costs, held=held)


# ---------------------------------------------------------------- the examples of the paper

# Figure 1, left: versions a b, a b c and a d e.
FIGURE_1 = tree_of("""
    a - 1 1
    b a 10 1
    c b 1 1
    d a 11 1
    e d 2 1
""")

# Figure 6.  Its numbers are in the picture only; these give the totals of the text.
FIGURE_6 = tree_of("""
    a - 1 25
    b a 5 25
    d b 5 25
    g d 5 25
    k g 5 25
    o k 15 25
    c a 1 25
    e c 5 25
    h e 5 25
    l h 5 25
    f c 4 25
    i f 19 25
    m i 5 25
    n i 5 25
    p n 5 25
    j f 5 25
""")
NO_CACHE = plan_of(
    "compute a b d g k o, restore -, compute a c e h l, restore -, compute a c f i m, "
    "restore -, compute a c f i n p, restore -, compute a c f j",
    cost=129,
    versions="o l m p j",
    budget=0,
)
FIRST = plan_of(
    "compute a, checkpoint a, compute b d g k o, restore a, compute c, evict a, checkpoint c, "
    "compute e h l, restore c, compute f, evict c, checkpoint f, compute i m, restore f, "
    "compute i n p, restore f, compute j",
    cost=114,
    versions="o l m p j",
    budget=25,
)
SECOND = plan_of(
    "compute a, checkpoint a, compute b d g k o, restore a, compute c, evict a, checkpoint c, "
    "compute e h l, restore c, compute f i, evict c, checkpoint i, compute m, restore i, "
    "compute n p, restore -, compute a c f j",
    cost=101,
    versions="o l m p j",
    budget=25,
)
THIRD = plan_of(
    "compute a, checkpoint a, compute b d g k o, restore a, compute c, evict a, checkpoint c, "
    "compute e h l, restore c, compute f, evict c, checkpoint f, compute i, checkpoint i, "
    "compute m, restore i, compute n p, restore f, compute j",
    cost=95,
    versions="o l m p j",
    budget=50,
)


@pytest.mark.parametrize("plan", [NO_CACHE, FIRST, SECOND, THIRD])
def test_the_sequences_of_figure_7_are_right(plan: Plan) -> None:
    assert len(check_plan(FIGURE_6, plan)) == len(plan.steps)


@pytest.mark.parametrize(("plan", "enough"), [(FIRST, 25), (SECOND, 25), (THIRD, 50)])
def test_the_sequences_of_figure_7_need_their_cache(plan: Plan, enough: int) -> None:
    assert max(moment.held_bytes for moment in check_plan(FIGURE_6, plan)) == enough
    with pytest.raises(InvalidPlan, match="1 B more than the budget"):
        check_plan(FIGURE_6, replace(plan, budget=enough - 1))


def test_the_versions_of_figure_1_are_replayed_with_a_checkpoint_of_b() -> None:
    """Which is not the best that can be done, but what the text does."""
    plan = plan_of(
        "compute a b, checkpoint b, restore b, compute c, restore -, compute a d e",
        cost=12 + 14,
        versions="c e",
        budget=1,
    )
    assert check_plan(FIGURE_1, plan, leaves=ids("b c e"))[4].time == 12


def gadget(sizes: Iterable[int], size: int, bins: int) -> ExecutionTree:
    """Return the tree of Theorem 1 for items of some sizes and bins of one size."""
    lines = [f"a - {1 / (2 * bins)} {2 * size}"]
    for i, item in enumerate(sizes):
        lines.append(f"b{i} a 1 {item}")
        for j in (1, 2):
            lines.append(f"c{i}{j} b{i} 1 {2 * size}")
            lines += [f"d{i}{j}{k} c{i}{j} 0 {4 * size}" for k in (1, 2)]
    for j in range(bins):
        lines.append(f"e{j} a 1 {2 * size}")
        lines += [f"f{j}{k} e{j} 0 {4 * size}" for k in (1, 2)]
    return tree_of("\n".join(lines))


def packed(bins: list[list[int]]) -> str:
    """Return the steps of the proof: in each phase the items of a bin."""

    def fork(node: str, children: str) -> str:
        one, other = children.split()
        return f"checkpoint {node}, compute {one}, restore {node}, compute {other}, evict {node}, "

    steps = ""
    for number, items in enumerate(bins):
        steps += "restore -, compute a, checkpoint a, "
        for i in items:
            steps += f"compute b{i}, checkpoint b{i}, restore a, "
        steps += f"evict a, compute e{number}, " + fork(f"e{number}", f"f{number}1 f{number}2")
        for i in items:
            steps += f"restore b{i}, compute c{i}1, " + fork(f"c{i}1", f"d{i}11 d{i}12")
            steps += f"take b{i}, compute c{i}2, " + fork(f"c{i}2", f"d{i}21 d{i}22")
    return steps.rstrip(", ")


def versions_of(tree: ExecutionTree, steps: str) -> str:
    nodes = (step.node for step in steps_of(steps) if step.action == "compute" and step.node)
    return " ".join(node for node in nodes if not tree.children(node))


def test_a_packing_is_a_plan_for_the_gadget_of_theorem_1() -> None:
    """Items of 2, 3, 3 and 4 in two bins of 6 cost 3n + K + 1/2."""
    tree = gadget([2, 3, 3, 4], size=6, bins=2)
    steps = packed([[0, 3], [1, 2]])
    plan = plan_of(steps, cost=3 * 4 + 2 + 1 / 2, versions=versions_of(tree, steps), budget=3 * 6)
    assert max(moment.held_bytes for moment in check_plan(tree, plan)) == 18


def test_a_packing_that_does_not_fit_is_no_plan_for_the_gadget() -> None:
    tree = gadget([2, 3, 3, 4], size=6, bins=2)
    steps = packed([[0, 1, 2], [3]])
    plan = plan_of(steps, cost=3 * 4 + 2 + 1 / 2, versions=versions_of(tree, steps), budget=3 * 6)
    with pytest.raises(InvalidPlan, match=r"checkpoint 'b2'\): 20 B are taken, 2 B more"):
        check_plan(tree, plan)


# ---------------------------------------------------------------- planners


def test_the_judge_shares_no_code_with_the_planners() -> None:
    code = ast.parse(inspect.getsource(check))
    imported = {node.module for node in ast.walk(code) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in imported if module and module.startswith("chexpoint")}
    assert ours == {"chexpoint.errors", "chexpoint.model"}


@pytest.mark.parametrize("tree", [TREE, GROWING, FIGURE_1, FIGURE_6])
def test_the_plan_without_checkpoints_is_right(tree: ExecutionTree) -> None:
    costs = StepCosts(fresh=0.25)
    plan = solve(Problem(tree, 0, costs=costs), "none", seconds=1)
    found = check_plan(tree, plan, costs=costs)
    assert found[-1].time == plan.no_cache_cost
