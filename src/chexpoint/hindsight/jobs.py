"""Replay jobs: what a process is to do with the cells that it is given."""

from __future__ import annotations

import ast
import json
from pathlib import Path

from chexpoint.errors import ChexError
from chexpoint.hindsight.loading import Images
from chexpoint.hindsight.orders import CellOrder, order_from_json
from chexpoint.hindsight.programs import instrumented
from chexpoint.hindsight.replayer import Replayer
from chexpoint.hindsight.run_log import read_run
from chexpoint.hindsight.runtime import Loops


class Job:
    """A replay that was ordered.

    Parameters
    ----------
    path
        Of a JSON file: ``store``, ``out`` and ``cells``, see `order_from_json`.
    """

    def __init__(self, loops: Loops, path: Path) -> None:
        data = json.loads(path.read_text(encoding="utf-8"))
        self._loops = loops
        self._out = Path(data["out"])
        self._images = Images(data["store"])
        self._cells = [dict(cell) for cell in data["cells"]]

    def replayed(self, tree: ast.Module, source: str, *, offset: int) -> ast.Module:
        """Return the tree of a cell that is about to run as it was ordered.

        Parameters
        ----------
        offset
            How many lines of its file come before it.
        """
        order = self._order(source)
        if order is None:
            return tree
        _, tree = instrumented(
            self._loops,
            tree,
            source,
            offset=offset,
            added=order.added,
            step_into=order.step_into,
        )
        self._loops.follow(Replayer(self._loops, order, images=self._images, out=self._out))
        return tree

    def close(self) -> None:
        """The cell has run."""
        self._images.close()

    def _order(self, source: str) -> CellOrder | None:
        """Return what is to be done with a cell, once."""
        for place, cell in enumerate(self._cells):
            if cell["source"].strip() == source.strip():
                del self._cells[: place + 1]
                try:
                    run = read_run(Path(cell["run"])) if cell.get("run") else None
                except ChexError as error:
                    run = None
                    self._tell(str(error))
                return order_from_json(cell, run)
        return None

    def _tell(self, text: str) -> None:
        with open(self._out, "a", encoding="utf-8") as file:
            file.write(json.dumps({"e": "failed", "text": text}) + "\n")
