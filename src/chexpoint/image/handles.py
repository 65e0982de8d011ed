"""Rules for live things whose state can be told exactly: locks, open files, databases, loggers."""

from __future__ import annotations

import _io
import _thread
import io
import logging
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image import live
from chexpoint.image.lost import Lost

if TYPE_CHECKING:
    import sqlite3

    from chexpoint.image.pickler import ImagePickler

SCAN_BYTES = 64 << 20
"""Longer text files are not searched for carriage returns."""


def reduce_lock(_: ImagePickler, obj: Any) -> Any:
    """Write a lock that nobody holds."""
    if obj.locked():
        raise Lost("it holds a lock that is locked")
    return _thread.allocate_lock, ()


def reduce_rlock(_: ImagePickler, obj: Any) -> Any:
    """Write a re-entrant lock that nobody holds."""
    if obj._is_owned() or not obj.acquire(blocking=False):
        raise Lost("it holds a lock that is locked")
    obj.release()
    return _thread.RLock, ()


def reduce_simple_queue(_: ImagePickler, obj: Any) -> Any:
    """Write a queue that is empty: its contents cannot be seen."""
    if not obj.empty():
        raise Lost("the contents of a SimpleQueue cannot be read")
    return type(obj), ()


def reduce_executor(_: ImagePickler, obj: Any) -> Any:
    """Write an idle executor; its threads are started again when there is work."""
    if not obj._work_queue.empty() or obj._idle_semaphore._value < len(obj._threads):
        raise Lost("its threads are at work")
    args = (obj._max_workers, obj._thread_name_prefix, obj._initializer, obj._initargs)
    return make_executor, (*args, obj._shutdown)


def make_executor(workers: int, prefix: str, first: Any, args: Any, is_shut: bool) -> Any:
    """Return an executor without threads."""
    from concurrent.futures import ThreadPoolExecutor

    made = ThreadPoolExecutor(workers, prefix, first, args)
    if is_shut:
        made.shutdown()
    return made


def reduce_future(_: ImagePickler, obj: Any) -> Any:
    """Leave a future that is done to pickle."""
    if not obj.done():
        raise Lost("its result is not there yet")
    return NotImplemented


def reduce_popen(_: ImagePickler, obj: Any) -> Any:
    """Write a process that has ended."""
    if obj.returncode is None:
        raise Lost("a running process cannot be stored")
    return live.bare, (type(obj), vars(obj))


def reduce_bar(_: ImagePickler, obj: Any) -> Any:
    """Write a progress bar of tqdm that has ended; it shows nothing any more."""
    if not getattr(obj, "disable", False):
        raise Lost("a progress bar that is still running cannot be stored")
    hidden = {"fp", "sp", "container", "iterable", "displayed"}
    return live.bare, (type(obj), {k: v for k, v in vars(obj).items() if k not in hidden})


class _Suppress:
    """Stands for ``argparse.SUPPRESS`` in a stream: a string that counts by its identity."""

    def __reduce__(self) -> tuple[Any, ...]:
        return live.attribute, ("argparse", "SUPPRESS")


def reduce_argparse(_: ImagePickler, obj: Any) -> Any:
    """Write a parser of arguments, or a part of one."""
    import argparse

    state = {k: _Suppress() if v is argparse.SUPPRESS else v for k, v in vars(obj).items()}
    return object.__new__, (type(obj),), state


def reduce_logger(_: ImagePickler, obj: logging.Logger) -> Any:
    """Write a logger: its name, and what was set."""
    if isinstance(obj, logging.RootLogger):
        raise Lost("it is the root of all loggers")
    names = ("level", "propagate", "disabled", "handlers", "filters")
    return set_logger, (obj.name, {name: getattr(obj, name) for name in names})


def set_logger(name: str, state: dict[str, Any]) -> logging.Logger:
    """Return the logger of a name, with what was set."""
    made = logging.getLogger(name)
    for key, value in state.items():
        setattr(made, key, value)
    # Loggers cache which levels they are enabled for.
    made.setLevel(made.level)
    return made


def reduce_error(_: ImagePickler, obj: BaseException) -> Any:
    """Write an exception with what caused it; one that was raised holds frames, and is lost."""
    if obj.__traceback__ is not None:
        raise Lost("it holds the frames of a traceback")
    names = ("__cause__", "__context__", "__suppress_context__")
    state = {name: getattr(obj, name) for name in names if getattr(obj, name)}
    written = obj.__reduce_ex__(5)
    if not state or not isinstance(written, tuple):
        return written if isinstance(written, tuple) else NotImplemented
    if len(written) > 2 and written[2]:
        state |= written[2]
    return live.with_attributes, (written[0], written[1], state)


def reduce_standard_stream(_: ImagePickler, obj: Any) -> Any | None:
    """Write a standard stream by its name, whatever object it is; None if it is none."""
    for name in ("stdin", "stdout", "stderr", "__stdin__", "__stdout__", "__stderr__"):
        if getattr(sys, name, None) is obj:
            return live.attribute, ("sys", name)
    return None


def reduce_file(pickler: ImagePickler, obj: Any) -> Any:
    """Write a file that is open for reading, as its path and position; or one that is closed."""
    standard = reduce_standard_stream(pickler, obj)
    if standard is not None:
        return standard
    kind = type(obj)
    if kind not in {
        io.TextIOWrapper,
        io.BufferedReader,
        io.BufferedWriter,
        io.FileIO,
        io.BufferedRandom,
    }:
        return NotImplemented
    name = getattr(obj, "name", None)
    if not isinstance(name, str | bytes | os.PathLike):
        raise Lost("a file without a path cannot be opened again")
    text = None
    if kind is io.TextIOWrapper:
        text = (obj.encoding, obj.errors)
    if obj.closed:
        return closed_file, (kind, name, getattr(obj, "mode", "r"), text)
    if obj.writable():
        raise Lost(f"file {name!r} is open for writing")
    path, signature = _file_signature(obj)
    if text is not None:
        _check_newlines(path)
    return open_file, (kind, path, name, signature, obj.tell(), text)


