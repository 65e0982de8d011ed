"""The worker's own part in the audit: the filter, and what only Python knows."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from dataclasses import dataclass
from typing import Any

from chexpoint.config import Held
from chexpoint.lineage import (
    CellWatch,
    Places,
    architecture,
    code_hash,
    install,
    no_new_privileges,
)
from chexpoint.model import Mechanism

_NO_RIGHTS = (
    "programs that need extra rights (sudo, ping, rootless containers) do not get them in cells;"
    " CHEX_AUDIT=hook turns the audit of system calls off"
)
_WHY = {
    errno.EBUSY: "system calls are audited from outside already, as in a kernel within a kernel",
    errno.EINVAL: "this system has no seccomp user notification",
    errno.ENOSYS: "this system has no seccomp",
    errno.EPERM: "the container or the system forbids it",
    errno.EACCES: "the container or the system forbids it",
}


@dataclass(frozen=True, slots=True)
class Coverage:
    """How this worker is audited."""

    mechanism: Mechanism
    note: str = ""
    """Why not by system calls, or what that takes away."""
    listener: int | None = None
    gave_up_privileges: bool = False


def cover(wanted: Held) -> Coverage:
    """Put this process under the best audit that is wanted and possible."""
    if wanted.text == "off":
        return Coverage("off", wanted.said)
    if wanted.text == "hook":
        return Coverage("audit hook", wanted.said)
    arch = architecture()
    if arch is None:
        return Coverage("audit hook", f"system calls of {os.uname().machine} are not known to CHEX")
    had_none = no_new_privileges()
    try:
        installed = install(arch)
    except OSError as error:
        why = _WHY.get(error.errno or 0, error.strerror or str(error))
        note = f"system calls cannot be audited here: {why}"
        if no_new_privileges() and not had_none:
            note += f"; {_NO_RIGHTS}"
        return Coverage("audit hook", note)
    note = _NO_RIGHTS if installed.gave_up_privileges else ""
    return Coverage("system calls", note, installed.listener, installed.gave_up_privileges)


def startup_files(profile: str) -> list[str]:
    """Return what an IPython profile runs before the first cell."""
    folder = os.path.join(profile, "startup")
    with contextlib.suppress(OSError):
        names = sorted(n for n in os.listdir(folder) if n.endswith((".py", ".ipy")))
        return [os.path.join(folder, name) for name in names]
    return []


class WorkerAudit:
    """Watches the cells of this process; see `chexpoint.lineage.CellWatch`."""

    def __init__(self, shell: Any, coverage: Coverage) -> None:
        self._shell = shell
        self._watch: CellWatch | None = None
        self._interrupts = 0
        if coverage.mechanism != "off":
            self._watch = CellWatch(
                lambda: shell.user_global_ns,
                fallback=coverage.mechanism == "audit hook",
                ignored=("/proc/", "/sys/"),
                normalise=Places(os.getcwd()).normalise,
            )
            self._watch.start()

    def begin(self) -> None:
        """A cell is about to run."""
        if self._watch is not None:
            with contextlib.suppress(Exception):
                self._watch.begin()
        self._interrupts = _interrupts()

    def importing(self) -> contextlib.AbstractContextManager[None]:
        """To be held while statements of a cell run that only import."""
        return contextlib.nullcontext() if self._watch is None else self._watch.importing()

    def asked_input(self) -> None:
        """The running cell asks the user something."""
        if self._watch is not None:
            with contextlib.suppress(Exception):
                self._watch.asked_input()

    def finish(self, source: str, transformed: str, status: str) -> dict[str, Any] | None:
        """Return what is known about the cell that has ended; None if it leaves the state as it is.

        ``transformed`` is its source as plain Python, from before it ran: what a line means may
        depend on the names there are.
        """

        def transform(text: str) -> str:
            return transformed if text == source else str(self._shell.transform_cell(text))

        report = self._report(transformed)
        report["interrupts"] = _interrupts() - self._interrupts
        code = code_hash(source, transform)
        if code == code_hash("", str):
            return None  # nothing but comments, or a look at the lineage
        return {
            "source": source,
            "code": code,
            "status": status,
            "report": report,
        }

    def _report(self, transformed: str) -> dict[str, Any]:
        if self._watch is None:
            return {}
        try:
            return self._watch.finish(transformed)
        except Exception as error:  # the cell has ended, and its end must be told
            return {"opaque": [f"CHEX could not tell what the cell did: {error!r}"]}


def _interrupts() -> int:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_majflt + usage.ru_nivcsw
