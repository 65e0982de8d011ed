"""What recording costs, and what reuse saves, as JSON; CHEX and stock ipykernel in turns.

python tests/bench/reuse.py            everything (about ten minutes; leave the machine alone)
python tests/bench/reuse.py --quick    a quarter of the work, two rounds
python tests/bench/reuse.py --only overhead

Seconds are by the clock, as a front end sees them: from sending cells until the last is answered.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

STOCK = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
CHEX = [sys.executable, "-m", "chexpoint.kernel", "-f", "{connection_file}"]
NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
RECORD = "%chex_record bench"

# ---------------------------------------------------------------- kernels


@contextlib.contextmanager
def kernel(argv: list[str]) -> Iterator[Any]:
    """Run a kernel in an empty folder; yield its client."""
    with tempfile.TemporaryDirectory() as folder:
        manager = KernelManager()
        manager._kernel_spec = KernelSpec(argv=argv, display_name="bench", language="python")
        manager.start_kernel(cwd=folder)
        client = manager.client()
        client.start_channels()
        client.wait_for_ready(timeout=60)
        try:
            run(client, ["pass"])
            yield client
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)


def run(client: Any, cells: Sequence[str]) -> tuple[float, list[str]]:
    """Send all cells at once, as Run All does; return the seconds, and how each ended."""
    started = time.perf_counter()
    requests = [client.execute(cell, stop_on_error=False) for cell in cells]
    ends: dict[str, str] = {}
    while not ends.keys() >= set(requests):
        reply = client.get_shell_msg(timeout=600)
        ends[reply["parent_header"]["msg_id"]] = reply["content"]["status"]
    while True:
        message = client.get_iopub_msg(timeout=600)
        parent, content = message["parent_header"].get("msg_id"), message["content"]
        if parent == requests[-1] and content.get("execution_state") == "idle":
            return time.perf_counter() - started, [ends[request] for request in requests]


def timed(client: Any, cells: Sequence[str]) -> float:
    seconds, ends = run(client, cells)
    assert set(ends) == {"ok"}, ends
    return seconds


# ---------------------------------------------------------------- what reuse saves


def loops_per_second() -> float:
    """Return how fast this machine counts just now."""
    started = time.perf_counter()
    scope: dict[str, Any] = {}
    exec(BURN, scope)  # noqa: S102 - the very code that is timed
    scope["burn"](1_000_000)
    return 1_000_000 / (time.perf_counter() - started)


BURN = """
def burn(n):
    x = 1
    for _ in range(n):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x
"""


def preprocessing(loops: int) -> list[str]:
    """Return six cells of which each takes as long as so many loops, most of them with arrays."""
    return [
        f"import numpy as np\n{BURN}\nseed = burn({loops})",
        f"rng = np.random.default_rng(seed)\ndata = rng.normal(size=(2000, 500))\nburn({loops});",
        f"smooth = np.cumsum(data, axis=0)\ncount = burn({loops})",
        f"table = {{n: row.sum() for n, row in enumerate(smooth)}}\ncount += burn({loops})",
        f"np.save('smooth.npy', smooth)\ncount += burn({loops})",
        f"again = np.load('smooth.npy')\ncount += burn({loops})\nprint(again.shape, count)",
    ]


def analysis(loops: int, edit: int) -> list[str]:
    """Return six cells that come after them; the first of them is edited."""
    return [
        f"level = np.quantile(again, 0.9) + {edit}\nburn({loops});",
        f"above = (again > level).sum()\nburn({loops});",
        f"best = sorted(table, key=table.get)[-5:]\nburn({loops});",
        f"ratio = above / again.size\nburn({loops});",
        f"with open('result.txt', 'w') as file:\n    print(ratio, file=file)\nburn({loops});",
        f"burn({loops})\nprint(level, above, best, ratio)",
    ]


def run_all_after_an_edit(seconds: float, rounds: int) -> dict[str, Any]:
    """Twelve cells, six of which are preprocessing; the seventh is edited, and all are run."""
    rate = loops_per_second()
    before = preprocessing(int(rate * seconds / 6))
    per_cell = int(rate * seconds / 24)
    times: dict[str, list[float]] = {"preprocessing": [], "stock": [], "chex": [], "run_all": []}
    for _ in range(rounds):
        with kernel(STOCK) as client:
            times["preprocessing"].append(timed(client, before))
            timed(client, analysis(per_cell, 0))
            times["stock"].append(timed(client, analysis(per_cell, 1)))
        with kernel(CHEX) as client:
            timed(client, [RECORD, *before])
            times["chex"].append(timed(client, analysis(per_cell, 0)))
            times["run_all"].append(timed(client, [RECORD, *before, *analysis(per_cell, 1)]))
    medians = {name: statistics.median(found) for name, found in times.items()}
    return {
        "seconds": {name: [round(t, 3) for t in found] for name, found in times.items()},
        **{
            f"over_cells_7_to_12_in_{name}": {
                "run_all_s": round(medians["run_all"], 3),
                "alone_s": round(medians[name], 3),
                "bar_s": round(1.05 * medians[name] + 0.5, 3),
                "is_met": medians["run_all"] <= 1.05 * medians[name] + 0.5,
            }
            for name in ("stock", "chex")
        },
    }


# ---------------------------------------------------------------- what recording costs


def bundled(path: Path) -> list[str]:
    """Return the code of a notebook without the magics of CHEX."""
    cells = []
    for cell in json.loads(path.read_text())["cells"]:
        lines = "".join(cell["source"]).splitlines()
        kept = [line for line in lines if not line.startswith(("%chex_", "%%chex_"))]
        if cell["cell_type"] == "code" and any(line.strip() for line in kept):
            cells.append("\n".join(kept))
    return cells


def study(scale: float) -> list[str]:
    """Return a notebook as a scientist writes them: tables, a model, a picture."""
    rows = int(400_000 * scale)
    trees = max(4, int(40 * scale))
    return [
        "import numpy as np\nimport pandas as pd",
        "%matplotlib inline\nimport matplotlib.pyplot as plt",
        f"""
