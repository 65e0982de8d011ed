"""What of a plan is left to somebody who has nothing to do.  Pure decisions.

A plan is cut in two where both parts are done earliest.  The first part stays as it was planned;
the leaves of the second are planned again by whoever takes them, from the states that it has.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from chexpoint.model import ExecutionTree, NodeId, PlanStep, Seconds

# What is gained by less is lost again in telling everybody.
_LEAST_GAIN_S: Seconds = 0.2
_LEAST_GAIN = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Which states somebody can begin with."""

    start_s: Seconds = 0.0
    """Until it can begin at all."""
    states: Mapping[NodeId, Seconds] = field(default_factory=dict)
    """How long it takes to get to each; to the fresh interpreter, nothing."""


@dataclass(frozen=True, slots=True)
class Cut:
    """A plan in two parts."""

    steps: int
    """How many stay."""
    leaves: frozenset[NodeId]
    """Those of the other part."""


def best_cut(
    tree: ExecutionTree,
    steps: Sequence[PlanStep],
    leaves: Collection[NodeId],
    reach: Reach,
    pace: float = 1.0,
) -> Cut | None:
    """Return the cut after which both parts are done earliest; None if none is worth it.

    Parameters
    ----------
    steps
        What is still to do, the step that is being made included.
    leaves
        Those that are still to be computed.
    pace
        How much longer cells take than the tree says.
    """
    ends = _ends(tree, steps, leaves)
    if len(ends) < 2:
        return None
    now = ends[-1][2] * pace
    best, best_s = None, now - max(_LEAST_GAIN_S, _LEAST_GAIN * now)
    way = _Way(tree, reach)
    given: list[NodeId] = []
    # From the end on, so that what the other one has to compute grows leaf by leaf.
    for at in range(len(ends) - 1, 0, -1):
        leaf = ends[at][0]
        given.append(leaf)
        way.add(leaf)
        _, count, kept_s = ends[at - 1]
        both_s = max(kept_s * pace, reach.start_s + way.reaching_s + way.computing_s * pace)
        if both_s < best_s:
            best, best_s = Cut(count, frozenset(given)), both_s
    return best


def _ends(
    tree: ExecutionTree, steps: Sequence[PlanStep], leaves: Collection[NodeId]
) -> list[tuple[NodeId, int, Seconds]]:
    """Return each leaf with the steps and the seconds until it is computed for the first time."""
    found: list[tuple[NodeId, int, Seconds]] = []
    seen: set[NodeId] = set()
    seconds = 0.0
    for count, step in enumerate(steps, start=1):
        if step.action != "compute" or step.node is None:
            continue
        seconds += tree.nodes[step.node].cost
        if step.node in leaves and step.node not in seen:
            seen.add(step.node)
            found.append((step.node, count, seconds))
    return found


class _Way:
    """What somebody has to compute to get to some leaves, each cell once."""

    def __init__(self, tree: ExecutionTree, reach: Reach) -> None:
        self._tree, self._reach = tree, reach
        self._seen: set[NodeId] = set()
        self.computing_s: Seconds = 0.0
        self.reaching_s: Seconds = 0.0

    def add(self, leaf: NodeId) -> None:
        for node in reversed(self._tree.path(leaf)):
            if node.id in self._seen:
                return
            self._seen.add(node.id)
            if node.id in self._reach.states:
                self.reaching_s += self._reach.states[node.id]
                return
            self.computing_s += node.cost
