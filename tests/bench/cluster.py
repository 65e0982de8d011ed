"""Replays on a cluster, as JSON: two Dask workers in network namespaces of their own.

python tests/bench/cluster.py                        everything (about half an hour on two cores)
python tests/bench/cluster.py --quick                a part of the work, one round
python tests/bench/cluster.py --only speed,kill      these sections

Needs root: three namespaces are made, for the scheduler and the driver, and for each of two
workers, and removed at the end.  Workers see neither the project nor one another's folders, but the
store.  ``is_met`` says whether a bar is met; ratios are of runs that took turns.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

# Its other modules are found from the root of the project, wherever this is started.
sys.path.insert(0, str(Path(__file__).parents[2]))

from chexpoint.model import Cluster, ExecutionTree, Replay, ReplayProgress
from chexpoint.plan import sample_tree, simulate
from chexpoint.project import ProjectFiles
from chexpoint.replay import STEP_COSTS, ClusterReplayer
from tests.bench.replay_run import Recorded, Row, in_turns, load, rounded, scratch, statuses
from tests.bench.replay_trees import scaled
from tests.bench.replay_work import SPIN, many_versions, record
from tests.support.dask_cluster import DaskCluster, Program

SPEED_BAR = 0.65
OVERHEAD_BAR_S = 0.020
_INSIDE = "CHEX_BENCH_NAMESPACES"
_NET = "10.77.0."


# ---------------------------------------------------------------- namespaces


@contextmanager
def namespaces() -> Iterator[list[str]]:
    """Yield three network namespaces that see one another, and nothing else."""
    names = [f"chex-{os.getpid()}-{letter}" for letter in "sab"]
    hub = names[0]
    try:
        for name in names:
            _ip("netns", "add", name)
            _ip("-n", name, "link", "set", "lo", "up")
        _ip("-n", hub, "link", "add", "hub", "type", "bridge")
        _ip("-n", hub, "addr", "add", f"{_NET}1/24", "dev", "hub")
        _ip("-n", hub, "link", "set", "hub", "up")
        for at, name in enumerate(names[1:], start=2):
            _ip("-n", hub, "link", "add", f"p{at}", "type", "veth", "peer", "eth0", "netns", name)
            _ip("-n", hub, "link", "set", f"p{at}", "master", "hub", "up")
            _ip("-n", name, "addr", "add", f"{_NET}{at}/24", "dev", "eth0")
            _ip("-n", name, "link", "set", "eth0", "up")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def inside(names: list[str], argv: list[str]) -> int:
    """Run this again where the scheduler will be."""
    env = {**os.environ, _INSIDE: " ".join(names)}
    words = ["ip", "netns", "exec", names[0], sys.executable, os.path.abspath(__file__), *argv]
    with subprocess.Popen(words, env=env) as process:
        try:
            return process.wait()
        finally:
            process.terminate()


class Hosts(DaskCluster):
    """A scheduler here, and workers in the two other namespaces that cannot see some folders."""

    def __init__(self, folder: Path, *, hidden: Path) -> None:
        super().__init__(folder, host=f"{_NET}1")
        self._hidden = hidden
        self._names = os.environ[_INSIDE].split()[1:]

    def start_host(self, at: int) -> Program:
        """Start the worker of a namespace."""
        hide = f"mount -t tmpfs none '{self._hidden}' && exec \"$@\""
        return self.start_worker(
            f"host{at}",
            "--host",
            f"{_NET}{at + 2}",
            before=[
                *("ip", "netns", "exec", self._names[at]),
                *("unshare", "-m", "sh", "-c", hide, "sh"),
            ],
        )


# ---------------------------------------------------------------- sections


def replayed(
    recorded: Recorded,
    hosts: Hosts,
    engines: int | None = None,
    watch: Callable[[ReplayProgress], None] | None = None,
) -> Replay:
    return ClusterReplayer(
        recorded.recording,
        ProjectFiles(recorded.project),
        cluster=hosts.address,
        store=str(hosts.folder / "store"),
        engines=engines,
        watch=watch,
    ).run()


def outcome(done: Replay) -> Row:
    """Return what must be the same wherever it was computed."""
    return {node: (cell.status, cell.reasons, cell.outputs) for node, cell in done.cells.items()}


@contextmanager
def two_hosts(folder: Path, project: Path) -> Iterator[Hosts]:
    (folder / "cluster").mkdir()
    with Hosts(folder / "cluster", hidden=project) as hosts:
        hosts.start_host(0)
        hosts.start_host(1)
        hosts.wait(2)
        yield hosts


def speed(quick: bool, rounds: int) -> Row:
    """Two hosts against one, in turns, on trees that compute; and against a local replay."""
    seconds = 6.0 if quick else 20.0
    shapes = {
        "binary": sample_tree("binary", seed=3, nodes=15),
        "star": sample_tree("star", seed=3, nodes=13),
        "random": sample_tree("ci", seed=3, nodes=30),
    }
    found: Row = {"cores": os.cpu_count(), "bar": SPEED_BAR, "shapes": {}}
    for name, tree in shapes.items():
        with scratch() as folder:
            project = folder / "project"
            project.mkdir()
            record(project, scaled(tree, seconds=seconds, largest_bytes=4e6))
            recorded = Recorded(project)
            local = recorded.replay()
            with two_hosts(folder, project) as hosts:
                ways = {str(n): partial(replayed, recorded, hosts, n) for n in (1, 2)}
                before = load()
                runs = in_turns(ways, rounds)
        one, two = (statistics.median(run.seconds for run in runs[n]) for n in ("1", "2"))
        found["shapes"][name] = {
            "nodes": len(tree),
            "seconds_local": round(local.seconds, 3),
            "seconds_1": rounded([run.seconds for run in runs["1"]]),
            "seconds_2": rounded([run.seconds for run in runs["2"]]),
            "planned_ratio": round(runs["2"][0].planned_seconds / runs["1"][0].planned_seconds, 3),
            "least_ratio": bounds(recorded.recording.tree),
            "ratio": round(two / one, 3),
            "hosts": [[host.computed_cells for host in run.hosts] for run in runs["2"]],
            "is_identical": all(
                outcome(run) == outcome(local) for each in runs.values() for run in each
            ),
            "statuses": statuses(runs["2"][0]),
            "load": [before, load()],
        }
        sys.stderr.write(f"{name}: {json.dumps(found['shapes'][name])}\n")
    found["is_met"] = all(
        row["ratio"] <= SPEED_BAR and row["is_identical"] for row in found["shapes"].values()
    )
    return found


def bounds(tree: ExecutionTree) -> Row:
    """Return what two hosts need at least, of what one needs, if all but computing took no time.

    Without shipping, each computes all that leads to its versions: all divisions are tried.
    """
    free = Cluster(hosts=2, start=0.0, task=0.0, cell=0.0)
    found = simulate(tree, free, costs=STEP_COSTS)
    ways = [{node.id for node in tree.path(end)} for end in tree.nodes if not tree.children(end)]
    best = once = sum(node.cost for node in tree.nodes.values())
    for division in range(2 ** (len(ways) - 1)):
        parts = [
            {node for at, way in enumerate(ways) if (division >> at & 1) == side for node in way}
            for side in (0, 1)
        ]
        best = min(best, max(sum(tree.nodes[node].cost for node in part) for part in parts))
    return {
        "without_shipping": round(best / once, 3),
        "with_shipping": round(found.lower_bound / found.single, 3),
    }


def ship(quick: bool, rounds: int) -> Row:
    """A second host that comes late loads the state that the first one has computed."""
    del rounds
    prefix, leaf, count = (6.0, 2.0, 8) if quick else (10.0, 4.0, 8)
    work = "began = time.process_time()\nspin(began, {})\n"
    beginning = f"{work.format(prefix)}table = list(range(100_000))"
    versions = {
        f"v{number}": [SPIN, beginning, f"{work.format(leaf)}print({number}, sum(table))"]
        for number in range(count)
    }
    with scratch() as folder:
        project = folder / "project"
        project.mkdir()
        record(project, versions)
        recorded = Recorded(project)
        local = recorded.replay()
        (folder / "cluster").mkdir()
        with Hosts(folder / "cluster", hidden=project) as hosts:
            hosts.start_host(0)
            hosts.wait(1)

            def watch(progress: ReplayProgress) -> None:
                # Before that, the second host may as well compute the beginning itself.
                is_begun = progress.kind == "cell" and progress.computed == 2
                if is_begun and len(hosts.workers) == 1:
                    hosts.start_host(1)

            done = replayed(recorded, hosts, watch=watch)
    shipped = [note for note in done.notes if "was loaded from the store" in note]
    second = recorded.recording.tree.versions[0].path[1]
    return {
        "seconds": round(done.seconds, 3),
        "seconds_local": round(local.seconds, 3),
        "hosts": [[host.name, host.computed_cells] for host in done.hosts],
        "beginning_computed": done.cells[second].computed,
        "notes": list(done.notes),
        "is_identical": outcome(done) == outcome(local),
        "is_met": outcome(done) == outcome(local)
        and bool(shipped)
        and done.cells[second].computed == 1,
    }


def kill(quick: bool, rounds: int) -> Row:
    """One of two workers is killed in the middle."""
    del rounds
    tree = sample_tree("binary", seed=3, nodes=15)
    with scratch() as folder:
        project = folder / "project"
        project.mkdir()
        record(project, scaled(tree, seconds=6.0 if quick else 20.0, largest_bytes=4e6))
        recorded = Recorded(project)
        local = recorded.replay()
        with two_hosts(folder, project) as hosts:
            victim, other = hosts.workers
            seen: list[int] = []

            def watch(progress: ReplayProgress) -> None:
                if progress.kind == "cell" and progress.host.endswith("host0"):
                    seen.append(len(victim.others()))
                    if len(seen) == 3:
                        victim.kill()

            done = replayed(recorded, hosts, watch=watch)
            left = [len(victim.left_over()), len(other.engines())]
    return {
        "processes_of_the_victim": seen,
        "is_identical": outcome(done) == outcome(local),
        "statuses": statuses(done),
        "hosts": [[host.name, host.computed_cells, host.is_lost] for host in done.hosts],
        "left_over": left,
        "seconds": round(done.seconds, 3),
        "seconds_local": round(local.seconds, 3),
        "is_met": outcome(done) == outcome(local)
        and set(statuses(done)) == {"same"}
        and any(host.is_lost for host in done.hosts)
        and left == [0, 0],
    }


def many(quick: bool, rounds: int) -> Row:
    """What a cluster adds to versions that take next to nothing."""
    # Of few versions, what starts once would be most of it.
    count = 200 if quick else 500
    with scratch() as folder:
        project = folder / "project"
        project.mkdir()
        record(project, many_versions(count))
        recorded = Recorded(project)
        with two_hosts(folder, project) as hosts:
            ways = {
                "local": partial(recorded.replay, None, 2),
                "cluster": partial(replayed, recorded, hosts),
            }
            before = load()
            runs = in_turns(ways, rounds)
    local, cluster = (
        statistics.median(run.seconds for run in runs[name]) for name in ("local", "cluster")
    )
    overhead = (cluster - local) / count
    return {
        "versions": count,
        "cells_in_versions": runs["local"][0].cells_in_versions,
        "seconds_local": rounded([run.seconds for run in runs["local"]]),
        "seconds_cluster": rounded([run.seconds for run in runs["cluster"]]),
        "overhead_s_a_version": round(overhead, 5),
        "ratio": round(cluster / local, 3),
        "bar": OVERHEAD_BAR_S,
        "statuses": statuses(runs["cluster"][0]),
        "load": [before, load()],
        "is_met": overhead <= OVERHEAD_BAR_S and set(statuses(runs["cluster"][0])) == {"same"},
    }


SECTIONS = {"speed": speed, "kill": kill, "many": many, "ship": ship}


def main() -> int:
    """Run the sections, and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, help="how often runs take turns; 3, or 1 if quick")
    parser.add_argument("--only", default=",".join(SECTIONS))
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that nothing is left behind
    if _INSIDE not in os.environ:
        with namespaces() as names:
            return inside(names, sys.argv[1:])
    rounds = args.rounds or (1 if args.quick else 3)
    found = {}
    for name in args.only.split(","):
        found[name] = SECTIONS[name](args.quick, rounds)
        sys.stderr.write(f"{name}: {json.dumps(found[name])}\n")
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return 0 if all(row["is_met"] for row in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
