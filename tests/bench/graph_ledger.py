"""How fast the ledger of the experiment graph is with several writers at once, as JSON.

python tests/bench/graph_ledger.py               SQLite and PostgreSQL; 1, 2, 4 and 8 writers
python tests/bench/graph_ledger.py --quick       fewer merges
python tests/bench/graph_ledger.py --only sqlite

Each writer is a process that merges runs of cells, as a kernel does after each cell: an operation
with three artifacts, one of them with contents in the ledger.  Every tenth is one that all writers
run.  No writer may see an error, and all counts must add up in the end.  After that, one process
looks up operations by code and a hundred artifacts by id, in a ledger of that size.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from chexpoint.graph.ledger import Ledger
from chexpoint.model import ArtifactId, OperationId, RecordedOperation
from tests.bench.store_measure import Row, bar, say
from tests.support.ledgers import KEY, artifact, read, run
from tests.support.postgres import postgres_server

WRITERS = (1, 2, 4, 8)
SHARED_EVERY = 10
CODES = 50
"""How many different codes the operations have."""


def recorded(who: str, number: int) -> RecordedOperation:
    """Return a run as a kernel records it: a source, facts about variables, lineage and outputs."""
    name = "shared" if number % SHARED_EVERY == 0 else f"{who}-{number}"
    facts = {"df": {"columns": [[f"column {n}", "float64"] for n in range(20)], "rows": 1000}}
    return run(
        name,
        [
            artifact(f"{name}-df", names=("df",), kinds=("pandas.DataFrame",), meta=facts),
            artifact(f"{name}-x", contents="eA==" * 500),
            artifact(f"{name}-y", digest=""),
        ],
        code=f"code {number % CODES}",
        source="df = df.merge(other, on='key')\n" * 10,
        reads=tuple(read(f"v{n}", f"{who}-{number - 1}-df", "d") for n in range(5)),
        output="some text\n" * 50,
        time=float(number),
    )


def write(place: str, who: str, count: int) -> None:
    """Be one writer: wait for a line, merge, and tell how long each merge took."""
    with Ledger.open(place, key=KEY) as ledger:
        runs = [recorded(who, number) for number in range(count)]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
        seconds = []
        for each in runs:
            started = time.perf_counter()
            ledger.merge(each)
            seconds.append(time.perf_counter() - started)
    sys.stdout.write(json.dumps(seconds))


def merging(place: str, writers: int, count: int) -> Row:
    """Return how fast some writers are together, and whether anything was lost."""
    command = [sys.executable, __file__, "--write", place]
    started = [
        subprocess.Popen(
            [*command, f"w{number}", str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(writers)
    ]
    for process in started:
        assert process.stdout is not None
        process.stdout.readline()
    begun = time.perf_counter()
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    told = [process.communicate()[0] for process in started]
    wall = time.perf_counter() - begun
    errors = sum(process.returncode != 0 for process in started)
    seconds = [each for text in told if text for each in json.loads(text)]
    with Ledger.open(place, key=KEY) as ledger:
        graph = ledger.graph()
        merged = sum(each.frequency for each in graph.operations.values())
        shared = graph.operations[OperationId("shared")].frequency
    expected = writers * count
    expected_shared = writers * -(-count // SHARED_EVERY)
    return {
        "writers": writers,
        "merges_per_s": round(expected / wall, 1),
        **quantiles(seconds),
        "errors": errors,
        "lost": abs(expected - merged) + abs(expected_shared - shared),
    }


def looking(place: str, rounds: int) -> Row:
    """Return how long look-ups take."""
    with Ledger.open(place, key=KEY) as ledger:
        graph = ledger.graph()
        ids = sorted(graph.artifacts)
        pieces = [[ids[(n * 37 + k) % len(ids)] for k in range(100)] for n in range(rounds)]
        operations = sorted(graph.operations)
        inline = [ArtifactId(each) for each in ids if each.endswith("-x")]
        asked: dict[str, Callable[[int], object]] = {
            "operations_like": lambda n: ledger.operations_like(f"code {n % CODES}", "packages"),
            "artifacts_100": lambda n: ledger.artifacts(pieces[n]),
            "recorded": lambda n: ledger.recorded(operations[n * 31 % len(operations)]),
            "contents": lambda n: ledger.contents([inline[n * 31 % len(inline)]]),
            "used_10": lambda n: ledger.used(pieces[n][:10]),
        }
        found: Row = {"operations": len(operations), "artifacts": len(ids)}
        for name, ask in asked.items():
            found[name] = quantiles([_timed(ask, number) for number in range(rounds)])
        found["graph_ms"] = round(1000 * _timed(lambda _: ledger.graph(), 0), 1)
    return found


def quantiles(seconds: list[float]) -> Row:
    ordered = sorted(seconds) or [0.0]
    at = {"p50_ms": 0.5, "p99_ms": 0.99}
    return {
        name: round(1000 * ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2)
        for name, share in at.items()
    }


def _timed(ask: Callable[[int], object], number: int) -> float:
    started = time.perf_counter()
    ask(number)
    return time.perf_counter() - started


@contextmanager
def places(kind: str) -> Iterator[Callable[[], str]]:
    """Give what returns a new place for a ledger."""
    if kind == "postgresql":
        with postgres_server() as server:
            yield server.new_place
        return
    with tempfile.TemporaryDirectory(prefix="chex-bench-") as folder:
        made = iter(range(1000))
        yield lambda: os.path.join(folder, f"{next(made)}.sqlite")


def measured(kind: str, count: int, rounds: int) -> Row:
    """Return all figures of one kind of database."""
    rows, bars, found = [], [], {}
    with places(kind) as place:
        for writers in WRITERS:
            say(f"{kind}: {writers} writers")
            where = place()
            row = merging(where, writers, max(10, count // writers))
            rows.append(row)
            bars += [
                bar(f"{kind}: {what} with {writers} writers", row[what], 0, "most")
                for what in ("errors", "lost")
            ]
            if writers == WRITERS[-1]:
                found = looking(where, rounds)
    return {"merging": rows, "looking": found, "bars": bars}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=["sqlite", "postgresql"])
    parser.add_argument("--write", nargs=3, metavar=("PLACE", "WHO", "COUNT"))
    options = parser.parse_args()
    if options.write:
        place, who, count = options.write
        write(place, who, int(count))
        return
    count, rounds = (200, 50) if options.quick else (2000, 300)
    kinds = [options.only] if options.only else ["sqlite", "postgresql"]
    result: dict[str, Any] = {kind: measured(kind, count, rounds) for kind in kinds}
    bars = [each for row in result.values() for each in row["bars"]]
    result["met"] = all(each["met"] for each in bars)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
