"""The state behind cells that were not run: brought back when it is needed, or said why not."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.kernels import Kernel
from tests.support.notebooks import (
    Beacon,
    Shown,
    finish,
    kernel_at,
    reused,
    run_all,
    run_cell,
    value,
)
from tests.support.processes import wait_reaped

pytestmark = pytest.mark.slow


class Bench:
    """A kernel without checkpoints, so that a state is brought back by running its cells again."""

    def __init__(self, kernel: Kernel, beacon: Beacon) -> None:
        self.kernel = kernel
        self.beacon = beacon

    def run(self, code: str) -> Shown:
        return run_cell(self.kernel, code)

    def run_all(self, cells: list[str], version: str) -> list[Shown]:
        """Run all cells; those that wait for a signal get it."""
        shown = run_all(self.kernel, [], version=version)
        for cell in cells:
            self.kernel.forget()
            request = self.kernel.submit(cell)
            if cell == self.beacon.cell:
                self.beacon.let_go()
            shown.append(finish(self.kernel, request))
        return shown


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    folder = tmp_path_factory.mktemp("state")
    project = folder / "project"
    with kernel_at(project, folder / "kernel", CHEX_AUTO="never", NB_OUTER="one") as kernel:
        beacon = Beacon(project)
        yield Bench(kernel, beacon)
        beacon.close()


def test_a_restarted_kernel_shows_all_at_once_and_brings_back_the_state(bench: Bench) -> None:
    cells = ["import time", "time.sleep(0.6)\nr1 = 1", "r2 = r1 + 1\nprint(r2)"]
    bench.run_all(cells, "restart")
    bench.kernel.restart()
    again = bench.run_all(cells, "restart")
    assert reused(again) == "rrr"
    assert again[2].text == "2\n"
    after = bench.run("print(r1 + r2)")
    assert after.text == "3\n"
    assert after.marks[0].startswith("bringing back the state: cell 1 of 3")
    assert after.followed.startswith("3 earlier cells were run again")
    assert not bench.run("r1").followed


def test_a_variable_of_the_environment_is_an_input(bench: Bench) -> None:
    cells = ["import os", "e1 = 1", "e2 = os.environ.get('NB_OUTER')\nprint(e2)", "e3 = 3"]
    bench.run_all(cells, "variable")
    bench.kernel.manager.update_env(env={"NB_OUTER": "two"})
    bench.kernel.restart()
    again = bench.run_all(cells, "variable")
    assert reused(again) == "rrcc"
    assert "NB_OUTER has another value now" in again[2].why
    assert again[2].text == "two\n"


def test_an_interrupt_while_the_state_is_brought_back_fails_what_waits(bench: Bench) -> None:
    cells = ["i1 = 1", bench.beacon.cell, "i2 = i1 + 1"]
    bench.run_all(cells, "interrupt")
    bench.kernel.restart()
    assert reused(run_all(bench.kernel, cells, version="interrupt")) == "rrr"
    bench.kernel.forget()
    request = bench.kernel.submit("i1 + i2")
    queued = bench.kernel.submit("i1 + i2 + 1")
    bench.beacon.wait()
    bench.kernel.interrupt()
    stopped = finish(bench.kernel, request)
    assert stopped.status == "error"
    assert stopped.error.startswith("NotReached: ")
    assert len(stopped.outcome.content["traceback"]) == 1
    assert finish(bench.kernel, queued).status == "aborted"
    # The state is the one after the cell that was interrupted, and it can be worked with.
    assert bench.run("print(i1, 'i2' in globals())").text == "1 False\n"
    assert reused(run_all(bench.kernel, cells, version="interrupt")) == "rrr"
    request = bench.kernel.submit("i1 + i2")
    bench.beacon.let_go()
    assert finish(bench.kernel, request).result == "3"


def test_a_worker_that_dies_on_the_way_is_said_and_replaced(bench: Bench) -> None:
    cells = ["k1 = 1", bench.beacon.cell, "k2 = k1 + 1"]
    bench.run_all(cells, "killed")
    bench.kernel.restart()
    assert reused(run_all(bench.kernel, cells, version="killed")) == "rrr"
    request = bench.kernel.submit("k1 + k2")
    os.kill(bench.beacon.wait(), signal.SIGKILL)
    died = finish(bench.kernel, request)
    assert died.error.startswith("WorkerDied: ")
    assert bench.run("print('k1' in globals())").text == "False\n"
    assert reused(run_all(bench.kernel, cells, version="killed")) == "rrr"
    request = bench.kernel.submit("k1 + k2")
    bench.beacon.let_go()
    assert finish(bench.kernel, request).result == "3"


def test_a_worker_that_dies_while_all_is_reused_is_not_missed(bench: Bench) -> None:
    cells = ["d1 = 1", "d2 = d1 + 1"]
    bench.run_all(cells, "idle")
    assert reused(bench.run_all(cells, "idle")) == "rr"
    pid = int(value(bench.kernel, "__import__('os').getpid()"))
    assert reused(bench.run_all(cells, "idle")) == "rr"
    os.kill(pid, signal.SIGKILL)
    assert wait_reaped(pid)
    assert bench.run("d1 + d2").result == "3"


def test_two_kernels_share_what_they_record(bench: Bench, tmp_path: Path) -> None:
    cells = ["w1 = 1", "w2 = w1 + 1\nw2"]
    project = Path(value(bench.kernel, "__import__('os').getcwd()").strip("'"))
    with kernel_at(project, tmp_path / "other") as other:
        assert reused(run_all(other, cells, version="shared")) == "cc"
        assert reused(bench.run_all(cells, "shared")) == "rr"
        # Both at once, each with requests that wait in its queue.
        mine = [bench.kernel.submit(f"w{n} = {n}") for n in range(3, 20)]
        theirs = [other.submit(f"w{n} = {n}") for n in range(3, 20)]
        assert reused(finish(other, request) for request in theirs).count("!") == 0
        assert reused(finish(bench.kernel, request) for request in mine).count("!") == 0
        assert value(other, "w19, w1") == value(bench.kernel, "w19, w1") == "(19, 1)"
        cells += [f"w{n} = {n}" for n in range(3, 20)]
        assert reused(run_all(other, cells, version="again")) == "r" * 19


def test_a_cell_that_asks_for_its_path_can_be_run_again(bench: Bench) -> None:
    bench.run_all(["w1 = 1", "w2 = w1 + 1\n%chex_lineage"], "asks")
    bench.run_all(["v1 = 5"], "elsewhere")
    bench.run("%chex_checkout asks")
    assert bench.run("print(w2)").text == "2\n"
