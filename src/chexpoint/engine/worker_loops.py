"""The loops in a worker's cells: where they are recorded, and who writes for them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from chexpoint.errors import EngineError
from chexpoint.hindsight import CellTransformer, RunPlace, use_starter

if TYPE_CHECKING:
    from chexpoint.engine.worker import Worker


class WorkerLoops:
    """Has the loops of a worker's cells recorded, or replayed."""

    def __init__(self, worker: Worker, shell: Any) -> None:
        self._worker, self._shell = worker, shell
        self._transformer = CellTransformer(self._place)
        shell.ast_transformers.append(self._transformer)
        use_starter(self._start_writer)

    def begin(self, source: str) -> None:
        """A cell of the user's is about to run; ``source`` is plain Python."""
        self._transformer.begin(source, self._shell.execution_count)

    def end(self) -> None:
        """It has run."""
        # Only if a cell has used it.
        if (saving := sys.modules.get("chexpoint.hindsight.writing.saving")) is not None:
            saving.finish_saves()
        if problem := self._transformer.end():
            sys.stderr.write(f"CHEX: {problem}\n")

    def _place(self) -> RunPlace | None:
        try:
            place = self._worker.ask("loops")
        except EngineError:  # not in the main thread, or nobody is there
            return None
        if place is None:
            return None
        return RunPlace(
            folder=Path(place["folder"]),
            store=place["store"],
            session=place["session"],
            epsilon=place["epsilon"],
            wait_s=float(place.get("wait_s", 0.0)),
        )

    def _start_writer(self, command: list[str], link: int) -> None:
        """Have the supervisor start a writer: what a worker starts is audited with the cell."""
        self._worker.link.command([link], event="writer", command=command)


def start_writer(command: list[str], link: int) -> None:
    """Start a writer for a worker; it takes ``link``."""
    from chexpoint.hindsight import start_detached

    try:
        start_detached(command, link)
    except OSError:
        pass  # the worker sees that nobody is there
    finally:
        os.close(link)
