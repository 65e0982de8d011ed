"""Bars of recording and reuse, as JSON; CHEX and stock ipykernel in the same run.

python tests/bench/reuse.py             everything, about 6 minutes
python tests/bench/reuse.py --quick     a fifth of the computing, fewer rounds
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import nbformat
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

STOCK = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
CHEX = [sys.executable, "-m", "chexpoint.kernel", "-f", "{connection_file}"]
NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"

WORK = """
import numpy as np
def work(seconds):
    total = 0
    for i in range(int(seconds * RATE)):
        total += i * i % 7
    return total
"""
# About 20 seconds in cells 1 to 6, and 3 in cells 7 to 12.
BEFORE = [
    "raw = np.arange(4_000_000, dtype=float); checks = [work(4.0)]",
    "clean = raw[raw % 3 > 0] * 1.5; checks.append(work(4.0))",
    "parts = np.split(clean[: len(clean) // 8 * 8], 8); checks.append(work(4.0))",
    "means = [float(part.mean()) for part in parts]; checks.append(work(4.0))",
    "table = {n: part.std() for n, part in enumerate(parts)}; checks.append(work(3.9))",
]
AFTER = [
    "scale = 2.0",
    "scaled = [mean * scale for mean in means]; checks.append(work(1.0))",
    "best = max(scaled)",
    "fitted = np.polyfit(range(8), scaled, 2); checks.append(work(1.0))",
    "checks.append(work(1.0))",
    "print(round(best, 3), len(checks))",
]

ANALYSIS = [
    "import numpy as np, pandas as pd\nrng = np.random.default_rng(7)",
    (
        "n = 400_000\nframe = pd.DataFrame({'g': rng.integers(0, 500, n), 'x': rng.normal(size=n),"
        " 'y': rng.normal(size=n)})"
    ),
    "frame['z'] = frame.x * 2 + frame.y\nframe.to_csv('frame.csv', index=False)",
    "back = pd.read_csv('frame.csv')\nback.describe()",
    "groups = back.groupby('g').agg(['mean', 'std', 'count'])\ngroups.head()",
    "from sklearn.linear_model import Ridge\nfrom sklearn.ensemble import RandomForestRegressor",
    "model = Ridge().fit(back[['x', 'y']], back.z)\nmodel.coef_",
    (
        "forest = RandomForestRegressor(20, max_depth=8, random_state=1, n_jobs=1)"
        ".fit(back[['x', 'y']][:60_000], back.z[:60_000])"
    ),
    "prediction = forest.predict(back[['x', 'y']])",
    "error = float(((prediction - back.z) ** 2).mean())\nprint(round(error, 4))",
    "boot = [float(back.z.sample(100_000, random_state=i).mean()) for i in range(60)]",
    "print(np.percentile(boot, [5, 95]).round(4))",
]


@contextlib.contextmanager
def kernel(argv: list[str], folder: Path) -> Iterator[Any]:
    """Start a kernel in a folder, and yield its client."""
    folder.mkdir()
    manager = KernelManager()
    env = {"IPYTHONDIR": str(folder / "ipython")}
    manager._kernel_spec = KernelSpec(argv=argv, display_name="b", language="python", env=env)
    manager.start_kernel(cwd=str(folder))
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    try:
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def run_all(client: Any, cells: Sequence[str]) -> float:
    """Send all cells at once, as Run All does; return the seconds until the last has ended."""
    started = time.perf_counter()
    requests = [client.execute(cell) for cell in cells]
    waiting = set(requests)
    while waiting:
        message = client.get_iopub_msg(timeout=300)
        request = message["parent_header"].get("msg_id")
        if message["msg_type"] == "error" and request in requests:
            raise RuntimeError(f"a cell failed: {message['content']['evalue']}")
        if message["content"].get("execution_state") == "idle":
            waiting.discard(request)
    seconds = time.perf_counter() - started
    for _ in requests:
        client.get_shell_msg(timeout=60)
    return seconds


def rate() -> float:
    """Return how many turns of the loop in `WORK` this machine does in a second."""
    space: dict[str, Any] = {"RATE": 1e6}
    exec(WORK, space)  # noqa: S102 - it is above
    started = time.perf_counter()
    space["work"](1.0)
    return 1e6 / (time.perf_counter() - started)


def run_all_after_an_edit(folder: Path, size: float) -> dict[str, Any]:
    """The second Run All of a notebook whose seventh cell was edited."""
    setup = f"RATE = {rate() * size:.0f}\n{WORK}"
    before, after = [setup, *BEFORE], AFTER
    edited = ["scale = 3.0", *AFTER[1:]]
    with kernel(STOCK, folder / "stock") as client:
        stock_before = run_all(client, before)
        stock_after = run_all(client, edited)
    with kernel(CHEX, folder / "chex") as client:
        first = run_all(client, ["%chex_record analysis", *before, *after])
        again = run_all(client, ["%chex_record analysis", *before, *edited])
        nothing = run_all(client, ["%chex_record analysis", *before, *edited])
    bar = 1.05 * stock_after + 0.5
    return {
        "cells_1_to_6_stock_s": round(stock_before, 2),
        "cells_7_to_12_stock_s": round(stock_after, 2),
        "first_run_chex_s": round(first, 2),
        "after_edit_chex_s": round(again, 2),
        "without_edit_chex_s": round(nothing, 3),
        "bar_s": round(bar, 2),
        "ratio_to_bar": round(again / bar, 3),
        "ratio_to_running_everything": round(again / first, 3),
    }


def bundled(name: str) -> list[str]:
    """Return the cells of a bundled notebook that are not just magics of CHEX."""
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    cells = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [cell for cell in cells if not cell.lstrip().startswith(("%chex", "%%chex"))]


def overhead(folder: Path, name: str, cells: Sequence[str], rounds: int) -> dict[str, Any]:
    """How much longer the cells of a notebook take when they are recorded."""
    times: dict[str, list[float]] = {"stock": [], "chex": []}
    for turn in range(rounds):
        order = [("stock", STOCK), ("chex", CHEX)]
        for which, argv in order if turn % 2 else reversed(order):
            with kernel(argv, folder / f"{name}-{which}-{turn}") as client:
                times[which].append(run_all(client, cells))
    stock, chex = (statistics.median(times[which]) for which in ("stock", "chex"))
    pairs = [b / a for a, b in zip(times["stock"], times["chex"], strict=True)]
    return {
        "stock_s": round(stock, 3),
        "chex_s": round(chex, 3),
        "overhead": round(chex / stock - 1, 4),
        "overhead_of_pairs": sorted(round(pair - 1, 4) for pair in pairs),
        "bar": 0.05,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    size, rounds = (0.2, 3) if options.quick else (1.0, 7)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result: dict[str, Any] = {"run_all_after_an_edit": run_all_after_an_edit(folder, size)}
        notebooks = {path.stem: bundled(path.name) for path in sorted(NOTEBOOKS.glob("*.ipynb"))}
        result["recording_overhead"] = {
            stem: overhead(folder, stem, cells, rounds)
            for stem, cells in {**notebooks, "analysis": ANALYSIS}.items()
        }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
