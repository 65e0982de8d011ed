"""Whatever happens on the way, a course does only what can be done, and leaves nothing out."""

from __future__ import annotations

import math
from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from chexpoint.model import ExecutionTree, NodeId, PlanStep, StepCosts
from chexpoint.plan import plan
from chexpoint.replay.course import Course
from tests.support.trees import budgets, leaves_of, trees

COSTS = StepCosts(checkpoint=0.01, restore=0.01, take=0.004, fresh=0.01)


class World:
    """A worker that does as it is told, and to which things happen by chance."""

    def __init__(self, tree: ExecutionTree, budget: float, rng: Random, trouble: float) -> None:
        self.tree = tree
        self.budget = budget
        self.at: NodeId | None = None
        self.is_lost = False
        self.held: dict[NodeId, int] = {}
        self.sizes = {
            node.id: node.size if rng.random() >= trouble else node.size * rng.randint(1, 3)
            for node in tree.nodes.values()
        }
        self.computed: dict[NodeId, int] = {}
        self.given_up: set[NodeId] = set()
        self._rng = rng
        self._trouble = trouble

    def happens(self) -> bool:
        return self._rng.random() < self._trouble

    def step(self, course: Course, step: PlanStep) -> None:
        action, node = step
        if action == "compute":
            assert node is not None
            self._compute(course, node)
        elif action == "checkpoint":
            assert node is not None
            assert (self.at, self.is_lost) == (node, False)
            assert node not in self.held
            if self.happens():
                course.not_held(node)
                return
            self.held[node] = self.sizes[node]
            assert sum(self.held.values()) <= self.budget
            course.done(step)
        elif action == "evict":
            assert node is not None
            del self.held[node]
            course.done(step)
        else:
            self._go(course, step)

    def _compute(self, course: Course, node: NodeId) -> None:
        assert not self.is_lost
        assert self.tree.nodes[node].parent == self.at
        if self.happens():
            self.given_up.add(node)
            self.is_lost = True
            course.gave_up(node)
        elif self.happens():  # its process is killed, once
            self.is_lost = True
            course.adrift()
        else:
            self.at = node
            self.computed[node] = self.computed.get(node, 0) + 1
            course.computed(node, self.tree.nodes[node].cost * 1.5, self.sizes[node])

    def _go(self, course: Course, step: PlanStep) -> None:
        node = step.node
        if node is not None:
            assert node in self.held
            if self.happens():
                del self.held[node]
                self.is_lost = True
                course.lost([node])
                course.adrift()
                return
            if step.action == "take":
                del self.held[node]
        self.at, self.is_lost = node, False
        course.done(step)


def follow(world: World, course: Course) -> None:
    for _ in range(200 * len(world.tree)):
        step = course.next()
        if step is None:
            return
        world.step(course, step)
    raise AssertionError("it never ends")


def begun(tree: ExecutionTree, budget: float) -> Course:
    first = plan(tree, budget, costs=COSTS)
    return Course(tree, first, budget=budget, costs=COSTS, planner="pc-move")


@given(st.data())
def test_everything_that_can_be_computed_is_computed_within_the_budget(data: st.DataObject) -> None:
    tree = data.draw(trees(with_deltas=False))
    budget = min(data.draw(budgets(tree)), 10**12)
    trouble = data.draw(st.sampled_from((0.0, 0.1, 0.3)))
    world = World(tree, budget, Random(data.draw(st.integers(0, 10**6))), trouble)
    follow(world, begun(tree, budget))
    for leaf in leaves_of(tree):
        lost = any(node.id in world.given_up for node in tree.path(leaf))
        assert leaf in world.computed or lost
    assert not world.held


@given(st.data())
def test_without_trouble_the_plan_is_followed_to_the_letter(data: st.DataObject) -> None:
    tree = data.draw(trees(with_deltas=False))
    budget = min(data.draw(budgets(tree)), 10**12)
    world = World(tree, budget, Random(0), 0.0)
    course = begun(tree, budget)
    made = []
    while course.leaves:
        step = course.next()
        assert step is not None
        made.append(step)
        world.step(course, step)
    planned = plan(tree, budget, costs=COSTS).steps
    assert tuple(made) == planned[: len(made)]
    assert all(step.action == "evict" for step in planned[len(made) :])
    assert course.plans == 1


@given(st.data())
def test_what_is_left_to_do_is_counted_down_to_nothing(data: st.DataObject) -> None:
    tree = data.draw(trees(with_deltas=False))
    course = begun(tree, 0)
    world = World(tree, 0, Random(0), 0.0)
    while course.leaves:
        before, _ = course.remaining()
        step = course.next()
        assert step is not None
        world.step(course, step)
        assert course.remaining()[0] == before - (step.action == "compute")
    cells, seconds = course.remaining()
    assert cells == 0
    assert math.isclose(seconds, 0, abs_tol=1e-6)


@given(st.data())
def test_when_cells_take_longer_fewer_versions_are_begun(data: st.DataObject) -> None:
    tree = data.draw(trees(with_deltas=False, roots=1))
    course = begun(tree, math.inf)
    world = World(tree, math.inf, Random(0), 0.0)
    clock = 0.0
    limit = data.draw(st.floats(0, 20))
    while (step := course.next(limit - clock)) is not None:
        if step.action == "compute" and step.node is not None:
            clock += tree.nodes[step.node].cost * 1.5
        world.step(course, step)
    longest = max(sum(node.cost for node in tree.path(leaf)) for leaf in leaves_of(tree)) * 1.5
    # The first plan was made without a limit: what has begun is ended.
    assert clock <= max(limit, 0) + longest + 1e-6


def test_a_state_that_turns_out_too_large_is_not_held_and_it_is_planned_again() -> None:
    from tests.support.trees import node, recorded

    tree = recorded(
        [node("a", None, 5.0), node("b", "a", 1.0), node("c", "a", 1.0), node("d", "a", 1.0)]
    )
    tree = ExecutionTree((replace(n, size=10) for n in tree.nodes.values()), tree.versions)
    course = begun(tree, 15)
    assert course.next() == ("compute", "a")
    course.computed(NodeId("a"), 5.0, 100)
    seen = []
    while (step := course.next()) is not None:
        seen.append(step)
        if step.action == "compute" and step.node is not None:
            course.computed(step.node, 1.0, 100 if step.node == "a" else 10)
        else:
            course.done(step)
    assert not [step for step in seen if step.action == "checkpoint"]
    assert [step.node for step in seen if step.action == "compute"].count(NodeId("a")) == 2
    assert course.plans > 1
