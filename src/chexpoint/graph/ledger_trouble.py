"""Errors of databases, as one line that says what to do."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator

from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from chexpoint.errors import ChexError, GraphError

_DAMAGED = {"SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_MISMATCH"}
_FORBIDDEN = {"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"}
_BUSY = {"SQLITE_BUSY", "SQLITE_LOCKED"}
# SQLite does not tell a used-up quota from a failing disk.
_PERHAPS_FULL = {"SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMOPEN"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

# What PostgreSQL calls the errors that have an advice of their own.
_CODES = {
    "53100": "the disk of the server is full. Make room there",
    "55P03": "others hold it for too long. Try again later",
    "57014": "the server took too long. Try again later",
    "42501": "you have no right to do this. Ask whoever runs the server",
    "25006": "it can only be read. Ask whoever runs the server",
    "42P01": "its tables are gone or of another version. Choose another database",
    "42703": "its tables are gone or of another version. Choose another database",
}
_RETRY = {"40P01", "40001"}


@contextlib.contextmanager
def explained(where: str) -> Iterator[None]:
    """Turn errors of a database into one that says what to do."""
    try:
        yield
    except ChexError:
        raise
    except PoolTimeout as error:
        raise GraphError(f"{where} is used by too many threads at once. Try again.") from error
    except DBAPIError as error:
        raise GraphError(_sentence(where, error.orig or error)) from error
    except SQLAlchemyError as error:
        raise GraphError(f"{where} cannot be used: {_line(error)}.") from error
    except sqlite3.Error as error:
        raise GraphError(_sentence(where, error)) from error
    except OSError as error:
        if error.errno in _FULL:
            raise GraphError(_full(where, str(error.strerror))) from error
        raise GraphError(f"{where} cannot be used: {error.strerror or error}.") from error
    except (UnicodeError, OverflowError) as error:
        raise GraphError(f"{where} cannot take or give a value: {_line(error)}.") from error


_GONE = {
    "ConnectionTimeout",
    "IdleInTransactionSessionTimeout",
    "InterfaceError",
    "OperationalError",
}


def is_deadlock(error: DBAPIError) -> bool:
    """Return whether the server undid a transaction only because others were in its way."""
    return getattr(error.orig, "sqlstate", None) in _RETRY


def is_busy(error: BaseException | None) -> bool:
    """Return whether another process holds a file."""
    return isinstance(error, sqlite3.Error) and _cause(error) in _BUSY


def _sentence(where: str, error: BaseException) -> str:
    if isinstance(error, sqlite3.Error):
        return _sqlite_sentence(where, error)
    advice = _CODES.get(str(getattr(error, "sqlstate", "")))
    if advice:
        return f"{where} cannot be used: {advice} ({_line(error)})."
    if type(error).__name__ in _GONE:
        return f"{where} cannot be reached ({_line(error)}). Check that its server runs."
    return f"{where} cannot be used: {_line(error)}."


def _sqlite_sentence(where: str, error: sqlite3.Error) -> str:
    cause, what = _cause(error), _line(error)
    if cause in _DAMAGED or what.startswith(("Could not decode", "no such")):
        return f"{where} is damaged, or is not a graph of CHEX ({what}). Move it out of the way."
    if cause == "SQLITE_FULL":
        return _full(where, what)
    if getattr(error, "sqlite_errorname", "") in _PERHAPS_FULL:
        return f"{where} cannot be written ({what}): the disk may be full, or damaged. Check it."
    if cause in _FORBIDDEN:
        return f"{where} cannot be opened or written ({what}). Check its permissions."
    if cause in _BUSY:
        return f"{where} is held by another process ({what}). Try again."
    return f"{where} cannot be used: {what}."


def _full(where: str, what: str) -> str:
    return f"{where} cannot be written, because the disk is full ({what}). Make room."


def _cause(error: sqlite3.Error) -> str:
    """Return the primary name of an error: SQLITE_BUSY for SQLITE_BUSY_RECOVERY."""
    return "_".join(str(getattr(error, "sqlite_errorname", "")).split("_")[:2])


def _line(error: BaseException) -> str:
    """Return what an error says, in one line of bearable length."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0].strip().rstrip(".")[:200]
