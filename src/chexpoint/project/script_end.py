"""What Python does at the end of a script: wait for threads, call `atexit` functions, close files.

The worker goes on afterwards, so only what the script itself has begun is ended.
"""

from __future__ import annotations

import _io
import contextlib
import gc
import io
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

_EXECUTORS = (
    ("concurrent.futures.thread", "_shutdown"),
    ("concurrent.futures.process", "_global_shutdown"),
)


class ScriptEnd:
    """Knows what there was before a script, and what it wants to be called at its end."""

    def __init__(self) -> None:
        self._callbacks: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []
        self._files = _written_files()
        self._threads = set(threading.enumerate())

    def ignore(self, *files: io.IOBase | Any) -> None:
        """Leave some files open."""
        self._files += files

    def register(self, func: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Do what `atexit.register` does."""
        self._callbacks.append((func, args, kwargs))
        return func

    def unregister(self, func: Callable[..., Any]) -> None:
        """Do what `atexit.unregister` does."""
        self._callbacks = [callback for callback in self._callbacks if callback[0] != func]

    def is_needed(self) -> bool:
        """Return whether there is anything to do."""
        return bool(self._callbacks or self._own_threads() or _children() or self._own_files())

    def finish(self) -> None:
        """Do it, in the order in which Python does it; errors are shown and do no harm."""
        if self._own_threads():
            _stop_executors()
            for thread in self._own_threads():
                thread.join()
        while self._callbacks:
            function, args, kwargs = self._callbacks.pop()
            with contextlib.suppress(SystemExit), _shown():
                function(*args, **kwargs)
        for child in _children():
            if child.daemon:
                child.terminate()
            child.join()
        for file in self._own_files():
            with _shown():
                file.close()

    def _own_threads(self) -> list[threading.Thread]:
        known = {threading.main_thread(), threading.current_thread(), *self._threads}
        return [t for t in threading.enumerate() if not t.daemon and t not in known]

    def _own_files(self) -> list[Any]:
        """Return the files to close, those that write to others first."""
        known = {id(file) for file in self._files}
        return sorted((f for f in _written_files() if id(f) not in known), key=_rank)


@contextlib.contextmanager
def _shown() -> Iterator[None]:
    try:
        yield
    except Exception:
        traceback.print_exc()


def _children() -> list[Any]:
    if "multiprocessing" not in sys.modules:
        return []
    import multiprocessing

    return list(multiprocessing.active_children())


def _stop_executors() -> None:
    """Let the threads of executors end when they have done their work."""
    for stop in reversed(getattr(threading, "_threading_atexits", [])):
        stop()
    for name, flag in _EXECUTORS:
        if name in sys.modules:
            setattr(sys.modules[name], flag, False)


def _written_files() -> list[Any]:
    """Return the open files that may hold back what was written to them."""
    found = []
    for thing in gc.get_objects():
        # Not isinstance: what some objects say of their class is code of the user's.
        kinds = type(thing).__mro__
        if _io._IOBase in kinds and _io._RawIOBase not in kinds:
            with contextlib.suppress(Exception):
                if not thing.closed and thing.writable() and thing.fileno() >= 0:
                    found.append(thing)
    return found


def _rank(file: Any) -> int:
    if type(file) is io.TextIOWrapper:
        return 0
    return 2 if type(file) in {io.BufferedWriter, io.BufferedRandom} else 1
