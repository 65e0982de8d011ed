"""Whether cells ask if a file is there, without opening it; part of `CellWatch`.

Looking is no system call that is audited: imports make thousands of them.  So the functions that
answer with yes or no are watched where users call them.  Those that raise are not: our frame would
show in the user's traceback.
"""

from __future__ import annotations

import functools
import os
import pathlib
import posixpath
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

from chexpoint.lineage.file_notes import absolute, drain
from chexpoint.lineage.hints import cell_frame
from chexpoint.lineage.places import python_folders

_FUNCTIONS = ("exists", "lexists", "isfile", "isdir", "islink")
_METHODS = ("exists", "is_file", "is_dir", "is_symlink")
# A cell that looks at more files than this is not followed any further.
_MOST = 10_000
_LIBRARIES = ("<frozen", *python_folders())


class Looks:
    """What cells have looked at, and what they were told."""

    def __init__(self) -> None:
        self._globals: dict[str, Any] = {}
        self._found: dict[tuple[str, str], bool] = {}

    def enter(self, namespace: dict[str, Any]) -> None:
        self._globals = namespace

    def start(self) -> None:
        """Begin to watch; there is no way to stop."""
        for name in _FUNCTIONS:
            ask = getattr(posixpath, name)
            watched = self._watched(ask)
            # What pickles it must find it where it says that it is.
            for module in (posixpath, sys.modules[ask.__module__]):
                setattr(module, name, watched)
        for name in _METHODS:
            setattr(pathlib.Path, name, self._watched(getattr(pathlib.Path, name)))

    def take(self) -> list[tuple[str, str, bool]]:
        """Return paths, questions and answers since the last call."""
        return [(path, what, answer) for (path, what), answer in drain(self._found).items()]

    def _is_users(self, frame: FrameType) -> bool:
        """Return whether a cell asks, or a module of the user's on behalf of one.

        Libraries look before they write, and then write whatever they have found.
        """
        if frame.f_globals is self._globals:
            return True
        if frame.f_code.co_filename.startswith(_LIBRARIES):
            return False
        return cell_frame(frame, self._globals) is not None

    def _watched(self, ask: Callable[..., bool]) -> Callable[..., bool]:
        @functools.wraps(ask)
        def watched(path: Any, *args: Any, **kwargs: Any) -> bool:
            answer = ask(path, *args, **kwargs)
            if len(self._found) < _MOST and isinstance(path, str | bytes | os.PathLike):
                with suppress(Exception):
                    if self._is_users(sys._getframe(1)):
                        self._found.setdefault((absolute(path), ask.__name__), answer)
            return answer

        return watched


def answer_now(path: str, what: str) -> bool | None:
    """Return what a question would be answered now; None if it is no such question."""
    if what in _FUNCTIONS:
        return bool(getattr(posixpath, what)(path))
    if what in _METHODS:
        return bool(getattr(pathlib.Path(path), what)())
    return None
