"""A Dask cluster of real processes on this machine, for the tests of replays elsewhere."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support.processes import Process, marked, wait_exit, wait_none_marked

MARK = "CHEX_TEST_HOST"
_START_S = 60.0


class Program:
    """A process whose descendants can be found, whatever becomes of it."""

    def __init__(
        self, folder: Path, argv: Sequence[str], *, before: Sequence[str] = (), path: str = ""
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.mark = uuid.uuid4().hex
        env = {**os.environ, MARK: self.mark, **({"PYTHONPATH": path} if path else {})}
        self.log = folder / "log.txt"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*before, sys.executable, "-m", *argv],
                cwd=folder,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def others(self) -> list[Process]:
        """Return the processes that it has started and that are alive."""
        return [each for each in marked(MARK, self.mark) if each.pid != self.process.pid]

    def engines(self) -> list[Process]:
        """Return those of them that are engines, or belong to one."""
        return [each for each in self.others() if "chexpoint" in each.command]

    def kill(self) -> None:
        """End it as the system does when it has no memory left."""
        self.process.kill()
        self.process.wait()

    def left_over(self, timeout_s: float = 15.0) -> list[Process]:
        """Return what is still alive of it and its descendants some time after its end."""
        return wait_none_marked(MARK, self.mark, timeout_s=timeout_s)

    def end(self) -> None:
        """End it, and everything of it that is left."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        for each in marked(MARK, self.mark):
            with suppress(ProcessLookupError):
                os.kill(each.pid, 9)
            wait_exit(each.pid, timeout_s=10)
        self.process.wait(10)


class DaskCluster:
    """A scheduler and its workers; use it in a ``with`` statement.

    Parameters
    ----------
    host
        The address that the scheduler listens at.
    """

    def __init__(
        self, folder: Path, *, host: str = "127.0.0.1", before: Sequence[str] = ()
    ) -> None:
        self.folder = folder
        file = folder / "scheduler.json"
        argv = ["distributed.cli.dask_scheduler", "--host", host, "--port", "0"]
        argv += ["--no-dashboard", "--dashboard-address", f"{host}:0"]
        argv += ["--scheduler-file", str(file)]
        self.scheduler = Program(folder / "scheduler", argv, before=before)
        self.workers: list[Program] = []
        self.address = str(json.loads(_waited(file, self.scheduler))["address"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for program in (*self.workers, self.scheduler):
            program.end()

    def start_worker(
        self,
        name: str,
        *options: str,
        before: Sequence[str] = (),
        path: str = "",
        has_nanny: bool = False,
    ) -> Program:
        """Start a worker with one thread; it may take a while until it is there.

        Parameters
        ----------
        has_nanny
            Whether the worker is a child of the process, as it is by default in Dask.
        """
        folder = self.folder / f"{name}-{len(self.workers)}"
        argv = ["distributed.cli.dask_worker", self.address, "--name", name]
        argv += [
            "--nanny" if has_nanny else "--no-nanny",
            "--nthreads",
            "1",
            "--no-dashboard",
            "--memory-limit",
            "0",
        ]
        argv += ["--local-directory", str(folder / "local"), *options]
        worker = Program(folder, argv, before=before, path=path)
        self.workers.append(worker)
        return worker

    def wait(self, count: int) -> None:
        """Wait until so many workers are there."""
        from distributed import Client

        with Client(  # type: ignore[no-untyped-call]
            self.address, set_as_default=False
        ) as client:
            client.wait_for_workers(count, timeout=_START_S)


def _waited(file: Path, program: Program) -> str:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline and program.process.poll() is None:
        with suppress(OSError, ValueError):
            text = file.read_text()
            json.loads(text)
            return text
        time.sleep(0.02)
    raise RuntimeError(f"no scheduler: {program.log.read_text()}")
