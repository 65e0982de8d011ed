"""How true and how fast the simulator of clusters is, as JSON.

python tests/bench/simulate.py                       everything (some minutes on two cores)
python tests/bench/simulate.py --only studies        predicted and measured, side by side
python tests/bench/simulate.py --rounds 5            medians of more replays

`studies` records the bundled studies, predicts their replay with 1 and 2 workers from what was
recorded and from what so many engines take to start here, and then replays them.  What is left of
the difference once cells take in the simulation what they took in the replay is the simulator's
own: the rest is that cells were slower or faster than when they were recorded.  `measured_by` takes
any function that replays a recorded study with so many workers, so that a cluster can stand in.

`large` simulates 1,000 versions of 33 cells on 64 hosts; its seconds are of CPU time.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

# Its other modules are found from the root of the project, wherever this is started.
sys.path.insert(0, str(Path(__file__).parents[2]))

from chexpoint.model import Cluster, ExecutionTree, Replay, Simulation
from chexpoint.plan import check_simulation, sample_tree, simulate
from chexpoint.replay import STEP_COSTS
from tests.bench.replay import record_study, studies
from tests.bench.replay_run import (
    Recorded,
    Row,
    in_turns,
    load,
    rounded,
    scratch,
    start_up_seconds,
)

MAKESPAN_BAR = 0.15
LARGE_BAR_S = 60.0
WORKERS = (1, 2)
HOSTS = 64
_GB = 2**30

Replays = Callable[[Recorded, int], Replay]


# ---------------------------------------------------------------- against real replays


def against_replays(rounds: int, measured_by: Replays) -> Row:
    """The bundled studies: predicted makespan, and measured."""
    found: Row = {"bar": {"off_by": MAKESPAN_BAR}, "studies": {}}
    for study in studies():
        with scratch() as folder:
            recorded = record_study(study, folder)
            found["studies"][study.name] = _study(recorded, rounds, measured_by)
    rows = [row for one in found["studies"].values() for row in one["workers"].values()]
    found["off_by_at_most"] = max(abs(row["off_by"]) for row in rows)
    found["is_met"] = all(abs(row["off_by"]) <= MAKESPAN_BAR for row in rows)
    return found


def starting_together(workers: int) -> float:
    """Return what engines take that start side by side on this machine, until all are there."""
    started = time.perf_counter()
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda _: start_up_seconds(1), range(workers)))
    return time.perf_counter() - started


def _study(recorded: Recorded, rounds: int, measured_by: Replays) -> Row:
    before = load()
    tree = recorded.recording.tree
    # Starts are measured between the replays: how busy the machine is changes by the minute.
    ways: dict[str, Callable[[], Any]] = {}
    for workers in WORKERS:
        ways[f"start {workers}"] = partial(starting_together, workers)
        ways[f"replay {workers}"] = partial(measured_by, recorded, workers)
    runs = in_turns(ways, rounds)
    rows = {}
    for workers in WORKERS:
        replays: list[Replay] = runs[f"replay {workers}"]
        start = statistics.median(runs[f"start {workers}"])
        middle = sorted(replays, key=lambda each: each.seconds)[len(replays) // 2]
        predicted = _predicted(tree, workers, start).makespan
        own = _predicted(_as_replayed(tree, middle), workers, start).makespan
        rows[str(workers)] = {
            "predicted_s": round(predicted, 3),
            "measured_s": round(middle.seconds, 3),
            "all_measured_s": rounded([each.seconds for each in replays]),
            "start_up_s": round(start, 3),
            "off_by": round(predicted / middle.seconds - 1, 3),
            "off_by_with_cells_as_replayed": round(own / middle.seconds - 1, 3),
            "cells_slower_than_recorded": round(_slower(tree, middle), 3),
        }
    return {"nodes": len(tree), "workers": rows, "load": [before, load()]}


def _predicted(tree: ExecutionTree, workers: int, start: float) -> Simulation:
    """Return the simulation of a replay on this machine, as `chex plan --simulate` makes it."""
    cluster = Cluster(hosts=workers, is_shared=True, start=start)
    found = simulate(tree, cluster, costs=STEP_COSTS)
    check_simulation(tree, found, costs=STEP_COSTS)
    return found


def _as_replayed(tree: ExecutionTree, replay: Replay) -> ExecutionTree:
    """Return a tree in which cells take what they took in a replay."""
    cells = replay.cells
    nodes = (
        replace(node, cost=cells[node.id].seconds) if node.id in cells else node
        for node in tree.nodes.values()
    )
    return ExecutionTree(nodes, tree.versions)


def _slower(tree: ExecutionTree, replay: Replay) -> float:
    """Return how much longer cells took than when they were recorded."""
    cells = replay.cells
    took = math.fsum(cells[node].seconds for node in tree.nodes if node in cells)
    return took / math.fsum(node.cost for node in tree.nodes.values() if node.id in cells)


def here(recorded: Recorded, workers: int) -> Replay:
    """Replay a study with engines of this machine."""
    return recorded.replay(workers=workers)


# ---------------------------------------------------------------- large trees


def large() -> Row:
    """1,000 versions of 33 cells on 64 hosts: what simulating takes, and what comes of it."""
    rows: Row = {}
    for kind in ("ci", "di", "an"):
        tree = sample_tree(kind, versions=1000, length=33)
        for name, cluster in {
            "no limit, nothing shipped": Cluster(hosts=HOSTS),
            "1 GB, 1 GB/s": Cluster(hosts=HOSTS, memory=_GB, bandwidth=_GB),
            "1 GB, 1 GB/s, 3 lost": Cluster(hosts=HOSTS, memory=_GB, bandwidth=_GB, losses=3),
        }.items():
            rows[f"{kind}, {name}"] = _simulated(tree, cluster)
    most = max(row["cpu_s"] for row in rows.values())
    return {
        "bar": {"cpu_s": LARGE_BAR_S},
        "rows": rows,
        "most_cpu_s": most,
        "is_met": most <= LARGE_BAR_S,
    }


def _simulated(tree: ExecutionTree, cluster: Cluster) -> Row:
    before = time.process_time()
    found = simulate(tree, cluster, costs=STEP_COSTS)
    simulated = time.process_time()
    check_simulation(tree, found, costs=STEP_COSTS)
    return {
        "nodes": len(tree),
        "cpu_s": round(simulated - before, 2),
        "check_cpu_s": round(time.process_time() - simulated, 2),
        "makespan_s": round(found.makespan, 1),
        "over_lower_bound": round(found.makespan / found.lower_bound, 3),
        "times_as_fast_as_one": round(found.single / found.makespan, 2),
        "utilisation": round(found.utilisation, 3),
        "gb_moved": round(found.bytes_moved / _GB, 1),
        "peak_gb": round(found.peak_bytes / _GB, 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="studies,large", help="sections, with commas between")
    parser.add_argument("--rounds", type=int, default=3, help="replays of each study")
    args = parser.parse_args()
    sections: dict[str, Callable[[], Row]] = {
        "studies": lambda: against_replays(args.rounds, here),
        "large": large,
    }
    # Threads of numeric libraries would make engines side by side a matter of luck.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: Row = {"load_before": load()}
    for name in args.only.split(","):
        found[name] = sections[name]()
    found["load_after"] = load()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
