"""Audits one worker: threads that serve its system calls, and the cells they belong to.

Routing and auditing never wait for each other.  The supervisor's loop only
leaves commands here; whoever looks at the next system call carries them out
first, so a call always falls into the right cell.  A call that has to wait for
a digest waits alone: nothing else does.

Threads, all of them daemons: a *receiver* for each filter, a *clerk* that
finishes the notes of ended cells, and those of `Fingerprints`.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from chexpoint.lineage.calls import Calls, Seen
from chexpoint.lineage.cell_log import CellLog, conclude
from chexpoint.lineage.environment import Environment
from chexpoint.lineage.files import Files
from chexpoint.lineage.fingerprint import Fingerprints, Job, Reading, signature_of
from chexpoint.lineage.hooked import add_report
from chexpoint.lineage.places import Places
from chexpoint.lineage.processes import Process
from chexpoint.lineage.records import Records
from chexpoint.lineage.seccomp import Listener, Notification
from chexpoint.lineage.syscalls import architecture
from chexpoint.lineage.trail import Cell, Step, conclude_step
from chexpoint.model import CellAudit, CellLineage, Digest, Mechanism

_T = TypeVar("_T")

# A file server that has not answered by then is not waited for.
_PATIENCE_S = 5.0
_LOOK_AGAIN_S = 0.5
_SOON_S = 0.02
_NOT_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:")


@dataclass(frozen=True, slots=True)
class Audited:
    """The audit of one cell has come to its end."""

    step: Step
    lineage: CellLineage
    needed_privileges: tuple[str, ...]
    """Programs, such as sudo, that the audit kept from gaining rights."""


@dataclass(slots=True)
class _Ending:
    log: CellLog
    cell: Cell
    mechanism: Mechanism
    deadline: float


class Auditor:
    """Audits whatever process is the worker.

    All public methods are for the supervisor's loop, and none waits.

    Parameters
    ----------
    project
        The folder that names are relative to.
    wake
        Called by a thread when `take_audited` has something.
    cache_folder
        Where fingerprints are kept for the next kernel.
    hash_seed
        See `Environment`.
    """

    def __init__(
        self,
        project: str,
        *,
        wake: Callable[[], None],
        cache_folder: str | None = None,
        hash_seed: str | None = None,
    ) -> None:
        self.mechanism: Mechanism = "off"
        self._places = Places(project)
        records = Records(cache_folder)
        self._environment = Environment(records=records.load(), hash_seed=hash_seed)
        self._records = records
        self._prints = Fingerprints(self._job_done, records.path("fingerprints.sqlite"))
        self._files = Files(self._places, self._prints)
        arch = architecture()
        self._calls = Calls(arch, self._files) if arch is not None else None
        self._wake = wake
        self._lock = threading.Lock()
        self._inbox: deque[Callable[[], None]] = deque()
        self._bell = threading.Semaphore(0)
        self._waiting: list[tuple[Job, Listener, Notification]] = []
        self._endings: deque[_Ending] = deque()
        self._audited: deque[Audited] = deque()
        self._listeners: list[Listener] = []
        self._own_files: frozenset[str] = frozenset()
        self._is_aside = False
        self._has_rung = False
        threading.Thread(target=self._clerk, name="chex-clerk", daemon=True).start()

    # ------------------------------------------------------------ for the supervisor's loop

    def start(
        self,
        pid: int,
        step: Step,
        *,
        listener: int | None,
        gave_up_privileges: bool = False,
        mechanism: Mechanism,
        ignored: Iterable[str] = (),
        startup: Iterable[str] = (),
        import_folders: Iterable[str] = (),
    ) -> None:
        """A fresh worker has started; ``listener`` is that of its filter, if it has one."""
        self.mechanism = mechanism
        ignored = tuple(ignored)
        self._own_files = frozenset(os.path.realpath(path) for path in ignored)
        receiver = Listener(listener) if listener is not None else None
        if receiver is not None:
            self._listeners.append(receiver)

        def command() -> None:
            self._environment.startup = tuple(startup)
            self._places.ignore(ignored)
            self._files.folders.forget()
            if self._calls is not None:
                self._calls.gave_up_privileges = gave_up_privileges
                self._calls.processes.import_folders = frozenset(
                    os.fsencode(os.path.realpath(folder))
                    for folder in (self._places.project, *import_folders)
                )
            self._become(pid, step)

        self._post(command)
        if receiver is not None:
            threading.Thread(
                target=self._receive, args=(receiver,), name="chex-audit", daemon=True
            ).start()

    def switch(self, pid: int, step: Step) -> None:
        """Another process, restored from a checkpoint, is the worker now."""
        self._post(lambda: self._become(pid, step))

    def begin(self, step: Step) -> None:
        """A cell is about to be given to the worker."""
        self._post(lambda: self._begin(step))

    def aside(self, on: bool) -> None:
        """The worker does something for a front end, such as completing a name, or no longer."""
        self._post(lambda: setattr(self, "_is_aside", on))

    def end(self, cell: Cell) -> None:
        """The cell has ended; its lineage will be among those of `take_audited`."""
        self._post(lambda: self._end(cell))

    def discard(self) -> None:
        """What was begun is no cell of the user's: forget what it did."""
        self._post(self._discard)

    def take_audited(self) -> list[Audited]:
        """Return the audits that have come to their end since the last call."""
        return _taken(self._audited)

    def take_written(self) -> list[tuple[str, os.stat_result | None]]:
        """Return the paths that were changed since the last call, as they were before."""
        return _taken(self._files.written)

    def used(self) -> list[str]:
        """Return the paths that cells have read or changed so far, or many of them."""
        return list(self._files.used)

    @property
    def is_busy(self) -> bool:
        """Whether the audit of some cell that has ended is still under way."""
        return bool(self._inbox or self._endings)

    def listeners(self) -> list[int]:
        """Return the descriptors through which system calls are let go."""
        return [listener.fileno() for listener in self._listeners]

    def _post(self, command: Callable[[], None]) -> None:
        self._inbox.append(command)
        self._bell.release()

    # ------------------------------------------------------------ commands, under the lock

    def _drain(self) -> None:
        while self._inbox:
            try:
                self._inbox[0]()
            except Exception as error:  # whatever is wrong, the worker must not hang
                self._failed(error)
            self._inbox.popleft()  # only now: `is_busy` must not miss what is being done

    def _become(self, pid: int, step: Step) -> None:
        self._flush()
        if self._calls is not None:
            self._calls.processes.set_worker(pid)
        self._files.log = CellLog(step)
        self._is_aside = False

    def _begin(self, step: Step) -> None:
        self._flush()
        self._files.folders.look_at_mounts()
        self._files.log.begin(step)

    def _discard(self) -> None:
        self._flush()
        self._files.log = CellLog(self._files.log.step.parent or self._files.log.step)

    def _end(self, cell: Cell) -> None:
        self._flush()
        log = self._files.log
        try:
            if self.mechanism == "audit hook":
                add_report(self._files, cell.report)
            elif self.mechanism == "off":
                log.gap("auditing is off (CHEX_AUDIT=off)")
            self._files.add_looks(cell.report.get("looks", ()))
            open_files = self._open_files()
            self._files.look_at_held(open_files)
            self._files.settle({path for path, writing in open_files.items() if writing})
            self._look_for_background(log)
        except Exception as error:
            self._failed(error)
        self._prints.rush()
        self._files.log = CellLog(log.step)
        deadline = time.monotonic() + _PATIENCE_S
        self._endings.append(_Ending(log, cell, self.mechanism, deadline))

    def _look_for_background(self, log: CellLog) -> None:
        if self._calls is not None:
            alive = self._calls.processes.forget_dead()
            for process in alive:
                command = _command(process)
                if "resource_tracker" not in command:  # it only cleans up
                    log.hint("background", f"process {process.name} still runs: {command}")
            self._calls.processes.restart_names(alive)

    def _open_files(self) -> dict[str, bool]:
        """Return the files that the worker has open, and whether for writing."""
        pid = self._calls.processes.worker.pid if self._calls is not None else 0
        found: dict[str, bool] = {}
        try:
            for name in os.listdir(f"/proc/{pid}/fd"):
                path = os.readlink(f"/proc/{pid}/fd/{name}")
                is_file = path.startswith("/") and not path.startswith(_NOT_FILES)
                if is_file and path not in self._own_files:
                    with open(f"/proc/{pid}/fdinfo/{name}", "rb") as file:
                        flags = int(file.read().split(b"flags:", 1)[1].split(None, 1)[0], 8)
                    found[path] = found.get(path, False) or bool(flags & os.O_ACCMODE)
        except (OSError, ValueError, IndexError):
            pass  # it is ending
        return found

    # ------------------------------------------------------------ system calls

    def _receive(self, listener: Listener) -> None:
        poll = select.poll()
        poll.register(listener.fileno(), select.POLLIN)
        while True:
            call = listener.receive()
            if call is None:
                if any(event & select.POLLHUP for _, event in poll.poll(0)):
                    break  # no process is left under this filter
                continue
            with self._lock:
                if self._inbox:
                    self._drain()
                self._serve(listener, call)
        self._listeners.remove(listener)
        listener.close()

    def _serve(self, listener: Listener, call: Notification) -> None:
        """Look at a waiting call and let it go; its caller must never be left waiting."""
        verdict = None
        try:
            verdict = self._handle(call)
        except Exception as error:
            self._failed(error)
        if isinstance(verdict, Job):
            self._waiting.append((verdict, listener, call))
            self._bell.release()
            return
        listener.let_go(call[0])
        try:
            self._look(verdict)
        except Exception as error:
            self._failed(error)

    def _handle(self, call: Notification) -> Seen | Job | None:
        calls = self._calls
        if calls is None:
            return None
        process = calls.processes.find(call[1]) or calls.processes.add(call[1])
        if process.is_ours or (self._is_aside and process is calls.processes.worker):
            return None
        return calls.handle(process, call)

    def _look(self, verdict: Seen | None) -> None:
        """Look at what a call reads that has been let go, or see to it that somebody will."""
        calls = self._calls
        if calls is None:
            return
        if verdict is not None:
            calls.look(verdict)
        elif calls.has_many:
            calls.flush()
        elif calls.waiting_since and not self._has_rung:
            self._has_rung = True
            self._bell.release()

    def _failed(self, error: Exception) -> None:
        self._files.log.gap(f"CHEX could not follow what was done: {error!r}")

    def _job_done(self, job: Job) -> None:
        """Called by the threads that compute digests."""
        with self._lock:
            self._drain()
            self._finish_job(job)
        self._bell.release()

    def _finish_job(self, job: Job) -> None:
        self._files.done(job)
        for log in (self._files.log, *(ending.log for ending in self._endings)):
            log.pending.discard(job.reading)
        ready = [entry for entry in self._waiting if entry[0] is job]
        self._waiting = [entry for entry in self._waiting if entry[0] is not job]
        for _, listener, call in ready:
            self._serve(listener, call)

    # ------------------------------------------------------------ the clerk

    def _clerk(self) -> None:
        while True:
            self._bell.acquire(timeout=self._patience())
            with self._lock:
                self._drain()
                self._give_up_late()
                self._look_at_seen()
            while self._endings:
                ending = self._endings[0]
                if not self._is_complete(ending):
                    break
                self._conclude(ending)
                with self._lock:
                    self._endings.popleft()

    def _patience(self) -> float | None:
        if self._has_rung:
            return _SOON_S
        return _LOOK_AGAIN_S if self._waiting or self._endings else None

    def _look_at_seen(self) -> None:
        """Look at calls that were written down some time ago."""
        since = self._calls.waiting_since if self._calls is not None else 0
        if since and time.time_ns() - since >= _SOON_S * 1e9:
            self._flush()
        self._has_rung = bool(self._calls is not None and self._calls.waiting_since)

    def _flush(self) -> None:
        if self._calls is not None:
            try:
                self._calls.flush()
            except Exception as error:
                self._failed(error)

    def _give_up_late(self) -> None:
        """Let calls go that wait for a file server which does not answer."""
        now = time.monotonic()
        for job, _, _ in list(self._waiting):
            if not job.given_up and job.deadline and now > job.deadline + 1:
                job.given_up = True
                job.reading.digest = "unreadable"
                self._files.log.gap(f"{os.fsdecode(job.path)} could not be read in time")
                self._finish_job(job)

    def _is_complete(self, ending: _Ending) -> bool:
        pending = ending.log.pending
        if not pending:
            return True
        if time.monotonic() < ending.deadline or not all(r.is_far for r in list(pending)):
            return False
        with self._lock:
            late = [r for r in pending if r.is_far]
            for reading in late:
                reading.digest = "unreadable"
                pending.discard(reading)
        ending.log.gap("a file server did not answer: what was read from it is not known")
        return True

    def _conclude(self, ending: _Ending) -> None:
        log = ending.log
        packages = self._packages()
        try:
            audit = self._audit(ending, packages)
        except Exception as error:  # a cell without an audit is better than none at all
            audit = CellAudit(gaps=(f"CHEX could not conclude the audit: {error!r}",))
        lineage = conclude_step(log.step, ending.cell, audit, packages)
        self._audited.append(Audited(log.step, lineage, tuple(log.needed_privileges)))
        self._wake()

    def _audit(self, ending: _Ending, packages: Digest) -> CellAudit:
        log, parent = ending.log, ending.log.step.parent
        if parent is not None and parent.packages is None:
            parent.packages = packages  # the fresh interpreter
        before = parent.packages if parent is not None else packages
        with self._lock:
            later = [self._files.log, *(other.log for other in list(self._endings)[1:])]

        def changed(path: str, reading: Reading) -> bool:
            if reading.is_far or any(path in other.writes for other in later):
                return False
            try:
                return signature_of(os.lstat(path)) != reading.signature
            except OSError:
                return True

        return conclude(
            log,
            ending.cell.report,
            places=self._places,
            mechanism=ending.mechanism,
            packages=packages if packages != before else None,
            changed=changed,
        )

    def _packages(self) -> Digest:
        try:
            found = self._environment.fingerprint()
            self._records.save(self._environment.records)
        except Exception as error:
            return f"unknown: {error!r}"
        return found


def _taken(queue: deque[_T]) -> list[_T]:
    """Empty a queue that other threads add to."""
    found = []
    while queue:
        found.append(queue.popleft())
    return found


def _command(process: Process) -> str:
    try:
        with open(f"/proc/{process.pid}/cmdline", "rb") as file:
            words = os.fsdecode(file.read()).split("\0")
    except OSError:
        return "?"
    text = " ".join([os.path.basename(words[0]), *words[1:]]).strip()
    return text if len(text) <= 60 else text[:57] + "..."
