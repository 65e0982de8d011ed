"""Versions are replayed on the hosts of a Dask cluster, of real processes, whatever is killed."""

from __future__ import annotations

import dataclasses
import json
import platform
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chexpoint.errors import ClusterError, InvalidValue
from chexpoint.model import ExecutionTree, Replay, ReplayProgress
from chexpoint.project import Project, ProjectFiles, recording_of
from chexpoint.replay import ClusterReplayer, Replayer
from tests.support.dask_cluster import DaskCluster
from tests.support.processes import wait_until
from tests.support.studies import Events, record, replay, statuses

pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

BEGIN = "import random, os\nrandom.seed(3)\nrows = [float(x) for x in open('data.txt')]"
SPEND = "total = sum(rows)\nfor _ in range(3): total += sum(range(700_000))\ntotal"
# Two subtrees that take about as long, so that two hosts have something to do.
VERSIONS = {
    f"{tree}{leaf}": [
        BEGIN,
        f"{SPEND}\nname = '{tree}'",
        f"open('{tree}{leaf}.txt', 'w').write(name)\nprint(name, {leaf}, random.random())",
        f"{SPEND} + {leaf}",
    ]
    for tree in "ab"
    for leaf in range(2)
}
LONG_OUTPUT = "print('x' * 60_000)"
# What Dask sets for its own workers is not for cells.
SURROUNDINGS = "print(os.environ.get('OMP_NUM_THREADS'), {'a', 'b', 'c', 'd', 'e', 'f'})"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    folder = tmp_path_factory.mktemp("study")
    (folder / "data.txt").write_text("1.5\n2.5\n")
    return record(folder, {**VERSIONS, "long": [BEGIN, LONG_OUTPUT, SURROUNDINGS]})


@pytest.fixture(scope="module")
def local(project: Project) -> Replay:
    return replay(project)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    with DaskCluster(tmp_path_factory.mktemp("cluster")) as started:
        started.start_worker("alpha", has_nanny=True)
        started.start_worker("beta")
        started.wait(2)
        yield started


def replayed(project: Project, where: object, **options: Any) -> Replay:
    replayer = ClusterReplayer(
        recording_of(project), ProjectFiles(project), cluster=where, **options
    )
    return replayer.run()


def hosts_of(done: Replay) -> set[str]:
    return {cell.host for cell in done.cells.values()}


def outcome(done: Replay) -> dict[str, Any]:
    """Return what must not depend on where a cell was computed."""
    return {
        node: (cell.status, cell.reasons, cell.outputs, cell.error)
        for node, cell in done.cells.items()
    }


def test_results_are_those_of_a_local_replay_and_say_where_they_are_from(
    project: Project, local: Replay, cluster: DaskCluster
) -> None:
    argv = [sys.executable, "-m", "chexpoint", "replay", "--project", str(project.folder), "--json"]
    done = subprocess.run(
        [*argv, "--scheduler", cluster.address], capture_output=True, text=True, check=False
    )
    told = json.loads(done.stdout)
    there = {v["label"]: [cell["status"] for cell in v["cells"]] for v in told["versions"]}
    assert there == statuses(local)
    hosts = {cell["host"].rpartition("/")[2] for v in told["versions"] for cell in v["cells"]}
    # Whether the second has anything to do depends on how fast the first one is.
    assert hosts
    assert hosts <= {"alpha", "beta"}
    assert {host["name"].rpartition("/")[2] for host in told["hosts"]} == hosts
    assert sum(host["computed_cells"] for host in told["hosts"]) == told["computed_cells"]
    # As many as had something to do at the same time.
    assert told["workers"] in {1, 2}
    assert all(not worker.engines() for worker in cluster.workers)
    assert list(cluster.folder.glob("*/local/**/chex-replay-*")) == []


def test_outputs_are_the_same_to_the_last_letter(
    project: Project, local: Replay, cluster: DaskCluster, tmp_path: Path
) -> None:
    events = Events()
    done = replayed(project, cluster.address, store=str(tmp_path / "store"), watch=events)
    assert outcome(done) == outcome(local)
    assert done.notes == local.notes
    assert {event.host for event in events.of("cell")} == {host.name for host in done.hosts}
    assert (events.all[0].kind, events.all[-1].kind) == ("begin", "end")
    last = events.of("cell")[-1]
    assert last.computed == last.to_compute == done.computed_cells


