"""What a cell does that only its own process can tell.

Another process sees the system calls.  It cannot see which listings of a folder
are the import machinery looking for modules, which environment variables are
read, what a host was called, or which line asked for entropy: that is noted
here.  With ``fallback``, where system calls cannot be seen, this also notes the
files that Python opens, and says what it cannot see.

Everything here runs inside the calls of the user: it must be quick, must never
raise, and holds no lock, thread or descriptor, because the process is forked.
It raises no audit event that it listens to, so it needs no guard against itself.
"""

from __future__ import annotations

import importlib._bootstrap_external as _bootstrap
import os
import random
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from types import CodeType, FrameType
from typing import Any

from chexpoint.lineage.entropy import entropy_hint
from chexpoint.lineage.file_notes import FileNotes, absolute, drain, is_own, signature
from chexpoint.lineage.hints import (
    input_hint,
    network_hint,
    random_hints,
    random_states,
    scan,
    thread_hints,
)
from chexpoint.lineage.looks import Looks
from chexpoint.lineage.variables import (
    SESSION_PREFIXES,
    SESSION_VARIABLES,
    VariableReads,
    WatchedEnvironment,
    value_digest,
)
from chexpoint.model import Digest, Hint

_FILL_CACHE: CodeType = _bootstrap.FileFinder._fill_cache.__code__  # type: ignore[attr-defined]
_IMPORTING = (
    "/importlib/metadata/__init__.py",
    "/importlib_metadata/__init__.py",
    "/pkgutil.py",
    "/pkg_resources/__init__.py",
)
# Frames are walked for each call; in a loop that takes entropy this many tell enough.
_MOST_LOOKS = 1000


