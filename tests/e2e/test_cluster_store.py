"""Inputs and states travel between the hosts of a cluster through a store: a folder, a bucket."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from chexpoint.model import ExecutionTree, Recording, ReplayProgress
from chexpoint.project import Project, ProjectFiles, recording_of
from chexpoint.replay import ClusterReplayer
from tests.support.dask_cluster import DaskCluster
from tests.support.processes import wait_until
from tests.support.s3_server import BUCKET, s3_server
from tests.support.studies import record, statuses

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

PREFIX_S = 6.0
LEAF_S = 3.0
BEGIN = "import os, time\nrows = [float(x) for x in open('data.txt')]"
VERSIONS = {f"v{leaf}": [BEGIN, f"print(sum(rows) + {leaf})"] for leaf in range(4)}


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with s3_server() as server:
        for name, value in server.settings.items():
            monkeypatch.setenv(name, value)  # workers have it, too
        yield f"s3://{BUCKET}/lab"
    fsspec.get_filesystem_class("s3").clear_instance_cache()


def slowed(recording: Recording, hold: Path) -> Recording:
    """Return a recording with a long beginning, and cells after it that wait for a file to go."""
    wait = f"while os.path.exists({str(hold)!r}): time.sleep(0.01)"
    (first,) = {version.path[0] for version in recording.tree.versions}
    nodes, cells = [], dict(recording.cells)
    for node in recording.tree.nodes.values():
        is_first = node.id == first
        lineage = cells[node.id].lineage
        source = f"{lineage.source}\ntime.sleep({PREFIX_S})" if is_first else lineage.source
        source = source if is_first else f"{wait}\n{source}"
        changed = dataclasses.replace(lineage, source=source)
        cells[node.id] = dataclasses.replace(cells[node.id], lineage=changed)
        nodes.append(dataclasses.replace(node, cost=PREFIX_S if is_first else LEAF_S))
    tree = ExecutionTree(nodes, recording.tree.versions)
    return dataclasses.replace(recording, tree=tree, cells=cells)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("study")
    (folder / "data.txt").write_text("1.5\n2.5\n")
    return record(folder, VERSIONS)


def test_inputs_come_from_a_bucket(project: Project, tmp_path: Path, bucket: str) -> None:
    with DaskCluster(tmp_path) as cluster:
        cluster.start_worker("far")
        cluster.wait(1)
        done = ClusterReplayer(
            recording_of(project), ProjectFiles(project), cluster=cluster.address, store=bucket
        ).run()
    assert statuses(done) == {name: ["same", "same"] for name in VERSIONS}
    # The input, and what hosts try out how far the bucket is.
    assert len(fsspec.filesystem("s3", use_listings_cache=False).find(bucket)) == 2


def test_a_host_that_comes_late_loads_what_another_one_has_computed(
    project: Project, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    hold = tmp_path / "hold"
    hold.touch()
    recording = slowed(recording_of(project), hold)
    (first,) = {version.path[0] for version in recording.tree.versions}
    with DaskCluster(tmp_path) as cluster:
        cluster.start_worker("early")
        cluster.wait(1)
        before: list[int] = []

        def in_store() -> int:
            return sum(path.is_file() for path in store.rglob("*"))

        def start_another() -> None:
            # The state is all that comes after the inputs.
            if wait_until(lambda: in_store() > before[0], timeout_s=60):
                cluster.start_worker("late")
            else:
                hold.unlink()

        other = threading.Thread(target=start_another)

        def watch(progress: ReplayProgress) -> None:
            if progress.kind == "begin":
                before.append(in_store())
                other.start()
            elif progress.kind == "note" or progress.host.endswith("late"):
                hold.unlink(missing_ok=True)

        done = ClusterReplayer(
            recording,
            ProjectFiles(project),
            cluster=cluster.address,
            store=str(store),
            watch=watch,
        ).run()
        other.join()
    assert statuses(done) == {name: ["same", "same"] for name in VERSIONS}
    assert done.cells[first].computed == 1
    assert any("was loaded from the store" in note for note in done.notes)
    assert len(done.hosts) == 2
