"""Finds the run that a user means."""

from __future__ import annotations

import re
import sqlite3
from typing import Any, NamedTuple

from chexpoint.errors import CatalogError, InvalidValue, suggestion
from chexpoint.model import CellLineage
from chexpoint.project.rows import as_int, as_lineage, as_real, as_status, as_text, stored

SHORT = 12
"""Digits of a node that are shown; fewer are enough to name it while they are unique."""

_LEAST_DIGITS = 4
_COUNT = re.compile(r"\[([0-9]{1,9})\]|([0-9]{1,9})")
_DIGITS = re.compile(r"[0-9a-f]+")


class Run(NamedTuple):
    """One execution, as its row has it."""

    ident: Any
    session: Any
    node: Any
    lineage: Any
    source: Any
    execution_count: Any
    seconds: Any
    size_bytes: Any
    status: Any
    interrupts: Any

    def value(self) -> CellLineage:
        """Return the lineage of the cell, as it was in this run.

        Raises
        ------
        CatalogError
            If it is damaged.
        """
        try:
            run = {
                "source": as_text(self.source),
                "execution_count": as_int(self.execution_count),
                "seconds": as_real(self.seconds),
                "size_bytes": as_int(self.size_bytes),
                "status": as_status(self.status),
            }
            return as_lineage(self.lineage, as_text(self.node), self.interrupts, run)
        except ValueError as error:
            raise CatalogError(f"node {self.node} is damaged in the catalog: {error}") from error


def one_run(connection: sqlite3.Connection, query: str, values: tuple[object, ...]) -> Run | None:
    """Return the first run that a query on the view ``run`` finds."""
    row = connection.execute(query, values).fetchone()
    return None if row is None else Run(*row)


def run_by_id(connection: sqlite3.Connection, ident: int) -> Run | None:
    return one_run(connection, "SELECT * FROM run WHERE id = ?", (ident,))


def newest_runs(connection: sqlite3.Connection) -> list[Run]:
    """Return the newest run of each node, newest last."""
    rows = connection.execute(
        "SELECT * FROM run WHERE id IN (SELECT max(id) FROM execution GROUP BY node) ORDER BY id"
    )
    return [Run(*row) for row in rows]


def lineages_to(connection: sqlite3.Connection, node: CellLineage) -> tuple[CellLineage, ...]:
    """Return the lineages that led to one, as far as they were recorded; see `Project.path_to`."""
    path, seen = [node], {node.node}
    last = one_run(
        connection,
        "SELECT * FROM run WHERE node = ? ORDER BY execution_count = ? DESC, id DESC LIMIT 1",
        (stored(node.node), node.execution_count),
    )
    session, ident = (last.session, last.ident) if last else (None, None)
    while path[-1].parent not in seen:
        parent = one_run(
            connection,
            "SELECT * FROM run WHERE node = ?"
            " ORDER BY session = ? DESC, id <= ? DESC, id DESC LIMIT 1",
            (stored(path[-1].parent), session, ident),
        )
        if parent is None:
            break
        path.append(parent.value())
        seen.add(path[-1].node)
    return tuple(reversed(path))


class Search:
    """Finds the run that a word means.

    Parameters
    ----------
    session
        Whose cells are counted; None is the session in which a cell ran last.
    """

    def __init__(self, connection: sqlite3.Connection, session: str | None = None) -> None:
        self._connection = connection
        self._session = None if session is None else stored(session)

    def run(self, word: str | None) -> Run | None:
        """Return the run; None if there is not a single one in the catalog."""
        newest = one_run(
            self._connection,
            "SELECT * FROM run WHERE id = coalesce("
            "(SELECT max(id) FROM execution WHERE session = ?), (SELECT max(id) FROM execution))",
            (self._session,),
        )
        if newest is None or word is None:
            return newest
        session = newest.session if self._session is None else self._session
        count = _COUNT.fullmatch(word)
        if count and (found := self._counted(int(count[1] or count[2]), session)):
            return found
        if count and (count[1] or len(word) < _LEAST_DIGITS):
            raise InvalidValue(f"no cell [{count[1] or count[2]}]. {self._counts(session)}")
        return self._digits(word)

    def _counted(self, count: int, session: object) -> Run | None:
        return one_run(
            self._connection,
            "SELECT * FROM run WHERE session = ? AND execution_count = ? ORDER BY id DESC LIMIT 1",
            (session, count),
        )

    def _counts(self, session: object) -> str:
        rows = self._connection.execute(
            "SELECT DISTINCT execution_count FROM execution WHERE session = ?"
            " ORDER BY execution_count DESC LIMIT 8",
            (session,),
        )
        known = [f"[{count}]" for (count,) in rows]
        return f"Known: {', '.join(reversed(known))}." if known else "None ran in this session yet."

    def _digits(self, word: str) -> Run:
        if not _DIGITS.fullmatch(word):
            raise InvalidValue(f"no node '{word}'. {self._known(word)}")
        if len(word) < _LEAST_DIGITS:
            raise InvalidValue(f"'{word}' is too short: give at least {_LEAST_DIGITS} digits")
        rows = self._connection.execute(
            "SELECT id FROM node WHERE id GLOB ? ORDER BY last_run DESC LIMIT 5", (f"{word}*",)
        )
        found = [str(ident) for (ident,) in rows]
        if not found:
            raise InvalidValue(f"no node '{word}'. {self._known(word)}")
        if len(found) > 1:
            shown = SHORT if len(word) < SHORT else None
            several = ", ".join(sorted(ident[:shown] for ident in found))
            raise InvalidValue(f"'{word}' may mean several nodes: {several}. Give more digits.")
        run = one_run(
            self._connection,
            "SELECT * FROM run WHERE node = ? ORDER BY session = ? DESC, id DESC LIMIT 1",
            (found[0], self._session),
        )
        if run is None:
            raise InvalidValue(f"node '{word}' was never run")
        return run

    def _known(self, word: str) -> str:
        rows = self._connection.execute("SELECT id FROM node ORDER BY last_run DESC LIMIT 100")
        newest = [str(ident)[:SHORT] for (ident,) in rows]
        close = suggestion(word, newest)
        return close if close.startswith("Did you mean") else suggestion(word, newest[:8])


def may_mean_node(word: str) -> bool:
    """Return whether a word looks like a node or the number of a cell, rather than a name."""
    return bool(_COUNT.fullmatch(word) or _DIGITS.fullmatch(word.lower()))