class CellWatch:
    """Collects what the cells of this process do, from `start` on.

    Parameters
    ----------
    namespace
        The globals of the user's cells, or a function that returns them.
    fallback
        Whether to note files as well, because nothing else does.
    ignored
        Paths that start so are left out.
    normalise
        Applied to the value of a variable before it is hashed.
    """

    def __init__(
        self,
        namespace: Callable[[], dict[str, Any]] | dict[str, Any],
        *,
        fallback: bool = False,
        ignored: Iterable[str] = (),
        normalise: Callable[[str], str] = str,
    ) -> None:
        self._namespace = namespace
        self._globals: dict[str, Any] = {}
        self._ignored = tuple(ignored)
        self._normalise = normalise
        self._variables = VariableReads()
        self._questions = Looks()
        self._files = FileNotes(self._ignored) if fallback else None
        self._import_lists: dict[str, int] = {}
        self._lists: dict[str, int] = {}
        self._hosts: dict[str, None] = {}
        self._hints: dict[Hint, None] = {}
        self._looks = 0
        self._states: dict[str, int] = {}
        self._seeded: set[str] = set()
        self._aliases: dict[str, str] = {}
        self._is_started = False

    def start(self) -> None:
        """Begin to listen; there is no way to stop."""
        if self._is_started:
            return
        self._is_started = True
        self._enter()
        self._watch_environment()
        self._watch_entropy()
        self._questions.start()
        find = self._handlers().get

        def hook(event: str, args: tuple[Any, ...]) -> None:
            handler = find(event)
            if handler is not None:
                # An exception here would make the user's own call fail.
                with suppress(Exception):
                    handler(args, sys._getframe(1))

        sys.addaudithook(hook)

    def begin(self) -> None:
        """Get ready for a cell.  What happened since the last one counts as part of it."""
        self._enter()
        # Between two cells hardly anything draws random numbers but what cells have started, so
        # the states at the end of the last cell will do: numpy's takes a while to read.
        if not self._states:
            self._states = random_states()

    @contextmanager
    def importing(self) -> Iterator[None]:
        """To be held while statements run that only import.

        What modules draw meanwhile is for names of their own, and does not count.  What the cell
        itself has drawn before does.
        """
        before = random_states()
        try:
            yield
        finally:
            for name, state in random_states().items():
                if name not in before or self._states.get(name) == before[name]:
                    self._states[name] = state

    def finish(self, source: str) -> dict[str, Any]:
        """Return what was seen since the last call, in types that JSON has.

        ``source`` is the code of the cell, as plain Python.

        - ``import_lists``, ``lists``: how often each folder, by its real path, was listed by the
          import machinery or this package itself, and by anything else.
        - ``variables``: the digests of the environment variables that were read, as this process
          was given them; None for those that it was not given, and ``set`` where cells have made
          them what they are.
        - ``hosts``: the names that were looked up.
        - ``looks``: paths that the cell asked about without opening them, what it asked, and the
          answer.
        - ``hints``: of nondeterminism, each with ``kind``, ``what`` and ``line``.

        With ``fallback``, also:

        - ``opaque``: sentences that say what could not be seen.
        - ``opened``: what Python did to files, in order, each ``[operation, path, signature]``;
          consecutive repeats, and listings by the import machinery, are left out.  The signature,
          from before the operation, is ``[device, inode, size, mtime_ns, ctime_ns]``, or None if
          there was nothing.  A rename, and a link, is ``[operation, old, signature of old, new,
          signature of new]``.  A connection has its peer for a path.
        """
        signs = scan(source, self._aliases)
        self._aliases = dict(signs.aliases)
        states = random_states()
        hints = [
            *drain(self._hints),
            *signs.hints,
            *random_hints(self._states, states, self._seeded, signs),
            *thread_hints(self._globals),
        ]
        self._states = states
        for library, has_seed in signs.seeded.items():
            (self._seeded.add if has_seed else self._seeded.discard)(library)
        self._looks = 0
        report: dict[str, Any] = {
            "import_lists": self._real(self._import_lists),
            "lists": self._real(self._lists),
            "variables": {
                name: found
                for name, found in sorted(self._variables.take(self._value_digest).items())
                if name not in SESSION_VARIABLES and not name.startswith(SESSION_PREFIXES)
            },
            "hosts": sorted(drain(self._hosts)),
            "looks": self._questions.take(),
            "hints": [asdict(hint) for hint in dict.fromkeys(hints)],
        }
        if self._files is not None:
            report |= self._files.take()
        return report

    def asked_input(self) -> None:
        """Take note that the user is asked for input; called by what asks, on behalf of a cell."""
        with suppress(Exception):
            self._hints[input_hint(sys._getframe(1), self._globals)] = None

    def _value_digest(self, value: str) -> Digest:
        return value_digest(value, self._normalise)

    def _enter(self) -> None:
        namespace = self._namespace
        self._globals = namespace() if callable(namespace) else namespace
        self._variables.enter(self._globals)
        self._questions.enter(self._globals)

    def _handlers(self) -> dict[str, Callable[[tuple[Any, ...], FrameType], None]]:
        handlers = {} if self._files is None else self._files.handlers()
        return handlers | {
            "os.listdir": self._on_list,
            "os.scandir": self._on_list,
            "socket.getaddrinfo": self._on_host,
            "socket.gethostbyname": self._on_host,
        }

    def _on_list(self, args: tuple[Any, ...], frame: FrameType) -> None:
        path = absolute("." if args[0] is None else args[0])
        code = frame.f_code
        if code is _FILL_CACHE or code.co_filename.endswith(_IMPORTING) or is_own(frame):
            self._import_lists[path] = self._import_lists.get(path, 0) + 1
            return
        self._lists[path] = self._lists.get(path, 0) + 1
        if self._files is not None:
            self._files.add("list", path, signature(path))

    def _on_host(self, args: tuple[Any, ...], frame: FrameType) -> None:
        if args[0] is None:
            return
        host = os.fsdecode(args[0])
        self._hosts[host] = None
        hint = network_hint(host, frame, self._globals)
        if hint is not None:
            self._hints[hint] = None

    def _watch_environment(self) -> None:
        fields = vars(os.environ)
        self._variables.start(fields["_data"])
        watched = WatchedEnvironment(fields["_data"])
        watched.reads = self._variables
        for environ in (os.environ, os.environb):  # two views of the same variables
            vars(environ)["_data"] = watched

    def _watch_entropy(self) -> None:
        give = os.urandom

        def urandom(size: int, /) -> bytes:
            if self._looks < _MOST_LOOKS:
                self._looks += 1
                with suppress(Exception):
                    hint = entropy_hint(sys._getframe(1), self._globals)
                    if hint is not None:
                        self._hints[hint] = None
            return give(size)

        # What pickles it must find it under its name.
        urandom.__module__, urandom.__qualname__ = "os", "urandom"
        os.urandom = random._urandom = urandom  # type: ignore[attr-defined]

    def _real(self, counts: dict[str, int]) -> dict[str, int]:
        real: dict[str, int] = {}
        for path, count in drain(counts).items():
            at = os.path.realpath(path)
            if not at.startswith(self._ignored):
                real[at] = real.get(at, 0) + count
        return real
