"""Bars of the de-duplicating store, as JSON.

python tests/bench/store.py                      everything
python tests/bench/store.py --quick              smaller arrays, fewer checkpoints
python tests/bench/store.py --only ratio,speed --of hex,rows --size 300

Speed is in GB per CPU-second and as a part of what a plain copy reaches in the same run, in turns,
the least of several rounds each.  Every checkpoint is restored and compared bit by bit.  The first
checkpoint of a lineage is not part of a ratio, as in the paper on GPU de-duplication.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))

from chexpoint.model import ImageName
from chexpoint.store import Store
from chexpoint.store.dedup import BLOCK_BYTES, Series, decode
from chexpoint.store.dedup.pages import PageTracker
from tests.bench.store_measure import (
    MIB,
    Copying,
    Row,
    as_bytes,
    bar,
    cpu,
    held_and_peak,
    is_equal,
    joined,
    least,
    say,
    size,
)
from tests.bench.store_pages import tracked
from tests.support.workloads import Workload, workloads

if TYPE_CHECKING:
    from numpy.typing import NDArray

CHUNK = 256
RATIO_BARS = {"irregular": 3.0, "regular": 10.0, "rows": 1.2, "frozen": 1.0}
METHODS = (("basic", 64), ("list", 64), ("tree", 64), ("tree", 256), ("ours", 128), ("ours", 256))


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How large, how many and how often."""

    size_mib: float
    checkpoints: int
    rounds: int
    engine: str
    of: tuple[str, ...]
    """Names of lineages; empty for all."""

    def workloads(self, *names: str) -> list[Workload]:
        """Return these lineages, or all, as far as they are wanted."""
        known = workloads(self.size_mib, self.checkpoints)
        return [known[n] for n in names or known if not self.of or n in self.of]

    def series(self, method: str = "ours", chunk_bytes: int = CHUNK) -> Series:
        made: Callable[..., Series] = Series
        return made(method=method, chunk_bytes=chunk_bytes, engine=self.engine)


# ---------------------------------------------------------------- ratio


def ratio(options: Options) -> Row:
    """How much smaller the lineages get, against the paper's `tree` with chunks of 64 B."""
    rows, bars = {}, []
    for work in options.workloads():
        if work.kind == "dense":
            continue
        name = work.name
        say(f"ratio: {name}")
        row = _ratios(options, work)
        rows[name] = row
        gain = row["ratio"]["ours-256"] / row["ratio"]["tree-64"]
        finer = row["ratio"]["ours-128"] / row["ratio"]["tree-64"]
        bars.append(
            bar(f"{name}: ours against tree", gain, RATIO_BARS[work.kind], "least")
            | {"at_128": round(finer, 3)}
        )
        bars.append(bar(f"{name}: restored", row["restored"], 1.0, "least"))
    return {"lineages": rows, "bars": bars}


def _ratios(options: Options, work: Workload) -> Row:
    series = {f"{m}-{chunk}": options.series(m, chunk) for m, chunk in METHODS}
    chains: dict[str, list[bytes]] = {name: [] for name in series}
    seconds = dict.fromkeys(series, 0.0)
    nbytes = 0
    for array in work.steps():
        nbytes = array.nbytes
        for name, each in series.items():
            pieces: list[Any] = []
            seconds[name] += cpu(lambda e=each, p=pieces, a=array: p.extend(e.encode(as_bytes(a))))  # type: ignore[misc]
            chains[name].append(joined(pieces))
    right = [
        is_equal(decode(chain[: number + 1]), array)
        for number, array in enumerate(work.steps())
        for chain in chains.values()
    ]
    later = (options.checkpoints - 1) * nbytes
    stored = {name: sum(len(piece) for piece in chain[1:]) for name, chain in chains.items()}
    return {
        "about": work.about,
        "nbytes": nbytes,
        "ratio": {name: round(later / stored[name], 2) for name in chains},
        "first_of_full": {name: round(len(c[0]) / nbytes, 4) for name, c in chains.items()},
        "gb_per_cpu_s": {
            name: round(options.checkpoints * nbytes / seconds[name] / 1e9, 2) for name in chains
        },
        "restored": sum(right) / len(right),
    }


# ---------------------------------------------------------------- speed


def speed(options: Options) -> Row:
    """Hash and compare, and sparse lineages end to end, against a plain copy."""
    bars = [_hash_and_compare(options, chunk) for chunk in (128, CHUNK)]
    for work in options.workloads("race", "hex", "road", "mesh", "rows"):
        say(f"speed: {work.name}")
        bars.append(_end_to_end(options, work))
    return {"bars": bars}


