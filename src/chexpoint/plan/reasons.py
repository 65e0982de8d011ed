"""Why a plan is as it is: what is computed again, and what each checkpoint saves."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from chexpoint.model import (
    Bytes,
    CheckpointUse,
    ExecutionTree,
    Explanation,
    HeldState,
    NodeId,
    Plan,
    PlanStep,
    Seconds,
    StepCosts,
)
from chexpoint.plan.check import Memory, check_plan, part_of, preorder, states_of


def explain(
    tree: ExecutionTree,
    plan: Plan,
    *,
    costs: StepCosts | None = None,
    held: Iterable[HeldState] = (),
) -> Explanation:
    """Return why a plan, which may be for a part of the tree only, is as it is.

    A state that can be loaded is among the uses if the plan loads it.

    Raises
    ------
    InvalidPlan
        If the plan is wrong.
    """
    planned = (*plan.versions, *plan.left_out)
    states = states_of(part_of(tree, planned), tree, held)
    moments = check_plan(tree, plan, costs=costs, held=states, leaves=planned)
    depth: dict[NodeId | None, int] = {None: 0}
    for node in preorder(tree):
        depth[node] = depth[tree.nodes[node].parent] + 1
    times = Counter(moment.worker for moment in moments if moment.step.action == "compute")
    ledger = _Ledger(tree, costs or StepCosts(), states)
    for number, moment in enumerate(moments):
        ledger.enter(number, moment.step)
    return Explanation(
        plan=plan,
        each_once_cost=math.fsum(tree.nodes[node].cost for node in part_of(tree, plan.versions)),
        computed=times.total(),
        cells_in_versions=sum(depth[leaf] for leaf in plan.versions),
        recomputed={node: n for node, n in times.items() if node is not None and n > 1},
        uses=ledger.uses(),
        moments=moments,
    )


@dataclass(slots=True, kw_only=True)
class _Entry:
    """What is known so far of the use of a checkpoint."""

    node: NodeId
    step: int = -1
    load: Seconds | None = None
    """What loading it costs, if it is not in memory."""
    bytes: Bytes = 0
    restores: int = 0
    is_taken: bool = False
    savings: list[Seconds] = field(default_factory=list)


class _Ledger:
    """The uses of checkpoints, as a plan that is right goes on."""

    def __init__(self, tree: ExecutionTree, costs: StepCosts, held: Iterable[HeldState]) -> None:
        self._tree = tree
        self._costs = costs
        self._memory = Memory(tree)
        self._checkpoints: dict[NodeId, _Entry] = {}
        """Those that are in memory now."""
        self._elsewhere = Memory(tree)
        """What can be loaded."""
        self._loaded: dict[NodeId, _Entry] = {}
        self._loads: dict[NodeId, Seconds] = {}
        self._entries: list[_Entry] = []
        self._path: dict[NodeId | None, Seconds] = {None: 0.0}
        for node in preorder(tree):
            self._path[node] = self._path[tree.nodes[node].parent] + tree.nodes[node].cost
        for state in held:
            entry = _Entry(node=state.node, load=state.load)
            if state.load is None:
                self._add(entry)
            else:
                self._entries.append(entry)
                self._elsewhere.add(state.node)
                self._loaded[state.node] = entry
                self._loads[state.node] = state.load
        # Of those that were there before, nobody knows which was made first.
        for node, entry in self._checkpoints.items():
            entry.bytes = self._memory.bytes_of(node)

    def enter(self, number: int, step: PlanStep) -> None:
        """Enter what a step means for the checkpoint that it is about."""
        action, node = step
        if node is None or action == "compute":
            return
        if action == "checkpoint":
            size = self._tree.nodes[node].size
            cost = self._costs.checkpoint + self._costs.checkpoint_per_byte * size
            self._add(_Entry(node=node, step=number, savings=[-cost]))
            return
        if action != "evict":
            entry = self._checkpoints.get(node) or self._loaded[node]
            entry.restores += 1
            entry.is_taken = action == "take"
            entry.savings.append(self._other_way(entry) - self._way_by(entry))
        if action != "restore":
            self._memory.drop(node)
            del self._checkpoints[node]

    def uses(self) -> tuple[CheckpointUse, ...]:
        """Return what each checkpoint is good for, those first that were there before the plan."""
        return tuple(
            CheckpointUse(
                node=entry.node,
                step=entry.step,
                restores=entry.restores,
                is_taken=entry.is_taken,
                bytes=entry.bytes,
                saved=math.fsum(entry.savings),
            )
            for entry in self._entries
            if entry.load is None or entry.restores
        )

    def _add(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._checkpoints[entry.node] = entry
        self._memory.add(entry.node)
        entry.bytes = self._memory.bytes_of(entry.node)

    def _way_by(self, entry: _Entry) -> Seconds:
        """Return what it costs to go back to a checkpoint, as it has just been done."""
        if entry.load is not None:
            return entry.load
        return self._costs.take if entry.is_taken else self._cost_of_restore(entry.node)

    def _other_way(self, entry: _Entry) -> Seconds:
        """Return what it costs at least to come to a state without this checkpoint of it."""
        best = self._costs.fresh + self._path[entry.node]
        if entry.load is None:
            best = min(best, self._loads.get(entry.node, math.inf))
        for states, cost in (
            (self._memory, self._cost_of_restore),
            (self._elsewhere, self._loads.__getitem__),
        ):
            for above in states.above(entry.node):
                way = self._path[entry.node] - self._path[above]
                if way >= best:  # and from those farther above it is longer still
                    break
                best = min(best, cost(above) + way)
        return best

    def _cost_of_restore(self, node: NodeId) -> Seconds:
        size = self._tree.nodes[node].size
        return self._costs.restore + self._costs.restore_per_byte * size
