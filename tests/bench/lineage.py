"""What the audit costs, as JSON; engines with and without it interleaved.

python tests/bench/lineage.py            everything (needs about 3 GB of memory)
python tests/bench/lineage.py --quick    fewer rounds, smaller sizes
python tests/bench/lineage.py --only compute latencies    these rows

Costs are CPU time, user and system, of the supervisor, the worker and all their children, until the
lineage is known: hashing counts.  Each row is the least of its rounds, less that of an empty cell.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from chexpoint.engine import Engine

MODES = {"audited": "auto", "plain": "off"}
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
EMPTY = "pass"
CHILDREN = """
def _children():
    import resource
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
"""

Row = dict[str, Any]
Engines = Mapping[str, Engine]


# ---------------------------------------------------------------- clocks


class Meter:
    """CPU time of an engine's processes; of those that end unseen, only what was seen."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._seen: dict[int, float] = {}

    def seconds(self) -> float:
        """Return the CPU time until now."""
        for pid in family(self._engine.pid):
            with contextlib.suppress(OSError):
                # The clock of a process by its id: linux/posix-timers.h, CPUCLOCK_SCHED.
                self._seen[pid] = time.clock_gettime((~pid << 3) | 2)
        return sum(self._seen.values())


def family(root: int) -> list[int]:
    """Return a process and all that descend from it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                stat = (entry / "stat").read_text(encoding="utf-8", errors="replace")
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [root]
    for pid in found:  # grows while it is read
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def checked(engine: Engine, source: str) -> str:
    """Run a cell that must not fail; return what it printed."""
    result = engine.run(source)
    if result.error is not None:
        raise RuntimeError("\n".join(result.error.traceback))
    return result.text


def cpu_of(engine: Engine, meter: Meter, source: str) -> float:
    """Return the CPU time of a cell, that of its children included, once its lineage is known."""
    children = float(checked(engine, "print(_children())"))
    engine.lineage(last=0)
    before = meter.seconds()
    checked(engine, source)
    used = seconds_until_known(engine, meter) - before
    return used + float(checked(engine, "print(_children())")) - children


def seconds_until_known(engine: Engine, meter: Meter) -> float:
    """Return the CPU time until the lineage is known, without that of asking for all of it."""
    engine.lineage(last=0)
    known = meter.seconds()
    engine.lineage(last=0)
    return known - (meter.seconds() - known)


# ---------------------------------------------------------------- rounds


@contextlib.contextmanager
def engines(folder: Path) -> Iterator[Engines]:
    """Start an engine with the audit and one without it."""
    with (
        Engine(cwd=folder, env={"CHEX_AUDIT": MODES["audited"]}) as audited,
        Engine(cwd=folder, env={"CHEX_AUDIT": MODES["plain"]}) as plain,
    ):
        for engine in (audited, plain):
            checked(engine, CHILDREN)
            for _ in range(5):
                checked(engine, EMPTY)
        yield {"audited": audited, "plain": plain}


def in_turns(rounds: int) -> Iterator[str]:
    """Name both modes once a round, the first of them changing."""
    names = list(MODES)
    for _ in range(rounds):
        yield from names
        names.reverse()


def row(times: Mapping[str, list[float]], bar: float | None) -> Row:
    """Compare the least of each mode, and also the modes within each round."""
    least = {name: min(values) for name, values in times.items()}
    pairs = zip(times["audited"], times["plain"], strict=True)
    return {
        "audited": round(least["audited"], 4),
        "plain": round(least["plain"], 4),
        "ratio": round(least["audited"] / least["plain"], 3),
        "median_ratio_of_rounds": round(statistics.median(a / p for a, p in pairs), 3),
        "bar": bar,
    }


def less_empty(
    used: Mapping[str, list[float]], empty: Mapping[str, list[float]]
) -> dict[str, list[float]]:
    return {name: [value - min(empty[name]) for value in used[name]] for name in MODES}


def cell_row(
    folder: Path,
    source: str,
    rounds: int,
    bar: float | None,
    *,
    setup: str = EMPTY,
) -> Row:
    """CPU time of a cell in two long-lived engines."""
    used: dict[str, list[float]] = {name: [] for name in MODES}
    empty: dict[str, list[float]] = {name: [] for name in MODES}
    with engines(folder) as pair:
        meters = {name: Meter(engine) for name, engine in pair.items()}
        for engine in pair.values():
            checked(engine, setup)
        for name in in_turns(rounds):
            empty[name].append(cpu_of(pair[name], meters[name], EMPTY))
            used[name].append(cpu_of(pair[name], meters[name], source))
    return row(less_empty(used, empty), bar)


def fresh_row(
    folder: Path,
    source: str,
    rounds: int,
    bar: float,
    *,
    before_each: Callable[[], None] = lambda: None,
) -> Row:
    """CPU time of a cell, each time in a fresh engine."""
    used: dict[str, list[float]] = {name: [] for name in MODES}
    empty: dict[str, list[float]] = {name: [] for name in MODES}
    for name in in_turns(rounds):
        with Engine(cwd=folder, env={"CHEX_AUDIT": MODES[name]}) as engine:
            meter = Meter(engine)
            checked(engine, CHILDREN)
            for _ in range(3):
                empty[name].append(cpu_of(engine, meter, EMPTY))
            before_each()
            used[name].append(cpu_of(engine, meter, source))
    return row(less_empty(used, empty), bar)


# ---------------------------------------------------------------- rows


def compute(folder: Path, quick: bool) -> Row:
    return cell_row(folder, "sum(n * n for n in range(4_000_000))", 6 if quick else 20, 1.05)


def import_pandas(folder: Path, quick: bool) -> Row:
    return fresh_row(folder, "import pandas", 3 if quick else 10, 1.10)


def import_torch(folder: Path, quick: bool) -> Row:
    return fresh_row(folder, "import torch", 3 if quick else 8, 1.10)


def processes(folder: Path, quick: bool) -> Row:
    cell = "for _ in range(100): subprocess.run(['/bin/true'])"
    return cell_row(folder, cell, 4 if quick else 12, 1.5, setup="import subprocess")


def shells(folder: Path, quick: bool) -> Row:
    (folder / "file").write_text("x")
    cell = (
        "for _ in range(100): subprocess.run(['sh', '-c', 'cat file; true'], capture_output=True)"
    )
    return cell_row(folder, cell, 3 if quick else 10, None, setup="import subprocess")


def small_files(folder: Path, quick: bool) -> Row:
    count = 10_000
    small = folder / "small"
    small.mkdir()
    for n in range(count):
        (small / str(n)).write_bytes(os.urandom(2048))
    stamps = iter(range(1_500_000_000, 2_000_000_000))

    def touch() -> None:
        # Another time of change: no digest is known from the round before.
        stamp = next(stamps)
        for n in range(count):
            os.utime(small / str(n), (stamp, stamp))

    cell = f"for n in range({count}): open(f'small/{{n}}', 'rb').read()"
    return fresh_row(folder, cell, 3 if quick else 10, 4.5, before_each=touch)


def large_file(folder: Path, quick: bool) -> Row:
    """Seconds by the clock inside the cell: hashing goes on beside it."""
    path = folder / "large"
    with path.open("wb") as file:
        for _ in range(256 if quick else 1024):
            file.write(os.urandom(2**20))
    cell = (
        "import time; buffer = bytearray(2**20); started = time.perf_counter()\n"
        "with open('large', 'rb', buffering=0) as file:\n"
        "    while file.readinto(buffer): pass\n"
        "print(time.perf_counter() - started)"
    )
    times: dict[str, list[float]] = {name: [] for name in MODES}
    with engines(folder) as pair:
        for round_number, name in enumerate(in_turns(5 if quick else 15)):
            os.utime(path, (1_500_000_000 + round_number,) * 2)
            times[name].append(float(checked(pair[name], cell)))
            pair[name].lineage()
    path.unlink()
    return row(times, 1.1)


def code_cells(path: Path) -> list[str]:
    """Return the code of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def notebooks(folder: Path, quick: bool) -> Row:
    """CPU time of the first version of each bundled study, each time in a fresh engine."""
    sources = {path.parent.name: code_cells(path) for path in sorted(NOTEBOOKS.glob("*/v1*.ipynb"))}
    for study in sources:
        shutil.copytree(NOTEBOOKS / study, folder / study, ignore=shutil.ignore_patterns(".*"))
    times: dict[str, list[float]] = {name: [] for name in MODES}
    for name in in_turns(3 if quick else 10):
        total = 0.0
        for study, cells in sources.items():
            with Engine(cwd=folder / study, env={"CHEX_AUDIT": MODES[name]}) as engine:
                meter = Meter(engine)
                checked(engine, EMPTY)
                engine.lineage(last=0)
                before = meter.seconds()
                for cell in cells:
                    checked(engine, cell)
                total += seconds_until_known(engine, meter) - before
        times[name].append(total)
    return row(times, 1.05)


