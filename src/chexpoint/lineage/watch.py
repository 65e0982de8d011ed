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
import stat
import sys
import threading
from collections.abc import Callable, ItemsView, Iterable, Iterator, KeysView, ValuesView
from contextlib import suppress
from dataclasses import asdict
from types import CodeType, FrameType
from typing import Any, TypeVar
from urllib.parse import unquote

from chexpoint.lineage.digest import digest
from chexpoint.lineage.hints import (
    cell_frame,
    entropy_hint,
    network_hint,
    random_hints,
    random_states,
    scan,
)
from chexpoint.model import Hint

SESSION_VARIABLES = frozenset(
    {
        "_",
        "COLORTERM",
        "COLUMNS",
        "DESKTOP_SESSION",
        "DISPLAY",
        "HOSTNAME",
        "INVOCATION_ID",
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

_FILL_CACHE: CodeType = _bootstrap.FileFinder._fill_cache.__code__  # type: ignore[attr-defined]
_IMPORTING = (
    "/importlib/metadata/__init__.py",
    "/importlib_metadata/__init__.py",
    "/pkgutil.py",
    "/pkg_resources/__init__.py",
)
# The methods of os.environ are in these files; whoever calls them is one frame further out.
_ENVIRON_FILES = frozenset({os.getenv.__code__.co_filename, KeysView.__iter__.__code__.co_filename})
_VIEWS = frozenset({ItemsView.__iter__.__code__, ValuesView.__iter__.__code__})
# Frames are walked for each call; in a loop that takes entropy this many tell enough.
_MOST_LOOKS = 1000
# Entries; beyond that, the cell's record is a gap.
_MOST_OPENED = 100_000

_READ_OUTSIDE_PYTHON = (
    "cv2",
    "duckdb",
    "fiona",
    "h5py",
    "lightgbm",
    "netCDF4",
    "polars",
    "pyarrow",
    "rasterio",
    "safetensors",
    "tables",
    "tensorflow",
    "torch",
    "xgboost",
)
_SYSTEM_LIBRARIES = ("libc.so", "libm.so", "libdl.so", "libpthread.so", "librt.so", "libgcc_s.so")

_K = TypeVar("_K")
_V = TypeVar("_V")


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
        self._variables = _VariableReads()
        self._files = _FileNotes(self._ignored) if fallback else None
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

    def finish(self, source: str) -> dict[str, Any]:
        """Return what was seen since the last call, in types that JSON has.

        ``source`` is the code of the cell, as plain Python.

        - ``import_lists``, ``lists``: how often each folder, by its real path, was listed by the
          import machinery or this package itself, and by anything else.
        - ``variables``: the digests of the environment variables that were read, None for those
          that were not set.
        - ``hosts``: the names that were looked up.
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
            *_drain(self._hints),
            *signs.hints,
            *random_hints(self._states, states, self._seeded, signs),
        ]
        self._states = states
        for library, has_seed in signs.seeded.items():
            (self._seeded.add if has_seed else self._seeded.discard)(library)
        self._looks = 0
        report: dict[str, Any] = {
            "import_lists": self._real(self._import_lists),
            "lists": self._real(self._lists),
            "variables": {
                name: None if value is None else digest("variable", self._normalise(value))
                for name, value in sorted(self._variables.take().items())
                if name not in SESSION_VARIABLES and not name.startswith(SESSION_PREFIXES)
            },
            "hosts": sorted(_drain(self._hosts)),
            "hints": [asdict(hint) for hint in dict.fromkeys(hints)],
        }
        if self._files is not None:
            report |= self._files.take()
        return report

    def _enter(self) -> None:
        namespace = self._namespace
        self._globals = namespace() if callable(namespace) else namespace
        self._variables.enter(self._globals)

    def _handlers(self) -> dict[str, Callable[[tuple[Any, ...], FrameType], None]]:
        handlers = {} if self._files is None else self._files.handlers()
        return handlers | {
            "os.listdir": self._on_list,
            "os.scandir": self._on_list,
            "socket.getaddrinfo": self._on_host,
            "socket.gethostbyname": self._on_host,
        }

    def _on_list(self, args: tuple[Any, ...], frame: FrameType) -> None:
        path = _absolute("." if args[0] is None else args[0])
        code = frame.f_code
        if code is _FILL_CACHE or code.co_filename.endswith(_IMPORTING) or _is_own(frame):
            self._import_lists[path] = self._import_lists.get(path, 0) + 1
            return
        self._lists[path] = self._lists.get(path, 0) + 1
        if self._files is not None:
            self._files.add("list", path, _signature(path))

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
        watched = _Environment(fields["_data"])
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
        for path, count in _drain(counts).items():
            at = os.path.realpath(path)
            if not at.startswith(self._ignored):
                real[at] = real.get(at, 0) + count
        return real


class _VariableReads:
    """The environment variables that cells read one by one.

    Code that copies the environment, for a child process, reads all of it and depends on none
    of it.  `dict` and `**` ask for the keys and for each value from one and the same instruction,
    which nothing else does.  A loop does not; but where variables were looped over, a line that
    has read more than half of them copies as well.
    """

    def __init__(self) -> None:
        self._globals: dict[str, Any] = {}
        self._thread = 0
        self._reads: dict[tuple[CodeType, int], dict[bytes, bytes | None]] = {}
        self._copying: dict[int, tuple[CodeType, int]] = {}
        self._is_looped = False

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
        self._reads.setdefault((at.f_code, at.f_lineno), {}).setdefault(key, value)

    def note_loop(self, frame: FrameType) -> None:
        """Take note that a loop over the variables begins in ``frame``."""
        self._is_looped = True
        if frame.f_code is KeysView.__iter__.__code__ and frame.f_back is not None:
            caller = frame.f_back
            self._copying[threading.get_ident()] = (caller.f_code, caller.f_lasti)

    def take(self) -> dict[str, str | None]:
        """Return what was read since the last call, the first value of each."""
        many = len(os.environ) / 2 if self._is_looped else float("inf")
        self._is_looped = False
        self._copying.clear()
        taken: dict[str, str | None] = {}
        for reads in _drain(self._reads).values():
            if len(reads) <= many:
                for key, value in reads.items():
                    decoded = None if value is None else os.fsdecode(value)
                    taken.setdefault(os.fsdecode(key), decoded)
        return taken


class _Environment(dict[bytes, bytes]):
    """What os.environ keeps its variables in; tells who reads them.

    In this place, and not around os.environ, it leaves no trace in the traceback of a KeyError.
    """

    __slots__ = ("reads",)
    reads: _VariableReads

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


class _FileNotes:
    """What Python does to files, and what may be done to them unseen."""

    def __init__(self, ignored: tuple[str, ...]) -> None:
        self._ignored = ignored
        self._opened: list[list[Any]] = []
        self._opaque: dict[str, None] = {}
        self._calls_c = False

    def handlers(self) -> dict[str, Callable[[tuple[Any, ...], FrameType], None]]:
        """Return what to call for each audit event."""
        self._watch_spawn()
        ours: dict[str, Callable[[tuple[Any, ...]], None]] = {
            "os.exec": lambda args: self._on_program(args[0]),
            "os.fork": lambda _: self._on_child("a copy of this process"),
            "os.forkpty": lambda _: self._on_child("a copy of this process"),
            "os.link": lambda args: self._on_pair("link", args),
            "os.mkdir": lambda args: self._on_name("folder", args[0], args[2]),
            "os.posix_spawn": lambda args: self._on_program(args[0]),
            "os.remove": lambda args: self._on_name("delete", args[0], args[1]),
            "os.rename": lambda args: self._on_pair("rename", args),
            "os.rmdir": lambda args: self._on_name("delete", args[0], args[1]),
            "os.symlink": self._on_symlink,
            "os.system": lambda _: self._on_child("sh"),
            "os.truncate": self._on_truncate,
            "pty.spawn": lambda args: self._on_child(_program_name(args[0])),
            "socket.connect": self._on_peer,
            "socket.sendmsg": self._on_peer,
            "socket.sendto": self._on_peer,
            "sqlite3.connect": self._on_database,
            "subprocess.Popen": lambda args: self._on_program(args[0] or args[1]),
        }

        def unless_own(
            handle: Callable[[tuple[Any, ...]], None],
        ) -> Callable[[tuple[Any, ...], FrameType], None]:
            # A checkpoint is a fork too.
            return lambda args, frame: None if _is_own(frame) else handle(args)

        with_frame = {"ctypes.dlopen": self._on_library, "open": self._on_open}
        return with_frame | {event: unless_own(ours[event]) for event in ours}

    def add(self, operation: str, path: str, *rest: Any) -> None:
        """Take note of an operation."""
        if path.startswith(self._ignored):
            return
        entry = [operation, path, *rest]
        if len(self._opened) >= _MOST_OPENED:
            self._opaque[f"more than {_MOST_OPENED:,} files were used: the rest is not known"] = (
                None
            )
        elif not self._opened or self._opened[-1] != entry:
            self._opened.append(entry)

    def take(self) -> dict[str, Any]:
        """Return what was noted since the last call."""
        count = len(self._opened)
        opened = self._opened[:count]
        del self._opened[:count]
        loaded = [
            f"{name} is loaded and may read files that the audit hook does not see"
            for name in _READ_OUTSIDE_PYTHON
            if name in sys.modules
        ]
        if self._calls_c:
            loaded.append("C functions may be called through ctypes: what they read is not known")
        return {"opaque": [*_drain(self._opaque), *loaded], "opened": opened}

    def _on_open(self, args: tuple[Any, ...], frame: FrameType) -> None:
        target, mode, flags = args
        if isinstance(target, int) or flags & getattr(os, "O_PATH", 0) or _is_own(frame):
            return
        # These open entries of a folder by its descriptor, which the event does not tell.
        is_walk = mode is None and frame.f_globals.get("__name__") in {"os", "shutil"}
        if is_walk and not os.path.isabs(target):
            return
        path = _absolute(target)
        info = _stat(path)
        if info is None:
            self.add(_operation(mode, flags, exists=False), path, None)
        elif not stat.S_ISDIR(info.st_mode):  # to open a folder is not to list it
            self.add(_operation(mode, flags, exists=True), path, _fields(info))

    def _on_name(self, operation: str, target: Any, folder: int = -1) -> None:
        path = _absolute(target, folder)
        self.add(operation, path, _signature(path, follow=False))

    def _on_pair(self, operation: str, args: tuple[Any, ...]) -> None:
        old, new = _absolute(args[0], args[2]), _absolute(args[1], args[3])
        noted = _signature(old, follow=False), new, _signature(new, follow=False)
        if not new.startswith(self._ignored):
            self.add(operation, old, *noted)

    def _on_symlink(self, args: tuple[Any, ...]) -> None:
        new = _absolute(args[1], args[2])
        old = os.path.join(os.path.dirname(new), os.fsdecode(args[0]))
        if not new.startswith(self._ignored):
            self.add("link", old, _signature(old), new, _signature(new, follow=False))

    def _on_truncate(self, args: tuple[Any, ...]) -> None:
        path = _absolute(args[0])
        self.add("truncate", path, _signature(path))

    def _on_database(self, args: tuple[Any, ...]) -> None:
        name = os.fsdecode(args[0])
        if name.startswith("file:"):
            name, _, options = name.removeprefix("file:").partition("?")
            name = unquote(name) if "mode=memory" not in options else ""
            name = name.removeprefix("//") if name.startswith("///") else name
        if name and name != ":memory:":
            path = _absolute(name)
            self.add("rdwr", path, _signature(path))

    def _on_peer(self, args: tuple[Any, ...]) -> None:
        address = args[1]
        if isinstance(address, tuple):
            self.add("connect", ":".join(str(part) for part in address[:2]), None)
        elif isinstance(address, str | bytes):
            self.add("connect", os.fsdecode(address), None)

    def _on_program(self, command: Any) -> None:
        if isinstance(command, list | tuple):
            command = command[0]
        path = os.fsdecode(command)
        if "/" in path:
            path = _absolute(path)
            self.add("exec", path, _signature(path))
        else:
            self._add_found(path)
        self._on_child(_program_name(command))

    def _add_found(self, name: str) -> None:
        """Take note of a program that the system looks for in PATH."""
        # Read here as nobody reads it, or PATH would become an input.
        folders = dict.get(vars(os.environ)["_data"], b"PATH", os.defpath.encode())
        for folder in os.fsdecode(folders).split(os.pathsep):
            path = _absolute(os.path.join(folder, name))
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                self.add("exec", path, _signature(path))
                return

    def _on_child(self, name: str) -> None:
        self._opaque[f"a child process was started ({name}): what it read is not known"] = None

    def _on_library(self, args: tuple[Any, ...], frame: FrameType) -> None:
        caller: FrameType | None = frame
        while caller is not None and caller.f_globals.get("__name__") == "ctypes":
            caller = caller.f_back
        if caller is None or _is_own(caller):
            return
        if not caller.f_code.co_filename.startswith((sys.prefix, sys.base_prefix, "<frozen")):
            self._calls_c = True  # what it loads now it may call in any later cell
            return
        name = os.fsdecode(args[0] or "")
        is_system = os.path.basename(name).startswith(_SYSTEM_LIBRARIES)
        if name and not is_system and not name.startswith((sys.prefix, sys.base_prefix)):
            self._opaque[f"{name} was loaded by ctypes: what it reads is not known"] = None

    def _watch_spawn(self) -> None:
        """Listen to the function by which multiprocessing and loky start Python: it is no event."""
        import _posixsubprocess

        start = _posixsubprocess.fork_exec

        def fork_exec(*args: Any, **options: Any) -> int:
            with suppress(Exception):
                self._on_child(_program_name(args[0]))
            return int(start(*args, **options))

        _posixsubprocess.fork_exec = fork_exec


def _drain(noted: dict[_K, _V]) -> dict[_K, _V]:
    """Empty a dict that other threads add to, and return what was in it."""
    taken = {}
    while noted:
        key, value = noted.popitem()
        taken[key] = value
    return dict(reversed(taken.items()))


def _absolute(target: Any, folder: int = -1) -> str:
    """Return a path as it was given, from the root; ``folder`` is a descriptor."""
    if isinstance(target, int):
        return os.readlink(f"/proc/self/fd/{target}")
    path = os.fsdecode(target)
    if path.startswith("/"):
        return path
    base = os.getcwd() if folder < 0 else os.readlink(f"/proc/self/fd/{folder}")
    return base if path == "." else os.path.join(base, path)


def _stat(path: str, *, follow: bool = True) -> os.stat_result | None:
    # Not by opening it: closing it again would drop the locks this process has on it.
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError:
        return None


def _signature(path: str, *, follow: bool = True) -> list[int] | None:
    info = _stat(path, follow=follow)
    return None if info is None else _fields(info)


def _fields(info: os.stat_result) -> list[int]:
    return [info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns]


def _operation(mode: str | None, flags: int, *, exists: bool) -> str:
    if not flags and mode:  # opened by C, which gives the mode only
        flags = os.O_RDWR if "+" in mode else os.O_WRONLY if set("wax") & set(mode) else 0
        flags |= os.O_TRUNC if "w" in mode else os.O_APPEND if "a" in mode else 0
    access = flags & os.O_ACCMODE
    if access == os.O_RDONLY:
        return "read" if exists else "absent"
    if access == os.O_RDWR and not flags & os.O_TRUNC:
        return "rdwr"
    return "append" if flags & os.O_APPEND else "write"


def _program_name(command: Any) -> str:
    if isinstance(command, list | tuple):
        command = command[0]
    return os.path.basename(os.fsdecode(command))


def _is_own(frame: FrameType) -> bool:
    """Whether it is this package, and not the user, that makes a call."""
    return str(frame.f_globals.get("__name__")).startswith("chexpoint.")
