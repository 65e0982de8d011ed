"""The judge of plans and a machine that does everything the long way always agree."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.errors import InvalidPlan
from chexpoint.model import (
    Action,
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    PlanStep,
    Seconds,
    StepCosts,
    TreeNode,
)
from chexpoint.plan.check import Memory, check_plan
from chexpoint.plan.problem import Problem
from chexpoint.plan.reasons import explain
from chexpoint.plan.solving import PLANNERS, solve

pytestmark = pytest.mark.slow

ACTIONS: tuple[Action, ...] = ("compute", "checkpoint", "restore", "take", "evict")

# Whole numbers of seconds, so that sums do not depend on their order.
seconds = st.integers(0, 9).map(float)
some_bytes = st.integers(0, 9)


class Case(NamedTuple):
    """All that a plan is judged by."""

    tree: ExecutionTree
    budget: float
    costs: StepCosts
    held: tuple[HeldState, ...]

    @property
    def leaves(self) -> set[NodeId]:
        return {node for node in self.tree.nodes if not self.tree.children(node)}


@dataclass(slots=True)
class Machine:
    """What a worker does, written as in the rules, with no thought of speed."""

    case: Case
    worker: NodeId | None = None
    memory: list[NodeId] = field(default_factory=list)
    time: Seconds = 0.0
    has_only_evicted: bool = True

    def __post_init__(self) -> None:
        self.memory = [state.node for state in self.case.held if state.load is None]

    @property
    def loads(self) -> dict[NodeId, Seconds]:
        return {s.node: s.load for s in self.case.held if s.load is not None}

    @property
    def bytes(self) -> int:
        return bytes_of(self.case.tree, self.memory)

    def price(self, step: PlanStep) -> Seconds | None:
        """Return what a step would cost; None if it cannot be done."""
        action, node = step
        costs = self.case.costs
        if node is None:
            return costs.fresh if action == "restore" else None
        state = self.case.tree.nodes[node]
        in_memory = node in self.memory
        prices = {
            "compute": state.cost if self.worker == state.parent else None,
            "checkpoint": costs.checkpoint + costs.checkpoint_per_byte * state.size
            if self.worker == node and not in_memory
            else None,
            "restore": costs.restore + costs.restore_per_byte * state.size
            if in_memory
            else self.loads.get(node),
            "take": costs.take if in_memory else None,
            "evict": 0.0 if in_memory else None,
        }
        return prices[action]

    def do(self, step: PlanStep) -> bool:
        """Do a step; return whether that was allowed."""
        action, node = step
        price = self.price(step)
        if price is None:
            return False
        self.time += price
        if action == "checkpoint" and node is not None:
            self.memory.append(node)
        if action in {"take", "evict"}:
            self.memory = [other for other in self.memory if other != node]
        if action in {"compute", "restore", "take"}:
            self.worker = node
        self.has_only_evicted = self.has_only_evicted and action == "evict"
        return self.has_only_evicted or self.bytes <= self.case.budget


def bytes_of(tree: ExecutionTree, memory: Sequence[NodeId]) -> int:
    """Return what checkpoints take together, each without what is in the nearest one above it."""
    total = 0
    for node in memory:
        grown = 0
        for at in reversed(tree.path(node)):
            if at.id != node and at.id in memory:
                break
            grown += at.size if at.delta is None else at.delta
        total += min(tree.nodes[node].size, grown)
    return total


class Run(NamedTuple):
    """What came of some steps."""

    snapshots: list[tuple[Seconds, NodeId | None, tuple[NodeId, ...], int]]
    failed: int | None
    """The number of the step that could not be done."""


def run(case: Case, steps: Iterable[PlanStep]) -> Run:
    machine = Machine(case)
    found: list[tuple[Seconds, NodeId | None, tuple[NodeId, ...], int]] = []
    for number, step in enumerate(steps):
        if not machine.do(step):
            return Run(found, number)
        found.append((machine.time, machine.worker, tuple(machine.memory), machine.bytes))
    return Run(found, None)


def stated(case: Case, steps: tuple[PlanStep, ...]) -> Plan:
    """Return a plan of some steps that says what is true, if they can be done."""
    snapshots = run(case, steps).snapshots
    computed = dict.fromkeys(step.node for step in steps if step.action == "compute")
    return Plan(
        planner="at random",
        budget=case.budget,
        cost=snapshots[-1][0] if snapshots else 0.0,
        lower_bound=0.0,
        no_cache_cost=0.0,
        steps=steps,
        versions=tuple(node for node in computed if node in case.leaves and node is not None),
    )


# ---------------------------------------------------------------- what to judge


@st.composite
def trees(draw: st.DrawFn, *, roots: int = 2, most: int = 7) -> ExecutionTree:
    nodes: list[TreeNode] = []
    for number in range(draw(st.integers(1, most))):
        parents = [None] * (number < roots) + [node.id for node in nodes]
        nodes.append(
            TreeNode(
                id=NodeId(f"n{number}"),
                parent=draw(st.sampled_from(parents)),
                cost=draw(seconds),
                size=draw(some_bytes),
                delta=draw(st.none() | some_bytes),
            )
        )
    return ExecutionTree(nodes)


@st.composite
def cases(draw: st.DrawFn, *, roots: int = 2) -> Case:
    tree = draw(trees(roots=roots))
    nodes = draw(st.lists(st.sampled_from(list(tree.nodes)), unique=True, max_size=3))
    held = tuple(HeldState(node=node, load=draw(st.none() | seconds)) for node in nodes)
    budget = draw(st.integers(0, 30) | st.just(math.inf))
    costs = StepCosts(**{name: draw(seconds) for name in StepCosts.__slots__})
    return Case(tree, budget, costs, held)


def allowed(case: Case, steps: list[PlanStep]) -> list[PlanStep]:
    """Return what may be done after some steps."""
    ways = [PlanStep(action, node) for action in ACTIONS for node in (None, *case.tree.nodes)]
    return [step for step in ways if run(case, [*steps, step]).failed is None]


def finish(case: Case, steps: list[PlanStep]) -> None:
    """Add what makes a plan complete."""
    if all(step.action == "evict" for step in steps):  # so far there may be too much in memory
        there = [PlanStep("evict", state.node) for state in case.held if state.load is None]
        steps.extend(step for step in there if step not in steps)
    for leaf in sorted(case.leaves - {step.node for step in steps if step.action == "compute"}):
        steps.append(PlanStep("restore", None))
        steps.extend(PlanStep("compute", node.id) for node in case.tree.path(leaf))


@st.composite
def right_plans(draw: st.DrawFn) -> tuple[Case, tuple[PlanStep, ...]]:
    """Return what may be done at random, and what is missing then."""
    case = draw(cases())
    steps: list[PlanStep] = []
    for _ in range(draw(st.integers(0, 12))):
        ways = allowed(case, steps)
        # The action first: there are more states to go back to than places to go on to.
        action = draw(st.sampled_from(sorted({step.action for step in ways})))
        steps.append(draw(st.sampled_from([step for step in ways if step.action == action])))
    finish(case, steps)
    return case, tuple(steps)


@st.composite
def mutated_plans(draw: st.DrawFn) -> tuple[Case, tuple[PlanStep, ...]]:
    """Return a right plan in which one step was dropped, doubled, moved or replaced."""
    case, right = draw(right_plans())
    steps = list(right)
    at = draw(st.integers(0, len(steps) - 1))
    other = draw(st.integers(0, len(steps) - 1))
    match draw(st.sampled_from(["drop", "double", "swap", "replace"])):
        case "drop":
            del steps[at]
        case "double":
            steps.insert(other, steps[at])
        case "swap":
            steps[at], steps[other] = steps[other], steps[at]
        case _:
            node = draw(st.sampled_from([None, *case.tree.nodes]))
            steps[at] = PlanStep(draw(st.sampled_from(ACTIONS)), node)
    return case, tuple(steps)


# ---------------------------------------------------------------- properties


@settings(deadline=None)
@given(right_plans())
def test_right_plans_are_followed_as_the_machine_does(
    found: tuple[Case, tuple[PlanStep, ...]],
) -> None:
    case, steps = found
    moments = check_plan(case.tree, stated(case, steps), costs=case.costs, held=case.held)
    expected = run(case, steps)
    assert expected.failed is None
    assert [(m.time, m.worker, m.held, m.held_bytes) for m in moments] == expected.snapshots


@settings(deadline=None)
@given(mutated_plans())
def test_mutated_plans_are_refused_where_the_machine_fails(
    found: tuple[Case, tuple[PlanStep, ...]],
) -> None:
    case, steps = found
    plan = stated(case, steps)
    expected = run(case, steps)
    if expected.failed is None and set(plan.versions) == case.leaves:
        assert len(check_plan(case.tree, plan, costs=case.costs, held=case.held)) == len(steps)
        return
    with pytest.raises(InvalidPlan) as refused:
        check_plan(case.tree, plan, costs=case.costs, held=case.held)
    assert refused.value.number == expected.failed


@settings(deadline=None)
@given(trees(most=20), st.data())
def test_bytes_and_bases_are_right_after_any_checkpoints_and_evictions(
    tree: ExecutionTree, data: st.DataObject
) -> None:
    nodes = sorted(tree.nodes)
    memory = Memory(tree)
    held: list[NodeId] = []
    for node in data.draw(st.lists(st.sampled_from(nodes), max_size=40)):
        if node in held:
            memory.drop(node)
            held.remove(node)
        else:
            memory.add(node)
            held.append(node)
        assert memory.bytes == bytes_of(tree, held)
        assert list(memory) == held
    for node in nodes:
        above = [at.id for at in reversed(tree.path(node)) if at.id != node and at.id in held]
        assert list(memory.above(node)) == above
        assert (node in memory) == (node in held)


@settings(deadline=None)
@given(right_plans())
def test_every_return_is_explained(found: tuple[Case, tuple[PlanStep, ...]]) -> None:
    case, steps = found
    plan = stated(case, steps)
    uses = explain(case.tree, plan, costs=case.costs, held=case.held).uses
    returns = [step for step in steps if step.action in {"restore", "take"} and step.node]
    assert sum(use.restores for use in uses) == len(returns)
    made = [number for number, step in enumerate(steps) if step.action == "checkpoint"]
    assert [use.step for use in uses if use.step >= 0] == made
    assert math.fsum(use.saved for use in uses) == saved(case, steps)


def saved(case: Case, steps: Iterable[PlanStep]) -> Seconds:
    """Return what the checkpoints save together, each return against all other ways."""
    machine = Machine(case)
    total = 0.0
    for step in steps:
        action, node = step
        price = machine.price(step)
        assert price is not None
        if action == "checkpoint":
            total -= price
        elif action in {"restore", "take"} and node is not None:
            total += other_way(machine, node) - price
        machine.do(step)
    return total


def other_way(machine: Machine, node: NodeId) -> Seconds:
    """Return the cheapest way to a state, but not by the checkpoint that would be used."""
    path = machine.case.tree.path(node)
    ways = [machine.case.costs.fresh + math.fsum(at.cost for at in path)]
    for number, start in enumerate(path):
        rest = math.fsum(at.cost for at in path[number + 1 :])
        if start.id in machine.memory and start.id != node:
            price = machine.price(PlanStep("restore", start.id))
            assert price is not None
            ways.append(price + rest)
        if start.id in machine.loads and (start.id != node or node in machine.memory):
            ways.append(machine.loads[start.id] + rest)
    return min(ways)


@pytest.mark.parametrize("planner", PLANNERS)
@settings(deadline=None)
@given(cases(roots=1), st.data())
def test_planners_make_right_plans_if_what_is_there_fits(
    planner: str, case: Case, data: st.DataObject
) -> None:
    leaves = data.draw(st.lists(st.sampled_from(sorted(case.tree.nodes)), min_size=1))
    there = sum(case.tree.nodes[state.node].size for state in case.held)
    budget = max(case.budget, there)
    problem = Problem(case.tree, budget, costs=case.costs, held=case.held, leaves=leaves)
    plan = solve(problem, planner, seconds=1)
    check_plan(case.tree, plan, costs=case.costs, held=case.held, leaves=leaves)
