"""Replay plans: which cells to compute, what to hold, where to go back to.

After Definition 2 of the CHEX paper, with one more step, ``take``, that a copy-on-write engine
has: the checkpoint process itself becomes the live worker, which is a restore and an eviction in
one move.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from chexpoint.errors import InvalidValue
from chexpoint.model.ids import Bytes, NodeId, Seconds

Action = Literal["compute", "checkpoint", "restore", "take", "evict"]

# Sums of the same costs in another order differ by this much and no more.
_NOISE = 1e-9


class PlanStep(NamedTuple):
    """One move of the live worker, or of what is held."""

    action: Action
    node: NodeId | None
    """None, in a restore, is a fresh worker."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCosts:
    """What the steps other than computing cost; nothing, as in the paper, unless told."""

    checkpoint: Seconds = 0.0
    restore: Seconds = 0.0
    take: Seconds = 0.0
    fresh: Seconds = 0.0
    """Starting over with a fresh worker."""
    checkpoint_per_byte: Seconds = 0.0
    """In addition, for each byte of the state."""
    restore_per_byte: Seconds = 0.0
    """In addition, for each byte of the state."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise InvalidValue(f"the cost {name} is not a number of seconds >= 0: {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldState:
    """A state that is there before the plan begins."""

    node: NodeId
    load: Seconds | None = None
    """What it costs to load it from where it takes no memory; it stays there.

    None is a checkpoint in memory: it counts against the budget, is restored at the usual cost,
    and can be taken or evicted.
    """

    def __post_init__(self) -> None:
        if self.load is not None and not 0 <= self.load < math.inf:
            raise InvalidValue(
                f"loading node '{self.node}' does not cost a number of seconds >= 0: {self.load!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Steps for one worker that replay versions within a budget."""

    planner: str
    budget: float
    """Bytes that checkpoints may take; infinite if there is no limit."""
    cost: Seconds
    lower_bound: Seconds
    """No plan for the same versions costs less."""
    no_cache_cost: Seconds
    """What replaying each version from its first cell costs."""
    steps: tuple[PlanStep, ...]
    versions: tuple[NodeId, ...]
    """The leaves that are replayed, in the order in which they are reached."""
    left_out: tuple[NodeId, ...] = ()
    """The leaves for which there was no time."""
    notes: tuple[str, ...] = ()
    """What the user should know: nothing fits, a time limit was reached."""

    @property
    def is_optimal(self) -> bool:
        """Whether it is proven that no plan costs less."""
        return self.cost <= self.lower_bound + _NOISE * max(1.0, self.lower_bound)

    def to_json(self, names: Mapping[NodeId, Any] | None = None) -> dict[str, Any]:
        """Return the plan as `chex plan --json` prints it.

        Parameters
        ----------
        names
            What to call nodes instead, if that is not their id.
        """

        def name(node: NodeId | None) -> Any:
            return node if node is None or names is None else names.get(node, node)

        return {
            "planner": self.planner,
            "budget": None if math.isinf(self.budget) else self.budget,
            "cost": self.cost,
            "lower_bound": self.lower_bound,
            "no_cache_cost": self.no_cache_cost,
            "is_optimal": self.is_optimal,
            "steps": [[step.action, name(step.node)] for step in self.steps],
            "versions": [name(node) for node in self.versions],
            "left_out": [name(node) for node in self.left_out],
            "notes": list(self.notes),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Plans for engines that run side by side and share one budget."""

    lanes: tuple[Plan, ...]
    """One for each engine that has something to do; its budget is its share."""
    budget: float
    single: Seconds
    """What one engine alone needs."""

    @property
    def makespan(self) -> Seconds:
        """When the last engine is done."""
        return max(lane.cost for lane in self.lanes)

    @property
    def work(self) -> Seconds:
        """What all engines compute together."""
        return math.fsum(lane.cost for lane in self.lanes)

    def to_json(self, names: Mapping[NodeId, Any] | None = None) -> dict[str, Any]:
        """Return the schedule as `chex plan --workers N --json` prints it."""
        return {
            "budget": None if math.isinf(self.budget) else self.budget,
            "makespan": self.makespan,
            "single": self.single,
            "work": self.work,
            "lanes": [lane.to_json(names) for lane in self.lanes],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """How things are after a step of a plan."""

    step: PlanStep
    time: Seconds
    """Since the beginning of the plan."""
    worker: NodeId | None
    """Where the live worker stands; None is a fresh one."""
    held: tuple[NodeId, ...]
    """The checkpoints in memory, the oldest first."""
    held_bytes: Bytes
    """What they take together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointUse:
    """What one checkpoint of a plan is good for."""

    node: NodeId
    step: int
    """The number of the step that takes it, from 0; -1 if it was there before the plan."""
    restores: int
    """How often the worker goes back to it, taking it included."""
    is_taken: bool
    """Whether it becomes the live worker in the end."""
    bytes: Bytes
    """What it takes when it is made."""
    saved: Seconds
    """What its restores save against the next best way to the same states, less what it costs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a plan is as it is."""

    plan: Plan
    each_once_cost: Seconds
    """What computing each node once costs."""
    computed: int
    """Cells that are computed, again and again included."""
    cells_in_versions: int
    """Cells that would be computed without checkpoints."""
    recomputed: Mapping[NodeId, int]
    """The nodes that are computed more than once, and how often."""
    uses: tuple[CheckpointUse, ...]
    """In the order in which they are made."""
    moments: tuple[Moment, ...]
    """How things are after each step."""

    @property
    def peak_bytes(self) -> Bytes:
        """The most that checkpoints take at any step."""
        return max((moment.held_bytes for moment in self.moments), default=0)
