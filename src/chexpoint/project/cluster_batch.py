"""Records the versions of a sweep on the hosts of a Dask cluster."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import xxhash

from chexpoint.config import Config
from chexpoint.errors import ChexError, ClusterError, InvalidValue
from chexpoint.model import CellError, Digest, Seconds
from chexpoint.project.batch import CellRun, VersionRun
from chexpoint.project.batch_plan import VersionTask
from chexpoint.project.carrying import Importer
from chexpoint.project.cluster_record import (
    Arrival,
    SweepLoad,
    board_sweep,
    collect_recorded,
    record_group,
)
from chexpoint.project.project import Project
from chexpoint.project.sweep import divide
from chexpoint.replay import Cluster, Crew, Said, Seat, Wanted, cargo_of

_TICK_S: Seconds = 0.25
_LOOK_S: Seconds = 1.0
_MOST_LOSSES = 2
_MOST_FILES = 20_000
# Nothing that cells read is in there, and much else.
_SKIPPED = {"__pycache__", "node_modules", "site-packages"}


@dataclass(slots=True)
class _Group:
    seat: Seat
    tasks: tuple[int, ...]
    importer: Importer
    running: int | None = None


class ClusterBatch:
    """Records versions of one project; to be used by one thread.

    Parameters
    ----------
    where
        The address of a Dask scheduler, a cluster or client object, or how many workers to start in
        this process.
    store
        A folder or a URL that all hosts see, for files that are too large to be sent through Dask.
    recorded
        Called with each version, as it comes.
    progress
        Called before each cell and after the last one of a version.
    note
        Called with what the user should know.
    """

    def __init__(
        self,
        where: object,
        *,
        store: str | None = None,
        timeout_s: Seconds | None = None,
        is_sharing: bool = True,
        recorded: Callable[[VersionRun], None],
        progress: Callable[[VersionTask, int, int], None],
        note: Callable[[str], None],
    ) -> None:
        self._where, self._store = where, store
        self._timeout_s, self._is_sharing = timeout_s, is_sharing
        self._recorded, self._progress, self._note = recorded, progress, note
        self._tasks: tuple[VersionTask, ...] = ()
        self._open: set[int] = set()
        self._ready: deque[tuple[int, ...]] = deque()
        self._groups: dict[int, _Group] = {}
        self._losses: dict[int, int] = {}
        self._noted: set[str] = set()
        self.is_interrupted = False
        """Whether `interrupt` was called."""

    def interrupt(self) -> None:
        """Interrupt the running cells and run no other; may be called from a signal handler."""
        self.is_interrupted = True

    def record(self, tasks: Sequence[VersionTask]) -> None:
        """Record versions, whose names are to be unlike one another.

        Raises
        ------
        ClusterError
            If the cluster cannot be used, or is lost.
        CatalogError
            If they cannot be recorded here.
        """
        tasks = [task for task in tasks if task.cells()]
        if not tasks:
            return
        folder = _one_folder(tasks)
        self._tasks = tuple(tasks)
        self._open = set(range(len(tasks)))
        project = Project.at(folder)
        project.prepare()  # before hours of work that could not be recorded
        load = self._load(folder)
        with Cluster(self._where, f"sweep-{uuid.uuid4().hex}") as cluster:
            crew = Crew(
                cluster,
                Wanted.here(folder),
                load,
                board=board_sweep,
                largest=0,
                budget=Config.at(folder).size("budget"),
                most=None,
                note=self._tell_once,
            )
            try:
                crew.gather()
                self._divide(len(crew.seats))
                self._work(cluster, crew, project)
            finally:
                if not cluster.is_lost:
                    with contextlib.suppress(ChexError):
                        crew.part_ways()

    def _load(self, folder: Path) -> SweepLoad:
        found: dict[Digest, Path] = {}
        files: dict[str, tuple[Digest, int]] = {}
        for path in _files(folder):
            digest = _digest(path)
            found[digest] = path
            files[os.path.relpath(path, folder)] = digest, path.stat().st_mode & 0o777
        return SweepLoad(
            folder=folder,
            files=files,
            cargo=cargo_of(found, self._store),
            tasks=_absolute(self._tasks),
            timeout_s=self._timeout_s,
            is_sharing=self._is_sharing,
            settings=Config.at(folder).for_elsewhere(),
        )

    # ------------------------------------------------------------ work

    def _divide(self, engines: int) -> None:
        """Share out the versions that nobody has."""
        held = {at for group in self._groups.values() for at in group.tasks}
        held |= {at for tasks in self._ready for at in tasks}
        loose = [at for at in sorted(self._open) if at not in held]
        number = {id(self._tasks[at]): at for at in loose}
        mine = [self._tasks[at] for at in loose]
        if not mine:
            return
        if self._is_sharing:
            groups = divide(mine, max(1, engines))
            self._ready.extend(tuple(number[id(task)] for task in group) for group in groups)
        else:
            self._ready.extend((at,) for at in loose)

    def _work(self, cluster: Cluster, crew: Crew, project: Project) -> None:
        looked = time.monotonic()
        while self._open and not self.is_interrupted:
            busy = {group.seat.number for group in self._groups.values()}
            for seat in (s for n, s in sorted(crew.seats.items()) if n not in busy):
                if self._ready:
                    self._start(cluster, crew, seat, project)
            timeout = _TICK_S
            while (event := cluster.next_event(timeout)) is not None:
                timeout = 0.0
                if isinstance(event, Said):
                    self._said(json.loads(event.text), cluster)
                elif event.job in self._groups:
                    self._ended(event.job, cluster, crew)
            if time.monotonic() - looked > _LOOK_S:
                looked = time.monotonic()
                self._look(cluster, crew)

    def _start(self, cluster: Cluster, crew: Crew, seat: Seat, project: Project) -> None:
        tasks = self._ready.popleft()
        job = crew.new_job()
        self._groups[job] = _Group(seat, tasks, Importer(project))
        cluster.start(job, seat.host.member, record_group, job, tasks, seat.cores, seat.budget)

    def _said(self, told: dict[str, Any], cluster: Cluster) -> None:
        group = self._groups.get(told["group"])
        if group is None:
            return
        if "is_recorded" not in told:
            group.running = told["task"]
            self._progress(self._tasks[told["task"]], told["done"], told["of"])
            return
        group.running = None
        with contextlib.suppress(ClusterError):  # then its job ends, too
            for arrival in cluster.call(group.seat.host.member, collect_recorded, told["group"]):
                self._arrived(group, arrival)

    def _arrived(self, group: _Group, arrival: Arrival) -> None:
        task = self._tasks[arrival.task]
        number: int | None = None
        with tempfile.TemporaryDirectory(prefix="chex-sweep-") as folder:

            def find(digest: Digest) -> Path | None:
                data = arrival.contents.get(digest)
                if data is None:
                    return None
                path = Path(folder, digest)
                path.write_bytes(data)
                return path

            for version in arrival.versions:
                found, missing = group.importer.add(version, find)
                if version.name == task.name:
                    number = found
                if missing:
                    self._tell_once(
                        f"{', '.join(missing[:3])}: what {version.name} has written there stayed "
                        f"on host {group.seat.host.name}: it is too large to be brought back"
                    )
        self._open.discard(arrival.task)
        host = group.seat.host.name
        self._recorded(replace(arrival.run, task=task, number=number, host=host))
        if arrival.why_not_shared:
            self._tell_once(
                f"{task.file.path}: what its versions begin with is run for each of them: "
                f"{arrival.why_not_shared}"
            )

    def _ended(self, job: int, cluster: Cluster, crew: Crew) -> None:
        group = self._groups[job]
        try:
            for arrival in cluster.result(job):
                self._arrived(group, arrival)
        except (ChexError, OSError) as error:
            self._lose(group.seat, str(error), cluster, crew)
            return
        del self._groups[job]
        left = [at for at in group.tasks if at in self._open]
        if left and not self.is_interrupted:  # what it has said was lost on the way
            self._ready.append(tuple(left))

    # ------------------------------------------------------------ losses

    def _look(self, cluster: Cluster, crew: Crew) -> None:
        seats = list(crew.seats.values())
        if cluster.is_lost:
            raise ClusterError(f"the scheduler {cluster.address} is lost: {self._rest()}")
        for address in crew.look_again():
            self._lose(
                next(s for s in seats if s.host.member.address == address),
                "it is gone",
                cluster,
                crew,
            )
        if not crew.seats and self._open:
            raise ClusterError(f"no host of {cluster.address} is left: {self._rest()}")

    def _rest(self) -> str:
        return f"{len(self._open)} of {len(self._tasks)} versions are not recorded"

    def _lose(self, seat: Seat, why: str, cluster: Cluster, crew: Crew) -> None:
        """Have others do what a host has not done."""
        address = seat.host.member.address
        crew.dismiss(address)
        self._note(f"host {seat.host.name} is lost, and what it had is given to others: {why}")
        for job, group in list(self._groups.items()):
            if group.seat.host.member.address != address:
                continue
            del self._groups[job]
            cluster.stop(job)  # whoever is given up may still be at it
            if group.running is not None:
                self._count_loss(group.running, why)
        self._divide(len(crew.seats))

    def _count_loss(self, at: int, why: str) -> None:
        """A version was running when its host was lost: it may be what has ended it."""
        self._losses[at] = self._losses.get(at, 0) + 1
        if self._losses[at] < _MOST_LOSSES:
            return
        self._open.discard(at)
        task = self._tasks[at]
        error = CellError(ename="ClusterError", evalue=f"each host was lost ({why})", traceback=())
        failed = CellRun(cell=task.cells()[0], node=None, seconds=0.0, error=error)
        self._recorded(
            VersionRun(task=task, status="error", cells=(failed,), seconds=0.0, number=None)
        )

    def _tell_once(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self._note(text)


# ---------------------------------------------------------------- the folder


def _one_folder(tasks: Sequence[VersionTask]) -> Path:
    folders = {task.folder for task in tasks}
    if len(folders) > 1:
        raise InvalidValue(
            "on a cluster, files of one folder are recorded at a time: give those of one, or name "
            "their project with --project"
        )
    (folder,) = folders
    for task in tasks:
        if task.place.startswith(".."):
            raise InvalidValue(
                f"{task.file.path} is not in {folder}, so hosts of a cluster cannot have it: name "
                "a folder above it with --project"
            )
    return folder


def _absolute(tasks: Sequence[VersionTask]) -> tuple[VersionTask, ...]:
    """Return versions whose files are known wherever one is; those of one file stay that."""
    files = {id(task.file): task.file for task in tasks}
    there = {
        ident: replace(file, path=Path(os.path.realpath(file.path.parent), file.path.name))
        for ident, file in files.items()
    }
    return tuple(replace(task, file=there[id(task.file)]) for task in tasks)


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a project: what cells may read.

    Raises
    ------
    ClusterError
        If there are too many.
    """
    count = 0
    for at, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".")
            and name not in _SKIPPED
            and not os.path.exists(os.path.join(at, name, "pyvenv.cfg"))
        )
        for name in sorted(names):
            path = Path(at, name)
            if path.is_file():
                count += 1
                if count > _MOST_FILES:
                    raise ClusterError(
                        f"{folder} has more than {_MOST_FILES} files, too many to send to hosts: "
                        "move the notebook and what it reads to a folder of their own"
                    )
                yield path


def _digest(path: Path) -> Digest:
    hasher = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(2**20):
            hasher.update(chunk)
    return hasher.hexdigest()
