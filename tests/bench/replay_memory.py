"""Measures from outside what the checkpoints of engines hold while a replay runs.

    with Sampler() as sampler:
        replay = replayer.run()
    print(sampler.peak_bytes, sampler.count)

A process of its own looks at all processes below this one about every 20 ms.  What checkpoints hold
is all anonymous memory of an engine's processes, each page counted once, less what the live worker
would have by itself; page tables and shared memory of the checkpoints come on top.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

INTERVAL_S = 0.02
CHECKPOINT = "chex-checkpoint"
ENGINE = "run_engine.py"


# ---------------------------------------------------------------- processes


def read(pid: int, name: str) -> str:
    """Return a file of a process; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        tasks = os.listdir(f"/proc/{pid}/task")
    except OSError:
        return found
    for task in tasks:
        found += [int(child) for child in read(pid, f"task/{task}/children").split()]
    return found


def family(pid: int) -> list[int]:
    """Return all processes below one."""
    found = children(pid)
    for child in found:
        found += children(child)
    return found


def engines(root: int) -> list[int]:
    return [pid for pid in family(root) if ENGINE in read(pid, "cmdline")]


def is_alive(pid: int) -> bool:
    """Return whether a process is neither gone nor a zombie."""
    state = read(pid, "stat").rpartition(") ")[2][:1]
    return state not in {"", "Z", "X"}


# ---------------------------------------------------------------- memory


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """What the checkpoints of all engines held at one time."""

    time: float
    held_bytes: int
    checkpoints: int
    is_clear: bool
    """Whether each engine had one live worker, and no process came or went meanwhile."""


def sizes(pid: int) -> dict[str, int]:
    """Return the memory of a process in bytes."""
    found = {}
    for line in read(pid, "smaps_rollup").splitlines()[1:] + read(pid, "status").splitlines():
        name, _, rest = line.partition(":")
        if rest.endswith(" kB"):
            found[name] = int(rest.split()[0]) * 1024
    return found


def sample(root: int) -> Sample:
    """Look at all engines below a process."""
    held, count, is_clear = 0, 0, True
    for engine in engines(root):
        before = _roles(engine)
        workers = 0
        for pid, name in before.items():
            found = sizes(pid)
            if not found.get("Anonymous"):
                continue
            held += found["Pss_Anon"]
            if name == CHECKPOINT:
                held += found["Pss_Shmem"] + found.get("VmPTE", 0)
                count += 1
            else:
                held -= found["Anonymous"]
                workers += 1
        is_clear = is_clear and workers == 1 and _roles(engine) == before
    return Sample(time=time.time(), held_bytes=held, checkpoints=count, is_clear=is_clear)


def _roles(engine: int) -> dict[int, str]:
    return {pid: read(pid, "comm").strip() for pid in family(engine) if is_alive(pid)}


# ---------------------------------------------------------------- from outside


class Sampler:
    """Samples what is below this process, until the block ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self.samples: list[Sample] = []

    def __enter__(self) -> Self:
        argv = [sys.executable, __file__, str(os.getpid())]
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            text = self._process.communicate("")[0]
            self.samples = [Sample(**each) for each in json.loads(text)]

    @property
    def clear(self) -> list[Sample]:
        return [each for each in self.samples if each.is_clear]

    @property
    def peak_bytes(self) -> int:
        return max((each.held_bytes for each in self.clear), default=0)

    @property
    def interval_s(self) -> float:
        """How far samples are apart."""
        times = [each.time for each in self.samples]
        return (times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else 0.0

    def above(self, budget: float) -> float:
        """Return the seconds for which checkpoints held more than a budget."""
        return sum(each.held_bytes > budget for each in self.clear) * self.interval_s


def samples_until_told(root: int) -> Iterator[Sample]:
    """Yield samples until standard input is closed."""
    due = time.monotonic()
    while not select.select([sys.stdin], [], [], max(0.0, due - time.monotonic()))[0]:
        due = time.monotonic() + INTERVAL_S
        found = sample(root)
        if found.checkpoints:
            yield found


def main() -> None:
    found = [
        {"time": s.time, "held_bytes": s.held_bytes, "checkpoints": s.checkpoints}
        | {"is_clear": s.is_clear}
        for s in samples_until_told(int(sys.argv[1]))
    ]
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
