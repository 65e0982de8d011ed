"""Writes runs of cells and versions into a catalog, within a transaction of the caller."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from chexpoint.errors import CatalogError, InvalidValue
from chexpoint.model import CellRecord, PathCell
from chexpoint.project.rows import content_digest, lineage_text, parameters_text, stored

_MEAN_OF = 8
"""Of more runs, each late one counts as if there had been so many: machines change."""


class Writer:
    """Adds rows to a catalog.

    Parameters
    ----------
    connection
        With a transaction that has begun.
    now
        Seconds since the epoch.
    """

    def __init__(self, connection: sqlite3.Connection, now: float) -> None:
        self._connection = connection
        self._now = now

    def add_run(self, cell: CellRecord, session: str, outputs: int) -> int:
        """Add one run of a cell, whose outputs are kept; return its id."""
        lineage = cell.lineage
        source = self.keep_source(lineage.source)
        self._add_node(cell, source)
        kept = self._keep_lineage(cell)
        return self._insert(
            "INSERT INTO execution (node, taint, parent, parent_taint, session, execution_count,"
            " seconds, size_bytes, interrupts, status, time, cell_id, source, lineage, outputs)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                *(stored(lineage.node), stored(cell.taint)),
                *(stored(lineage.parent), stored(cell.parent_taint)),
                *(stored(session), lineage.execution_count, lineage.seconds, lineage.size_bytes),
                *(lineage.audit.interrupts, lineage.status, self._now, stored(cell.cell_id)),
                *(source, kept, outputs),
            ),
        )

    def _add_node(self, cell: CellRecord, source: int) -> None:
        """Add what is known about a node; its cost is a mean in which late runs count more.

        The last run alone is a matter of luck, and plans are made by it.
        """
        lineage = cell.lineage
        self._connection.execute(
            "INSERT INTO node (id, parent, number, code, source, cost, size_bytes, execution_count,"
            " status, doubt, runs, first_run, last_run)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 1, ?, ?) ON CONFLICT (id) DO UPDATE SET"
            " number = excluded.number, source = excluded.source,"
            " cost = CASE WHEN status = excluded.status"
            " THEN cost + (excluded.cost - cost) / min(runs + 1, ?)"
            " ELSE excluded.cost END,"
            " size_bytes = excluded.size_bytes, execution_count = excluded.execution_count,"
            " status = excluded.status, doubt = excluded.doubt, runs = runs + 1,"
            " last_run = excluded.last_run",
            (
                *(stored(lineage.node), stored(lineage.parent), lineage.number),
                *(stored(lineage.code), source, lineage.seconds, lineage.size_bytes),
                *(lineage.execution_count, lineage.status, stored(lineage.doubt())),
                *(self._now, self._now, _MEAN_OF),
            ),
        )

    def add_version(
        self, name: str, session: str, origin: str, parameters: tuple[tuple[str, str], ...]
    ) -> int:
        """Add a version without a step; return its id."""
        return self._insert(
            "INSERT INTO version (name, number, session, created, origin, parameters) VALUES"
            " (?, (SELECT coalesce(max(number), 0) + 1 FROM version WHERE name = ?), ?, ?, ?, ?)",
            (
                *(name, name, stored(session), self._now, stored(origin)),
                parameters_text(parameters),
            ),
        )

    def add_step(
        self, version: int, execution: int, *, source: str, cell_id: str, is_reused: bool
    ) -> None:
        """Add a run to the end of a version.

        Raises
        ------
        InvalidValue
            If there is no such version or run.
        """
        self._refuse_unknown("version", "SELECT 1 FROM version WHERE id = ?", version)
        self._refuse_unknown("run", "SELECT 1 FROM execution WHERE id = ?", execution)
        self._connection.execute(
            "INSERT INTO step (version, number, execution, source, is_reused, cell_id) VALUES"
            " (?, (SELECT coalesce(max(number), 0) + 1 FROM step WHERE version = ?), ?, ?, ?, ?)",
            (
                *(version, version, execution),
                *(self.keep_source(source), int(is_reused), stored(cell_id)),
            ),
        )

    def add_path(self, version: int, path: Sequence[PathCell]) -> None:
        """Add runs of other versions to the end of one.

        Raises
        ------
        InvalidValue
            If one of them is not what the catalog knows.
        """
        for cell in path:
            row = self._connection.execute(
                "SELECT node, taint FROM execution WHERE id = ?", (cell.execution,)
            ).fetchone()
            if row is None or row != (stored(cell.node), stored(cell.taint)):
                raise InvalidValue(
                    f"cell [{cell.execution_count}] cannot begin a version: it was not recorded"
                )
            self.add_step(
                version,
                cell.execution,
                source=cell.source,
                cell_id=cell.cell_id,
                is_reused=True,
            )

    def keep_source(self, source: str) -> int:
        """Return the id of a source; one that was damaged is put right."""
        digest, text = content_digest(source), stored(source)
        known = self._connection.execute(
            "SELECT id, text FROM source WHERE digest = ?", (digest,)
        ).fetchone()
        if known is None:
            return self._insert("INSERT INTO source (digest, text) VALUES (?, ?)", (digest, text))
        if known[1] != text:
            self._connection.execute("UPDATE source SET text = ? WHERE id = ?", (text, known[0]))
        return int(known[0])

    def keep_outputs(self, digest: str, text: str | None) -> int:
        """Return the id of outputs, which are in a file if there is no text; see `keep_source`."""
        known = self._connection.execute(
            "SELECT id, text FROM output WHERE digest = ?", (digest,)
        ).fetchone()
        if known is None:
            return self._insert("INSERT INTO output (digest, text) VALUES (?, ?)", (digest, text))
        if known[1] != text:
            self._connection.execute("UPDATE output SET text = ? WHERE id = ?", (text, known[0]))
        return int(known[0])

    def _keep_lineage(self, cell: CellRecord) -> int:
        """Return the id of a lineage: that of the run before, if both did the same."""
        text = lineage_text(cell.lineage)
        known = self._connection.execute(
            "SELECT lineage.id FROM lineage JOIN execution ON lineage.id = execution.lineage"
            " WHERE execution.id = (SELECT max(id) FROM execution WHERE node = ?)"
            " AND lineage.text = ?",
            (stored(cell.lineage.node), text),
        ).fetchone()
        if known is not None:
            return int(known[0])
        return self._insert("INSERT INTO lineage (text) VALUES (?)", (text,))

    def _refuse_unknown(self, what: str, query: str, ident: int) -> None:
        if self._connection.execute(query, (ident,)).fetchone() is None:
            raise InvalidValue(f"no {what} has the id {ident}")

    def _insert(self, statement: str, values: tuple[object, ...]) -> int:
        ident = self._connection.execute(statement, values).lastrowid
        if ident is None:
            raise CatalogError("the catalog did not take a row")
        return ident
