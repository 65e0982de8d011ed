"""Runs the trainings of the benchmark of hindsight logging, each in a process of its own."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.bench.hindsight_workloads import NAMES, Probe, Workload

Row = dict[str, Any]

CHEX = (sys.executable, "-m", "chexpoint")
SCRIPT = "train.py"
VERSION = "v1"
TIMEOUT_S = 1800.0


class Failed(Exception):
    """A command of the benchmark has failed; its text says which, and how."""


class Done(NamedTuple):
    """A command that has succeeded."""

    wall_s: float
    cpu_s: float
    """Of it and of all it has waited for, which the workers of an engine are not; what others do
    on the machine hardly shows in it."""
    printed: str


def environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of all trainings: one thread, and no settings of the user's."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("CHEX_")}
    return kept | {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"} | dict(more or {})


def run(
    command: Sequence[str],
    folder: Path,
    *,
    env: Mapping[str, str] | None = None,
    answers: str = "",
    good: Sequence[int] = (0,),
) -> Done:
    """Run a command in a folder; return the seconds and what it printed.

    Raises
    ------
    Failed
        If its exit code is not one of the good ones.
    """
    begun, begun_cpu = time.perf_counter(), _children_s()
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(env),
            input=answers,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Failed(f"{' '.join(command[1:4])}: {error}") from error
    seconds, cpu_s = time.perf_counter() - begun, _children_s() - begun_cpu
    if done.returncode not in good or (done.returncode and not done.stdout.strip()):
        lines = (done.stderr or done.stdout).strip().splitlines()
        raise Failed(f"{' '.join(command[1:4])}: {lines[-1] if lines else done.returncode}")
    return Done(seconds, cpu_s, done.stdout)


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def trained(folder: Path) -> Row:
    """Return what the script has said about its training loop."""
    return dict(json.loads((folder / "trained.json").read_text(encoding="utf-8")))


def seconds_of(done: Done) -> Row:
    """Return what a command took, for a row."""
    return {"wall_s": done.wall_s, "cpu_s": done.cpu_s}


def write(work_text: str, folder: Path) -> None:
    """Put a script into a folder, as a user's editor does."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SCRIPT).write_text(work_text, encoding="utf-8")


def plain(work: Workload, folder: Path, *probes: Probe) -> Row:
    """Train with plain Python; return the seconds, and what the probes logged."""
    write(work.plain(*probes), folder)
    done = run([sys.executable, SCRIPT], folder)
    return seconds_of(done) | trained(folder) | {"values": printed_values(done.printed)}


def record(work: Workload, folder: Path, *, is_off: bool = False) -> Row:
    """Train under ``chex record``, with loops recorded or not."""
    write(work.plain(), folder)
    command = [*CHEX, "record", SCRIPT, "--name", VERSION, "--project", ".", "--quiet"]
    done = run(command, folder, env={"CHEX_OVERHEAD": "off"} if is_off else None)
    return seconds_of(done) | trained(folder) | {"loops": stored(folder)}


def stored(folder: Path) -> Row:
    """Return how many checkpoints of loops there are, and what the project takes on disk."""
    lines = [
        json.loads(line)
        for path in (folder / ".chex" / "loops").glob("*/saved.jsonl")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]
    files = [path for path in (folder / ".chex").rglob("*") if path.is_file()]
    return {
        "images": sum("failed" not in line for line in lines),
        "failed": sum("failed" in line for line in lines),
        "bytes": sum(path.stat().st_size for path in files),
    }


def probe(work: Workload, folder: Path, which: Probe, *, workers: int = 1) -> Row:
    """Add a log statement to the recorded script, and ask for its values in hindsight."""
    write(work.plain(which), folder)
    command = [*CHEX, "hindsight", SCRIPT, "--version", VERSION, "--project", ".", "--json"]
    # 1: something diverged, which is what the values will show.
    done = run([*command, "--workers", str(workers)], folder, good=(0, 1))
    try:
        found = json.loads(done.printed)["versions"][0]
    except (ValueError, KeyError, IndexError) as error:
        raise Failed(f"chex hindsight printed no result: {done.printed[:200]!r}") from error
    rows = [row for row in found["rows"] if row["added"]]
    standings = [row["standing"] for row in rows]
    return seconds_of(done) | {
        "values": {NAMES[which]: [str(row["value"]).split()[-1] for row in rows]},
        "standings": {each: standings.count(each) for each in sorted(set(standings))},
        "findings": found.get("findings", [])[:5],
        "notes": found.get("notes", []),
        "failed": found.get("failed", ""),
    }


def printed_values(printed: str) -> dict[str, list[str]]:
    """Return what the probes printed, by name; Python prints numbers so that no bit is lost."""
    rows: dict[str, list[str]] = {name: [] for name in NAMES.values()}
    for line in printed.splitlines():
        name, _, value = line.partition(" ")
        if name in rows:
            rows[name].append(value)
    return rows
