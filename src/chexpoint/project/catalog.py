"""Open a catalog, and run one transaction on it.

Whoever writes keeps a connection: closing the last one takes longer than all else.  Whoever reads
opens one each time, because a worker that holds a database open cannot be forked as a checkpoint.
A connection must not survive a fork, and nobody else in a process that writes may open the file:
both would drop or forge the locks of SQLite.

A kill at any moment leaves an empty file, which is an empty catalog, or what the last finished
transaction left.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

from chexpoint.errors import CatalogError
from chexpoint.project.schema import SCHEMA, migrate, schema_of
from chexpoint.project.trouble import explained, is_forbidden, is_full

BUSY_S = 20.0
"""How long to wait for another process; a transaction takes milliseconds."""

# How long a fork, or the end of a process, waits for a transaction on a disk that hangs.
_PATIENCE_S = 2.0


class _Kept:
    """The connections that this process keeps, and whose turn it is to use one."""

    def __init__(self) -> None:
        self.turn = threading.RLock()
        self.catalogs: weakref.WeakSet[Catalog] = weakref.WeakSet()
        self.not_ours: list[sqlite3.Connection] = []
        """Copies in a process that was forked behind Python's back; to close them would let go the
        locks of the other process."""
        self._is_fork_prepared = False

    def close(self) -> None:
        """Close all, unless somebody is at it for too long."""
        if self._take_and_close():
            self.turn.release()

    def before_fork(self) -> None:
        self._is_fork_prepared = self._take_and_close()

    def after_fork_in_parent(self) -> None:
        if self._is_fork_prepared:
            self.turn.release()

    def after_fork_in_child(self) -> None:
        self.turn = threading.RLock()  # a thread that had it is not here

    def _take_and_close(self) -> bool:
        if not self.turn.acquire(timeout=_PATIENCE_S):
            return False
        for catalog in list(self.catalogs):
            catalog.close()
        return True


_kept = _Kept()
atexit.register(_kept.close)
os.register_at_fork(
    before=_kept.before_fork,
    after_in_parent=_kept.after_fork_in_parent,
    after_in_child=_kept.after_fork_in_child,
)


class Catalog:
    """The database of a project, which need not exist yet.

    Methods raise `CatalogError` if it is damaged, of a newer version, or cannot be read or written.
    Any thread may call them.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection: sqlite3.Connection | None = None
        self._pid = 0
        self._file = (0, 0)

    @contextlib.contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block as one transaction; the catalog is made if there is none."""
        with explained(self.path), _kept.turn:
            connection = self._opened()
            try:
                with _transaction(connection, "IMMEDIATE"):
                    migrate(self.path, connection)
                    yield connection
            except sqlite3.Error:
                self.close()  # who knows what state it is in
                raise

    @contextlib.contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Let the block read one state of an existing catalog, also where nobody can write."""
        with explained(self.path), contextlib.ExitStack() as stack:
            connection = stack.enter_context(self._borrowed())
            if connection is None:
                connection = stack.enter_context(_readable(self.path))
            stack.enter_context(_transaction(connection, "DEFERRED"))
            yield connection

    def exists(self) -> bool:
        """Return whether there is anything to read."""
        with explained(self.path):
            return self.path.exists()

    def close(self) -> None:
        """Let go of the file, until something is written again."""
        with _kept.turn:
            self._let_go()

    def __del__(self) -> None:
        # Nobody can be writing any more; and while Python ends, a turn may never come.
        self._let_go()

    def _let_go(self) -> None:
        connection, self._connection = self._connection, None
        _kept.catalogs.discard(self)
        if connection is not None and self._pid == os.getpid():
            connection.close()
        elif connection is not None:
            _kept.not_ours.append(connection)

    @contextlib.contextmanager
    def _borrowed(self) -> Iterator[sqlite3.Connection | None]:
        """Let the block read by the connection that is kept for writing, if there is one."""
        if self._connection is None:
            yield None
            return
        with _kept.turn:
            connection = self._current()
            is_of_today = connection is not None and schema_of(self.path, connection) == SCHEMA
            yield connection if is_of_today else None

    def _current(self) -> sqlite3.Connection | None:
        """Return the connection that is kept, if it still leads to the file that is there now."""
        if self._connection is not None and (
            self._pid != os.getpid() or self._file != _identity(self.path)
        ):
            self.close()
        return self._connection

    def _opened(self) -> sqlite3.Connection:
        """Return a connection to the file that is there now, whatever was there before."""
        connection = self._current()
        if connection is not None:
            return connection
        _create(self.path)
        self._connection, self._pid = _connect(self.path, "mode=rw"), os.getpid()
        self._file = _identity(self.path)
        _kept.catalogs.add(self)
        try:
            schema_of(self.path, self._connection)  # a file of someone else must not be touched
            _use_write_ahead_log(self._connection)
        except BaseException:
            self.close()
            raise
        return self._connection


def _identity(path: Path) -> tuple[int, int]:
    try:
        info = path.stat()
    except FileNotFoundError:
        return (0, 0)
    return (info.st_dev, info.st_ino)


def _signature(path: Path) -> tuple[int, ...]:
    info = path.stat() if path.exists() else None
    return (info.st_ino, info.st_size, info.st_mtime_ns) if info is not None else ()


def _create(path: Path) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # SQLite would make it readable for others; its further files get the mode of this one.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600))


@contextlib.contextmanager
def _readable(path: Path) -> Iterator[sqlite3.Connection]:
    with contextlib.ExitStack() as stack:
        try:
            # SQLite itself opens a file read-only where it may not write.
            connection = _connect(path, "mode=rw")
            stack.callback(connection.close)
            _bring_up_to_date(path, connection)
        except sqlite3.OperationalError as error:
            # A folder without write permission has no room for the lock file of WAL, and a full
            # disk neither; nobody can change the catalog there, so it can be read without locks.
            is_shut = is_forbidden(error) and not os.access(path.parent, os.W_OK)
            if not is_shut and not is_full(error):
                raise
            connection = stack.enter_context(_unchanging(path))
        yield connection


def _bring_up_to_date(path: Path, connection: sqlite3.Connection) -> None:
    if schema_of(path, connection) < SCHEMA:
        with _transaction(connection, "IMMEDIATE"):
            migrate(path, connection)


@contextlib.contextmanager
def _unchanging(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a catalog that nobody can write."""
    log = path.with_name(f"{path.name}-wal")
    if not log.exists() or log.stat().st_size == 0:
        with contextlib.closing(_connect(path, "mode=ro&immutable=1")) as connection:
            if schema_of(path, connection) == SCHEMA:
                yield connection
                return
    # It was left in the middle of something, or is of an older version: only a copy can be put
    # right.
    with tempfile.TemporaryDirectory(prefix="chex-") as folder:
        copy = Path(folder) / path.name
        before = [_signature(file) for file in (path, log)]
        for file in (path, log):
            if file.exists():
                shutil.copyfile(file, copy.with_name(file.name))
        if before != [_signature(file) for file in (path, log)]:
            raise CatalogError(f"{path} is being written. Try again.")
        with contextlib.closing(_connect(copy, "mode=rw")) as connection:
            _bring_up_to_date(path, connection)
            yield connection


def _connect(path: Path, options: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{options}"
    connection = sqlite3.connect(
        uri, uri=True, timeout=BUSY_S, isolation_level=None, check_same_thread=False
    )
    connection.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")
    connection.execute("PRAGMA foreign_keys = ON")
    return connection


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
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            connection.execute("ROLLBACK")
        raise
