"""Measures memory off the supervisor's loop: walking the page tables of many processes is slow."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from chexpoint.engine import proc
from chexpoint.engine.events import Measured
from chexpoint.engine.memory import available_bytes
from chexpoint.model import CheckpointId

# Measuring may take this share of one core at the most.
_DUTY = 0.05


class Meter:
    """A thread that measures on request, the latest request only."""

    def __init__(self, done: Callable[[], None]) -> None:
        self._done = done
        self._wanted: tuple[int, Mapping[CheckpointId, int]] | None = None
        self._urgent = False
        self._result: Measured | None = None
        self._ready = threading.Condition()
        self._thread: threading.Thread | None = None

    def request(
        self, worker: int, checkpoints: Mapping[CheckpointId, int], *, urgent: bool
    ) -> None:
        """Measure these processes soon, or at once, then call ``done``."""
        with self._ready:
            self._wanted = (worker, dict(checkpoints))
            self._urgent |= urgent
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="chex-meter", daemon=True)
                self._thread.start()
            self._ready.notify()

    def result(self) -> Measured | None:
        """Return a measurement once."""
        with self._ready:
            result, self._result = self._result, None
        return result

    def _run(self) -> None:
        while True:
            with self._ready:
                while self._wanted is None:
                    self._ready.wait()
                (worker, checkpoints), self._wanted = self._wanted, None
                self._urgent = False
            started = time.monotonic()
            measured = measure(worker, checkpoints) if worker else None
            with self._ready:
                self._result = measured
            self._done()
            with self._ready:
                rest_s = (time.monotonic() - started) / _DUTY
                self._ready.wait_for(lambda: self._urgent, timeout=rest_s)


def measure(worker: int, checkpoints: Mapping[CheckpointId, int]) -> Measured | None:
    """Return what each checkpoint holds alone, and what all hold together.

    None if there is no worker to compare them with: everything would seem to be theirs.

    All anonymous memory of the family, each page counted once, less what the
    worker would have without checkpoints, is what checkpoints cost; page
    tables come on top.
    """
    live = proc.memory(worker)
    if live is None:
        return None
    sizes: dict[CheckpointId, int] = {}
    held = live.share - live.whole
    for checkpoint, pid in checkpoints.items():
        frozen = proc.memory(pid)
        if frozen is not None:
            sizes[checkpoint] = frozen.private + frozen.page_tables
            held += frozen.share + frozen.copied + frozen.page_tables
    return Measured(
        sizes=sizes,
        held_bytes=max(0, held),
        worker_bytes=live.whole,
        available_bytes=available_bytes(),
    )
