"""``chex`` at work for a cell: a process beside the kernel, followed by what it prints.

In the CHEX kernel the supervisor starts it.  A child of the worker would be audited with it, and
could not audit engines of its own; and it would not be there any more after a restore.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Self

from chexpoint.lineage import UNSEEN
from chexpoint.magics.engine_access import EngineAccess

_AT_ONCE = 2**20
_LOOK_S = 0.1
_END_TIMEOUT_S = 10.0


class Program:
    """A process, and the folder with the files ``out`` and ``err`` that it writes.

    As a context manager it sees to it that the process does not outlive the cell by much.

    Parameters
    ----------
    child
        If this process has started it itself.
    """

    def __init__(self, pid: int, folder: str, child: subprocess.Popen[bytes] | None = None) -> None:
        self._pid = pid
        self._folder = folder
        self._child = child
        self._out = _Lines(os.path.join(folder, "out"))
        self._handle = _handle(pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if not self.has_ended(0):
            self.signal(signal.SIGTERM)
        self._out.close()
        if self._handle is not None:
            os.close(self._handle)
        if self._child is not None:  # else all of it is the supervisor's
            try:
                self._child.wait(_END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._child.kill()
                self._child.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def has_ended(self, seconds: float) -> bool:
        """Wait for its end, but not for longer than this; return whether it has come."""
        if self._handle is None:
            time.sleep(seconds)
            if self._child is not None:
                return self._child.poll() is not None
            return not os.path.exists(f"/proc/{self._pid}")
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def lines(self) -> Iterator[str]:
        """Yield the lines that it has printed since the last call."""
        return self._out.read()

    def errors(self) -> list[str]:
        """Return what it has said on standard error, without our own name in front."""
        error = _Lines(os.path.join(self._folder, "err"))
        try:
            return [line.removeprefix("chex: ") for line in error.read() if line.strip()]
        finally:
            error.close()

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        with suppress(ProcessLookupError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, number)
            else:
                os.kill(self._pid, number)


class _Lines:
    """The lines of a file that grows."""

    def __init__(self, path: str) -> None:
        # What CHEX itself reads is no input of the user's.
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | UNSEEN)
        self._rest = b""

    def read(self) -> Iterator[str]:
        while data := os.read(self._descriptor, _AT_ONCE):
            *lines, self._rest = (self._rest + data).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)

    def close(self) -> None:
        os.close(self._descriptor)


def start(engine: EngineAccess, verb: str, words: list[str]) -> Program | None:
    """Start ``chex`` with some words, in the folder that this kernel was started in.

    Returns
    -------
    Program | None
        None if the cell is run once more only to bring back a state: there is nothing to do.
    """
    if engine.is_here:
        answer = engine.ask("start", verb=verb, words=words)
        return None if answer is None else Program(answer["pid"], answer["folder"])
    folder = tempfile.mkdtemp(prefix="chex-program-")
    try:
        with (
            open(os.path.join(folder, "out"), "xb") as out,
            open(os.path.join(folder, "err"), "xb") as err,
        ):
            child = subprocess.Popen(
                # Not -m alone: it would look for modules in the user's folder first.
                [sys.executable, "-P", "-m", "chexpoint", verb, *words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                process_group=0,  # an interrupt of the cell is not for it
            )
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return Program(child.pid, folder, child)


def batches(program: Program) -> Iterator[list[str]]:
    """Yield the lines that a program has printed meanwhile, a few times a second, until it ends.

    The first interrupt is passed on to the program, which may have something to put in order; a
    second one is a `KeyboardInterrupt`.
    """
    with _interrupting(program):
        has_ended = False
        while not has_ended:
            has_ended = program.has_ended(_LOOK_S)
            yield list(program.lines())


@contextmanager
def _interrupting(program: Program) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            raise KeyboardInterrupt
        is_interrupted = True
        program.signal(signal.SIGINT)

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def owner(engine: EngineAccess) -> int:
    """Return the process that a program must not outlive."""
    return int(engine.worker.supervisor) if engine.is_here else os.getpid()


def _handle(pid: int) -> int | None:
    """Return a descriptor of a process; None if this system has none, or the process has ended."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
