"""Notebooks for the tests of recording and reuse: lists of cells, run in a real kernel."""

from __future__ import annotations

import ctypes
import os
import select
import signal
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.kernels import CHEX, TIMEOUT_S, Kernel, Launch, Outcome
from tests.support.messages import Message

_OWN = "CHEX: "
_REUSED = "reused, saved"
_RUN_AGAIN = "run again: "
_FOLLOWED = "run again to bring back the state"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """What a notebook shows under a cell once it has ended, the marks of CHEX apart."""

    outcome: Outcome
    outputs: tuple[Message, ...]
    marks: tuple[str, ...]
    """The lines of CHEX, as text."""

    @property
    def status(self) -> str:
        return self.outcome.status

    @property
    def count(self) -> int:
        return int(self.outcome.content["execution_count"])

    @property
    def text(self) -> str:
        """Standard output without what CHEX itself prints."""
        lines = self.outcome.stdout.splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith((_OWN, "  note: ")))

    @property
    def told(self) -> str:
        """What CHEX prints, on standard output and error."""
        lines = (self.outcome.stdout + self.outcome.stderr).splitlines(keepends=True)
        return "".join(line for line in lines if line.startswith((_OWN, "  note: ")))

    @property
    def result(self) -> str | None:
        found = self.outcome.of_type("execute_result")
        return str(found[-1].content["data"]["text/plain"]) if found else None

    @property
    def error(self) -> str:
        return f"{self.outcome.content.get('ename', '')}: {self.outcome.content.get('evalue', '')}"

    @property
    def is_reused(self) -> bool:
        return any(mark.startswith(_REUSED) for mark in self.marks)

    @property
    def why(self) -> str:
        """Why the cell was run although it ran before; empty if that was not said."""
        found = [mark for mark in self.marks if mark.startswith(_RUN_AGAIN)]
        return found[-1].removeprefix(_RUN_AGAIN) if found else ""

    @property
    def followed(self) -> str:
        """What was said about bringing back the state, at last."""
        found = [mark for mark in self.marks if _FOLLOWED in mark]
        return found[-1] if found else ""

    def ok(self) -> Shown:
        self.outcome.ok()
        return self


def run_cell(kernel: Kernel, code: str, *, answers: Sequence[str] = (), **options: Any) -> Shown:
    """Run a cell to its end."""
    kernel.forget()
    request = kernel.submit(code, **options)
    for value in answers:
        kernel.wait_input(request)
        kernel.answer(value)
    return finish(kernel, request)


def finish(kernel: Kernel, request: str) -> Shown:
    """Wait for the end of a cell that was submitted."""
    outcome = kernel.finish(request)
    marks = [m for m in outcome.published if _mark(m)]
    return Shown(
        outcome=outcome,
        outputs=tuple(m for m in outcome.outputs if m not in marks),
        marks=tuple(_mark(m) for m in marks),
    )


def run_all(kernel: Kernel, cells: Iterable[str], *, version: str = "") -> list[Shown]:
    """Run cells in order, as Run All does, after the one that begins a version, if one is named."""
    if version:
        run_cell(kernel, f"%chex_record {version}").ok()
    return [run_cell(kernel, cell) for cell in cells]


def reused(shown: Iterable[Shown]) -> str:
    """Return a letter for each cell: ``r`` it was reused, ``c`` computed, ``!`` it failed."""
    return "".join("!" if s.status != "ok" else "r" if s.is_reused else "c" for s in shown)


def value(kernel: Kernel, expression: str) -> str:
    """Return what an expression is in the live state, without being a cell."""
    asked = {"value": expression}
    kernel.forget()
    request = kernel.submit("", silent=True, store_history=False, user_expressions=asked)
    found = kernel.wait_reply(request).content["user_expressions"]["value"]
    assert found["status"] == "ok", found
    return str(found["data"]["text/plain"])


def evict_all(kernel: Kernel) -> None:
    """Let all checkpoints go, except the one of the fresh interpreter."""
    run_cell(kernel, "%chex_evict --all").ok()


def launch(project: Path, **env: str) -> Launch:
    """Return how to start a CHEX kernel in a folder that may be there already."""
    project.mkdir(parents=True, exist_ok=True)
    return Launch(argv=("env", "-C", str(project), *CHEX), env=env)


@contextmanager
def kernel_at(project: Path, folder: Path, **env: str) -> Iterator[Kernel]:
    """Run a kernel in a project folder; its own files are elsewhere."""
    with Kernel(launch(project, **env), folder) as kernel:
        yield kernel


def kill_now(kernel: Kernel) -> None:
    """End the supervisor as a power cut would; what it started must end by itself."""
    with suppress(ProcessLookupError):
        os.kill(kernel.process().pid, signal.SIGKILL)
    kernel.process().wait()


def _mark(message: Message) -> str:
    if message.type not in {"display_data", "update_display_data"}:
        return ""
    text = str(message.content["data"].get("text/plain", ""))
    return text.removeprefix(_OWN) if text.startswith(_OWN) else ""


class Beacon:
    """A cell that tells when it runs, and in which process, and then waits to be let go.

    It tells so by a file, because nothing of what it prints is shown while it is run again.
    """

    def __init__(self, project: Path) -> None:
        self._file = project / "beacon.txt"
        libc = ctypes.CDLL(None, use_errno=True)
        self._fd = libc.inotify_init1(os.O_CLOEXEC)
        libc.inotify_add_watch(self._fd, os.fsencode(project), _IN_CLOSE_WRITE)
        self.cell = _BEACON_CELL

    def wait(self) -> int:
        """Wait until the cell runs; return the process it runs in."""
        while True:
            ready, _, _ = select.select([self._fd], [], [], TIMEOUT_S)
            assert ready, "the beacon was not lit"
            if os.fsencode(self._file.name) in os.read(self._fd, 65536):
                return int(self._file.read_text())

    def let_go(self) -> None:
        """Let the cell come to its end."""
        os.kill(self.wait(), signal.SIGUSR2)

    def close(self) -> None:
        os.close(self._fd)


_IN_CLOSE_WRITE = 0x8
_BEACON_CELL = f"""
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
with open("beacon.txt", "w") as file:
    file.write(str(os.getpid()))
is_lit = signal.sigtimedwait([signal.SIGUSR2], {TIMEOUT_S}) is not None
"""