def latencies(folder: Path, quick: bool) -> dict[str, Row]:
    """Milliseconds by the clock of an empty cell, of a checkpoint and of a restore."""
    actions = ("round_trip", "checkpoint", "restore")
    times = {action: {name: list[float]() for name in MODES} for action in actions}
    with engines(folder) as pair:
        for engine in pair.values():
            checked(engine, "state = bytearray(b'x') * 2**28")
        for name in in_turns(50 if quick else 300):
            times["round_trip"][name].append(timed(pair[name].run, EMPTY))
        for n, name in enumerate(in_turns(5 if quick else 20)):
            engine, ref = pair[name], f"n{n}"
            checked(engine, f"x = {n}")
            times["checkpoint"][name].append(timed(engine.checkpoint, ref))
            checked(engine, "x = -1")
            times["restore"][name].append(timed(engine.restore, ref))
            engine.evict(ref)
    return {action: latency_row(times[action]) for action in actions}


def latency_row(times: Mapping[str, list[float]]) -> Row:
    median = {name: statistics.median(values) for name, values in times.items()}
    shown: Row = {f"{name}_ms": round(value * 1e3, 2) for name, value in median.items()}
    return shown | {"ratio": round(median["audited"] / median["plain"], 3), "bar": None}


def timed(action: Callable[[str], object], argument: str) -> float:
    started = time.perf_counter()
    action(argument)
    return time.perf_counter() - started


ROWS: Mapping[str, Callable[[Path, bool], Any]] = {
    "compute": compute,
    "import_pandas": import_pandas,
    "import_torch": import_torch,
    "processes": processes,
    "shells": shells,
    "small_files": small_files,
    "large_file": large_file,
    "notebooks": notebooks,
    "latencies": latencies,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", nargs="+", choices=ROWS, default=list(ROWS))
    options = parser.parse_args()
    result = {}
    for name in options.only:
        with tempfile.TemporaryDirectory() as folder:
            result[name] = ROWS[name](Path(folder), options.quick)
        sys.stderr.write(f"{name}: {json.dumps(result[name])}\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
