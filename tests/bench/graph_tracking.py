"""What watching variables costs on the bundled notebooks, as JSON.

python tests/bench/graph_tracking.py            all notebooks, three rounds
python tests/bench/graph_tracking.py --quick    one version of each study, one round
python tests/bench/graph_tracking.py --whole    under ``chex record``, with and without a graph

Cells run in this process, in a shell of IPython, with and without the watch in turns; each run is
in a fresh process of its own.  Costs are CPU seconds of the whole notebook; of several rounds the
least counts.  What the watch loads once is loaded before, as in a worker.  Cells that talk to the
kernel are left out.  On a busy machine two runs of the same notebook differ by more than the bar;
so there is a second ratio, with the CPU seconds that the watch says it took.  Both must meet it.

The whole is another thing, and without a bar: CPU seconds of all processes of the command, with
their start.  What is more with a graph is the watch, what is told to the journal, and the database,
which has to be loaded and made first.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
STUDIES = ("digits", "epidemic", "relief")
BAR = 1.03

Row = dict[str, Any]


def cells_of(path: Path) -> list[str]:
    """Return the code cells of a notebook that need no kernel of ours."""
    data = json.loads(path.read_text(encoding="utf-8"))
    texts = ["".join(cell["source"]) for cell in data["cells"] if cell["cell_type"] == "code"]
    return [text for text in texts if "%chex" not in text and "%load_ext" not in text]


def run_here(path: Path, *, is_watched: bool) -> Row:
    """Run a notebook in this process."""
    os.environ["MPLBACKEND"] = "agg"
    from IPython.core.interactiveshell import InteractiveShell

    from chexpoint.engine.variables import VariableWatch

    shell: Any = InteractiveShell.instance()
    shell.history_manager.enabled = False
    hidden = set(shell.user_ns)
    names = shell.user_ns
    watch = VariableWatch(
        lambda: {k: v for k, v in names.items() if k not in hidden and k[0] != "_"}, main=names
    )
    watch.prepare()
    told: Counter[str] = Counter()
    failed = 0
    started = time.process_time()
    for cell in cells_of(path):
        plain = shell.transform_cell(cell)
        before = time.perf_counter()
        if is_watched:
            watch.begin(plain)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            result = shell.run_cell(cell, store_history=True)
        failed += result.success is False
        if is_watched:
            found = watch.finish(plain, seconds=time.perf_counter() - before)
            told["cells"] += 1
            told["reads"] += len(found.reads)
            told["writes"] += len(found.writes)
            told["unread"] += sum(not group.digest for group in found.writes)
            told["sticky"] += bool(found.sticky)
            told["microseconds"] += round(found.seconds * 1e6)
    return {"seconds": time.process_time() - started, "failed": failed, **told}


def run_apart(path: Path, *, is_watched: bool) -> Row:
    """Run a notebook in a process of its own, in a copy of its folder."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "notebooks"
        shutil.copytree(NOTEBOOKS, folder)
        path = folder / path.relative_to(NOTEBOOKS)
        command = [sys.executable, __file__, "--run", str(path)]
        done = subprocess.run(
            [*command, "--watched"] if is_watched else command,
            capture_output=True,
            text=True,
            check=True,
            cwd=path.parent,
            env={**os.environ, "IPYTHONDIR": home, "OMP_NUM_THREADS": "1"},
        )
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def record_apart(path: Path, *, has_graph: bool) -> Row:
    """Run a notebook under ``chex record``; return the time that it took, of all processes."""
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "notebooks"
        shutil.copytree(NOTEBOOKS, folder)
        path = folder / path.relative_to(NOTEBOOKS)
        graph = str(Path(home) / "graph.db") if has_graph else "off"
        env = {**os.environ, "IPYTHONDIR": home, "OMP_NUM_THREADS": "1", "CHEX_GRAPH": graph}
        before, started = os.times(), time.perf_counter()
        command = [sys.executable, "-m", "chexpoint", "record", "--project", home, path.name]
        subprocess.run(command, capture_output=True, check=True, cwd=path.parent, env=env)
        after = os.times()
    spent = after.children_user + after.children_system
    spent -= before.children_user + before.children_system
    return {"cpu_s": spent, "wall_s": time.perf_counter() - started}


def measure_whole(path: Path, rounds: int) -> Row:
    """Return what recording a notebook takes with and without a graph."""
    runs: dict[bool, list[Row]] = {True: [], False: []}
    for number in range(rounds):
        for has_graph in (False, True) if number % 2 else (True, False):
            runs[has_graph].append(record_apart(path, has_graph=has_graph))
    row: Row = {"notebook": str(path.relative_to(NOTEBOOKS))}
    for key in ("cpu_s", "wall_s"):
        without, with_graph = (min(run[key] for run in runs[each]) for each in (False, True))
        row[key] = {"without": round(without, 3), "with": round(with_graph, 3)}
        row[key]["ratio"] = round(with_graph / without, 4)
    return row


def measure(path: Path, rounds: int) -> Row:
    """Return what a notebook takes with and without the watch."""
    runs: dict[bool, list[Row]] = {True: [], False: []}
    for _ in range(rounds):
        for is_watched in (False, True):
            runs[is_watched].append(run_apart(path, is_watched=is_watched))
    plain, watched = (min(runs[each], key=lambda r: r["seconds"]) for each in (False, True))
    return {
        "notebook": str(path.relative_to(NOTEBOOKS)),
        "plain_s": round(plain["seconds"], 4),
        "watched_s": round(watched["seconds"], 4),
        "told": {key: value for key, value in watched.items() if key != "seconds"},
        "failed": plain["failed"],
    }


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--whole", action="store_true", help="record one version of each study")
    parser.add_argument("--run", type=Path)
    parser.add_argument("--watched", action="store_true")
    args = parser.parse_args()
    if args.run is not None:
        sys.stdout.write(json.dumps(run_here(args.run, is_watched=args.watched)) + "\n")
        return
    paths = [*sorted(NOTEBOOKS.glob("*.ipynb"))]
    paths += [path for study in STUDIES for path in sorted((NOTEBOOKS / study).glob("*.ipynb"))]
    if args.quick or args.whole:
        paths = [next((NOTEBOOKS / study).glob("v1*.ipynb")) for study in STUDIES]
    if args.whole:
        whole = [measure_whole(path, 1 if args.quick else args.rounds) for path in paths]
        sys.stdout.write(json.dumps({"bench": "graph_tracking", "whole": whole}, indent=2) + "\n")
        return
    rows = [measure(path, 1 if args.quick else args.rounds) for path in paths if cells_of(path)]
    plain = sum(row["plain_s"] for row in rows)
    watched = sum(row["watched_s"] for row in rows)
    told = sum(row["told"].get("microseconds", 0) for row in rows) / 1e6
    ratio = watched / plain if plain else 1.0
    by_own_clock = 1 + told / plain if plain else 1.0
    result = {
        "bench": "graph_tracking",
        "notebooks": rows,
        "plain_s": round(plain, 3),
        "watched_s": round(watched, 3),
        "spent_s": round(told, 3),
        "ratio": round(ratio, 4),
        "ratio_by_own_clock": round(by_own_clock, 4),
        "load": os.getloadavg()[0],
        "bar": BAR,
        "met": max(ratio, by_own_clock) <= BAR,
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
