"""Bars of the engine and the kernel, as JSON; CHEX and stock ipykernel interleaved.

python tests/bench/engine.py            everything (needs about 6 GB of memory)
python tests/bench/engine.py --quick    a quarter of the sizes and counts
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import KernelManager

from chexpoint.engine import Engine

GIB = 2**30
STOCK = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
CHEX = [sys.executable, "-m", "chexpoint.kernel", "-f", "{connection_file}"]


@contextlib.contextmanager
def kernel(argv: list[str], **env: str) -> Iterator[tuple[Any, float]]:
    """Start a kernel; yield its client and the seconds until it answered."""
    manager = KernelManager()
    spec = KernelSpec(argv=argv, display_name="bench", language="python", env=env)
    manager._kernel_spec = spec
    started = time.perf_counter()
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.kernel_info()
    client.get_shell_msg(timeout=60)
    seconds = time.perf_counter() - started
    try:
        yield client, seconds
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def cell(client: Any, code: str) -> float:
    """Run a cell; return the seconds until both its reply and its idle status are here."""
    started = time.perf_counter()
    request = client.execute(code)
    client.get_shell_msg(timeout=60)
    while True:
        message = client.get_iopub_msg(timeout=60)
        if (
            message["parent_header"].get("msg_id") == request
            and message["msg_type"] == "status"
            and message["content"]["execution_state"] == "idle"
        ):
            return time.perf_counter() - started


def timed(action: Callable[[], Any]) -> float:
    started = time.perf_counter()
    action()
    return time.perf_counter() - started


def ms(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    return {
        "median_ms": round(statistics.median(ordered) * 1e3, 2),
        "p95_ms": round(ordered[int(len(ordered) * 0.95)] * 1e3, 2),
        "max_ms": round(ordered[-1] * 1e3, 2),
    }


def start_up(rounds: int) -> dict[str, Any]:
    """Seconds from launching the process to its first answer."""
    times: dict[str, list[float]] = {"stock": [], "chex": []}
    for _ in range(rounds):
        for name, argv in (("stock", STOCK), ("chex", CHEX)):
            with kernel(argv) as (_, seconds):
                times[name].append(seconds)
    ratio = statistics.median(times["chex"]) / statistics.median(times["stock"])
    return {name: ms(t) for name, t in times.items()} | {"ratio": round(ratio, 3), "bar": 1.3}


def round_trip(cells: int) -> dict[str, Any]:
    """A trivial cell, in turns in stock, in CHEX, and in CHEX with a checkpoint after each."""
    times: dict[str, list[float]] = {"stock": [], "chex": [], "chex_always": []}
    with (
        kernel(STOCK) as (stock, _),
        kernel(CHEX, CHEX_AUTO="never") as (chex, _),
        kernel(CHEX, CHEX_AUTO="always", CHEX_BUDGET="512M") as (always, _),
    ):
        clients = {"stock": stock, "chex": chex, "chex_always": always}
        for client in clients.values():
            for _ in range(20):
                cell(client, "pass")
        for n in range(cells):
            for name, client in clients.items():
                times[name].append(cell(client, f"x = {n}"))
        # In turns a checkpoint is hidden behind the other kernels' cells: here it is not.
        back_to_back = {
            name: [cell(client, f"x = {n}") for n in range(cells)]
            for name, client in clients.items()
        }
    median = {name: statistics.median(t) for name, t in times.items()}
    tight = {name: statistics.median(t) for name, t in back_to_back.items()}
    return {
        "in_turns": {name: ms(t) for name, t in times.items()},
        "back_to_back": {name: ms(t) for name, t in back_to_back.items()},
        "ratio": round(median["chex"] / median["stock"], 3),
        "ratio_back_to_back": round(tight["chex"] / tight["stock"], 3),
        "bar": 1.0,
        "always_extra_ms": round((tight["chex_always"] - tight["chex"]) * 1e3, 2),
        "always_bar_ms": 15,
    }


def large_state(gib: float, rounds: int) -> dict[str, Any]:
    """Checkpoint, restore and take of one large NumPy array."""
    with Engine(budget_bytes=20 * GIB) as engine:
        engine.run(f"import numpy as np; a = np.ones(int({gib} * 2**30) // 8)")
        taken = []
        for n in range(rounds):
            engine.run(f"x = {n}")
            taken.append(timed(lambda n=n: engine.checkpoint(f"n{n}")))  # type: ignore[misc]
        restored, used_up = [], []
        for n in range(rounds):
            engine.run("x = -1")
            restored.append(timed(lambda n=n: engine.restore(f"n{n}")))  # type: ignore[misc]
            assert engine.run("print(x, a[0], a[-1])").text == f"{n} 1.0 1.0\n"
        for n in range(rounds):
            engine.run("x = -1")
            used_up.append(timed(lambda n=n: engine.take(f"n{n}")))  # type: ignore[misc]
            assert engine.run("print(x, a[0], a[-1])").text == f"{n} 1.0 1.0\n"
    return {
        "state_gib": gib,
        "checkpoint": ms(taken) | {"bar_ms": 25},
        "restore": ms(restored) | {"bar_ms": 25},
        "take": ms(used_up) | {"bar_ms": 5},
    }


def many_checkpoints(gib: float, count: int) -> dict[str, Any]:
    """Memory of many checkpoints of one array of which each cell changes one megabyte."""
    block = 2**20 // 8
    with Engine(budget_bytes=20 * GIB) as engine:
        engine.run(f"import numpy as np; a = np.ones(int({gib} * 2**30) // 8)")
        engine.checkpoint("base")
        before = settled_bytes(engine)
        for n in range(count):
            engine.run(f"a[{n * block}:{(n + 1) * block}] = {n} + 2")
            engine.checkpoint(f"n{n}")
        growth = (settled_bytes(engine) - before) / count
        exact = 0
        for n in range(count):
            engine.restore(f"n{n}")
            check = (
                f"want = np.ones_like(a); want[:{(n + 1) * block}] ="
                f" np.repeat(np.arange(2, {n + 3}), {block}); print(bool((a == want).all()));"
                " del want"
            )
            exact += engine.run(check).text == "True\n"
    return {
        "count": count,
        "state_gib": gib,
        "growth_mib_each": round(growth / 2**20, 2),
        "bar_mib": 12,
        "restores_exact": f"{exact}/{count}",
    }


def settled_bytes(engine: Engine) -> int:
    """Return the held bytes once two measurements in a row agree."""
    last = -1
    while True:
        engine.set_budget(20 * GIB)  # asks for a measurement
        time.sleep(1.0)
        now = engine.status().held_bytes
        if abs(now - last) < 2**20:
            return now
        last = now


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    result = {
        "start_up": start_up(4 if quick else 12),
        "round_trip": round_trip(50 if quick else 300),
        "large_state": large_state(1 if quick else 4, 5 if quick else 20),
        "many_checkpoints": many_checkpoints(0.25 if quick else 1, 12 if quick else 50),
    }
    sys.stdout.write(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
