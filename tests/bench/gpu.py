"""How fast the CUDA engine is on this machine's device, beside the figures of the paper, as JSON.

python tests/bench/gpu.py                      1 GiB of counters, chunks of 64 to 512 bytes
python tests/bench/gpu.py --mib 4096 --rounds 10

GB/s are bytes of the array per second, from the call until the findings are on the host.  The data
are counters of which few change from look to look, as in the paper; not the same data, so that
ratios cannot be compared, and speeds only roughly.  Without a device it says so and ends.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from typing import Any

from chexpoint.errors import StoreError
from chexpoint.store.cuda import CudaDiffer
from chexpoint.store.cuda.cupy_device import load_cupy
from chexpoint.store.dedup.analysis import Method

METHODS: tuple[Method, ...] = ("ours", "tree", "list", "basic", "full")
CHUNKS = (64, 128, 256, 512)

PAPER_A100 = {
    "what": "GB/s of the authors' own runs on an A100: message race, by method and chunk size",
    "tree": {"64": 167, "128": 201, "256": 215, "512": 187},
    "list": {"64": 105, "256": 158},
    "full": {"any": 3.4},
}


def counters(cupy: Any, nbytes: int) -> Any:
    """Return counters, most of which are zero or small."""
    random = cupy.random.RandomState(1)
    rows = nbytes // 4 // 73
    values = random.poisson(2.0, (rows, 73)).astype(cupy.int32)
    values[random.random_sample(rows) < 0.6] = 0
    return values


def count_on(cupy: Any, values: Any, round_number: int) -> None:
    """Change one row of a thousand."""
    random = cupy.random.RandomState(round_number + 2)
    rows = random.randint(0, len(values), len(values) // 1000)
    values[rows] += 1


def measure(cupy: Any, method: Method, chunk_bytes: int, nbytes: int, rounds: int) -> Any:
    """Return how fast looks are, and how much they bring to the host."""
    values = counters(cupy, nbytes)
    differ = CudaDiffer(method=method, chunk_bytes=chunk_bytes)
    look = differ.analyse if method == "ours" else differ.regions
    seconds, brought = [], []
    for number in range(rounds + 1):
        cupy.cuda.Device().synchronize()
        started = time.perf_counter()
        found = look(values)
        seconds.append(time.perf_counter() - started)
        brought.append(found.payload.nbytes)
        count_on(cupy, values, number)
    return {
        "first_gb_per_s": round(values.nbytes / seconds[0] / 1e9, 2),
        "gb_per_s": round(values.nbytes / statistics.median(seconds[1:]) / 1e9, 2),
        "payload_share": round(statistics.mean(brought[1:]) / values.nbytes, 5),
        "index_share": round(differ.size_bytes / values.nbytes, 3),
    }


def copy_speed(cupy: Any, nbytes: int) -> dict[str, float]:
    """Return how fast memory is: on the device, and from pinned memory of the host's to it."""
    array = cupy.zeros(nbytes, cupy.uint8)
    pinned = cupy.cuda.alloc_pinned_memory(nbytes)
    speeds = {}
    for name in ("device", "to_host"):
        seconds = []
        for _ in range(5):
            cupy.cuda.Device().synchronize()
            started = time.perf_counter()
            if name == "device":
                array.copy()
            else:
                array.data.copy_to_host(pinned.ptr, nbytes)
            cupy.cuda.Device().synchronize()
            seconds.append(time.perf_counter() - started)
        speeds[name] = round(nbytes / min(seconds) / 1e9, 2)
    return speeds


def main() -> None:
    """Print all figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--mib", type=int, default=1024, help="size of the array")
    parser.add_argument("--rounds", type=int, default=5, help="looks after the first")
    options = parser.parse_args()
    try:
        cupy = load_cupy()
    except StoreError as error:
        sys.stderr.write(f"{error}\n")
        sys.stdout.write('{"device": null}\n')
        return
    nbytes = options.mib << 20
    report = {
        "device": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "nbytes": nbytes,
        "copy_gb_per_s": copy_speed(cupy, nbytes),
        "methods": {
            method: {
                str(chunk): measure(cupy, method, chunk, nbytes, options.rounds)
                for chunk in (CHUNKS if method != "full" else (256,))
            }
            for method in METHODS
        },
        "paper": PAPER_A100,
    }
    json.dump(report, sys.stdout, indent=1)


if __name__ == "__main__":
    main()
