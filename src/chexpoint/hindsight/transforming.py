"""Has a shell run its cells with their loops instrumented.

Loads what that takes when the first loop is recorded: most shells never need it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Callable

from chexpoint.hindsight.run_place import RunPlace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from chexpoint.hindsight.cells import CellLoops

JOB_VARIABLE = "CHEX_HINDSIGHT_JOB"
"""The environment variable that names the file of a replay job."""

_LOOPS = (ast.For, ast.While)
_MAY_LOOP = re.compile(r"^\s*(for|while)\b", re.MULTILINE)


class CellTransformer:
    """One of a shell's ``ast_transformers``.

    Parameters
    ----------
    place
        Called when a cell has loops; returns where they are recorded, None if they are not to be.
    """

    def __init__(self, place: Callable[[], RunPlace | None]) -> None:
        self._place = place
        self._loops: CellLoops | None = None
        self._cell: tuple[str, int] | None = None

    def begin(self, source: str, count: int) -> None:
        """A cell of the user's is about to run, which is plain Python now, and its number."""
        self._cell = source, count
        if self._loops is not None:
            self._loops.begin(source, count)
        elif _MAY_LOOP.search(source) and self._place() is not None:
            # Before the cell begins: to load it is no part of what the cell takes.
            import chexpoint.hindsight.cells  # noqa: F401

    def end(self) -> str:
        """It has run; return what the user should know, if anything."""
        self._cell = None
        return "" if self._loops is None else self._loops.end()

    def visit(self, tree: ast.AST) -> ast.AST:
        """Return the tree of a cell as it is to be run; IPython calls it."""
        if self._cell is None or not isinstance(tree, ast.Module):
            return tree
        if self._loops is None:
            if not any(isinstance(node, _LOOPS) for node in ast.walk(tree)):
                return tree
            if JOB_VARIABLE not in os.environ and self._place() is None:
                return tree
            from chexpoint.hindsight.cells import CellLoops

            self._loops = CellLoops(self._place)
            self._loops.begin(*self._cell)
        return self._loops.instrumented(tree)