def _hash_and_compare(options: Options, chunk_bytes: int) -> Row:
    """Look again at an array in which nothing has changed, or one byte of every block."""
    data = np.random.default_rng(0).integers(0, 256, int(options.size_mib * MIB), np.uint8)
    copying = Copying(data.nbytes)
    series = options.series(chunk_bytes=chunk_bytes)
    series.encode(data)
    seconds = touched = float("inf")
    for _ in range(options.rounds * 3):
        copying.round()
        seconds = min(seconds, cpu(lambda: series.encode(data)))
        data[::BLOCK_BYTES] += np.uint8(1)
        touched = min(touched, cpu(lambda: series.encode(data)))
        data[::BLOCK_BYTES] -= np.uint8(1)
        series.encode(data)
    return bar(
        f"hash and compare at {chunk_bytes} B, of a copy",
        copying.seconds / seconds,
        0.55,
        "least",
        gb_per_cpu_s=round(data.nbytes / seconds / 1e9, 2),
        every_block_touched=round(copying.seconds / touched, 3),
        copy_gb_per_cpu_s=round(copying.gb_per_s, 2),
    )


def _end_to_end(options: Options, work: Workload) -> Row:
    states = [array.copy() for array in work.steps()]
    copying = Copying(states[0].nbytes)
    rounds = []
    for _ in range(options.rounds):
        series = options.series()
        series.encode(as_bytes(states[0]))
        times = []
        for state in states[1:]:
            copying.round()
            times.append(cpu(lambda s=state: series.encode(as_bytes(s))))  # type: ignore[misc] # noqa: B023
        rounds.append(times)
    mean = sum(least(rounds)) / (len(states) - 1)
    return bar(
        f"{work.name}: end to end, of a copy",
        copying.seconds / mean,
        0.40,
        "least",
        gb_per_cpu_s=round(states[0].nbytes / mean / 1e9, 2),
        copy_gb_per_cpu_s=round(copying.gb_per_s, 2),
    )


# ---------------------------------------------------------------- restore


def restore(options: Options) -> Row:
    """Bring back the last checkpoint of each lineage."""
    bars = []
    for work in options.workloads():
        name = work.name
        say(f"restore: {name}")
        series, chain = options.series(), []
        for array in work.steps():
            chain.append(joined(series.encode(as_bytes(array))))
        right = is_equal(decode(chain), array)
        seconds = min(cpu(lambda: decode(chain)) for _ in range(options.rounds))  # noqa: B023
        bars.append(
            bar(f"{name}: GB per CPU-second", array.nbytes / seconds / 1e9, 2.0, "least")
            | {"right": right, "pieces": len(chain), "stored": sum(map(len, chain))}
        )
        bars.append(bar(f"{name}: right", float(right), 1.0, "least"))
    return {"bars": bars}


# ---------------------------------------------------------------- memory


def memory(options: Options) -> Row:
    """What a series keeps in memory, and in its cache, as a part of the data."""
    bars = []
    for work in options.workloads("rows", "hex", "race", "frozen"):
        name = work.name
        say(f"memory: {name}")
        states = [array.copy() for array in work.steps()]
        made: list[Series] = []
        nbytes = states[0].nbytes
        _encode_all(options, states[:2], [])  # what is compiled and imported is no part of an index
        held, peak = held_and_peak(lambda s=states, m=made: _encode_all(options, s, m))  # type: ignore[misc]
        more = {"at_most": round(peak / nbytes, 4)}
        bars.append(bar(f"{name}: in memory", held / nbytes, 0.25, "most", **more))
        bars.append(bar(f"{name}: cache", size(made[0].dump()) / nbytes, 0.25, "most"))
    return {"bars": bars}


def _encode_all(options: Options, states: list[NDArray[Any]], made: list[Series]) -> None:
    series = options.series()
    for state in states:
        series.encode(as_bytes(state))
    made.append(series)


# ---------------------------------------------------------------- dense change


def dense(options: Options) -> Row:
    """Where everything changes: never larger than full, and what the guard costs."""
    bars = []
    for work in options.workloads("adam", "bf16"):
        name = work.name
        say(f"dense: {name}")
        series = {"full": options.series("full"), "ours": options.series()}
        chains: dict[str, list[bytes]] = {"full": [], "ours": []}
        times: dict[str, list[float]] = {"full": [], "ours": []}
        wrong = 0
        with tempfile.TemporaryFile() as file:
            for array in work.steps():
                for method, each in series.items():
                    file.seek(0)
                    pieces: list[Any] = []
                    times[method].append(cpu(lambda p=pieces, e=each: _write(p, e, array, file)))  # type: ignore[misc] # noqa: B023
                    chains[method].append(joined(pieces))
                    wrong += not is_equal(decode(chains[method]), array)
            at_hand, last, known = options.series(), np.empty(0, np.uint8), 0
            for number, array in enumerate(work.steps()):
                piece = joined(at_hand.encode(as_bytes(array), previous=lambda a=last: a))  # type: ignore[misc]
                known += len(piece) if number else 0
                last = as_bytes(array).copy()
        late = options.checkpoints // 2
        overhead = min(times["ours"][late:]) / min(times["full"][late:]) - 1
        share = max(len(piece) for piece in chains["ours"]) / array.nbytes
        total = sum(map(len, chains["ours"][1:])) / sum(map(len, chains["full"][1:]))
        more = {
            "ours_cpu_s": [round(t, 3) for t in times["ours"]],
            "full_cpu_s": [round(t, 3) for t in times["full"]],
        }
        bars += [
            bar(f"{name}: largest piece, of full", share, 1.01, "most", all_pieces=round(total, 4)),
            bar(f"{name}: guard over a full write", overhead, 0.15, "most", **more),
            bar(f"{name}: wrong", wrong, 0, "most"),
            {
                "what": f"{name}: times smaller, the last contents at hand",
                "value": round(array.nbytes * (options.checkpoints - 1) / known, 2),
            },
        ]
    return {"bars": bars}


