"""Runs benchmarks of the source tree, one after the other, each in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.resources import files
from pathlib import Path
from typing import IO, TYPE_CHECKING

from chexpoint.cli.bench_claims import NEEDS, PEERS, Benchmark
from chexpoint.cli.bench_table import Outcome
from chexpoint.errors import ChexError

if TYPE_CHECKING:
    from collections.abc import Sequence

Tick = Callable[[float, str], None]
"""Called now and then with the seconds since the start, and what the benchmark said last."""

_LEAST_LIMIT_S = 900.0
_TICK_S = 0.5
_END_S = 20.0


def source_tree() -> Path:
    """Return the folder of CHEX that has the benchmarks: that of this installation, or this one.

    Raises
    ------
    ChexError
        If there is none.
    """
    installed = Path(str(files("chexpoint"))).parent.parent
    for folder in (installed, Path.cwd()):
        if (folder / "tests" / "bench" / "planner.py").is_file():
            return folder
    raise ChexError(
        "the benchmarks are not in the installed package: run chex bench in a clone of CHEX, in"
        " the folder that has tests/bench"
    )


def lacks(benchmark: Benchmark) -> str | None:
    """Return the first thing that a benchmark needs and this machine lacks."""
    return next((need for need in benchmark.needs if not _has(need)), None)


def _has(need: str) -> bool:
    match need:
        case "root":
            return os.geteuid() == 0
        case "ip":
            return shutil.which("ip") is not None
        case "a CUDA device":
            from chexpoint.cli.capabilities import probe_gpu
            from chexpoint.cli.machine import ThisMachine

            return probe_gpu(ThisMachine()).state == "ok"
    return importlib.util.find_spec(need) is not None


def run(benchmark: Benchmark, tree: Path, *, is_full: bool, tick: Tick) -> Outcome:
    """Run a benchmark; whatever happens in it, return what came of it."""
    if (lack := lacks(benchmark)) is not None:
        return Outcome(state="not run", why=f"no {lack}", advice=NEEDS[lack])
    limit = max(_LEAST_LIMIT_S, 5 * benchmark.seconds(is_full=is_full))
    with tempfile.TemporaryFile("w+b") as printed, tempfile.TemporaryFile("w+b") as told:
        command = command_of(benchmark, tree, is_full=is_full)
        with _running(command, tree, printed, told) as process:
            started = time.monotonic()
            while process.poll() is None:
                taken = time.monotonic() - started
                if taken > limit:
                    return Outcome(state="failed", why=f"it took more than {limit / 60:.0f} min")
                tick(taken, last_line(told))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_TICK_S)
        printed.seek(0)
        # A benchmark that has missed a bar ends with 1, too; what counts is what it printed.
        try:
            return Outcome(state="done", found=json.loads(printed.read()))
        except ValueError:
            return Outcome(
                state="failed",
                why=last_line(told) or f"it ended with {process.returncode}",
                advice=f"to see more: {' '.join(command[1:])}",
            )


def command_of(benchmark: Benchmark, tree: Path, *, is_full: bool) -> list[str]:
    """Return the command that runs a benchmark, in the folder of the source."""
    # The folder that the benchmark of replays takes by itself.
    peers = str(Path.home() / ".cache" / "chex-bench-peers")
    words = benchmark.arguments(is_full=is_full)
    script = Path("tests", "bench", benchmark.script)
    return [sys.executable, str(script), *(peers if word == PEERS else word for word in words)]


@contextlib.contextmanager
def _running(
    command: Sequence[str], tree: Path, printed: IO[bytes], told: IO[bytes]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in a session of its own, of which nothing is left afterwards."""
    # Commands that benchmarks call, such as chex, are those of this environment.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    process = subprocess.Popen(
        command,
        cwd=tree,
        env={**os.environ, "PATH": path},
        stdin=subprocess.DEVNULL,
        stdout=printed,
        stderr=told,
        start_new_session=True,
    )
    # What ends us must end it, too: it is in a session of its own.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield process
    finally:
        signal.signal(signal.SIGTERM, before)
        if process.poll() is None:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Interrupt a benchmark, so that it can clean up; kill it if it does not end."""
    for number in (signal.SIGINT, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_END_S)
            return


def last_line(told: IO[bytes]) -> str:
    """Return the last line that a benchmark has written to standard error so far."""
    size = os.fstat(told.fileno()).st_size
    # The benchmark writes at the end of the same file: its position must not be moved.
    tail = os.pread(told.fileno(), 4096, max(0, size - 4096)).decode(errors="replace")
    lines = [line for line in tail.splitlines() if line.strip()]
    return (
        " ".join("".join(c if c.isprintable() else " " for c in lines[-1]).split()) if lines else ""
    )


def machine() -> str:
    """Return what this machine is, in one line."""
    cores = len(os.sched_getaffinity(0))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    release = ".".join(platform.release().split(".")[:2])
    python = ".".join(platform.python_version_tuple()[:2])
    return f"{cores} cores, {memory:.0f} GB, {platform.system()} {release}, Python {python}"
