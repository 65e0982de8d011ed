"""What is done on a host of a cluster for a replay in hindsight: a part of a loop.

A host gets what was recorded of the loops, and the images of their states, which it keeps in a
store of its own: nobody else's signature has to be trusted there.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from chexpoint.config import Config
from chexpoint.errors import ClusterError, StoreError, UnknownImage
from chexpoint.hindsight import images_of_run
from chexpoint.model import Bytes, Digest, Recording, format_size
from chexpoint.replay.cluster import Desk
from chexpoint.replay.cluster_cargo import MOST_THROUGH_DASK, Cargo, HostFiles, load_cargo, stow
from chexpoint.replay.cluster_hosts import HostFacts
from chexpoint.replay.cluster_part import aboard_of, settled, watched
from chexpoint.replay.cluster_states import pack_image, unpack_image
from chexpoint.replay.files import FileSource
from chexpoint.replay.hindsight_lane import HindsightLane, Outcome
from chexpoint.replay.hindsight_values import HindsightPlan, Probe
from chexpoint.replay.hindsight_world import RecordedWorld

_RUNS, _STORE = "runs", "store"


@dataclass(frozen=True, slots=True, kw_only=True)
class HindsightLoad:
    """What all probes of a replay have in common; sent to each host once."""

    plan: HindsightPlan
    recording: Recording
    cargo: Cargo
    runs: Mapping[str, Mapping[str, bytes]]
    """The files of the folders of runs, by the names of those."""
    images: Mapping[str, Digest]
    """What each image is in the cargo."""
    settings: Mapping[str, str]
    """What is set where the replay was started, as environment variables."""


def hindsight_load(
    plan: HindsightPlan, recording: Recording, files: FileSource, images: str, store: str | None
) -> HindsightLoad:
    """Return everything that hosts need.

    Parameters
    ----------
    images
        The store that has the images of loops.
    store
        What all hosts see, if anything.

    Raises
    ------
    ClusterError
        If it is too much to travel without a store.
    """
    folders = [cell.folder for cell in plan.cells if cell.folder is not None]
    cargo = load_cargo(recording, files, store)
    with tempfile.TemporaryDirectory(prefix="chex-images-") as folder:
        known: dict[str, Digest] = {}
        paths: dict[Digest, Path] = {}
        size: Bytes = sum(map(len, cargo.contents.values()))
        for name, digest, data in _images(images, folders):
            known[name] = digest
            size += len(data)
            if store is None and size > MOST_THROUGH_DASK:
                raise ClusterError(
                    f"the states of the loops take more than {format_size(MOST_THROUGH_DASK)}, too "
                    "much to send through Dask: name a folder or a URL that all hosts see with "
                    "--store"
                )
            paths[digest] = Path(folder, digest)
            paths[digest].write_bytes(data)
        cargo = stow(cargo, paths)
    return HindsightLoad(
        plan=plan,
        recording=recording,
        cargo=cargo,
        runs={
            folder.name: {
                each.name: each.read_bytes() for each in folder.iterdir() if each.is_file()
            }
            for folder in folders
        },
        images=known,
        settings=Config(None, os.environ).for_elsewhere(),
    )


def _images(where: str, folders: list[Path]) -> Iterator[tuple[str, Digest, bytes]]:
    """Yield the images of runs, as bytes."""
    for name in sorted({name for folder in folders for name in images_of_run(folder)}):
        with contextlib.suppress(UnknownImage):  # it was swept: the state is computed instead
            yield name, *pack_image(where, name)


# ---------------------------------------------------------------- on the host


def board_hindsight(topic: str, data: bytes) -> HostFacts:
    """Take in what a replay needs, and tell what this host is like.

    Raises
    ------
    StoreError
        If the store cannot be read from here.
    """
    return settled(Desk(topic), data, _unpack)


def _unpack(load: HindsightLoad, files: HostFiles, folder: Path) -> None:
    for name, contents in load.runs.items():
        run = folder / _RUNS / name
        run.mkdir(parents=True, mode=0o700)
        for file, data in contents.items():
            (run / file).write_bytes(data)
    for name, digest in load.images.items():
        path = files.find(name, digest)
        if path is None:
            raise StoreError(f"image '{name}' is not there")
        unpack_image(str(folder / _STORE), name, path.read_bytes())
        path.unlink()


def run_probe(topic: str, number: int, probe: Probe, cores: frozenset[int]) -> Outcome:
    """Replay a part of a loop; how many iterations are done is said on the way.

    Raises
    ------
    ClusterError
        If this worker has never heard of the replay.
    """
    desk = Desk(topic)
    aboard = aboard_of(desk)
    load: HindsightLoad = aboard.load
    folder = Path(tempfile.mkdtemp(prefix="probe-", dir=aboard.folder))
    try:
        lane = HindsightLane(
            _moved(load.plan, aboard.folder / _RUNS),
            probe,
            RecordedWorld(load.recording, aboard.files),
            base=folder,
            store=str(aboard.folder / _STORE),
            guest=aboard.guest(desk, cores),
        )
        told = 0

        def flush() -> None:
            nonlocal told
            if (done := lane.iterations_done()) != told:
                told = done
                desk.say(json.dumps({"probe": number, "done": done}))

        with watched(desk, lane, flush):
            return lane.run()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _moved(plan: HindsightPlan, runs: Path) -> HindsightPlan:
    """Return a plan whose runs are in another folder."""
    cells = (
        cell if cell.folder is None else replace(cell, folder=runs / cell.folder.name)
        for cell in plan.cells
    )
    return replace(plan, cells=tuple(cells))
