"""What one worker of a replay does next.  Pure decisions.

A plan is made of what was recorded; what is measured may differ.  A course follows the plan as long
as it can, and plans again, for the versions that are still to do, when it cannot: a checkpoint does
not fit or was refused or lost, a cell failed, or time runs out.  It does so where the worker leaves
its path anyway, so that nothing is computed in vain.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import replace

from chexpoint.model import (
    Bytes,
    ExecutionTree,
    HeldState,
    NodeId,
    Plan,
    PlanStep,
    Seconds,
    StepCosts,
    TreeNode,
)
from chexpoint.plan import judge_plan, plan
from chexpoint.replay.sharing import Reach, best_cut

_FRESH = PlanStep("restore", None)
# After so many refusals below a node, nothing below it is tried any more.
_MOST_REFUSALS = 3
# Costs of cells that take next to no time say nothing about how fast this machine is.
_ENOUGH_S: Seconds = 0.2


class Course:
    """The steps of one worker, corrected by what comes of them.

    Parameters
    ----------
    tree
        What was recorded.
    first
        The plan to begin with, in a fresh worker; None if there is nothing to do yet.
    is_keeping
        Whether checkpoints stay that the plan has no use for, as long as there is room: more may
        come to do.
    """

    def __init__(
        self,
        tree: ExecutionTree,
        first: Plan | None,
        *,
        budget: float,
        costs: StepCosts,
        planner: str,
        is_keeping: bool = False,
    ) -> None:
        self.budget = budget
        self.held: dict[NodeId, Bytes] = {}
        """The checkpoints, and the memory that each may take."""
        self._is_keeping = is_keeping
        self._spare: dict[NodeId, None] = {}
        """Those of them that the plan has no use for; the oldest first."""
        self.at: NodeId | None = None
        """Where the worker is; None is the fresh interpreter."""
        self.plans = 1
        """How often it was planned."""
        self._tree = tree
        self._costs = costs
        self._planner = planner
        self._leaves = {*first.versions, *first.left_out} if first else set()
        self._measured: dict[NodeId, TreeNode] = {}
        self._unholdable: set[NodeId] = set()
        self._refusals = 0
        self._recorded_s = self._measured_s = 0.0
        self._steps: deque[PlanStep] = deque()
        self._follow(first.steps if first else ())
        self._is_stale = False
        self._is_adrift = False
        self._is_fresh = True

    @property
    def leaves(self) -> frozenset[NodeId]:
        """The leaves that are still to be computed."""
        return frozenset(self._leaves)

    def next(self, seconds_left: Seconds | None = None) -> PlanStep | None:
        """Return what to do now; None if there is nothing left, or no time.

        Parameters
        ----------
        seconds_left
            For all that follows; None is no limit.
        """
        while self._leaves:
            if not self._steps or self._must_plan(seconds_left):
                if not self._plan_again(seconds_left):
                    return None
                continue
            step = self._steps[0]
            if step.action == "checkpoint" and step.node in self.held:
                self._steps.popleft()
                self._spare.pop(step.node, None)
            elif step.action == "checkpoint" and not self._fits(step.node):
                if self._spare:
                    return PlanStep("evict", next(iter(self._spare)))
                self._steps.popleft()
                self._is_stale = True
            elif step.action == "evict" and step.node not in self.held:
                self._steps.popleft()
            elif self._is_keeping and step.action == "evict" and step.node is not None:
                self._steps.popleft()
                self._spare[step.node] = None
            elif self._is_keeping and step.action == "take" and step.node is not None:
                self._steps[0] = PlanStep("restore", step.node)
                self._spare[step.node] = None
            else:
                return step
        # Whatever is held now is of no use to anybody.
        is_done_with = self.held and not self._is_keeping
        return PlanStep("evict", next(iter(self.held))) if is_done_with else None

    def remaining(self) -> tuple[int, Seconds]:
        """Return how many cells are to be computed, and how long that will take."""
        return self._cells_left, self._seconds_left * self._pace()

    # ------------------------------------------------------------ sharing with others

    def give_away(self, reach: Reach) -> frozenset[NodeId]:
        """Leave the last leaves of the plan to somebody, if all are done earlier then.

        What the worker is at stays with it, so that nothing is computed in vain.
        """
        cut = best_cut(self._tree, list(self._steps), self._leaves, reach, self._pace())
        if cut is None:
            return frozenset()
        self._steps = deque(list(self._steps)[: cut.steps])
        self._leaves -= cut.leaves
        self._count_left()
        return cut.leaves

    def received(self, node: NodeId) -> None:
        """Say that a state is held now that somebody else has computed."""
        self.held[node] = self._node(node).size
        self.adrift()

    def leaves_below(self, node: NodeId) -> int:
        """Return how many leaves are still to be computed from a state."""
        return sum(self._is_below(leaf, node) for leaf in self._leaves)

    def cost(self, node: NodeId) -> Seconds:
        """Return what computing a cell takes, as far as it is known."""
        return self._node(node, self._pace()).cost

    def size(self, node: NodeId) -> Bytes:
        """Return the memory of a state, as far as it is known."""
        return self._node(node).size

    def take_in(self, leaves: Iterable[NodeId], planned: Plan | None = None) -> None:
        """Compute more leaves, as planned if the worker has done nothing yet."""
        if planned is not None and self._is_fresh and not self._leaves and not self.held:
            self._follow(planned.steps)
        else:
            self._is_stale = True
        self._leaves.update(leaves)

    # ------------------------------------------------------------ what came of a step

    def done(self, step: PlanStep) -> None:
        """Say that a step other than computing was made."""
        self._take_off(step)
        node = step.node
        if step.action in {"restore", "take"}:
            self.at, self._is_adrift, self._is_fresh = node, False, node is None
        if step.action in {"evict", "take"} and node is not None:
            self.held.pop(node, None)
            self._spare.pop(node, None)
        if step.action == "checkpoint" and node is not None:
            self.held[node] = self._node(node).size

    def computed(self, node: NodeId, seconds: Seconds, size: Bytes) -> None:
        """Say that a cell was computed, and what it took."""
        self._take_off(PlanStep("compute", node))
        known = self._tree.nodes[node]
        if node not in self._measured:
            self._recorded_s += known.cost
            self._measured_s += seconds
        self._measured[node] = replace(known, cost=seconds, size=size or known.size)
        self._cells_left -= 1
        self._seconds_left -= known.cost
        self.at, self._is_fresh = node, False
        self._leaves.discard(node)

    def gave_up(self, node: NodeId) -> None:
        """Say that a cell failed: nothing below it can be computed, and the state is spoilt."""
        self._leaves = {leaf for leaf in self._leaves if not self._is_below(leaf, node)}
        self.adrift()

    def not_held(self, node: NodeId) -> None:
        """Say that no checkpoint could be taken of a state."""
        self._take_off(PlanStep("checkpoint", node))
        self._is_stale = True
        self._refusals += 1
        self._unholdable.add(node)
        if self._refusals >= _MOST_REFUSALS:
            # What a fork cannot carry over is mostly there to stay: threads of a library.
            self._unholdable.update(n for n in self._tree.nodes if self._is_below(n, node))

    def lost(self, nodes: Iterable[NodeId]) -> None:
        """Say that checkpoints are gone."""
        for node in nodes:
            self._spare.pop(node, None)
            if self.held.pop(node, None) is not None:
                self._is_stale = True

    def adrift(self) -> None:
        """Say that the worker is in no state that could be gone on from."""
        self._is_stale = self._is_adrift = True
        self._is_fresh = False

    def _take_off(self, step: PlanStep) -> None:
        if self._steps and self._steps[0] == step:
            self._steps.popleft()

    # ------------------------------------------------------------ planning again

    def _must_plan(self, seconds_left: Seconds | None) -> bool:
        step = self._steps[0]
        if step.action not in {"restore", "take"}:
            # A plan that was made since begins with going somewhere.
            return self._is_stale and self._is_adrift
        is_gone = step.node is not None and step.node not in self.held
        is_late = seconds_left is not None and self.remaining()[1] > seconds_left
        return self._is_stale or is_gone or is_late

    def _plan_again(self, seconds_left: Seconds | None) -> bool:
        """Make a plan for what is still to do; return whether there is something."""
        if seconds_left is not None and seconds_left <= 0:
            return False
        pace = self._pace()
        nodes = (self._node(node, pace) for node in self._tree.nodes)
        tree = ExecutionTree(nodes, self._tree.versions)
        useless = [node for node in self.held if not self._is_useful(node)]
        if self._is_keeping:
            self._spare = dict.fromkeys(useless)
        held = tuple(HeldState(node=node) for node in self.held if node not in useless)
        leaves = sorted(self._leaves)
        made = plan(
            *(tree, self.budget),
            planner=self._planner,
            costs=self._costs,
            held=held,
            versions=leaves,
            within=seconds_left,
        )
        judge_plan(tree, made, costs=self._costs, held=held, leaves=leaves)
        self.plans += 1
        self._is_stale = False
        is_elsewhere = not self._is_fresh and _begins_fresh(made)
        evictions = (PlanStep("evict", node) for node in useless if node not in self._spare)
        self._follow([*evictions, *([_FRESH] if is_elsewhere else []), *made.steps])
        return bool(made.versions)

    def _follow(self, steps: Iterable[PlanStep]) -> None:
        self._steps = deque(steps)
        self._count_left()

    def _count_left(self) -> None:
        nodes = [step.node for step in self._steps if step.action == "compute" and step.node]
        self._cells_left = len(nodes)
        self._seconds_left = math.fsum(self._tree.nodes[node].cost for node in nodes)

    def _fits(self, node: NodeId | None) -> bool:
        if node is None or node in self.held:
            return False
        return sum(self.held.values()) + self._node(node).size <= self.budget

    def _node(self, node: NodeId, pace: float = 1.0) -> TreeNode:
        """Return what is known of a node by now."""
        found = self._measured.get(node)
        if found is None:
            known = self._tree.nodes[node]
            found = replace(known, cost=known.cost * pace)
        if node in self._unholdable:
            found = replace(found, size=max(found.size, int(self.budget) + 1))
        return found

    def _pace(self) -> float:
        """Return how much longer cells take than they took when they were recorded."""
        return self._measured_s / self._recorded_s if self._recorded_s > _ENOUGH_S else 1.0

    def _is_useful(self, node: NodeId) -> bool:
        return any(leaf != node and self._is_below(leaf, node) for leaf in self._leaves)

    def _is_below(self, node: NodeId, top: NodeId) -> bool:
        at: NodeId | None = node
        while at is not None and at != top:
            at = self._tree.nodes[at].parent
        return at == top


def _begins_fresh(made: Plan) -> bool:
    """Return whether the first cell of a plan is computed in the worker that it begins with."""
    for step in made.steps:
        if step.action in {"compute", "restore", "take"}:
            return step.action == "compute"
    return False