def test_a_cell_that_ends_its_engine_is_tried_alone_and_then_reported(
    tmp_path: Path, cluster: DaskCluster
) -> None:
    fatal = "import os, pathlib\nif pathlib.Path('kill').exists(): os.kill(os.getpid(), 9)"
    study = record(tmp_path, {"good": ["x = 1", "print(x)"], "bad": ["x = 1", fatal, "print(x)"]})

    recording = recording_of(study)
    node = recording.labels["bad"].path[1]
    cell = recording.cells[node]
    killing = _with_source(cell, "import os\nos.kill(os.getpid(), 9)")
    recording.cells[node] = killing  # type: ignore[index]
    done = ClusterReplayer(recording, ProjectFiles(study), cluster=cluster.address).run()
    assert statuses(done) == {"good": ["same", "same"], "bad": ["same", "failed", "skipped"]}
    assert any("computed alone on host" in note for note in done.notes)


def _with_source(cell: Any, source: str) -> Any:
    lineage = dataclasses.replace(cell.lineage, source=source)
    return dataclasses.replace(cell, lineage=lineage)


TRAINING = """\
import os
import random
import time

random.seed(3)
weights = [0.0] * 8
for epoch in range(12):
    for step in range(3):
        weights = [weight + random.gauss(0, 1) for weight in weights]
    print("sum", sum(weights))
"""
# Of the last part of the loop nothing is known before what holds it is gone.
ADDED = """\
    with open({log!r}, "a") as file:
        file.write(str(epoch) + " ")
    while epoch == 11 and os.path.exists({hold!r}):
        time.sleep(0.01)
    print("most", max(weights).hex(), os.environ["CHEX_OVERHEAD"])
"""


def test_loops_are_replayed_in_hindsight_and_gone_on_with_after_an_interruption(
    tmp_path: Path, cluster: DaskCluster
) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    argv = [sys.executable, "-m", "chexpoint"]

    def chex(*words: str) -> str:
        done = subprocess.run(
            [*argv, *words], cwd=folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    # All states are kept, so that there is more than one part; and hosts hear of what is set.
    (folder / "chexpoint.toml").write_text('overhead = "always"\n')
    (folder / "training.py").write_text(TRAINING)
    chex("record", "training.py", "--name", "v1")
    log, hold = tmp_path / "log.txt", tmp_path / "hold"
    added = ADDED.format(log=str(log), hold=str(hold))
    (folder / "more.py").write_text(TRAINING.replace("    print", f"{added}    print"))
    here = json.loads(chex("hindsight", "more.py", "--json"))["versions"][0]
    assert here["failed"] == ""
    assert {row["standing"] for row in here["rows"]} == {"exact"}

    log.unlink()
    hold.touch()
    words = ["hindsight", "more.py", "--json", "--scheduler", cluster.address]
    with subprocess.Popen([*argv, *words], cwd=folder, stdout=subprocess.DEVNULL) as process:

        def is_some_of_it_known() -> bool:
            found = list(folder.glob(".chex/replays/hindsight-*.jsonl"))
            return any(len(path.read_text().splitlines()) > 1 for path in found)

        assert wait_until(is_some_of_it_known)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    known = set(log.read_text().split())
    hold.unlink()
    log.unlink()
    found = json.loads(chex(*words, "--resume"))["versions"][0]
    assert found["failed"] == ""
    assert found["rows"] == here["rows"]
    assert any("were replayed on" in note for note in found["notes"])
    again = log.read_text().split()
    assert len(again) < 12
    assert known | set(again) == {str(epoch) for epoch in range(12)}
    assert all(not worker.engines() for worker in cluster.workers)


SWEPT = """\
data = [float(x) for x in open("data.txt")]
print(len(data))

# parameters
rate = 0.5
depth = 1

result = sum(data) * rate + depth
open(f"out-{rate}-{depth}.txt", "w").write(str(result))
print(result)
"""


def test_versions_of_a_sweep_are_recorded_on_hosts_as_they_are_here(
    tmp_path: Path, cluster: DaskCluster
) -> None:
    def recorded(name: str, *options: str) -> tuple[Project, dict[str, Any]]:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "data.txt").write_text("1\n2\n")
        (folder / "swept.py").write_text(SWEPT)
        argv = [sys.executable, "-m", "chexpoint", "record", "swept.py", "--json"]
        argv += ["-p", "rate=0.1,0.2", "-p", "depth=2:3", *options]
        done = subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=True)
        return Project.at(folder), json.loads(done.stdout)

    here, _ = recorded("here")
    there, told = recorded("there", "--scheduler", cluster.address)
    hosts = {version["host"].rpartition("/")[2] for version in told["versions"]}
    assert hosts == {"alpha", "beta"}
    # What versions of a host begin with was run once on it.
    reused = [[cell["reused"] for cell in version["cells"]] for version in told["versions"]]
    assert sum(sum(cells) > 0 for cells in reused) == 2
    mine, its = ({v.name: v for v in each.versions()} for each in (here, there))
    assert {name: v.path for name, v in its.items()} == {name: v.path for name, v in mine.items()}
    assert {v.name: v.parameters for v in its.values()} == {
        v.name: v.parameters for v in mine.values()
    }
    for name, version in its.items():
        cells = zip(there.cells(version), here.cells(mine[name]), strict=True)
        assert all(
            there.outputs(a.execution) == here.outputs(b.execution) and a.source == b.source
            for a, b in cells
        )
    written = sorted(path.name for path in here.folder.glob("out-*"))
    assert len(written) == 4
    assert [(there.folder / name).read_text() for name in written] == [
        (here.folder / name).read_text() for name in written
    ]
    assert all(not worker.engines() for worker in cluster.workers)


