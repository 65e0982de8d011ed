"""What can be known of a shell that is not CHEX's, and of the cell it runs."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from chexpoint.lineage import CellWatch, Places, code_hash

# They leave the state alone as the magics of CHEX do, or leave it for good.
_OWN_LINES = re.compile(
    r"^[ \t]*(?:%(?:re|un)?load_ext[ \t]+chexpoint|(?:exit|quit)(?:\(\))?)[ \t]*;?[ \t]*$",
    re.MULTILINE,
)
_BEGINS = re.compile(r"^[ \t]*%%?chex_record\b", re.MULTILINE)

# An audit hook stays for the life of the process, so there is one watch for each shell.
_WATCHES: WeakKeyDictionary[Any, CellWatch] = WeakKeyDictionary()


class RunningCell:
    """A cell that runs, or has just run.

    Parameters
    ----------
    info
        IPython's `ExecutionInfo`.
    """

    def __init__(self, shell: Any, info: Any) -> None:
        self._shell = shell
        self._transformed = getattr(info, "transformed_cell", None)
        self._started = time.perf_counter()
        self._interrupts = _interrupts()
        self.source = str(info.raw_cell)
        self.cell_id = str(getattr(info, "cell_id", None) or "")
        self.is_kept = bool(info.store_history)
        """Whether it is a cell of the user's, not a front end's own question."""
        self.is_open = False
        """Whether its outputs are read along."""

    @property
    def transformed(self) -> str:
        """The cell as plain Python, from before it ran: it depends on the names there are."""
        return self.source if self._transformed is None else str(self._transformed)

    def _transform(self, text: str) -> str:
        return self.transformed if text == self.source else str(self._shell.transform_cell(text))

    @cached_property
    def code(self) -> str:
        """The code hash."""
        return code_hash(self.source, self._transform)

    @property
    def says_nothing(self) -> bool:
        """Whether there is nothing in it but comments and lines for CHEX."""
        return self._is_nothing(self.source)

    @property
    def runs_before_begin(self) -> bool:
        """Whether anything comes before the line that begins a version."""
        begins = _BEGINS.search(self.source)
        return not self._is_nothing(self.source[: begins.start()] if begins else self.source)

    def _is_nothing(self, source: str) -> bool:
        text = _OWN_LINES.sub("", source)
        code = self.code if text == self.source else code_hash(text, self._transform)
        return code == _code_of_nothing()

    def told(self, result: Any, report: dict[str, Any]) -> dict[str, Any]:
        """Return what is known of it, now that it has ended: the fields of a `Cell`.

        Parameters
        ----------
        result
            IPython's `ExecutionResult`, or None if it has none.
        """
        shell = self._shell
        failed_to_show = getattr(shell, "_last_traceback_during_displayhook", False)
        has_succeeded = result is not None and result.success and not failed_to_show
        return {
            "source": self.source,
            "code": self.code,
            "execution_count": getattr(result, "execution_count", 0) or shell.execution_count - 1,
            "seconds": time.perf_counter() - self._started,
            "size_bytes": _resident_bytes(),
            "status": "ok" if has_succeeded else "error",
            "report": {**report, "interrupts": _interrupts() - self._interrupts},
        }


@cache
def _code_of_nothing() -> str:
    return code_hash("", str)


class _PastCell:
    """Stands for the `ExecutionInfo` of a cell of which only the source is known."""

    def __init__(self, source: str) -> None:
        self.raw_cell = source
        self.store_history = True


def is_fresh(shell: Any) -> bool:
    """Return whether no cell that counts has ended in a shell so far, as far as it remembers."""
    manager = getattr(shell, "history_manager", None)
    sources = [str(source) for source in getattr(manager, "input_hist_raw", ())[1:]]
    if running_info() is not None:
        sources = sources[:-1]
    return all(RunningCell(shell, _PastCell(source)).says_nothing for source in sources)


def has_variables(shell: Any) -> bool:
    """Return whether there are names in the user's namespace that were not there at the start."""
    hidden = shell.user_ns_hidden
    return any(
        not name.startswith("_") and (name not in hidden or hidden[name] is not value)
        for name, value in list(shell.user_ns.items())
    )


def running_info() -> Any:
    """Return IPython's `ExecutionInfo` of the cell that calls this, or None if no cell does."""
    from IPython.core.interactiveshell import InteractiveShell

    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code is InteractiveShell.run_cell_async.__code__:
            return frame.f_locals.get("info")
        frame = frame.f_back
    return None


def watch_of(shell: Any, project: str) -> CellWatch:
    """Return what listens to the cells of a shell."""
    watch = _WATCHES.get(shell)
    if watch is None:
        watch = _WATCHES[shell] = CellWatch(
            lambda: shell.user_global_ns,
            fallback=True,
            ignored=("/proc/", "/sys/"),
            normalise=Places(project).normalise,
        )
    return watch


def origin_of(shell: Any) -> str:
    """Return the notebook that is being run, if the front end tells."""
    found = shell.user_ns.get("__vsc_ipynb_file__") or os.environ.get("JPY_SESSION_NAME", "")
    return found if isinstance(found, str) and found.endswith(".ipynb") else ""


def hash_seed() -> str:
    """Return what orders sets of strings in this process; ``random`` if that is not known."""
    if not sys.flags.hash_randomization:
        return "0"
    # Not os.environ: what was set since the start has no effect.
    with suppress(OSError):
        for entry in Path("/proc/self/environ").read_bytes().split(b"\0"):
            name, _, value = entry.partition(b"=")
            if name == b"PYTHONHASHSEED" and value.isdigit():
                return value.decode()
    return "random"


def startup_files(profile: str) -> list[str]:
    """Return what an IPython profile runs before the first cell."""
    folder = os.path.join(profile, "startup")
    with suppress(OSError):
        names = sorted(name for name in os.listdir(folder) if name.endswith((".py", ".ipy")))
        return [os.path.join(folder, name) for name in names]
    return []


def standard_files() -> list[str]:
    """Return the files that the standard streams of this process go to: its log, not the user's."""
    found = set()
    for stream in (0, 1, 2, sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            number = stream if isinstance(stream, int) else stream.fileno()
            found.add(os.readlink(f"/proc/self/fd/{number}"))
    return sorted(path for path in found if path.startswith("/"))


def _resident_bytes() -> int:
    with suppress(OSError, ValueError, IndexError), open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[1]) * resource.getpagesize()
    return 0


def _interrupts() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_majflt + usage.ru_nivcsw
