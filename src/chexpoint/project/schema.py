"""The tables of a catalog, and how those of older versions become those of today."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

from chexpoint.errors import CatalogError
from chexpoint.project.from_schema_1 import carry_over

Step = str | Callable[[sqlite3.Connection], None]

MIGRATIONS: tuple[tuple[Step, ...], ...] = (
    (
        """CREATE TABLE node (
            id TEXT PRIMARY KEY,
            parent TEXT NOT NULL,
            lineage TEXT NOT NULL,
            runs INTEGER NOT NULL,
            first_run REAL NOT NULL,
            last_run REAL NOT NULL
        )""",
        """CREATE TABLE execution (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            node TEXT NOT NULL REFERENCES node (id),
            session TEXT NOT NULL,
            execution_count INTEGER NOT NULL,
            seconds REAL NOT NULL,
            size_bytes INTEGER NOT NULL,
            status TEXT NOT NULL,
            time REAL NOT NULL
        )""",
        """CREATE VIEW run AS
            SELECT execution.id, session, node, lineage, execution_count, seconds, size_bytes,
                status
            FROM execution JOIN node ON node.id = execution.node
        """,
        "CREATE INDEX execution_of_node ON execution (node)",
        "CREATE INDEX execution_of_session ON execution (session, execution_count)",
    ),
    (
        "DROP VIEW run",
        "DROP INDEX execution_of_node",
        "DROP INDEX execution_of_session",
        "ALTER TABLE execution RENAME TO execution_1",
        "ALTER TABLE node RENAME TO node_1",
        # Sources and outputs are kept once, under their digest.
        """CREATE TABLE source (
            id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, text TEXT NOT NULL
        )""",
        # JSON of a `CellLineage` without what is in execution; runs that did the same share one.
        "CREATE TABLE lineage (id INTEGER PRIMARY KEY, text TEXT NOT NULL)",
        # JSON of a list of outputs; without a text it is in the file of this digest.
        """CREATE TABLE output (
            id INTEGER PRIMARY KEY, digest TEXT NOT NULL UNIQUE, text TEXT
        )""",
        # As the node was when its cell ran last: all that the tree needs, without any JSON.
        """CREATE TABLE node (
            id TEXT NOT NULL PRIMARY KEY,
            parent TEXT NOT NULL,
            number INTEGER NOT NULL,
            code TEXT NOT NULL,
            source INTEGER NOT NULL REFERENCES source (id),
            cost REAL NOT NULL,
            size_bytes INTEGER NOT NULL,
            execution_count INTEGER NOT NULL,
            status TEXT NOT NULL,
            doubt TEXT NOT NULL,
            runs INTEGER NOT NULL,
            first_run REAL NOT NULL,
            last_run REAL NOT NULL
        ) WITHOUT ROWID""",
        # One run of a cell; outputs are NULL if they were not recorded.
        """CREATE TABLE execution (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            node TEXT NOT NULL REFERENCES node (id),
            taint TEXT NOT NULL,
            parent TEXT NOT NULL,
            parent_taint TEXT NOT NULL,
            session TEXT NOT NULL,
            execution_count INTEGER NOT NULL,
            seconds REAL NOT NULL,
            size_bytes INTEGER NOT NULL,
            interrupts INTEGER NOT NULL,
            status TEXT NOT NULL,
            time REAL NOT NULL,
            cell_id TEXT NOT NULL,
            source INTEGER NOT NULL REFERENCES source (id),
            lineage INTEGER NOT NULL REFERENCES lineage (id),
            outputs INTEGER REFERENCES output (id)
        )""",
        """CREATE TABLE version (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            name TEXT NOT NULL,
            number INTEGER NOT NULL,
            session TEXT NOT NULL,
            created REAL NOT NULL,
            origin TEXT NOT NULL,
            parameters TEXT NOT NULL,
            UNIQUE (name, number)
        )""",
        """CREATE TABLE step (
            version INTEGER NOT NULL REFERENCES version (id),
            number INTEGER NOT NULL,
            execution INTEGER NOT NULL REFERENCES execution (id),
            source INTEGER NOT NULL REFERENCES source (id),
            is_reused INTEGER NOT NULL,
            cell_id TEXT NOT NULL,
            PRIMARY KEY (version, number)
        ) WITHOUT ROWID""",
        # Held by living kernels: machine, pid and started tell whether the kernel still lives.
        """CREATE TABLE checkpoint (
            session TEXT NOT NULL,
            machine TEXT NOT NULL,
            pid INTEGER NOT NULL,
            started TEXT NOT NULL,
            time REAL NOT NULL,
            id TEXT NOT NULL,
            name TEXT,
            node TEXT NOT NULL,
            taint TEXT NOT NULL,
            size_bytes INTEGER NOT NULL,
            PRIMARY KEY (session, id)
        ) WITHOUT ROWID""",
        carry_over,
        "DROP TABLE execution_1",
        "DROP TABLE node_1",
        # To find the runs that led to a state, and those that went on from one.
        "CREATE INDEX execution_of_state ON execution (node, taint, session)",
        "CREATE INDEX execution_after_state ON execution (parent, parent_taint)",
        "CREATE INDEX execution_of_session ON execution (session, execution_count)",
        "CREATE INDEX step_of_execution ON step (execution)",
        # What is missing is NULL, and not left out: whoever reads it must be told.
        """CREATE VIEW run AS
            SELECT execution.id AS id, session, node, lineage.text AS lineage,
                source.text AS source, execution_count, seconds, size_bytes, status, interrupts
            FROM execution
            LEFT JOIN lineage ON lineage.id = execution.lineage
            LEFT JOIN source ON source.id = execution.source
        """,
        # The run of a cell as it was recorded, and as a version shows it.
        """CREATE VIEW run_on_path AS
            SELECT execution.id AS id, execution.node AS node, execution.parent AS parent, taint,
                parent_taint, seconds, execution.execution_count AS execution_count,
                execution.status AS status, session, node.number AS number, source.text AS source,
                source.digest AS digest, cell_id, 0 AS is_reused, NULL AS version, NULL AS step
            FROM execution
            LEFT JOIN node ON node.id = execution.node
            LEFT JOIN source ON source.id = execution.source
        """,
        """CREATE VIEW step_on_path AS
            SELECT execution.id AS id, execution.node AS node, execution.parent AS parent, taint,
                parent_taint, seconds, execution.execution_count AS execution_count,
                execution.status AS status, session, node.number AS number, source.text AS source,
                source.digest AS digest, step.cell_id AS cell_id, is_reused, version,
                step.number AS step
            FROM step
            LEFT JOIN execution ON execution.id = step.execution
            LEFT JOIN node ON node.id = execution.node
            LEFT JOIN source ON source.id = step.source
        """,
    ),
    (
        # States in the store; rows of images that are gone there do no harm.
        """CREATE TABLE image (
            name TEXT NOT NULL PRIMARY KEY,
            node TEXT NOT NULL,
            taint TEXT NOT NULL,
            needs INTEGER NOT NULL,
            keep TEXT NOT NULL,
            state_bytes INTEGER NOT NULL,
            time REAL NOT NULL
        ) WITHOUT ROWID""",
    ),
)
"""The n-th entry leads from schema n to schema n + 1; entries are never changed, only added."""

SCHEMA = len(MIGRATIONS)

APPLICATION = int.from_bytes(b"CHEX")
"""What tells a catalog from other SQLite files."""


def schema_of(path: Path, connection: sqlite3.Connection) -> int:
    """Return the number of the schema; 0 is an empty file.

    Raises
    ------
    CatalogError
        If it is the file of somebody else, or of a newer version.
    """
    version = _pragma(connection, "user_version")
    application = _pragma(connection, "application_id")
    if application != APPLICATION:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if version or application or tables:
            raise CatalogError(f"{path} is not a catalog of CHEX. Move it out of the way.")
    if version > SCHEMA:
        raise CatalogError(
            f"{path} was written by a newer version of CHEX (schema {version}, this one knows "
            f"{SCHEMA}). Update chexpoint to use it."
        )
    if version < 0:
        raise CatalogError(f"{path} is damaged (schema {version}). Move it out of the way.")
    return version


def migrate(path: Path, connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, within the transaction of the caller."""
    version = schema_of(path, connection)
    if version == SCHEMA:
        return
    for steps in MIGRATIONS[version:]:
        for step in steps:
            if callable(step):
                step(connection)
            else:
                connection.execute(step)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)
