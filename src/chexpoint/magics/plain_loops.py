"""The loops in the cells of a shell that is not CHEX's."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chexpoint.config import Config
from chexpoint.hindsight import CellTransformer, RunPlace


class PlainLoops:
    """Has the loops of cells recorded.

    Parameters
    ----------
    where
        Returns the folder ``.chex`` and the session that cells are recorded in, while they are.
    """

    def __init__(self, where: Callable[[], tuple[str, str] | None]) -> None:
        self._where = where
        self._shell: Any = None
        self._transformer = CellTransformer(self._place)
        config = Config.at()
        for problem in config.problems:
            print(f"CHEX: {problem} (not used)")
        self.share = config.without_problems().share("overhead")
        """Of the time that checkpoints may take; None records no loops."""

    def start(self, shell: Any) -> None:
        """Look at the cells of a shell."""
        self._shell = shell
        shell.ast_transformers.append(self._transformer)

    def close(self) -> None:
        """Leave the shell as it was."""
        if self._shell is not None and self._transformer in self._shell.ast_transformers:
            self._shell.ast_transformers.remove(self._transformer)

    def begin(self, source: str) -> None:
        """A cell of the user's is about to run; ``source`` is plain Python."""
        # The shell has counted it already.
        self._transformer.begin(source, self._shell.execution_count - 1)

    def end(self) -> None:
        """It has run."""
        if problem := self._transformer.end():
            print(f"CHEX: {problem}")

    def _place(self) -> RunPlace | None:
        where = self._where()
        if where is None or self.share is None:
            return None
        folder, session = where
        return RunPlace(
            folder=Path(folder) / "loops",
            store=str(Path(folder) / "store"),
            session=session,
            epsilon=self.share,
        )
