"""The database of a ledger: where it is, and transactions on it.

Connections are kept and opened again when they are lost.  None survives a fork, and a file that was
deleted is noticed: SQLite would go on with what nobody sees any more.
"""

from __future__ import annotations

import contextlib
import os
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.pool import QueuePool

from chexpoint.errors import GraphError, InvalidValue
from chexpoint.graph.ledger_postgres import Patience, connector
from chexpoint.graph.ledger_tables import SCHEMA, make_tables, schema_of
from chexpoint.graph.ledger_trouble import explained, is_busy, is_deadlock

Result = TypeVar("Result")

_ATTEMPTS = 4
_WRITES = "chex_writes"

_not_ours: list[Engine] = []
"""Copies in a process that was forked: closing them would talk on the connections of the other."""


class Database:
    """A database that may go away and come back.

    Every method raises `GraphError` if it cannot be used.  Any thread may call them.
    """

    def __init__(self, where: str | Path, patience: Patience | None = None) -> None:
        self._url = _url(str(where))
        self._patience = patience or Patience()
        self._turn = threading.Lock()
        self._engine: Engine | None = None
        self._pid = 0
        self._file = (0, 0)
        self._had_file = False
        self.name = f"the graph '{_shown(self._url)}'"

    @property
    def is_file(self) -> bool:
        """Whether it is a file of SQLite."""
        return self._url.get_backend_name() == "sqlite"

    def reading(self, action: Callable[[Connection], Result]) -> Result:
        """Return what an action finds in one state of the database."""
        return self._run(action, writes=False)

    def writing(self, action: Callable[[Connection], Result]) -> Result:
        """Return what an action gives, after its one transaction; it may be called more than once.

        If another writer was in the way, the transaction is undone and done again.
        """
        return self._run(action, writes=True)

    def close(self) -> None:
        """Let go of all connections, until the next use."""
        with self._turn:
            self._let_go()

    def __del__(self) -> None:
        if hasattr(self, "name"):  # else it was never made
            self._let_go()

    # -------------------------------------------------------- within

    def _run(self, action: Callable[[Connection], Result], *, writes: bool) -> Result:
        with explained(self.name):
            for attempt in range(_ATTEMPTS):
                try:
                    with self._opened().connect() as connection:
                        connection.execution_options(**{_WRITES: writes})
                        with connection.begin():
                            return action(connection)
                except DBAPIError as error:
                    if not is_deadlock(error) or attempt == _ATTEMPTS - 1:
                        if not is_busy(error.orig):
                            self.close()  # who knows what state its connections are in
                        raise
            raise AssertionError("unreachable")

    def _opened(self) -> Engine:
        with self._turn:
            if self._engine is not None and self._pid != os.getpid():
                _not_ours.append(self._engine)
                self._engine = None
            if self._engine is not None and self.is_file:
                self._check_file()
            if self._engine is None:
                self._engine, self._pid = self._connected(), os.getpid()
            return self._engine

    def _check_file(self) -> None:
        """Open the file again if another one is in its place; raise if none is."""
        now = _identity(self._path)
        if now == self._file:
            return
        self._let_go()
        if now == (0, 0):
            raise GraphError(f"{self.name} was deleted. A new one is begun with the next cell.")

    def _let_go(self) -> None:
        engine, self._engine = self._engine, None
        if engine is None:
            return
        if self._pid != os.getpid():
            _not_ours.append(engine)
            return
        # A connection that is broken may say so once more.
        with contextlib.suppress(Exception):
            engine.dispose()

    @property
    def _path(self) -> Path:
        return Path(str(self._url.database))

    def _connected(self) -> Engine:
        if self.is_file:
            _create(self._path, with_folders=not self._had_file)
            engine = _sqlite(self._url, self._patience)
        else:
            engine = _postgres(self._url, self._patience)
        try:
            self._prepare(engine)
        except BaseException:
            engine.dispose()
            raise
        if self.is_file:
            self._file, self._had_file = _identity(self._path), True
        return engine

    def _prepare(self, engine: Engine) -> None:
        with engine.connect() as connection:
            # Before anything is written: it may be the file of somebody else.
            schema = schema_of(connection, self.name)
            connection.rollback()
            if self.is_file:
                _use_write_ahead_log(connection, self._patience)
        if schema < SCHEMA:
            with engine.connect() as connection:
                connection.execution_options(**{_WRITES: True})
                with connection.begin():
                    make_tables(connection, self.name)


# ------------------------------------------------------------ where it is


def _url(where: str) -> URL:
    if "://" not in where:
        if not where or "\0" in where:
            raise InvalidValue("a graph needs a path or a URL.")
        return URL.create("sqlite", database=str(Path(where).expanduser().absolute()))
    try:
        url = make_url(where)
    except (ArgumentError, ValueError):
        # Not quoted: there may be a password in it.
        raise InvalidValue(f"what should say where the graph is is no URL. {_FORMS}") from None
    match url.drivername:
        case "sqlite":
            if not url.database or url.database == ":memory:" or url.query:
                raise InvalidValue(f"'{where}' names no file. {_FORMS}")
            return url.set(database=str(Path(url.database).expanduser().absolute()))
        case "postgresql" | "postgres" | "postgresql+psycopg":
            return url.set(drivername="postgresql+psycopg")
    raise InvalidValue(f"a graph cannot be in '{url.drivername[:40]}'. {_FORMS}")


_FORMS = "Give a path, sqlite:////PATH, or postgresql://USER@HOST/DATABASE."


def _shown(url: URL) -> str:
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)


def _identity(path: Path) -> tuple[int, int]:
    try:
        info = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return (0, 0)
    return (info.st_dev, info.st_ino)


def _create(path: Path, *, with_folders: bool) -> None:
    if with_folders:  # later a folder that is gone may be a disk that is gone
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite would make it readable for others; its further files get the mode of this one.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


# ------------------------------------------------------------ SQLite


def _sqlite(url: URL, patience: Patience) -> Engine:
    engine = create_engine(
        url,
        poolclass=QueuePool,
        pool_timeout=patience.busy_s,
        connect_args={"timeout": patience.busy_s},
    )

    @event.listens_for(engine, "connect")
    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # transactions begin where we say so
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def begun(connection: Connection) -> None:
        # Whoever is going to write says so at once: who has read first cannot wait his turn.
        writes = connection.get_execution_options().get(_WRITES, False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _use_write_ahead_log(connection: Connection, patience: Patience) -> None:
    """Let readers and a writer work at once; the file remembers it.

    Changing the mode does not wait for others as all else does.
    """
    driver: Any = connection.connection.driver_connection
    deadline = time.monotonic() + patience.busy_s
    while True:
        try:
            (mode,) = driver.execute("PRAGMA journal_mode").fetchone()
            if mode != "wal":
                driver.execute("PRAGMA journal_mode = WAL").fetchone()
        except sqlite3.OperationalError as error:
            if not is_busy(error) or time.monotonic() > deadline:
                raise
            time.sleep(random.uniform(0.001, 0.02))  # noqa: S311 - no secret
        else:
            return


# ------------------------------------------------------------ PostgreSQL


def _postgres(url: URL, patience: Patience) -> Engine:
    connect = connector(patience)
    engine = create_engine(url, pool_pre_ping=True, pool_timeout=patience.busy_s, pool_recycle=1800)

    @event.listens_for(engine, "do_connect")
    def connecting(_: object, __: object, cargs: Any, cparams: Any) -> Any:
        return connect(*cargs, **cparams)

    return engine