def _file_signature(obj: Any) -> tuple[str, tuple[int, int]]:
    """Return the path of an open file, its size and time."""
    number = obj.fileno()
    path = os.readlink(f"/proc/self/fd/{number}")
    status = os.fstat(number)
    try:
        now = os.stat(path)
    except OSError:
        raise Lost(f"file {path} is gone") from None
    if (now.st_ino, now.st_dev) != (status.st_ino, status.st_dev):
        raise Lost(f"file {path} was replaced")
    return path, (status.st_size, status.st_mtime_ns)


def _check_newlines(path: str) -> None:
    """Refuse a file where the way of reading ends of lines would matter: it cannot be asked for."""
    with open(path, "rb") as file:
        if os.fstat(file.fileno()).st_size > SCAN_BYTES or b"\r" in file.read():
            raise Lost(f"how file {path} ends its lines cannot be told")


def open_file(
    kind: type, path: str, name: Any, signature: tuple[int, int], position: int, text: Any
) -> Any:
    """Return a file that is open for reading, at a position, if it is what it was."""
    try:
        status = os.stat(path)
    except OSError:
        raise Lost(f"file {path} is gone") from None
    if (status.st_size, status.st_mtime_ns) != signature:
        raise Lost(f"file {path} has changed")
    raw: Any = io.FileIO(path)
    raw.name = name
    made: Any = raw
    if kind is not io.FileIO:
        made = io.BufferedReader(raw)
    if text is not None:
        made = io.TextIOWrapper(made, encoding=text[0], errors=text[1])
        made.mode = "r"
    made.seek(position)
    return made


def closed_file(kind: type, name: Any, mode: str, text: Any) -> Any:
    """Return a file that is closed already, as ``with`` leaves it behind."""
    is_read = "r" in mode and "+" not in mode
    raw: Any = io.FileIO(os.devnull, "r" if is_read else "w")
    raw.name = name
    made: Any = raw
    if kind is not io.FileIO:
        made = io.BufferedReader(raw) if is_read else io.BufferedWriter(raw)
    if text is not None:
        made = io.TextIOWrapper(made, encoding=text[0], errors=text[1])
        made.mode = mode
    made.close()
    return made


def reduce_database(pickler: ImagePickler, obj: sqlite3.Connection) -> Any:
    """Write a connection of sqlite3 that is between transactions."""
    import sqlite3

    if type(obj) is not sqlite3.Connection:
        raise Lost("a connection of a class of its own cannot be stored")
    try:
        _check_database(obj)
        files = {name: path for _, name, path in obj.execute("PRAGMA database_list")}
    except sqlite3.Error as error:
        raise Lost(str(error)) from None
    if files.keys() - {"main", "temp"}:
        raise Lost("other databases are attached to it")
    path = files["main"]
    contents = b"" if path else obj.serialize()
    names = ("isolation_level", "row_factory", "text_factory", "autocommit")
    state = {name: getattr(obj, name) for name in names if hasattr(obj, name)}
    (keys,) = obj.execute("PRAGMA foreign_keys").fetchone()
    return open_database, (path, contents, state, keys)


def _check_database(obj: sqlite3.Connection) -> None:
    """Refuse a connection with something that cannot be asked for."""
    import sqlite3

    if obj.in_transaction:
        raise Lost("a transaction is open")
    kinds = (bytes, dict, tuple)
    if obj.row_factory is not None and isinstance(obj.row_factory, kinds):
        raise Lost("its row factory cannot be stored")
    own = "SELECT count(*) FROM sqlite_temp_master"
    if obj.execute(own).fetchone()[0]:
        raise Lost("it has temporary tables")
    queries = (
        "SELECT DISTINCT name FROM pragma_function_list",
        "SELECT name FROM pragma_collation_list",
    )
    fresh = sqlite3.connect(":memory:")
    try:
        for query in queries:
            if set(map(tuple, obj.execute(query))) - set(fresh.execute(query)):
                raise Lost("functions of its own were added to it")
    finally:
        fresh.close()


def open_database(
    path: str, contents: bytes, state: dict[str, Any], keys: int
) -> sqlite3.Connection:
    """Return a connection of sqlite3, to a file or with its contents in memory."""
    import sqlite3

    if path and not os.path.exists(path):
        raise Lost(f"database {path} is gone")
    made = sqlite3.connect(path or ":memory:")
    if contents:
        made.deserialize(contents)
    if keys:
        made.execute("PRAGMA foreign_keys = ON")
    for name, value in state.items():
        setattr(made, name, value)
    return made


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {
    _thread.LockType: reduce_lock,
    _thread.RLock: reduce_rlock,
    "_queue.SimpleQueue": reduce_simple_queue,
    "argparse._AttributeHolder": reduce_argparse,
    "concurrent.futures.thread.ThreadPoolExecutor": reduce_executor,
    "concurrent.futures._base.Future": reduce_future,
    "subprocess.Popen": reduce_popen,
    "tqdm.std.tqdm": reduce_bar,
    "sqlite3.Connection": reduce_database,
    logging.Logger: reduce_logger,
    BaseException: reduce_error,
    _io._IOBase: reduce_file,
}
