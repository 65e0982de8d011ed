"""The kernel's end of the link to the process that writes; see `plain_scribe`.

Two threads, so that a cell waits neither for a disk nor for another process: one does, in order,
what the hooks leave for it, and one hears what became of it.
"""

from __future__ import annotations

import json
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chexpoint.errors import CatalogError, EngineError, InvalidValue
from chexpoint.magics.plain_outputs import CellOutputs

_SCRIBE = Path(__file__).with_name("plain_scribe.py")
_START_TIMEOUT_S = 30.0
_CLOSE_TIMEOUT_S = 5.0


@dataclass(slots=True)
class _Open:
    """The cell that is running, or has just ended."""

    mark: str
    outputs: CellOutputs = field(default_factory=CellOutputs)
    message: dict[str, Any] | None = None
    """What is known of it once it has ended."""


class Assembly:
    """Puts cells and what they showed together; for one thread.

    Parameters
    ----------
    send
        Called with the message of each cell, in order.
    """

    def __init__(self, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._open: _Open | None = None

    def begin(self, mark: str) -> None:
        """A cell begins, whose outputs have this mark."""
        self.flush()
        self._open = _Open(mark)

    def take(self, mark: str, kind: str, content: dict[str, Any]) -> None:
        """Take one message that the shell has published."""
        cell = self._open
        if cell is None or cell.mark != mark:
            return
        if kind != "status":
            cell.outputs.add(kind, content)
        elif content.get("execution_state") == "idle":
            self.flush()

    def end(self, message: dict[str, Any], *, is_late: bool) -> None:
        """The cell has ended; ``is_late`` if outputs still come, until its request is idle."""
        if self._open is None:
            self._open = _Open("")
        self._open.message = message
        if not is_late:
            self.flush()

    def drop(self) -> None:
        """What was begun is not to be recorded."""
        self._open = None

    def flush(self) -> None:
        """Send the cell that has ended, if one has."""
        cell, self._open = self._open, None
        if cell is not None and cell.message is not None:
            self._send({**cell.message, "outputs": cell.outputs.outputs})


class PlainLink:
    """Starts the process that writes, and hands it what is to be written.

    Parameters
    ----------
    project
        The folder to record in.
    ignored, startup
        Files that say nothing about results, and files that ran before the first cell.
    hash_seed
        What orders sets in this process.

    Raises
    ------
    EngineError
        If the process cannot be started.
    """

    def __init__(
        self, project: str, *, ignored: Iterable[str], startup: Iterable[str], hash_seed: str
    ) -> None:
        self.problem = ""
        """Why nothing is written any more."""
        self.assembly = Assembly(self.send)
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._asked: dict[int, Future[None]] = {}
        self._late: set[int] = set()
        self._is_closing = False
        self.session = f"{time.time_ns():x}-{os.getpid()}"
        asked = {
            "pid": os.getpid(),
            "project": project,
            "session": self.session,
            "ignored": list(ignored),
            "startup": list(startup),
            "import_folders": [folder for folder in sys.path if folder],
            "hash_seed": hash_seed,
        }
        self._socket, theirs = socket.socketpair()
        with theirs:
            _start(theirs.fileno(), json.dumps(asked))
        threading.Thread(target=self._work, name="chex-link", daemon=True).start()
        self._listener = threading.Thread(target=self._listen, name="chex-answers", daemon=True)
        self._listener.start()

    def post(self, job: Callable[[], None]) -> None:
        """Have something done by the thread of the link, in order."""
        self._jobs.put(job)

    def send(self, message: dict[str, Any]) -> None:
        """Hand a message over; by the thread of the link."""
        # What a cell displays may hold anything.
        self._socket.sendall(json.dumps(message, default=str).encode() + b"\n")

    def begin(self, name: str, *, is_branch: bool, origin: str, timeout_s: float) -> None:
        """Begin a version after all that was handed over, and wait until it is in the catalog.

        Raises
        ------
        InvalidValue
            If it cannot have this name; what was recorded before goes on.
        CatalogError
            If nothing can be written.
        """
        future: Future[None] = Future()
        token = len(self._asked)
        self._asked[token] = future
        message = {"op": "version", "name": name, "is_branch": is_branch, "origin": origin}
        self.post(self.assembly.flush)
        self.post(lambda: self.send({**message, "token": token}))
        try:
            future.result(timeout_s)
        except TimeoutError:  # if anything is wrong, it is told later
            self._late.add(token)
            if future.done():
                future.result()

    def close(self) -> None:
        """Wait until everything is written, but not for ever: it will be, in any case."""
        self._is_closing = True
        self.post(self.assembly.flush)
        self._jobs.put(None)
        self._listener.join(_CLOSE_TIMEOUT_S)

    def abandon(self) -> None:
        """Hand over nothing any more."""
        self._is_closing = True
        self._jobs.put(None)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except OSError:
                self._fail("the process that writes has ended")
            except Exception as error:
                self._fail(f"{type(error).__name__}: {error}")
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def _listen(self) -> None:
        with suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                self._take(json.loads(line))
        if not self._is_closing:
            self._fail("the process that writes has ended")
        self._socket.close()

    def _take(self, answer: dict[str, Any]) -> None:
        if "problem" in answer:
            self._fail(answer["problem"])
        elif "error" not in answer:
            self._asked[answer["token"]].set_result(None)
        elif answer["token"] in self._late:
            self._fail(answer["error"])
        else:
            self._asked[answer["token"]].set_exception(InvalidValue(answer["error"]))

    def _fail(self, problem: str) -> None:
        self.problem = self.problem or problem
        for future in self._asked.values():
            if not future.done():
                future.set_exception(CatalogError(self.problem))


def _start(descriptor: int, asked: str) -> None:
    """Start the process that writes; it is not to be a child of this one."""
    try:
        subprocess.run(
            [sys.executable, str(_SCRIBE), str(descriptor), asked],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=[descriptor],
            cwd="/",
            start_new_session=True,  # Ctrl-C is for the kernel
            timeout=_START_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise EngineError(f"the process that writes could not be started: {error}") from error
