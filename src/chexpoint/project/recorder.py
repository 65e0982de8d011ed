"""Writes what is recorded, off the loop that must never wait for a disk."""

from __future__ import annotations

import logging
import os
import queue
import threading
import time

from chexpoint.model import CellLineage
from chexpoint.project.project import Project

_log = logging.getLogger(__name__)
# How long an ending kernel waits for the last cells to be written.
_CLOSE_TIMEOUT_S = 5.0


class Recorder:
    """Records the lineage of the cells of one kernel, in a thread of its own.

    A kernel must go on where nothing can be written: the first failure is logged, and later ones
    are not.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._session = f"{time.time_ns():x}-{os.getpid()}"
        self._queue: queue.SimpleQueue[CellLineage | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="chex-recorder", daemon=True)
        self._has_started = False

    def record(self, lineage: CellLineage) -> None:
        """Have a cell recorded; returns at once."""
        if not self._has_started:
            self._has_started = True
            self._thread.start()
        self._queue.put(lineage)

    def close(self) -> None:
        """Wait until everything is written, but not for ever."""
        if self._has_started:
            self._queue.put(None)
            self._thread.join(_CLOSE_TIMEOUT_S)

    def _write(self) -> None:
        has_failed = False
        while (lineage := self._queue.get()) is not None:
            try:
                self._project.record(lineage, self._session)
            except Exception as error:  # a kernel goes on without its record
                if not has_failed:
                    _log.warning("lineage is kept for this session only: %s", error)
                has_failed = True
