"""The checkpoints an engine holds, and what is remembered of those it let go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from chexpoint.engine.policy import eviction_order
from chexpoint.errors import RestoreFailed, UnknownCheckpoint
from chexpoint.model import ROOT, Bytes, Checkpoint, CheckpointId, Seconds


class Holdings:
    """Held checkpoints by id, in the order they were taken."""

    def __init__(self) -> None:
        self._held: dict[CheckpointId, Checkpoint] = {}
        self._serial = 0
        # Of all checkpoints ever: one that was let go is still an ancestor.
        self._parents: dict[CheckpointId, CheckpointId | None] = {}
        self._costs: dict[CheckpointId, Seconds] = {}

    def __iter__(self) -> Iterator[Checkpoint]:
        return iter(self._held.values())

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, checkpoint: CheckpointId) -> bool:
        return checkpoint in self._held

    def __getitem__(self, checkpoint: CheckpointId) -> Checkpoint:
        return self._held[checkpoint]

    def new_id(self) -> CheckpointId:
        """Return an id that was never used before."""
        self._serial += 1
        return CheckpointId(f"c{self._serial}")

    def add(self, checkpoint: Checkpoint) -> None:
        """Hold a checkpoint; its name is taken from any other that had it."""
        for other in list(self):
            if checkpoint.name is not None and other.name == checkpoint.name:
                self._held[other.id] = replace(other, name=None)
        self._held[checkpoint.id] = checkpoint
        self._parents[checkpoint.id] = checkpoint.parent
        self._costs[checkpoint.id] = checkpoint.cost_s

    def forget(self, checkpoint: CheckpointId) -> None:
        self._held.pop(checkpoint, None)

    def froze(self, checkpoint: CheckpointId, pid: int, lost: tuple[str, ...]) -> None:
        """Note the process of a checkpoint, and what it lost when it froze for the first time."""
        known = self._held[checkpoint]
        self._held[checkpoint] = replace(known, pid=pid, warnings=known.warnings or lost)

    def used(self, checkpoint: CheckpointId, live_pid: int) -> None:
        """Note a restore; if its process went live, its successor has not spoken yet."""
        known = self._held[checkpoint]
        pid = 0 if known.pid == live_pid else known.pid
        self._held[checkpoint] = replace(known, uses=known.uses + 1, pid=pid)

    def mark_bad(self, checkpoint: CheckpointId) -> None:
        if checkpoint in self._held:
            self._held[checkpoint] = replace(self._held[checkpoint], bad=True)

    def measured(self, sizes: Mapping[CheckpointId, Bytes]) -> None:
        for checkpoint, size in sizes.items():
            if checkpoint in self._held:
                self._held[checkpoint] = replace(self._held[checkpoint], size_bytes=size)

    def all_frozen(self) -> bool:
        """Return whether no checkpoint is still on its way to freezing."""
        return all(checkpoint.pid for checkpoint in self)

    def resolve(self, ref: str) -> Checkpoint:
        """Return the checkpoint of that name or id.

        Raises
        ------
        UnknownCheckpoint
            Which suggests the closest names.
        """
        for checkpoint in self:
            if ref in {checkpoint.name, checkpoint.id}:
                return checkpoint
        raise UnknownCheckpoint(ref, tuple(c.name or c.id for c in self))

    def restorable(self, ref: str) -> Checkpoint:
        """Return the checkpoint of that name or id, if it may be restored.

        Raises
        ------
        UnknownCheckpoint, RestoreFailed
            If there is none, or if it is known to hang.
        """
        checkpoint = self.resolve(ref)
        if checkpoint.bad:
            raise RestoreFailed(
                f"checkpoint {title(checkpoint)} is marked bad: the state restored from it hung"
            )
        return checkpoint

    def nearest_good(self, head: CheckpointId | None) -> Checkpoint | None:
        """Return the newest checkpoint on the way back from ``head``."""
        at = head
        while at is not None:
            if at in self._held and not self._held[at].bad:
                return self._held[at]
            at = self._parents.get(at)
        return next((c for c in self if c.name == ROOT and not c.bad), None)

    def least_useful(self, excess_bytes: Bytes, *, but: CheckpointId | None) -> list[Checkpoint]:
        """Return what to let go first, to free some memory; the root, and ``but``, stay.

        Pages shared by two checkpoints are freed only with the second, so more may become
        free than the sizes say: only a part goes at once, and then memory is measured again.
        """
        spare = [c for c in self if c.name != ROOT and c.id != but]
        order = eviction_order(spare, self._held, self._parents, self._costs)
        victims: list[Checkpoint] = []
        for checkpoint in order[: 1 + len(order) // 8]:
            if sum(c.size_bytes for c in victims) < excess_bytes:
                victims.append(checkpoint)
        return victims


def title(checkpoint: Checkpoint) -> str:
    """Return how a checkpoint is called in a sentence: ``c3 'clean data' (after cell [5])``."""
    name = f" '{checkpoint.name}'" if checkpoint.name else ""
    at = f"after cell [{checkpoint.execution_count}]" if checkpoint.execution_count else "fresh"
    return f"{checkpoint.id}{name} ({at})"
