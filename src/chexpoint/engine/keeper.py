"""The part of `EngineState` that takes, restores and lets go of checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from chexpoint.engine import events as ev
from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask
from chexpoint.engine.errands import Errands, with_notes
from chexpoint.engine.holdings import title
from chexpoint.engine.policy import HoldingRule
from chexpoint.engine.situation import Forking, Idle, Thawing
from chexpoint.errors import ForkRefused, RestoreFailed, UnknownCheckpoint
from chexpoint.model import (
    ROOT,
    AutoMode,
    Bytes,
    Checkpoint,
    CheckpointId,
    Hazard,
    RestoreReport,
    format_seconds,
)

# A fork of tens of gigabytes in small pages takes about a second; this is for one that hangs.
_FORK_TIMEOUT_S = 60.0
_THAW_TIMEOUT_S = 30.0
# What a checkpoint of anything costs: interpreter pages that the worker dirties again.
_BASE_BYTES = 8 * 1024**2
# Each is a process; systems allow a user a few thousand.
_MAX_HELD = 256


class Keeper(Errands):
    """Holds checkpoints within a budget."""

    def __init__(
        self,
        *,
        budget_bytes: Bytes,
        auto: AutoMode = "rule",
        rule: HoldingRule | None = None,
        reserve_bytes: Bytes = 0,
        missing: tuple[str, ...] = (),
        can_fork: bool = True,
    ) -> None:
        super().__init__()
        self.auto: AutoMode = auto
        self.budget_bytes = budget_bytes
        self.refused: tuple[Hazard, ...] = ()
        self._rule = rule or HoldingRule()
        self._reserve_bytes = reserve_bytes
        self._missing = missing
        self._can_fork = can_fork
        self._is_novel = False
        """Whether the last cell never ran at its place before: then none after it did either."""
        self._restored_from: CheckpointId | None = None
        self._successor_lost = False
        self._stillborn: CheckpointId | None = None
        self._early: dict[CheckpointId, ev.Froze] = {}
        self._cells = 0
        self._seconds = 0.0
        self._fork_s = 0.01
        self._growth_bytes = 0
        self._held_bytes = 0
        self._worker_bytes = 0

    def _is_worth_holding(self, growth_bytes: Bytes) -> bool:
        if self.auto != "rule":
            return self.auto == "always"
        return self._rule.worth_holding(
            cost_s=self._seconds,
            fork_s=self._fork_s,
            marginal_bytes=growth_bytes + _BASE_BYTES,
            budget_bytes=self.budget_bytes,
        )

    def _new_position(self, head: CheckpointId | None, execution_count: int) -> None:
        self.head = head
        self._execution_count = execution_count
        self._cells, self._seconds = 0, 0.0

    def _fork(self, ask: Ask) -> None:
        if not self._can_fork:
            self.refused = tuple(Hazard(kind="machine", what=text) for text in self._missing)
            self._finish(ask, error=ForkRefused(self.refused))
            self._refused(self.refused, ask.args)
            return
        checkpoint = self.held.new_id()
        self.doing = Forking(checkpoint, ask)
        for_image = bool(ask.args.get("image") or ask.args.get("artifacts"))
        self._do(do.Fork(checkpoint, for_image), do.SetTimer("fork", _FORK_TIMEOUT_S))

    def _forked(self, event: ev.Forked) -> None:
        if not isinstance(self.doing, Forking) or self.doing.checkpoint != event.checkpoint:
            self._do(do.Drop(event.checkpoint))
            return
        if self._stillborn == event.checkpoint:
            died = Hazard(kind="fork", what="the checkpoint process died at once")
            self._fork_refused(event.checkpoint, (died,))
            return
        ask, self.doing = self.doing.ask, Idle()
        checkpoint = Checkpoint(
            id=event.checkpoint,
            name=ask.args.get("name"),
            parent=self.head,
            pid=0,
            execution_count=self._execution_count,
            cost_s=self._seconds,
            size_bytes=_BASE_BYTES + self._growth_bytes,
            uses=0,
        )
        self.held.add(checkpoint)
        self.time.mark(checkpoint.id)
        # An estimate, until it is measured: many may be taken before that.
        self._held_bytes += checkpoint.size_bytes
        self._fork_s += 0.3 * (event.seconds + event.waited_s - self._fork_s)
        self.refused = ()
        self._new_position(checkpoint.id, self._execution_count)
        self._do(do.ClearTimer("fork"))
        took = format_seconds(event.seconds)
        self._finish(ask, checkpoint, note=f"checkpoint {title(checkpoint)} taken in {took}")
        self._taken(checkpoint, ask.args)
        if (early := self._early.pop(checkpoint.id, None)) is not None:
            self._froze(early)
        self._make_room()

    def _fork_refused(self, checkpoint: CheckpointId, reasons: tuple[Hazard, ...]) -> None:
        self._early.pop(checkpoint, None)
        self._do(do.Drop(checkpoint))
        if not isinstance(self.doing, Forking) or self.doing.checkpoint != checkpoint:
            return
        ask, self.doing = self.doing.ask, Idle()
        self.refused = reasons
        self._do(do.ClearTimer("fork"))
        self._finish(ask, error=ForkRefused(reasons))
        self._refused(reasons, ask.args)

    def _froze(self, event: ev.Froze) -> None:
        if event.checkpoint in self.held:
            self.held.froze(event.checkpoint, event.pid, event.lost)
            self._do(do.Measure())
        else:
            self._early[event.checkpoint] = event  # before the worker said that it forked

    def _restore(self, ask: Ask) -> None:
        try:
            checkpoint = self.held.restorable(ask.args["ref"])
        except (UnknownCheckpoint, RestoreFailed) as error:  # lost while the ask was waiting
            self._finish(ask, error=error)
            return
        keep = ask.op == "restore" or checkpoint.name == ROOT
        self._thaw(checkpoint.id, keep=keep, ask=ask)

    def _thaw(self, checkpoint: CheckpointId, *, keep: bool, ask: Ask | None) -> None:
        self.doing = Thawing(checkpoint, ask)
        self._successor_lost = False
        self._do(do.Thaw(checkpoint, keep), do.SetTimer("thaw", _THAW_TIMEOUT_S))

    def _thawed(self, event: ev.Thawed) -> None:
        if not isinstance(self.doing, Thawing) or self.doing.checkpoint != event.checkpoint:
            return
        ask, self.doing = self.doing.ask, Idle()
        self.time.restored(event.checkpoint)
        self._is_novel = False
        if ask is not None:
            self.time.join()
        self._do(do.ClearTimer("thaw"), do.Adopt(event.checkpoint, self.time.worker))
        self.worker_alive, self.worker_pid = True, event.pid
        self._restored_from = event.checkpoint
        checkpoint = self.held[event.checkpoint]
        self._new_position(checkpoint.id, checkpoint.execution_count)
        if event.kept and not self._successor_lost:
            self.held.used(checkpoint.id, event.pid)
        else:
            self._forget(checkpoint.id)
        result = RestoreReport(
            checkpoint=event.checkpoint, seconds=event.seconds, warnings=event.warnings
        )
        note = f"back at {title(checkpoint)} in {format_seconds(event.seconds)}"
        self._finish(ask, result, note=with_notes(note, event.warnings))
        self._do(do.Measure())

    def _thaw_failed(self, checkpoint: CheckpointId) -> None:
        self._forget(checkpoint)
        if not isinstance(self.doing, Thawing) or self.doing.checkpoint != checkpoint:
            return
        ask, self.doing = self.doing.ask, Idle()
        self._do(do.ClearTimer("thaw"))
        kept = "the state is what it was before" if self.worker_alive else "going back further"
        error = RestoreFailed(f"checkpoint {checkpoint} did not come alive and is gone; {kept}")
        self._finish(ask, error=error)
        self.time.stay()  # another way will be found
        if not self.worker_alive:
            self._revive()

    def _checkpoint_gone(self, checkpoint: CheckpointId) -> None:
        self._early.pop(checkpoint, None)
        if isinstance(self.doing, Forking) and self.doing.checkpoint == checkpoint:
            self._stillborn = checkpoint
        elif checkpoint == self._thawing():
            # The process going live, or its successor: which, `Thawed` will tell.
            self._successor_lost = True
        else:
            self._forget(checkpoint)

    def _forget(self, checkpoint: CheckpointId) -> None:
        self.held.forget(checkpoint)
        self.time.forget(checkpoint)
        self._do(do.Drop(checkpoint))

    def _evict(self, checkpoint: CheckpointId) -> None:
        self._held_bytes -= self.held[checkpoint].size_bytes
        self._forget(checkpoint)
        self._do(do.Measure())

    def _thawing(self) -> CheckpointId | None:
        return self.doing.checkpoint if isinstance(self.doing, Thawing) else None

    def _measured(self, event: ev.Measured) -> None:
        self._held_bytes, self._worker_bytes = event.held_bytes, event.worker_bytes
        self.held.measured(event.sizes)
        short = self._reserve_bytes - event.available_bytes
        self._make_room(short)
        if short > 0:
            self._do(do.Measure(urgent=True))

    # What the part above does with the outcome.

    def _taken(self, checkpoint: Checkpoint, args: Mapping[str, Any]) -> None:
        """A checkpoint was taken."""
        raise NotImplementedError

    def _refused(self, reasons: tuple[Hazard, ...], args: Mapping[str, Any]) -> None:
        """A checkpoint was refused."""
        raise NotImplementedError

    def _make_room(self, short_bytes: Bytes = 0) -> None:
        """Let checkpoints go while they hold more than they may."""
        excess = max(self._held_bytes - self.budget_bytes, short_bytes)
        if len(self.held) > _MAX_HELD:
            excess = max(excess, 1)
        if excess > 0:
            for victim in self.held.least_useful(excess, but=self._thawing()):
                self._evict(victim.id)
