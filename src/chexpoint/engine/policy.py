"""Which states are worth holding, and which to let go first.  Pure decisions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from chexpoint.model import Bytes, Checkpoint, CheckpointId, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class HoldingRule:
    """Hold a state when recomputing it costs more than holding it.

    Recomputing costs the seconds its cells took since the checkpoint before it.
    Holding costs the seconds of the fork, and rent for memory: a checkpoint
    that filled the whole budget would have to save ``seconds_per_budget``,
    because it would push everything else out; a small one pays its share.
    """

    seconds_per_budget: Seconds = 60.0

    def worth_holding(
        self, *, cost_s: Seconds, fork_s: Seconds, marginal_bytes: Bytes, budget_bytes: Bytes
    ) -> bool:
        """Return whether a state that took ``cost_s`` to compute should be checkpointed."""
        rent_s = self.seconds_per_budget * marginal_bytes / max(budget_bytes, 1)
        return cost_s > fork_s + rent_s


# Below this, nobody minds running the cells again.
_LEAST_S = 1.0


def worth_imaging(*, cost_s: Seconds, image_s: Seconds) -> bool:
    """Return whether a state that took ``cost_s`` since the last image should become one.

    Nobody waits for an image, but it takes a core and disk: it has to save more than it costs.
    """
    return cost_s > _LEAST_S + image_s


def recompute_cost(
    checkpoint: CheckpointId,
    held: Mapping[CheckpointId, Checkpoint],
    parents: Mapping[CheckpointId, CheckpointId | None],
    costs: Mapping[CheckpointId, Seconds],
) -> Seconds:
    """Return the seconds needed to reach a state from its nearest held ancestor.

    ``parents`` and ``costs`` also know evicted checkpoints.
    """
    total = costs.get(checkpoint, 0.0)
    at = parents.get(checkpoint)
    while at is not None and at not in held:
        total += costs.get(at, 0.0)
        at = parents.get(at)
    return total


def eviction_order(
    candidates: Iterable[Checkpoint],
    held: Mapping[CheckpointId, Checkpoint],
    parents: Mapping[CheckpointId, CheckpointId | None],
    costs: Mapping[CheckpointId, Seconds],
) -> list[Checkpoint]:
    """Return checkpoints, least useful first.

    Usefulness is (seconds to recompute) x (1 + times restored) / (bytes freed).
    A bad checkpoint is useless; one that the user named goes after all others.
    """

    def usefulness(checkpoint: Checkpoint) -> tuple[bool, bool, float]:
        saved_s = recompute_cost(checkpoint.id, held, parents, costs)
        score = saved_s * (1 + checkpoint.uses) / max(checkpoint.size_bytes, 1)
        return (not checkpoint.bad, checkpoint.name is not None, score)

    return sorted(candidates, key=usefulness)