def _write(pieces: list[Any], series: Series, array: NDArray[Any], file: Any) -> None:
    pieces.extend(series.encode(as_bytes(array)))
    for piece in pieces:
        file.write(piece)
    file.flush()


# ---------------------------------------------------------------- pages


def pages(options: Options) -> Row:
    """Lineages whose written pages the kernel knows, if it does."""
    reason = PageTracker.supported()
    bars = [bar("page tracking works here", float(not reason), 1.0, "least", why=reason)]
    for work in options.workloads("hex", "road", "rows") if not reason else ():
        say(f"pages: {work.name}")
        states = [array.copy() for array in work.steps()]
        bars += tracked(work.name, states, options.series, options.rounds)
    return {"bars": bars}


# ---------------------------------------------------------------- on disk


def disk(options: Options) -> Row:
    """A whole store: 200 MB of which 1,000 elements change from image to image."""
    rng = np.random.default_rng(0)
    array = rng.random(int(25e6 * min(options.size_mib / 64, 1)))
    truths: list[NDArray[Any]] = []
    puts: list[Row] = []
    reads: list[Row] = []
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, Store.open(folder, key=bytes(32)) as store:
        names = [ImageName(f"image-{number}") for number in range(options.checkpoints)]
        for name in names:
            if truths:
                array[rng.integers(0, len(array), 1000)] += 1.0
            truths.append(array.copy())
            row = _timed(functools.partial(_put, store, name, array))
            puts.append(row | {"stored_bytes": store.info(name).stored_bytes})
        for name, truth in zip(names, truths, strict=True):
            found: list[Any] = []
            reads.append(_timed(functools.partial(_read, store, name, found)))
            wrong += not is_equal(found[0], truth)
        usage = store.usage()
    share = max(put["stored_bytes"] for put in puts[1:]) / array.nbytes
    gb_per_s = array.nbytes / min(read["cpu_s"] for read in reads) / 1e9
    return {
        "nbytes": array.nbytes,
        "put": puts,
        "read": reads,
        "pack_bytes": usage.pack_bytes,
        "index_bytes": usage.index_bytes,
        "bars": [
            bar("largest image after the first, of the array", share, 0.02, "most"),
            bar("caches, of the array", usage.index_bytes / array.nbytes, 0.25, "most"),
            bar("read, GB per CPU-second", gb_per_s, 2.0, "least"),
            bar("wrong", wrong, 0, "most"),
        ],
    }


def _read(store: Store, name: ImageName, found: list[Any]) -> None:
    found.append(store.read(name).array("a"))


def _put(store: Store, name: str, array: NDArray[Any]) -> None:
    store.put(ImageName(name), {}, streams={}, arrays={"a": array.data})


def _timed(action: Callable[[], object]) -> Row:
    started = time.perf_counter()
    spent = cpu(action)
    return {"seconds": round(time.perf_counter() - started, 4), "cpu_s": round(spent, 4)}


SECTIONS: dict[str, Callable[[Options], Row]] = {
    "ratio": ratio,
    "speed": speed,
    "restore": restore,
    "memory": memory,
    "dense": dense,
    "pages": pages,
    "disk": disk,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="smaller arrays, fewer checkpoints")
    parser.add_argument("--only", default=",".join(SECTIONS), help="sections, with commas between")
    parser.add_argument("--size", type=float, help="MiB of each array")
    parser.add_argument("--of", default="", help="lineages, with commas between; all without it")
    parser.add_argument("--engine", default="jit", choices=("auto", "jit", "plain"))
    args = parser.parse_args()
    options = Options(
        size_mib=args.size or (8 if args.quick else 64),
        checkpoints=4 if args.quick else 10,
        rounds=2 if args.quick else 5,
        engine=args.engine,
        of=tuple(args.of.split(",")) if args.of else (),
    )
    found: Row = {"size_mib": options.size_mib, "checkpoints": options.checkpoints}
    found["load"] = os.getloadavg()[0]
    missed = []
    for name in args.only.split(","):
        started = time.perf_counter()
        found[name] = SECTIONS[name](options)
        found[name]["section_s"] = round(time.perf_counter() - started, 1)
        missed += [
            f"{name}: {row['what']}" for row in found[name]["bars"] if not row.get("met", True)
        ]
    found["missed"] = missed
    sys.stdout.write(json.dumps(found, indent=2) + "\n")
    return int(bool(missed))


if __name__ == "__main__":
    raise SystemExit(main())
