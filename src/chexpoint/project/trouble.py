"""Errors of SQLite and of the system, as sentences that say what to do."""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from chexpoint.errors import CatalogError, ChexError

_DAMAGED = {"SQLITE_NOTADB", "SQLITE_CORRUPT", "SQLITE_MISMATCH"}
_FORBIDDEN = {"SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_AUTH"}
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
# A quota that is used up looks like a failing disk: SQLite does not tell the two apart.
_PERHAPS_FULL = {"SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMOPEN"}


@contextlib.contextmanager
def explained(path: Path) -> Iterator[None]:
    """Turn errors of SQLite and of the system into one that says what to do."""
    try:
        yield
    except ChexError:
        raise
    except sqlite3.Error as error:
        raise CatalogError(_sentence(path, error)) from error
    except UnicodeError as error:  # what SQLite says of a damaged file may quote from it
        raise CatalogError(_damaged(path, str(error))) from error
    except OverflowError as error:
        raise CatalogError(f"a number is too large for {path}: {error}.") from error
    except OSError as error:
        if error.errno in _FULL:
            reason = _full(path, str(error.strerror))
        else:
            reason = f"{path} cannot be used: {error.strerror or error}."
        raise CatalogError(reason) from error


def is_forbidden(error: sqlite3.Error) -> bool:
    """Return whether the system did not let SQLite open or write a file."""
    return _cause(error) in _FORBIDDEN


def is_full(error: sqlite3.Error) -> bool:
    """Return whether there was, or may have been, no room on the disk."""
    return _cause(error) == "SQLITE_FULL" or _name(error) in _PERHAPS_FULL


def _sentence(path: Path, error: sqlite3.Error) -> str:
    cause = _cause(error)
    if cause in _DAMAGED or "Could not decode" in str(error) or "no such" in str(error):
        return _damaged(path, str(error))
    if cause == "SQLITE_FULL":
        return _full(path, str(error))
    if is_full(error):
        return f"{path} cannot be written ({error}): the disk may be full, or damaged. Check it."
    if cause in _FORBIDDEN:
        return f"{path} cannot be opened or written ({error}). Check its permissions."
    if cause == "SQLITE_BUSY":
        return f"{path} is held by another process ({error}). Try again."
    return f"{path} cannot be used: {error}."


def _damaged(path: Path, error: str) -> str:
    return (
        f"{path} is damaged, or is not a catalog ({error}). Move it out of the way to begin a new "
        "one."
    )


def _full(path: Path, error: str) -> str:
    return (
        f"{path} cannot be written, because the disk is full ({error}). What was recorded before "
        "is safe; make room and run the cell again."
    )


def _cause(error: sqlite3.Error) -> str:
    """Return the primary name of an error: SQLITE_BUSY for SQLITE_BUSY_RECOVERY."""
    return "_".join(_name(error).split("_")[:2])


def _name(error: sqlite3.Error) -> str:
    return str(getattr(error, "sqlite_errorname", ""))
