"""What `EngineState` is made of, first part: the queue, and how what is asked for ends.

The parts build on each other: `Errands`, `Keeper` (checkpoints), `Imager`
(images), `Follower` (places), `Reviver` (the worker's life), `EngineState`.
They share one set of attributes; `EngineState.handle` is the only way in.
"""

from __future__ import annotations

from collections import deque

from chexpoint.engine import instructions as do
from chexpoint.engine.asks import Ask, Request
from chexpoint.engine.holdings import Holdings
from chexpoint.engine.situation import Situation, Starting
from chexpoint.engine.timeline import Timeline
from chexpoint.model import CheckpointId


class Errands:
    """What waits to be done, what is being done, and the instructions that follow."""

    def __init__(self) -> None:
        self.doing: Situation = Starting()
        self.worker_alive = False
        self.worker_pid = 0
        self.queue: deque[Request | Ask] = deque()
        self.held = Holdings()
        self.time = Timeline()
        self.head: CheckpointId | None = None
        self._aborted: set[int] = set()
        self._after_cell: list[Ask] = []
        self._cell_asks = 0
        self._execution_count = 0
        self._out: list[do.Instruction] = []

    def _do(self, *instructions: do.Instruction) -> None:
        self._out.extend(instructions)

    def _enqueue(self, ask: Ask) -> None:
        if not ask.from_cell:
            self.queue.append(ask)
            return
        if not self._after_cell:
            self._do(do.Hold())
        self._after_cell.append(ask)
        self._do(do.Answer(ask, {"accepted": True}))

    def _finish(
        self, ask: Ask | None, result: object = None, error: Exception | None = None, note: str = ""
    ) -> None:
        """Give an ask its end: an answer for a driver, a line under the cell for a magic."""
        if ask is None or ask.automatic:
            return
        if not ask.from_cell:
            self._do(do.Answer(ask, result, error))
            return
        self._do(do.Note(str(error) if error else note, error=error is not None))
        if self._cell_asks:  # else its cell was released when the worker died
            self._cell_asks -= 1
            if self._cell_asks == 0:
                self._do(do.Release())

    def _abort_waiting(self) -> None:
        waiting = (item for item in self.queue if isinstance(item, Request))
        self._aborted.update(item.seq for item in waiting if item.kind == "execute")

    # What the parts below need of those above.

    def _start_worker(self, attempt: int) -> None:
        """Start a fresh worker."""
        raise NotImplementedError

    def _revive(self) -> None:
        """Bring a worker to life in the place of one that was lost."""
        raise NotImplementedError


def with_notes(first: str, rest: tuple[str, ...]) -> str:
    """Return a line for the user with notes below it."""
    return "\n".join([first, *(f"  note: {line}" for line in rest)])
