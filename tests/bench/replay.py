"""How fast and how faithful replay is, as JSON; with other tools side by side in the same run.

python tests/bench/replay.py                         everything (about an hour on two cores)
python tests/bench/replay.py --quick                 a fifth of the work, one round
python tests/bench/replay.py --only workers,many     these sections
python tests/bench/replay.py --peers DIR             where environments of other tools are kept

Seconds are by the clock.  Sections alternate what they compare, give medians, and say how busy the
machine was; ``is_met`` says whether the bars are met.  Other tools are installed on demand, each in
an environment of its own; one that cannot be is reported as such.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

# Its other modules are found from the root of the project, wherever this is started.
sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.replay_peers import PACKAGES, Peers
from tests.bench.replay_run import (
    Recorded,
    Row,
    copied_inputs,
    in_turns,
    load,
    once_seconds,
    rounded,
    scratch,
    start_up_seconds,
    statuses,
)
from tests.bench.replay_trees import many, synthetic, workers
from tests.bench.replay_work import Study, record, run_once, ten_versions

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"

BOUND_BAR = 1.15
VERSION_BY_VERSION_BAR = 0.5
OVERHEAD_BAR = 0.02
LINEAGE_BAR = 1024


def studies() -> list[Path]:
    """Return the folders of the bundled studies."""
    return sorted(folder for folder in NOTEBOOKS.iterdir() if any(folder.glob("v*.ipynb")))


def record_study(study: Path, folder: Path) -> Recorded:
    """Record a bundled study in a copy of its folder, with ``chex record``."""
    ignored = shutil.ignore_patterns(".chex", "__pycache__", ".ipynb_checkpoints")
    shutil.copytree(study, folder, dirs_exist_ok=True, ignore=ignored)
    files = [path.name for path in sorted(folder.glob("v*.ipynb"))]
    argv = [sys.executable, "-m", "chexpoint", "record", "--quiet", *files]
    subprocess.run(argv, cwd=folder, check=True)
    return Recorded(folder)


# ---------------------------------------------------------------- bundled studies


def bundled(quick: bool, peers: Peers) -> Row:
    """The bundled studies, against each cell once, and against version by version."""
    rounds = 1 if quick else 3
    start_up = start_up_seconds()
    found: Row = {
        "bar": {
            "over_bound": BOUND_BAR,
            "over_version_by_version": VERSION_BY_VERSION_BAR,
            "overhead_share": OVERHEAD_BAR,
        },
        "start_up_s": round(start_up, 3),
        "studies": {},
    }
    for study in studies():
        with scratch() as folder:
            found["studies"][study.name] = _bundled(
                record_study(study, folder), peers, rounds, start_up
            )
    found["is_met"] = all(row["is_met"] for row in found["studies"].values())
    return found


def _bundled(recorded: Recorded, peers: Peers, rounds: int, start_up: float) -> Row:
    budget = 2 * recorded.largest_bytes
    before = load()
    runs = in_turns(
        {
            "chex": partial(recorded.replay, budget),
            "nbclient": partial(_by_peer, recorded, peers, "nbclient"),
            "papermill": partial(_by_peer, recorded, peers, "papermill"),
        },
        rounds,
    )
    replays = runs.pop("chex")
    replay = sorted(replays, key=lambda each: each.seconds)[len(replays) // 2]
    bound = once_seconds(replay) + start_up
    by_version = {name: _summary(found) for name, found in runs.items()}
    least = min((row["seconds"] for row in by_version.values() if "seconds" in row), default=None)
    over_least = None if least is None else replay.seconds / least
    overhead = replay.overhead_seconds / replay.seconds
    return {
        "versions": len(recorded.recording.tree.versions),
        "nodes": len(recorded.recording.tree),
        "largest_state_mb": round(recorded.largest_bytes / 2**20, 1),
        "computed_cells": replay.computed_cells,
        "cells_in_versions": replay.cells_in_versions,
        "replay_s": round(replay.seconds, 3),
        "replays_s": rounded([each.seconds for each in replays]),
        "bound_s": round(bound, 3),
        "over_bound": round(replay.seconds / bound, 3),
        "planned_s": round(replay.planned_seconds, 3),
        "no_cache_cells_s": round(replay.no_cache_seconds, 3),
        "version_by_version": by_version,
        "over_version_by_version": over_least and round(over_least, 3),
        "overhead_s": round(replay.overhead_seconds, 4),
        "overhead_share": round(overhead, 4),
        "statuses": statuses(replay),
        "notes": list(replay.notes),
        "load": [before, load()],
        "is_met": replay.seconds <= BOUND_BAR * bound
        and over_least is not None
        and over_least <= VERSION_BY_VERSION_BAR
        and overhead <= OVERHEAD_BAR,
    }


def _by_peer(recorded: Recorded, peers: Peers, way: str) -> Row:
    with scratch() as folder:
        copied_inputs(recorded.project.folder, folder)
        return peers.run(way, recorded.versions(), folder)


def _summary(found: list[Row]) -> Row:
    """Return the median of what another tool took, or why there is none."""
    for row in found:
        if "failed" in row:
            return {name: row[name] for name in ("packages", "failed")}
    return {
        "packages": found[0]["packages"],
        "seconds": statistics.median(row["seconds"] for row in found),
        "all_seconds": rounded([row["seconds"] for row in found]),
    }


# ---------------------------------------------------------------- ten versions


def ten(quick: bool, peers: Peers) -> Row:
    """Ten versions with 100 MB of state, replayed by everything there is."""
    scale, rounds = (0.2, 1) if quick else (1.0, 3)
    study = ten_versions(scale)
    start_up = start_up_seconds()
    before = load()
    _, texts = run_once(study)
    with scratch() as folder:
        record(folder, study.versions())
        recorded = Recorded(folder)
        ways: dict[str, Callable[[], Row]] = {
            "each cell once": lambda: {"seconds": run_once(study)[0]},
            "chex": partial(_chex_row, recorded),
        }
        ways |= {way: partial(_peer_row, study, peers, way) for way in PACKAGES}
        runs = in_turns(ways, rounds)
    rows = {name: _checked(found, texts) for name, found in runs.items()}
    chex = rows["chex"]["seconds"]
    # The lesser of what plain Python took, and what the cells took in the replay itself.
    floor = min(rows["each cell once"]["seconds"], rows["chex"]["cells_s"])
    return {
        "nominal_s": {
            "no_cache": round(study.no_cache_seconds, 2),
            "once": round(study.once_seconds, 2),
        },
        "start_up_s": round(start_up, 3),
        "floor_s": round(floor, 3),
        "bar_s": round(BOUND_BAR * floor + start_up, 3),
        "over_floor_and_start_up": round(chex / (floor + start_up), 3),
        "over_nominal_floor_and_start_up": round(chex / (study.once_seconds + start_up), 3),
        "rows": rows,
        "load": [before, load()],
        "is_met": chex <= BOUND_BAR * floor + start_up and not rows["chex"]["wrong"],
    }


def _chex_row(recorded: Recorded) -> Row:
    started = time.perf_counter()
    replay = recorded.replay()
    seconds = time.perf_counter() - started
    cells = replay.cells
    texts = {
        label: "".join(
            str(output["text"])
            for node in version.path
            for output in cells[node].outputs
            if output["output_type"] == "stream"
        )
        for label, version in replay.recording.labels.items()
    }
    return {
        "seconds": seconds,
        "texts": texts,
        "cells_s": round(once_seconds(replay), 3),
        "overhead_s": round(replay.overhead_seconds, 4),
        "computed_cells": replay.computed_cells,
        "statuses": statuses(replay),
        "peak_mb_as_told": round(replay.peak_checkpoint_bytes / 2**20, 1),
    }


def _peer_row(study: Study, peers: Peers, way: str) -> Row:
    with scratch() as folder:
        return peers.run(way, study.versions(), folder, study)


def _checked(found: list[Row], texts: dict[str, str]) -> Row:
    """Return the median row, and how many texts were wrong in all of them."""
    for row in found:
        if "failed" in row:
            return {"packages": row["packages"], "failed": row["failed"], "wrong": None}
    wrong = sum(
        row["texts"].get(name) != text
        for row in found
        if "texts" in row
        for name, text in texts.items()
    )
    middle = sorted(found, key=lambda row: float(row["seconds"]))[len(found) // 2]
    return {
        **{name: value for name, value in middle.items() if name != "texts"},
        "seconds": round(middle["seconds"], 3),
        "all_seconds": rounded([row["seconds"] for row in found]),
        "wrong": wrong,
    }


# ---------------------------------------------------------------- packages


def package(quick: bool) -> Row:
    """How large lineage and tree are in a package, and how long packing and opening take."""
    found: Row = {"bar": {"lineage_bytes_a_cell": LINEAGE_BAR}, "studies": {}}
    for study in studies():
        with scratch() as folder:
            found["studies"][study.name] = _packed(record_study(study, folder), 1 if quick else 3)
    found["is_met"] = all(
        row["lineage_bytes_a_cell"] <= LINEAGE_BAR and row["is_reproducible"]
        for row in found["studies"].values()
    )
    return found


def _packed(recorded: Recorded, rounds: int) -> Row:
    from chexpoint.package import open_package
    from chexpoint.project.packing import pack

    outs = [recorded.project.folder / f"out-{number}.chex" for number in range(rounds + 1)]
    writing, opening = [], []
    for out in outs:
        started = time.perf_counter()
        summary = pack(recorded.project, None, out)
        writing.append(time.perf_counter() - started)
        started = time.perf_counter()
        open_package(out).close()
        opening.append(time.perf_counter() - started)
    with zipfile.ZipFile(outs[0]) as archive:
        documents = [archive.getinfo(name) for name in ("chex.json", "lineage.json")]
    return {
        "cells": summary.cells,
        "versions": len(summary.versions),
        "size_bytes": summary.size_bytes,
        "files_bytes": summary.files_bytes,
        "lineage_bytes": summary.lineage_bytes,
        "lineage_bytes_a_cell": round(summary.lineage_bytes / summary.cells),
        "unpacked_bytes_a_cell": round(sum(each.file_size for each in documents) / summary.cells),
        "is_reproducible": len({out.read_bytes() for out in outs}) == 1,
        "write_s": round(statistics.median(writing), 3),
        "open_s": round(statistics.median(opening), 3),
        "notes": list(summary.notes),
        "load": load(),
    }


# ---------------------------------------------------------------- main


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", metavar="SECTION,...")
    parser.add_argument(
        "--peers", metavar="DIR", type=Path, default=Path.home() / ".cache" / "chex-bench-peers"
    )
    options = parser.parse_args()
    # Threads of numeric libraries would make engines and kernels in turn a matter of luck.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    peers = Peers(options.peers)
    sections: dict[str, Callable[[bool], Row]] = {
        "bundled": partial(bundled, peers=peers),
        "ten_versions": partial(ten, peers=peers),
        "workers": workers,
        "synthetic": synthetic,
        "many": many,
        "package": package,
    }
    chosen = options.only.split(",") if options.only else list(sections)
    if unknown := set(chosen) - set(sections):
        parser.error(f"no section {', '.join(sorted(unknown))}: there are {', '.join(sections)}")
    result = {name: sections[name](options.quick) for name in chosen}
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
