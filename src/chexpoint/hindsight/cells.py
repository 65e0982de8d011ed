"""Follows the cells of a shell: instruments their loops, and records or replays them."""

from __future__ import annotations

import ast
import os
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.hindsight.programs import instrumented
from chexpoint.hindsight.recorder import Recorder
from chexpoint.hindsight.run_place import RunPlace
from chexpoint.hindsight.runtime import process_loops
from chexpoint.hindsight.transforming import JOB_VARIABLE

if TYPE_CHECKING:
    from chexpoint.hindsight.jobs import Job

_LOOPS = (ast.For, ast.While)


class CellLoops:
    """The loops in the cells of one shell.

    Parameters
    ----------
    place
        Called when a cell has loops; returns where they are recorded, None if they are not to be.
    """

    def __init__(self, place: Callable[[], RunPlace | None]) -> None:
        self._place = place
        self._loops = process_loops()
        self._source: str | None = None
        self._count = 0
        self._recorder: Recorder | None = None
        self._job: Job | None = None
        if path := os.environ.get(JOB_VARIABLE):
            from chexpoint.hindsight.jobs import Job

            self._job = Job(self._loops, Path(path))

    def begin(self, source: str, count: int) -> None:
        """A cell of the user's is about to run, which is plain Python now, and its number."""
        self._source, self._count = source, count

    def end(self) -> str:
        """It has run; return what the user should know, if anything."""
        self._source = None
        self._loops.follow(None)
        recorder, self._recorder = self._recorder, None
        if self._job is not None:
            self._job.close()
        if recorder is None:
            return ""
        recorder.close()
        return recorder.problem

    def instrumented(self, tree: ast.Module) -> ast.Module:
        """Return the tree of the cell that is about to run, with its loops instrumented."""
        source = self._source
        if source is None:
            return tree
        try:
            if self._job is not None:
                return self._job.replayed(tree, source, offset=_text_of(tree, source)[1])
            return self._recorded(tree, source)
        except Exception:  # the cell runs as it is
            return tree

    def _recorded(self, tree: ast.Module, source: str) -> ast.Module:
        has_loops = any(isinstance(node, _LOOPS) for node in ast.walk(tree))
        # A cell without loops may call a function of an earlier one that has some.
        if not has_loops and not self._loops.programs:
            return tree
        place = self._place()
        if place is None:
            return tree
        text, offset = _text_of(tree, source)
        program, tree = instrumented(self._loops, tree, text, offset=offset)
        if self._recorder is None:
            self._recorder = Recorder(
                self._loops,
                place,
                program,
                run=uuid.uuid4().hex[:16],
                count=self._count,
                file="",
            )
            self._loops.follow(self._recorder)
        return tree


def _text_of(tree: ast.Module, source: str) -> tuple[str, int]:
    """Return the source of a tree, and how many lines come before it in its file.

    A cell magic runs only a part of its cell; cells of a script have the lines of the script.
    """
    try:
        whole = ast.parse(source)
    except SyntaxError:
        return ast.unparse(tree), 0
    if not tree.body or ast.dump(whole) != ast.dump(tree):
        return ast.unparse(tree), 0
    return source, tree.body[0].lineno - whole.body[0].lineno
