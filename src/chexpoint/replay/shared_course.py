"""A course from which others may take leaves, and which may get more, while a lane follows it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from chexpoint.model import Bytes, NodeId, Plan, PlanStep, Seconds
from chexpoint.replay.cluster_states import ShippedState
from chexpoint.replay.course import Course
from chexpoint.replay.sharing import Reach

_LOOK_S: Seconds = 0.1
# Who asks must not wait while a plan is being made.
_PATIENCE_S: Seconds = 0.02


class SharedCourse(Course):
    """A `Course` that several threads may use; one of them follows it.

    It keeps its checkpoints when it has run dry: what comes next may begin with them.
    """

    def __init__(self, *args: object, **settings: object) -> None:
        super().__init__(*args, is_keeping=True, **settings)  # type: ignore[arg-type]
        self._lock = threading.RLock()
        self._more = threading.Condition(self._lock)
        self._is_finished = False
        self._is_late = False
        self._arrivals: list[ShippedState] = []

    # ------------------------------------------------------------ by others

    def asked(self, reach: Reach) -> tuple[frozenset[NodeId], tuple[int, Seconds]]:
        """Give leaves away, if that helps; return them, and what is left to do."""
        if not self._lock.acquire(timeout=_PATIENCE_S):
            return frozenset(), self.remaining()
        try:
            return self.give_away(reach), self.remaining()
        finally:
            self._lock.release()

    def given(
        self,
        leaves: Iterable[NodeId],
        planned: Plan | None = None,
        states: Iterable[ShippedState] = (),
    ) -> bool:
        """Take leaves in, and have the lane go on; return whether it still can.

        Parameters
        ----------
        planned
            For a lane that has done nothing yet.
        states
            In the store, for the lane to begin with.
        """
        with self._more:
            if self._is_finished:
                return False
            self.take_in(leaves, planned)
            self._arrivals.extend(states)
            self._more.notify_all()
            return True

    def finish(self) -> None:
        """Say that nothing more will come."""
        with self._more:
            self._is_finished = True
            self._more.notify_all()

    # ------------------------------------------------------------ by its lane

    def wait_for_more(self, is_wanted: Callable[[], bool]) -> bool:
        """Wait until there is something to do again; return False if there will be nothing."""
        with self._more:
            while not self._leaves and not self._is_finished and is_wanted():
                self._more.wait(_LOOK_S)
            if self._is_late or not self._leaves or not is_wanted():
                self._is_finished = True
                return False
            return True

    def take_arrivals(self) -> tuple[ShippedState, ...]:
        """Return the states to begin with, once."""
        with self._lock:
            arrivals, self._arrivals = self._arrivals, []
            return tuple(arrivals)

    def received(self, node: NodeId) -> None:
        with self._lock:
            super().received(node)

    def next(self, seconds_left: Seconds | None = None) -> PlanStep | None:
        with self._lock:
            step = super().next(seconds_left)
            self._is_late = step is None and bool(self._leaves)  # there is no time for them
            return step

    def done(self, step: PlanStep) -> None:
        with self._lock:
            super().done(step)

    def computed(self, node: NodeId, seconds: Seconds, size: Bytes) -> None:
        with self._lock:
            super().computed(node, seconds, size)

    def gave_up(self, node: NodeId) -> None:
        with self._lock:
            super().gave_up(node)

    def not_held(self, node: NodeId) -> None:
        with self._lock:
            super().not_held(node)

    def lost(self, nodes: Iterable[NodeId]) -> None:
        with self._lock:
            super().lost(nodes)

    def adrift(self) -> None:
        with self._lock:
            super().adrift()
