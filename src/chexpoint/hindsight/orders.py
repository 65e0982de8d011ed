"""What a replay is to do with each cell of a program."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chexpoint.model import LoopRun, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOrder:
    """What is to be done with one cell of a program."""

    source: str
    added: tuple[tuple[int, int], ...] = ()
    run: LoopRun | None = None
    folder: Path | None = None
    """Of the run."""
    step_into: frozenset[int] = frozenset()
    loop: int | None = None
    """Which of its main loops is replayed; those before it are passed over."""
    segment: Segment | None = None

    def added_names(self) -> tuple[str, ...]:
        """Return what added statements name, without the variables that are their own."""
        try:
            tree = ast.parse(self.source)
        except (SyntaxError, ValueError):
            return ()
        found = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and any(a <= node.lineno <= b for a, b in self.added)
        ]
        own = {node.id for node in found if isinstance(node.ctx, ast.Store)}
        return tuple(sorted({node.id for node in found} - own))


def order_from_json(data: Mapping[str, Any], run: LoopRun | None) -> CellOrder:
    """Return what a job says about a cell."""
    segment = data.get("segment")
    return CellOrder(
        source=data["source"],
        added=tuple((int(a), int(b)) for a, b in data.get("added", ())),
        run=run,
        folder=None if run is None else Path(data["run"]),
        step_into=frozenset(data.get("step_into", ())),
        loop=None if segment is None else segment["loop"],
        segment=None
        if segment is None
        else Segment(
            start=segment["start"],
            stop=segment["stop"],
            first=segment["first"],
            is_jump=segment["is_jump"],
        ),
    )
