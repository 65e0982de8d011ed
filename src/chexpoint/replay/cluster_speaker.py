"""What a part of a replay says on its way, to those who have started it elsewhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from chexpoint.model import Bytes, NodeId, ReplayedCell, Seconds, to_json
from chexpoint.replay.cluster_states import ShippedState
from chexpoint.replay.ledger import Reporter

# What is said stays for a while in the memory of the scheduler.
_LARGE_CELL = 16 * 2**10
_OFTEN_S: Seconds = 0.05


class Speaker:
    """The `Watcher` of a lane whose ledger is elsewhere; several messages travel together.

    Parameters
    ----------
    say
        Sends a text.
    remaining
        Returns what is still to do.
    """

    def __init__(
        self, part: int, say: Callable[[str], None], remaining: Callable[[], tuple[int, Seconds]]
    ) -> None:
        self._part = part
        self._say = say
        self._remaining = remaining
        self._lock = threading.Lock()
        self._messages: list[dict[str, Any]] = []
        self._spent = 0.0
        self._last = 0.0
        self.said = 0
        self._large: list[ReplayedCell] = []

    def begins(self, lane: Reporter, node: NodeId) -> None:
        """A cell is about to be computed."""
        del lane
        self._add({"kind": "begins", "node": node})

    def computed(self, lane: Reporter, cell: ReplayedCell) -> None:
        """A cell was computed, or failed."""
        del lane
        data = to_json(cell)
        if len(json.dumps(data)) > _LARGE_CELL:
            with self._lock:
                self._large.append(cell)
        else:
            self._add({"kind": "computed", "cell": data})

    def gave_up(self, lane: Reporter, node: NodeId, reason: str) -> None:
        """Nothing below a node can be computed."""
        del lane
        self._add({"kind": "gave_up", "node": node, "reason": reason})

    def held(self, lane: Reporter, size_bytes: Bytes) -> None:
        """What checkpoints hold has changed."""
        del lane
        self._add({"kind": "held", "bytes": size_bytes})

    def spent(self, seconds: Seconds) -> None:
        """Time was spent on something other than computing."""
        with self._lock:
            self._spent += seconds

    def stored(self, state: ShippedState, seconds: Seconds) -> None:
        """A state is in the store now."""
        self._add({"kind": "stored", "state": to_json(state), "seconds": seconds})

    def loaded(self, node: NodeId, moving_s: Seconds, seconds: Seconds) -> None:
        """A state was loaded from the store."""
        self._add({"kind": "loaded", "node": node, "moving": moving_s, "seconds": seconds})

    def useless(self, node: NodeId) -> None:
        """A state could not be loaded."""
        self._add({"kind": "useless", "node": node})

    def note(self, text: str) -> None:
        """Something happened that the user should know."""
        self._add({"kind": "note", "text": text})

    def idle(self, states: Iterable[NodeId], fatal: Iterable[NodeId]) -> None:
        """All is done; these states are held, and these cells have ended the engine."""
        with self._lock:
            large = len(self._large)
        message = {"kind": "idle", "states": list(states), "fatal": list(fatal), "large": large}
        self._add(message)
        self.flush()

    def take_large(self) -> tuple[ReplayedCell, ...]:
        """Return the cells that were too large to be said, once."""
        with self._lock:
            large, self._large = self._large, []
        return tuple(large)

    def _add(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._messages.append(message)
        if time.monotonic() - self._last > _OFTEN_S:
            self.flush()

    def flush(self) -> None:
        """Send what there is."""
        with self._lock:
            if not self._messages:
                return
            messages, self._messages = self._messages, []
            spent, self._spent = self._spent, 0.0
            self._last = time.monotonic()
            self.said += 1
            self._say(
                json.dumps(
                    {
                        "part": self._part,
                        "at": self.said,
                        "left": list(self._remaining()),
                        "spent": spent,
                        "messages": messages,
                    }
                )
            )
