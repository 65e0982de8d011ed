"""Which environment variables the cells of this process read; part of `CellWatch`."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, ItemsView, Iterator, KeysView, Mapping, ValuesView
from contextlib import suppress
from types import CodeType, FrameType
from typing import Any

from chexpoint.lineage.digest import digest
from chexpoint.lineage.file_notes import drain
from chexpoint.lineage.hints import cell_frame
from chexpoint.lineage.syscalls import UNSEEN
from chexpoint.model import Digest

SESSION_VARIABLES = frozenset(
    {
        "_",
        "COLORTERM",
        "COLUMNS",
        "DESKTOP_SESSION",
        "DISPLAY",
        "HOSTNAME",
        "INVOCATION_ID",
        "IPYKERNEL_CELL_NAME",
        "JOURNAL_STREAM",
        "LINES",
        "LS_COLORS",
        "OLDPWD",
        "PATH",
        "PWD",
        "SESSION_MANAGER",
        "SHLVL",
        "STY",
        "SYSTEMD_EXEC_PID",
        "TERM",
        "WAYLAND_DISPLAY",
        "WINDOWID",
        "XAUTHORITY",
        "XDG_RUNTIME_DIR",
        "XDG_SEAT",
        "XDG_VTNR",
    }
)
"""Variables that belong to a login, a terminal or a window, not to the work: never inputs.

PATH is one of them: the programs that are found along it are seen when they run.
"""

SESSION_PREFIXES = (
    "CHEX_",
    "DBUS_",
    "GNOME_",
    "JPY_",
    "JUPYTER",
    "KONSOLE_",
    "PYDEVD_",
    "PYTEST_",
    "SSH_",
    "SUDO_",
    "TERM_",
    "TMUX",
    "VSCODE_",
    "VTE_",
    "XDG_SESSION",
)
"""How the names of more such variables begin."""

SET = "set"
"""Stands for the value of a variable that a cell has set, changed or deleted."""

# The methods of os.environ are in these files; whoever calls them is one frame further out.
_ENVIRON_FILES = frozenset({os.getenv.__code__.co_filename, KeysView.__iter__.__code__.co_filename})
_VIEWS = frozenset({ItemsView.__iter__.__code__, ValuesView.__iter__.__code__})


class VariableReads:
    """The environment variables that cells read one by one.

    Code that copies the environment, for a child process, reads all of it and depends on none
    of it.  `dict` and `**` ask for the keys and for each value from one and the same instruction,
    which nothing else does.  A loop does not; but where variables were looped over, a line that
    has read more than half of them copies as well.

    What a variable is when the first cell starts comes from outside.  If it is something else when
    it is read, cells have made it so, and it follows from what they are and from their inputs.
    """

    def __init__(self) -> None:
        self._globals: dict[str, Any] = {}
        self._thread = 0
        self._given: Mapping[bytes, bytes] = {}
        self._at_start: Mapping[bytes, bytes] = {}
        self._reads: dict[tuple[CodeType, int], dict[bytes, bool]] = {}
        """The variables that each line has read, and whether any of the values was from outside."""
        self._copying: dict[int, tuple[CodeType, int]] = {}
        self._is_looped = False

    def start(self, variables: Mapping[bytes, bytes]) -> None:
        """Take note of the variables as they are before the first cell."""
        self._at_start = dict(variables.items())
        self._given = given_variables() or self._at_start

    def enter(self, namespace: dict[str, Any]) -> None:
        self._globals = namespace
        self._thread = threading.get_ident()

    def note(self, key: bytes, value: bytes | None, frame: FrameType) -> None:
        """Take note that ``frame`` reads a variable."""
        if frame.f_code in _VIEWS:
            return
        at: FrameType | None = frame
        while at is not None and at.f_code.co_filename in _ENVIRON_FILES:
            at = at.f_back
        thread = threading.get_ident()
        if self._copying.get(thread) == (frame.f_code, frame.f_lasti) or at is None:
            return
        # The language of messages does not change results.
        if at.f_code.co_filename.endswith("/gettext.py"):
            return
        # The shell's own reads, to show a traceback for instance, are on no cell's behalf.
        if thread == self._thread and cell_frame(at, self._globals) is None:
            return
        is_outside = value == self._at_start.get(key)
        reads = self._reads.setdefault((at.f_code, at.f_lineno), {})
        reads[key] = is_outside or reads.get(key, False)

    def note_loop(self, frame: FrameType) -> None:
        """Take note that a loop over the variables begins in ``frame``."""
        self._is_looped = True
        if frame.f_code is KeysView.__iter__.__code__ and frame.f_back is not None:
            caller = frame.f_back
            self._copying[threading.get_ident()] = (caller.f_code, caller.f_lasti)

    def take(self, digest_of: Callable[[str], Digest]) -> dict[str, Digest | None]:
        """Return what was read since the last call.

        That is, for each variable, the digest of the value this process was given, None if it was
        given none, or `SET` if only what cells have made of it was read.
        """
        many = len(os.environ) / 2 if self._is_looped else float("inf")
        self._is_looped = False
        self._copying.clear()
        taken: dict[bytes, bool] = {}
        for reads in drain(self._reads).values():
            if len(reads) <= many:
                for key, is_outside in reads.items():
                    taken[key] = is_outside or taken.get(key, False)
        return {
            os.fsdecode(key): self._outside(key, digest_of) if is_outside else SET
            for key, is_outside in taken.items()
        }

    def _outside(self, key: bytes, digest_of: Callable[[str], Digest]) -> Digest | None:
        # As given, not as at the start: what IPython sets by itself follows from its version.
        value = self._given.get(key)
        return None if value is None else digest_of(os.fsdecode(value))


class WatchedEnvironment(dict[bytes, bytes]):
    """What os.environ keeps its variables in; tells who reads them.

    In this place, and not around os.environ, it leaves no trace in the traceback of a KeyError.
    """

    __slots__ = ("reads",)
    reads: VariableReads

    def __getitem__(self, key: bytes) -> bytes:
        with suppress(Exception):
            self.reads.note(key, self.get(key), sys._getframe(2))
        return super().__getitem__(key)

    def __iter__(self) -> Iterator[bytes]:
        with suppress(Exception):
            self.reads.note_loop(sys._getframe(2))
        return super().__iter__()

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self.items()),)  # a copy is nobody's environment


def value_digest(value: str, normalise: Callable[[str], str]) -> Digest:
    """Return what is recorded of the value of a variable."""
    return digest("variable", normalise(value))


def given_variables() -> dict[bytes, bytes]:
    """Return the variables that this process was started with; none if that is not known."""
    try:
        fd = os.open("/proc/self/environ", os.O_RDONLY | os.O_CLOEXEC | UNSEEN)
        with open(fd, "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return {}
    found: dict[bytes, bytes] = {}
    for entry in entries:
        key, equals, value = entry.partition(b"=")
        if equals:
            found.setdefault(key, value)
    return found
