"""Writes what is recorded in a kernel that is not CHEX's: ``plain_scribe.py FD ASKED``.

In a process of its own, as in the CHEX kernel: it opens the files that cells have used, and closing
a file releases every lock that the same process holds on it, those of the user's databases too.
Whatever happens to the kernel, what it has handed over is written.

Lines of JSON come through the descriptor, and answers go back: see `plain_link`.
"""

import os
import sys

if __name__ == "__main__":
    # The user's code may wait for all children of the kernel: this is to be none of them.
    if os.fork():
        os._exit(0)
    # Instead of this file's folder: where the package is, if Python does not find it.
    if not sys.flags.safe_path:
        del sys.path[0]
    sys.path.append(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))

import json
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from chexpoint.engine import wait_for_end
from chexpoint.errors import ChexError, InvalidValue
from chexpoint.lineage import Auditor, Cell, Places, Step, default_cache_folder
from chexpoint.model import CellLineage, CellRecord, Output, PathCell
from chexpoint.project import Project, keep_files

# How long digests of the last cells are waited for after the kernel has ended.
_LAST_WAIT_S = 30.0

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class _Run:
    """A cell whose lineage is being concluded."""

    step: Step
    outputs: tuple[Output, ...]
    cell_id: str


@dataclass(frozen=True, slots=True)
class _Wish:
    """A version is to begin."""

    name: str
    origin: str
    is_branch: bool
    token: int
    before: Step
    """Where the state was; it is there again if the name is refused."""


class Scribe:
    """Gives cells their lineage and writes them to the catalog, in the order they come in.

    All methods are for one thread.

    Parameters
    ----------
    tell
        Called with what the kernel is to know: the ``token`` of a version that has begun, with an
        ``error`` if its name is refused, or a ``problem`` after which nothing is written any more.
    """

    def __init__(
        self, project: Project, auditor: Auditor, places: Places, *, session: str, tell: Tell
    ) -> None:
        self._project = project
        self._places = places
        self._auditor = auditor
        self._session = session
        self._tell = tell
        self._at = Step(None)
        self._todo: deque[_Run | _Wish] = deque()
        self._lineages: dict[Step, CellLineage] = {}
        self._version: int | None = None
        self._path: list[PathCell] = []
        self.has_failed = False

    @property
    def is_waiting(self) -> bool:
        """Whether there is something left to write."""
        return bool(self._todo) and not self.has_failed

    def take(self, message: dict[str, Any]) -> None:
        """Take one message of the kernel."""
        if message["op"] == "version":
            self._todo.append(
                _Wish(
                    message["name"],
                    message["origin"],
                    message["is_branch"],
                    message["token"],
                    self._at,
                )
            )
            if not message["is_branch"]:
                self._at = Step(None)
        else:
            self._at = Step(self._at)
            self._auditor.begin(self._at)
            self._auditor.end(Cell(**message["cell"]))
            self._todo.append(_Run(self._at, tuple(message["outputs"]), message["cell_id"]))
        self.conclude()

    def conclude(self) -> None:
        """Write what can be written by now."""
        for audited in self._auditor.take_audited():
            self._lineages[audited.step] = audited.lineage
        try:
            while self.is_waiting and self._do(self._todo[0]):
                self._todo.popleft()
        except ChexError as error:
            self.fail(str(error))
        except Exception as error:
            self.fail(f"{type(error).__name__}: {error}")

    def fail(self, problem: str) -> None:
        """Write nothing any more."""
        self.has_failed = True
        self._tell({"problem": problem})

    def _do(self, what: _Run | _Wish) -> bool:
        """Return whether it could be done: a cell must have its lineage."""
        if isinstance(what, _Wish):
            self._begin(what)
            return True
        lineage = self._lineages.pop(what.step, None)
        if lineage is not None:
            self._write(what, lineage)
        return lineage is not None

    def _begin(self, wish: _Wish) -> None:
        try:
            if wish.is_branch:
                version = self._project.branch(wish.name, self._path, session=self._session)
            else:
                version = self._project.new_version(
                    wish.name, session=self._session, origin=wish.origin
                )
        except InvalidValue as error:
            if len(self._todo) > 1:  # cells of it have been handed over already
                raise
            self._at = wish.before
            self._tell({"token": wish.token, "error": str(error)})
            return
        self._version = version
        if not wish.is_branch:
            self._path = []
        self._tell({"token": wish.token})

    def _write(self, run: _Run, lineage: CellLineage) -> None:
        step = run.step
        before = step.parent.taint if step.parent is not None else ""
        record = CellRecord(
            lineage=lineage,
            taint=step.taint,
            parent_taint=before,
            outputs=run.outputs,
            cell_id=run.cell_id,
        )
        execution = self._project.record(record, session=self._session, version=self._version)
        self._path.append(PathCell.recorded(record, execution))
        keep_files(self._project, lineage, self._places)


def main(descriptor: int, asked: dict[str, Any]) -> None:
    """Write what comes through a socket, until the kernel has ended or closed it."""
    link = socket.socket(fileno=descriptor)
    jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()

    def tell(message: dict[str, Any]) -> None:
        with suppress(OSError):  # nobody is there any more
            link.sendall(json.dumps(message).encode() + b"\n")

    def look() -> None:
        scribe.conclude()

    auditor = Auditor(
        asked["project"],
        wake=lambda: jobs.put(look),
        cache_folder=default_cache_folder(),
        hash_seed=asked["hash_seed"],
    )
    scribe = Scribe(
        Project.at(asked["project"]),
        auditor,
        Places(asked["project"], ignored=asked["ignored"]),
        session=asked["session"],
        tell=tell,
    )
    auditor.start(
        asked["pid"],
        Step(None),
        listener=None,
        mechanism="audit hook",
        ignored=asked["ignored"],
        startup=asked["startup"],
        import_folders=asked["import_folders"],
    )
    threading.Thread(target=_read, args=(link, scribe.take, jobs), daemon=True).start()
    threading.Thread(target=_watch, args=(link, asked["pid"]), daemon=True).start()
    while not scribe.has_failed and (job := jobs.get()) is not None:
        job()
    deadline = time.monotonic() + _LAST_WAIT_S
    while scribe.is_waiting and (left := deadline - time.monotonic()) > 0:
        with suppress(queue.Empty):
            (jobs.get(timeout=left) or look)()
    link.close()


def _read(
    link: socket.socket,
    take: Callable[[dict[str, Any]], None],
    jobs: queue.SimpleQueue[Callable[[], None] | None],
) -> None:
    """Have each line taken, then tell that there are no more."""
    with suppress(OSError), link.makefile("rb") as lines:
        for line in lines:
            if line.endswith(b"\n"):
                jobs.put(partial(take, json.loads(line)))
    jobs.put(None)


def _watch(link: socket.socket, pid: int) -> None:
    """End the reading when the kernel has ended: a process it has forked may hold the other end."""
    if wait_for_end(pid):
        with suppress(OSError):
            link.shutdown(socket.SHUT_RD)


if __name__ == "__main__":
    main(int(sys.argv[1]), json.loads(sys.argv[2]))
