"""Open a catalog, bring its schema up to date, and run one transaction on it.

Each transaction has a connection of its own: kernels fork and have threads, and a connection of
SQLite must not be shared by either.  A kill at any moment leaves an empty file, which is an empty
catalog, or what the last finished transaction left.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from chexpoint.errors import CatalogError, ChexError

MIGRATIONS: tuple[tuple[str, ...], ...] = (
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
)
"""The n-th entry leads from schema n to schema n + 1; entries are never changed, only added."""

SCHEMA = len(MIGRATIONS)

APPLICATION = int.from_bytes(b"CHEX")
"""What tells a catalog from other SQLite files."""

BUSY_S = 20.0
"""How long to wait for another process; a transaction takes milliseconds."""

_DAMAGED = {"SQLITE_NOTADB", "SQLITE_CORRUPT"}
_FORBIDDEN = {"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"}


@contextlib.contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """Run the block as one transaction on a catalog, which is made if there is none.

    Raises
    ------
    CatalogError
        If the file is no catalog, or cannot be written.
    """
    with _explained(path):
        _create(path)
        with _connected(path, "mode=rw") as connection:
            _version(path, connection)  # a file of someone else must not be touched
            _use_write_ahead_log(connection)
            with _transaction(connection, "IMMEDIATE"):
                _migrate(path, connection)
                yield connection


@contextlib.contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Let the block read one state of an existing catalog, also where nothing can be written.

    Raises
    ------
    CatalogError
        If the file is no catalog, or cannot be read.
    """
    with _explained(path), _readable(path) as connection:
        if _version(path, connection) < SCHEMA:
            with _transaction(connection, "IMMEDIATE"):
                _migrate(path, connection)
        with _transaction(connection, "DEFERRED"):
            yield connection


def exists(path: Path) -> bool:
    """Return whether there is anything to read."""
    with _explained(path):
        return path.exists()


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite would make it readable for others; its further files get the mode of this one.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.ExitStack() as stack:
        # SQLite itself opens a file read-only where it may not write.
        connection = stack.enter_context(_connected(path, "mode=rw"))
        try:
            connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except sqlite3.OperationalError as error:
            log = path.with_name(f"{path.name}-wal")
            is_unfinished = log.exists() and log.stat().st_size > 0
            if _cause(error) not in _FORBIDDEN or is_unfinished or os.access(path.parent, os.W_OK):
                raise
            # A folder without write permission has no room for the lock file of WAL; nobody can
            # change the catalog there either, so it can be read without locks.
            connection = stack.enter_context(_connected(path, "mode=ro&immutable=1"))
        yield connection


@contextlib.contextmanager
def _connected(path: Path, options: str) -> Iterator[sqlite3.Connection]:
    uri = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)
    with contextlib.closing(connection):
        connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
        connection.execute("PRAGMA foreign_keys = ON")
        yield connection


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    # It is faster, not safer: while another process is in the way, the catalog works without it.
    with contextlib.suppress(sqlite3.OperationalError):
        (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode == "wal":
            connection.execute("PRAGMA synchronous = NORMAL")


@contextlib.contextmanager
def _transaction(connection: sqlite3.Connection, kind: str) -> Iterator[None]:
    connection.execute(f"BEGIN {kind}")
    try:
        yield
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _migrate(path: Path, connection: sqlite3.Connection) -> None:
    """Bring the schema up to date, within the transaction of the caller."""
    version = _version(path, connection)
    if version == SCHEMA:
        return
    for statements in MIGRATIONS[version:]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {SCHEMA}")


def _version(path: Path, connection: sqlite3.Connection) -> int:
    """Return the number of the schema; 0 is an empty file."""
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
    return version


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    (value,) = connection.execute(f"PRAGMA {name}").fetchone()
    return int(value)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into one that says what to do."""
    try:
        yield
    except ChexError:
        raise
    except sqlite3.Error as error:
        cause = _cause(error)
        if cause in _DAMAGED:
            reason = (
                f"{path} is damaged, or is not a catalog ({error}). Move it out of the way to "
                "begin a new one."
            )
        elif cause in _FORBIDDEN:
            reason = f"{path} cannot be opened or written ({error}). Check its permissions."
        elif cause == "SQLITE_BUSY":
            reason = f"{path} is held by another process ({error}). Try again."
        else:
            reason = f"{path} cannot be used: {error}."
        raise CatalogError(reason) from error
    except OSError as error:
        raise CatalogError(f"{path} cannot be used: {error.strerror or error}.") from error


def _cause(error: sqlite3.Error) -> str:
    """Return the primary name of an error: SQLITE_BUSY for SQLITE_BUSY_RECOVERY."""
    return "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])