# ---------------------------------------------------------------- losses


def test_what_a_killed_worker_had_is_computed_by_others_and_nothing_is_left_of_it(
    project: Project, local: Replay, tmp_path: Path
) -> None:
    killed: list[str] = []
    with DaskCluster(tmp_path) as own:
        workers = {name: own.start_worker(name) for name in ("gamma", "delta")}
        own.wait(2)

        def watch(progress: ReplayProgress) -> None:
            if progress.kind == "cell" and not killed:
                killed.append(progress.host)
                workers[progress.host.rpartition("/")[2]].kill()

        done = replayed(project, own.address, watch=watch)
        victim = workers.pop(killed[0].rpartition("/")[2])
        assert victim.left_over() == []
        assert all(not worker.engines() for worker in workers.values())
    assert outcome(done) == outcome(local)
    assert [host.name for host in done.hosts if host.is_lost] == killed
    assert any(f"{killed[0]} is lost" in note for note in done.notes)


def test_a_replay_whose_scheduler_was_killed_is_gone_on_with(
    project: Project, local: Replay, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    with DaskCluster(tmp_path) as own:
        worker = own.start_worker("epsilon")
        own.wait(1)

        def watch(progress: ReplayProgress) -> None:
            if progress.kind == "version":
                own.scheduler.kill()

        with pytest.raises(ClusterError, match=r"is lost.*--resume"):
            replayed(project, own.address, log=log, watch=watch, patience_s=2)
        assert worker.left_over() == []  # who has lost its scheduler ends, and its engines with it
    done = Replayer(recording_of(project), ProjectFiles(project), log=log).run(resume=True)
    assert outcome(done) == outcome(local)
    assert 0 < done.computed_cells < local.computed_cells
    assert hosts_of(done) == {"", platform.node()}


# ---------------------------------------------------------------- bad input


def test_workers_with_another_chex_are_refused_by_name_before_anything_runs(
    project: Project, cluster: DaskCluster, tmp_path: Path
) -> None:
    facts = tmp_path / "chexpoint-0.0.7.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: chexpoint\nVersion: 0.0.7\n")
    old = cluster.start_worker("old", path=str(tmp_path))
    cluster.wait(3)
    try:
        with pytest.raises(ClusterError, match=r"host old \(tcp://.*\) has chexpoint 0\.0\.7, and"):
            replayed(project, cluster.address)
    finally:
        old.end()


def test_a_store_that_a_host_does_not_see_is_said_with_the_name_of_the_host(
    project: Project, cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ClusterError, match=r"host (alpha|beta) \(tcp://.*\): .*store.*cannot"):
        replayed(project, cluster.address, store="a-folder-of-this-machine")


def test_a_host_without_memory_for_the_largest_state_is_named_before_anything_runs(
    project: Project, cluster: DaskCluster
) -> None:
    recording = recording_of(project)
    nodes = (dataclasses.replace(node, size=2**50) for node in recording.tree.nodes.values())
    large = dataclasses.replace(recording, tree=ExecutionTree(nodes, recording.tree.versions))
    with pytest.raises(ClusterError, match=r"host .*alpha.* has too little memory: .* available"):
        ClusterReplayer(large, ProjectFiles(project), cluster=cluster.address).run()


def test_an_address_without_a_port_is_refused_at_once(project: Project) -> None:
    with pytest.raises(InvalidValue, match=r"^'nonsense' is no scheduler: missing port number"):
        replayed(project, "nonsense")


def test_a_scheduler_that_does_not_answer_is_one_line(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.replay.cluster._CONNECT_S", 0.2)
    with pytest.raises(ClusterError, match=r"^no scheduler answers at tcp://127\.0\.0\.1:9 .*$"):
        replayed(project, "tcp://127.0.0.1:9")
