"""What Python does to files, as its audit events tell; part of `CellWatch`, for the fallback."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar
from urllib.parse import unquote

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


class FileNotes:
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
            return lambda args, frame: None if is_own(frame) else handle(args)

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
        return {"opaque": [*drain(self._opaque), *loaded], "opened": opened}

    def _on_open(self, args: tuple[Any, ...], frame: FrameType) -> None:
        target, mode, flags = args
        if isinstance(target, int) or flags & getattr(os, "O_PATH", 0) or is_own(frame):
            return
        # These open entries of a folder by its descriptor, which the event does not tell.
        is_walk = mode is None and frame.f_globals.get("__name__") in {"os", "shutil"}
        if is_walk and not os.path.isabs(target):
            return
        if mode is None and not os.path.isabs(target) and _has_open_folder():
            why = f"{os.fsdecode(target)} may have been opened by the descriptor of a folder"
            self._opaque[why] = None
            return
        path = absolute(target)
        info = _stat(path)
        if info is None:
            self.add(_operation(mode, flags, exists=False), path, None)
        elif not stat.S_ISDIR(info.st_mode):  # to open a folder is not to list it
            self.add(_operation(mode, flags, exists=True), path, _fields(info))

    def _on_name(self, operation: str, target: Any, folder: int = -1) -> None:
        path = absolute(target, folder)
        self.add(operation, path, signature(path, follow=False))

    def _on_pair(self, operation: str, args: tuple[Any, ...]) -> None:
        old, new = absolute(args[0], args[2]), absolute(args[1], args[3])
        noted = signature(old, follow=False), new, signature(new, follow=False)
        if not new.startswith(self._ignored):
            self.add(operation, old, *noted)

    def _on_symlink(self, args: tuple[Any, ...]) -> None:
        new = absolute(args[1], args[2])
        old = os.path.join(os.path.dirname(new), os.fsdecode(args[0]))
        if not new.startswith(self._ignored):
            self.add("link", old, signature(old), new, signature(new, follow=False))

    def _on_truncate(self, args: tuple[Any, ...]) -> None:
        path = absolute(args[0])
        self.add("truncate", path, signature(path))

    def _on_database(self, args: tuple[Any, ...]) -> None:
        name = os.fsdecode(args[0])
        if name.startswith("file:"):
            name, _, options = name.removeprefix("file:").partition("?")
            name = unquote(name) if "mode=memory" not in options else ""
            name = name.removeprefix("//") if name.startswith("///") else name
        if name and name != ":memory:":
            path = absolute(name)
            self.add("rdwr", path, signature(path))

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
            path = absolute(path)
            self.add("exec", path, signature(path))
        else:
            self._add_found(path)
        self._on_child(_program_name(command))

    def _add_found(self, name: str) -> None:
        """Take note of a program that the system looks for in PATH."""
        # Read here as nobody reads it, or PATH would become an input.
        folders = dict.get(vars(os.environ)["_data"], b"PATH", os.defpath.encode())
        for folder in os.fsdecode(folders).split(os.pathsep):
            path = absolute(os.path.join(folder, name))
            if os.access(path, os.X_OK) and not os.path.isdir(path):
                self.add("exec", path, signature(path))
                return

    def _on_child(self, name: str) -> None:
        self._opaque[f"a child process was started ({name}): what it read is not known"] = None

    def _on_library(self, args: tuple[Any, ...], frame: FrameType) -> None:
        caller: FrameType | None = frame
        while caller is not None and caller.f_globals.get("__name__") == "ctypes":
            caller = caller.f_back
        if caller is None or is_own(caller):
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


def drain(noted: dict[_K, _V]) -> dict[_K, _V]:
    """Empty a dict that other threads add to, and return what was in it."""
    taken = {}
    while noted:
        key, value = noted.popitem()
        taken[key] = value
    return dict(reversed(taken.items()))


def _has_open_folder() -> bool:
    """Return whether a path may be relative to a folder other than the working folder."""
    try:
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if stat.S_ISDIR(os.fstat(int(name)).st_mode):
                    return True
    except OSError:
        return True
    return False


def absolute(target: Any, folder: int = -1) -> str:
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


def signature(path: str, *, follow: bool = True) -> list[int] | None:
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


def is_own(frame: FrameType) -> bool:
    """Whether it is this package, and not the user, that makes a call."""
    return str(frame.f_globals.get("__name__")).startswith("chexpoint.")
