"""What is done on a host of a cluster for a sweep: some of its versions are recorded.

A host gets a copy of the project folder, and has a catalog of its own there; what it has recorded
is fetched from it version by version.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from chexpoint.errors import CatalogError
from chexpoint.model import Bytes, Digest, Seconds
from chexpoint.project.batch import Batch, VersionRun
from chexpoint.project.batch_plan import VersionTask
from chexpoint.project.carrying import CarriedVersion, pick_up
from chexpoint.project.project import Project
from chexpoint.project.sweep import Turn, in_turns
from chexpoint.replay import Cargo, Desk, HostFacts, HostFiles, aboard_of, settled, watched

_MOST_BACK = 64 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepLoad:
    """What all hosts have to know; sent to each once."""

    folder: Path
    """The project, where the versions are wanted."""
    files: Mapping[str, tuple[Digest, int]]
    """What is in the folder: contents and mode by relative path."""
    cargo: Cargo
    tasks: tuple[VersionTask, ...]
    timeout_s: Seconds | None
    is_sharing: bool
    settings: Mapping[str, str]
    """What is set for the project, as environment variables."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A version that a host has recorded."""

    task: int
    run: VersionRun
    versions: tuple[CarriedVersion, ...]
    contents: Mapping[Digest, bytes]
    why_not_shared: str


@dataclass(slots=True)
class _Group:
    """The versions of one engine, for those who call while they are recorded."""

    waiting: deque[int]
    done: list[Arrival] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)


_groups: dict[tuple[str, str, int], _Group] = {}


def board_sweep(topic: str, data: bytes) -> HostFacts:
    """Take in what a sweep needs, and tell what this host is like.

    Raises
    ------
    StoreError
        If the store cannot be read from here.
    """
    return settled(Desk(topic), data, lambda load, files, folder: None)


def record_group(
    topic: str, number: int, tasks: tuple[int, ...], cores: frozenset[int], budget: Bytes
) -> tuple[Arrival, ...]:
    """Record versions, one after the other, in an engine of their own.

    Returns
    -------
    tuple[Arrival, ...]
        Those that were not collected before.

    Raises
    ------
    ClusterError
        If this worker has never heard of the sweep.
    EngineError
        If no engine can be started.
    """
    desk = Desk(topic)
    aboard = aboard_of(desk)
    load: SweepLoad = aboard.load
    key = topic, desk.address, number
    group = _groups[key] = _Group(deque(tasks))
    base = Path(tempfile.mkdtemp(prefix="record-", dir=aboard.folder))
    try:
        folder = base / load.folder.name
        _lay_out(load, aboard.files, folder)
        guest = aboard.guest(desk, cores)
        with Batch(timeout_s=load.timeout_s, guest=guest, budget_bytes=budget) as batch:
            with watched(desk, batch, lambda: None):
                _record(desk, load, group, number, batch, folder)
            batch.kill()
        return collect_recorded(topic, desk.address, number)
    finally:
        del _groups[key]
        shutil.rmtree(base, ignore_errors=True)


def _record(
    desk: Desk, load: SweepLoad, group: _Group, number: int, batch: Batch, folder: Path
) -> None:
    project = Project.at(folder)
    # Once for all, so that versions of one file are known to be that.
    moved = _moved(load, folder)
    carried: set[int] = set()
    turns = {id(turn.task): turn for turn in _turns(moved, group.waiting, load.is_sharing)}
    while not batch.is_interrupted:
        with group.lock:
            if not group.waiting:
                break
            at = group.waiting.popleft()

        def progress(done: int, total: int, at: int = at) -> None:
            desk.say(json.dumps({"group": number, "task": at, "done": done, "of": total}))

        before = len(project.versions())
        run = batch.record(moved[at], progress, keep=turns[id(moved[at])].keep)
        versions = []
        for version in project.versions()[before:]:
            versions.append(pick_up(project, version, carried))
            carried.update(cell.execution for cell in versions[-1].cells)
        arrival = Arrival(
            task=at,
            run=replace(run, task=load.tasks[at]),
            versions=tuple(versions),
            contents=_contents(project, versions),
            why_not_shared=batch.why_not_shared if turns[id(moved[at])].keep else "",
        )
        with group.lock:
            group.done.append(arrival)
        desk.say(json.dumps({"group": number, "task": at, "is_recorded": True}))


def collect_recorded(topic: str, address: str, number: int) -> tuple[Arrival, ...]:
    """Return the versions that a group has recorded since the last call."""
    group = _groups.get((topic, address, number))
    if group is None:
        return ()
    with group.lock:
        done, group.done = group.done, []
    return tuple(done)


def _turns(
    tasks: tuple[VersionTask, ...], chosen: deque[int], is_sharing: bool
) -> tuple[Turn, ...]:
    mine = [tasks[at] for at in chosen]
    return in_turns(mine) if is_sharing else tuple(Turn(task) for task in mine)


def _moved(load: SweepLoad, folder: Path) -> tuple[VersionTask, ...]:
    """Return the versions as they are in another folder."""
    files = {id(task.file): task.file for task in load.tasks}
    there = {
        ident: replace(file, path=folder / os.path.relpath(file.path, load.folder))
        for ident, file in files.items()
    }
    return tuple(
        replace(task, file=there[id(task.file)], folder=folder.resolve()) for task in load.tasks
    )


def _lay_out(load: SweepLoad, files: HostFiles, folder: Path) -> None:
    folder.mkdir()
    for name, (digest, mode) in load.files.items():
        path = files.find(name, digest)
        if path is None:
            raise CatalogError(f"{name} did not arrive")
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        target.chmod(mode)


def _contents(project: Project, versions: list[CarriedVersion]) -> dict[Digest, bytes]:
    """Return what versions have written, as far as it was kept and is not too much."""
    found: dict[Digest, bytes] = {}
    size = 0
    for digest in sorted({digest for version in versions for digest in version.contents()}):
        path = project.kept_file(digest)
        if path is not None and size + path.stat().st_size <= _MOST_BACK:
            found[digest] = path.read_bytes()
            size += len(found[digest])
    return found
