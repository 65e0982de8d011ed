"""Finds the runs that led to a state, from the first cell on."""

from __future__ import annotations

import sqlite3
from itertools import pairwise

from chexpoint.errors import InvalidValue
from chexpoint.model import PathCell
from chexpoint.project.history import PathRow, find_version, path_rows, steps_of


class Ways:
    """Finds ways in a catalog.

    Methods raise `InvalidValue` if a way is not recorded completely.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    def to_version(self, ref: str) -> tuple[PathCell, ...] | None:
        """Return the way to the end of a version; None if there is no such version."""
        found = find_version(self._connection, ref)
        if found is None:
            return None
        steps = steps_of(self._connection, found.ident)
        return _cells(ref, steps if _is_whole(steps) else self._way(steps[-1]))

    def to_run(self, ref: str, execution: int) -> tuple[PathCell, ...]:
        """Return the way to the state that a run led to."""
        (run,) = self._rows("SELECT * FROM run_on_path WHERE id = ?", execution)
        return _cells(ref, self._way(run))

    def to_node(self, ref: str, node: str) -> tuple[PathCell, ...]:
        """Return the way to the newest state of a node, or else to an older one."""
        runs = self._rows(
            "SELECT * FROM run_on_path WHERE id IN"
            " (SELECT max(id) FROM execution WHERE node = ? GROUP BY taint) ORDER BY id DESC",
            node,
        )
        ways = [self._way(runs[0])]
        for run in runs[1:]:
            if _is_whole(ways[-1]):
                break
            ways.append(self._way(run))
        return _cells(ref, ways[-1] if _is_whole(ways[-1]) else ways[0])

    def _way(self, run: PathRow) -> list[PathRow]:
        """Return the runs that led to one, itself included, as far as they were recorded."""
        way, seen = [run], {run.node}
        while way[-1].number != 1:
            before = self._before(way[-1])
            if before is None or before.node in seen:
                break
            way.append(before)
            seen.add(before.node)
        return way[::-1]

    def _before(self, run: PathRow) -> PathRow | None:
        """Return a run that led to the state that one went on from.

        That is, if there is one, the run that the same version has before it; else one of the same
        session; else any.
        """
        for place in (run, *self._shown(run)):
            for step in self._rows(
                "SELECT * FROM step_on_path WHERE version = ? AND step = ? - 1",
                *(place.version, place.step),
            ):
                if run.follows(step):
                    return step
        state = (run.parent, run.parent_taint)
        rows = self._rows(
            "SELECT * FROM run_on_path WHERE node = ? AND taint = ? AND session = ? AND id < ?"
            " ORDER BY id DESC LIMIT 1",
            *(*state, run.session, run.execution),
        ) or self._rows(
            "SELECT * FROM run_on_path WHERE node = ? AND taint = ?"
            " ORDER BY id < ? DESC, id DESC LIMIT 1",
            *(*state, run.execution),
        )
        return rows[0] if rows else None

    def _shown(self, run: PathRow) -> list[PathRow]:
        """Return a run as a version has it: the newest one that ran it, or that shows it."""
        return self._rows(
            "SELECT * FROM step_on_path WHERE id = ? ORDER BY is_reused, version DESC LIMIT 1",
            run.execution,
        )

    def _rows(self, query: str, *values: object) -> list[PathRow]:
        return path_rows(self._connection, query, values)


def _is_whole(way: list[PathRow]) -> bool:
    """Return whether a way begins at the fresh interpreter, and each run goes on from the last."""
    return (
        way[0].parent_taint == ""
        and all(run.number == number for number, run in enumerate(way, 1))
        and all(run.follows(before) for before, run in pairwise(way))
    )


def _cells(ref: str, way: list[PathRow]) -> tuple[PathCell, ...]:
    cells = tuple(row.cell() for row in way)
    if not _is_whole(way):
        first = next(cell for number, cell in enumerate(cells) if not _is_whole(way[: number + 1]))
        raise InvalidValue(
            f"the way to {ref} is not recorded completely: what led to cell "
            f"[{first.execution_count}] is missing. Run the notebook again from its first cell."
        )
    return cells