rng = np.random.default_rng(7)
n = {rows}
frame = pd.DataFrame({{
    "station": rng.integers(0, 200, n),
    "day": rng.integers(0, 3650, n),
    "rain": rng.gamma(0.4, 5.0, n),
    "level": rng.normal(200, 25, n),
}})
frame.to_csv("levels.csv", index=False)
""",
        "frame = pd.read_csv('levels.csv')\nframe.describe()",
        "daily = frame.groupby(['station', 'day']).mean().reset_index()\ndaily.head()",
        """
daily = daily.sort_values(["station", "day"])
for window in (3, 7, 30):
    rolled = daily.groupby("station")["rain"].rolling(window, min_periods=1).mean()
    daily[f"rain_{window}"] = rolled.to_numpy()
daily.to_parquet("daily.parquet")
len(daily)
""",
        "daily = pd.read_parquet('daily.parquet')\ndaily.corr()",
        """
from sklearn.ensemble import RandomForestRegressor
from sklearn.model_selection import train_test_split
names = ["station", "day", "rain", "rain_3", "rain_7", "rain_30"]
train, test = train_test_split(daily.head(60_000), random_state=3)
""",
        f"""
model = RandomForestRegressor({trees}, random_state=3, min_samples_leaf=5)
model.fit(train[names], train["level"])
""",
        """
predicted = model.predict(test[names])
print(f"{np.abs(predicted - test['level']).mean():.3f}")
""",
        "dict(zip(names, model.feature_importances_.round(3)))",
        "plt.hist(predicted - test['level'], bins=80)\nplt.title('residuals');",
        "u, s, v = np.linalg.svd(rng.normal(size=(900, 900)))\ns[:3]",
        "test.assign(predicted=predicted).to_csv('predicted.csv', index=False)",
    ]


def that_succeed(cells: list[str]) -> list[str]:
    """Return the cells that do not need the magics that were taken away."""
    with kernel(STOCK) as client:
        _, ends = run(client, cells)
    return [cell for cell, end in zip(cells, ends, strict=True) if end == "ok"]


def overhead(cells: list[str], rounds: int) -> dict[str, Any]:
    """Run a notebook in stock and in CHEX, in turns; the order changes from round to round."""
    times: dict[str, list[float]] = {"stock": [], "chex": [], "chex_version": []}
    ways = [("stock", STOCK, []), ("chex", CHEX, []), ("chex_version", CHEX, [RECORD])]
    for number in range(rounds):
        for name, argv, first in ways if number % 2 else reversed(ways):
            with kernel(argv) as client:
                if first:
                    timed(client, first)
                times[name].append(timed(client, cells))
    medians = {name: statistics.median(found) for name, found in times.items()}
    ratios = {name: medians[name] / medians["stock"] for name in ("chex", "chex_version")}
    return {
        "cells": len(cells),
        "median_s": {name: round(found, 3) for name, found in medians.items()},
        "seconds": {name: [round(t, 3) for t in found] for name, found in times.items()},
        "ratio": {name: round(ratio, 3) for name, ratio in ratios.items()},
        "extra_ms_per_cell": {
            name: round((medians[name] - medians["stock"]) / len(cells) * 1e3, 2) for name in ratios
        },
        "bar": 1.05,
        "is_met": max(ratios.values()) <= 1.05,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=("reuse", "overhead"))
    args = parser.parse_args()
    # Threads of numeric libraries would make two kernels in turn a matter of luck.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    result: dict[str, Any] = {}
    if args.only != "overhead":
        seconds, rounds = (5.0, 2) if args.quick else (20.0, 3)
        result["run_all_after_an_edit"] = run_all_after_an_edit(seconds, rounds)
    if args.only != "reuse":
        rounds = 3 if args.quick else 9
        result["overhead"] = {
            path.stem: overhead(that_succeed(bundled(path)), rounds)
            for path in sorted(NOTEBOOKS.glob("*.ipynb"))
        }
        scale, rounds = (0.25, 3) if args.quick else (1.0, 5)
        result["overhead"]["study"] = overhead(study(scale), rounds)
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
