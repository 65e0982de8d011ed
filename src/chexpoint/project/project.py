"""What was recorded in a project folder, and how its nodes are named."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import time
from pathlib import Path
from typing import NamedTuple

from chexpoint.errors import CatalogError, InvalidValue, suggestion
from chexpoint.model import CellLineage, NodeId, lineage_from_json, to_json
from chexpoint.project import catalog

FOLDER = ".chex"
CATALOG = "catalog.sqlite"

SHORT = 12
"""Digits of a node that are shown; fewer are enough to name it while they are unique."""

_LEAST_DIGITS = 4
_COUNT = re.compile(r"\[([0-9]{1,9})\]|([0-9]{1,9})")
_DIGITS = re.compile(r"[0-9a-f]+")


class Project:
    """A folder with notebooks, whose ``.chex`` holds the lineage of the cells that ran there.

    Any number of processes may record and read at the same time, and none needs to be closed.

    Methods raise `CatalogError` if the catalog is damaged, of a newer version, or cannot be read
    or written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / FOLDER / CATALOG
        """The catalog; it may not exist yet."""

    @classmethod
    def at(cls, folder: str | os.PathLike[str]) -> Project:
        """Return the project of a folder; nothing is made before something is recorded."""
        return cls(Path(folder).absolute())

    @classmethod
    def find(cls, start: str | os.PathLike[str]) -> Project:
        """Return the project that a folder lies in.

        Raises
        ------
        InvalidValue
            If neither the folder nor one above it has a project.
        """
        first = Path(start).absolute()
        for folder in (first, *first.parents):
            if (folder / FOLDER).is_dir():
                return cls(folder)
        raise InvalidValue(
            f"no {FOLDER} folder in {first} or above: run a notebook with the CHEX kernel there "
            "first"
        )

    def record(self, lineage: CellLineage, session: str) -> None:
        """Add one run of a cell; a node that is there already is updated.

        Parameters
        ----------
        session
            Tells the runs of one kernel from those of others; execution counts are unique in it.
        """
        now = time.time()
        # JSON in ASCII carries names that are not UTF-8, which SQLite would refuse.
        text = json.dumps(to_json(lineage))
        with catalog.writing(self.path) as connection:
            connection.execute(
                "INSERT INTO node VALUES (?, ?, ?, 1, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " lineage = excluded.lineage, runs = runs + 1, last_run = excluded.last_run",
                (lineage.node, lineage.parent, text, now, now),
            )
            connection.execute(
                "INSERT INTO execution"
                " (node, session, execution_count, seconds, size_bytes, status, time)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (
                    lineage.node,
                    session,
                    lineage.execution_count,
                    lineage.seconds,
                    lineage.size_bytes,
                    lineage.status,
                    now,
                ),
            )

    def nodes(self) -> tuple[CellLineage, ...]:
        """Return all nodes as they were in their latest run, newest last."""
        if not catalog.exists(self.path):
            return ()
        with catalog.reading(self.path) as connection:
            rows = connection.execute(
                "SELECT * FROM run WHERE id IN (SELECT max(id) FROM execution GROUP BY node)"
                " ORDER BY id"
            )
            return tuple(_Run(*row).value() for row in rows)

    def node(self, ref: str | None = None, session: str | None = None) -> CellLineage:
        """Return the node that a user means.

        Parameters
        ----------
        ref
            At least four digits that only this node begins with, or the number of a cell: ``3`` or
            ``[3]``.  None is the node of the newest run.
        session
            Whose cells are counted; by default, the session in which a cell ran last.

        Raises
        ------
        InvalidValue
            If no node is meant, or several may be.
        """
        word = None if ref is None else ref.strip().lower()
        run = None
        if catalog.exists(self.path):
            with catalog.reading(self.path) as connection:
                run = _Search(connection, session).run(word)
        if run is None:
            raise InvalidValue(
                f"nothing is recorded in {self.folder} yet: run a cell with the CHEX kernel first"
            )
        return run.value()

    def path_to(self, node: CellLineage) -> tuple[CellLineage, ...]:
        """Return the nodes that led to one, from the root on, as far as they were recorded.

        Of each, the run is taken that came before the given one in the same session, if any.
        """
        path = [node]
        if not catalog.exists(self.path):
            return (node,)
        seen = {node.node}
        with catalog.reading(self.path) as connection:
            last = _one(
                connection,
                "SELECT * FROM run WHERE node = ? ORDER BY execution_count = ? DESC, id DESC",
                (node.node, node.execution_count),
            )
            session, ident = (last.session, last.ident) if last else (None, None)
            while path[-1].parent not in seen:
                parent = _one(
                    connection,
                    "SELECT * FROM run WHERE node = ?"
                    " ORDER BY session = ? DESC, id <= ? DESC, id DESC",
                    (path[-1].parent, session, ident),
                )
                if parent is None:
                    break
                path.append(parent.value())
                seen.add(path[-1].node)
        return tuple(reversed(path))


class _Run(NamedTuple):
    """One execution, with the lineage of its node."""

    ident: int
    session: str
    node: NodeId
    lineage: str
    execution_count: int
    seconds: float
    size_bytes: int
    status: str

    def value(self) -> CellLineage:
        run = {
            "execution_count": self.execution_count,
            "seconds": self.seconds,
            "size_bytes": self.size_bytes,
            "status": self.status,
        }
        try:
            return lineage_from_json({**json.loads(self.lineage), **run})
        except (ValueError, TypeError, LookupError) as error:
            raise CatalogError(f"node {self.node} is damaged in the catalog: {error}") from error


def _one(connection: sqlite3.Connection, query: str, values: tuple[object, ...]) -> _Run | None:
    row = connection.execute(f"{query} LIMIT 1", values).fetchone()
    return None if row is None else _Run(*row)


class _Search:
    """Finds the run that a word means."""

    def __init__(self, connection: sqlite3.Connection, session: str | None) -> None:
        self._connection = connection
        self._session = session

    def run(self, word: str | None) -> _Run | None:
        """Return the run; None if there is not a single one in the catalog."""
        newest = self._newest()
        if newest is None or word is None:
            return newest
        session = newest.session if self._session is None else self._session
        count = _COUNT.fullmatch(word)
        if count and (found := self._counted(int(count[1] or count[2]), session)):
            return found
        if count and (count[1] or len(word) < _LEAST_DIGITS):
            raise InvalidValue(f"no cell [{count[1] or count[2]}]. {self._counts(session)}")
        return self._digits(word)

    def _newest(self) -> _Run | None:
        return _one(
            self._connection,
            "SELECT * FROM run WHERE id = coalesce("
            "(SELECT max(id) FROM execution WHERE session = ?), (SELECT max(id) FROM execution))",
            (self._session,),
        )

    def _counted(self, count: int, session: str) -> _Run | None:
        return _one(
            self._connection,
            "SELECT * FROM run WHERE session = ? AND execution_count = ? ORDER BY id DESC",
            (session, count),
        )

    def _counts(self, session: str) -> str:
        rows = self._connection.execute(
            "SELECT DISTINCT execution_count FROM execution WHERE session = ?"
            " ORDER BY execution_count DESC LIMIT 8",
            (session,),
        )
        known = [f"[{count}]" for (count,) in rows]
        return f"Known: {', '.join(reversed(known))}." if known else "None ran in this session yet."

    def _digits(self, word: str) -> _Run:
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
        run = _one(
            self._connection,
            "SELECT * FROM run WHERE node = ? ORDER BY session = ? DESC, id DESC",
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
