"""SIGKILL of every party at every instruction, with real processes."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest

from chexpoint.engine import Engine, headless
from chexpoint.errors import EngineClosed, EngineError
from tests.support.processes import wait_exit, wait_none_marked

FAULTY = Path(__file__).parents[1] / "support" / "faulty_engine.py"
MARK = "CHEX_TEST_MARK"
T = TypeVar("T")


@pytest.fixture
def mark() -> Iterator[str]:
    """A word in the environment of all processes of one test; none may be left at its end."""
    word = uuid.uuid4().hex
    yield word
    assert wait_none_marked(MARK, word) == []


def script(engine: Engine) -> None:
    """Do everything an engine can do; whatever was killed, each step ends."""
    for step in (
        lambda: engine.run("x = 1"),
        lambda: engine.checkpoint("a"),
        lambda: engine.run("x = 2"),
        lambda: engine.restore("a"),
        lambda: engine.run("x += 1"),
        lambda: engine.checkpoint("b"),
        lambda: engine.take("a"),
        lambda: engine.evict("b"),
    ):
        try:
            step()
        except EngineClosed:
            raise
        except EngineError:
            continue  # said in words; the next step must work


def count_instructions(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> int:
    monkeypatch.setattr(headless, "_RUN_ENGINE", FAULTY)
    counted = tmp_path / "count"
    with Engine(env={"CHEX_FAULT": "worker:-1", "CHEX_FAULT_COUNT": str(counted)}) as engine:
        script(engine)
    return int(counted.read_text())


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("who", "first", "each"), [("worker", 1, 5), ("checkpoint", 2, 6), ("all checkpoints", 1, 6)]
)
def test_a_kill_at_an_instruction_leaves_a_usable_engine(
    who: str, first: int, each: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    """From the very first instruction on, each in an engine of its own; below, at every one."""
    total = count_instructions(monkeypatch, tmp_path)

    def survives(at: int) -> bool:
        with Engine(env={"CHEX_FAULT": f"{who}:{at}", MARK: mark}) as engine:
            script(engine)
            twice(lambda: engine.checkpoint("after"))
            return twice(lambda: engine.run("print(6 * 7)").text) == "42\n"

    with ThreadPoolExecutor(max_workers=3) as pool:
        survived = {at: pool.submit(survives, at) for at in range(first, total + 1, each)}
    assert all(ok.result() for ok in survived.values()), survived


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("who", ["worker", "checkpoint", "all checkpoints"])
def test_kills_that_keep_coming_leave_a_usable_engine(
    who: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    """One round is one instruction shorter than the time between kills: each hits another."""
    period = count_instructions(monkeypatch, tmp_path) + 1
    assert period > 30
    with Engine(env={"CHEX_FAULT": f"{who}:+{period}", MARK: mark}) as engine:
        for _ in range(period):
            script(engine)
            # At most one kill falls into what follows, so the second try must do.
            assert twice(lambda: engine.run("print(6 * 7)").text) == "42\n"
            twice(lambda: engine.checkpoint("after"))
        status = engine.status()
    assert len({c.id for c in status.checkpoints}) == len(status.checkpoints)


def twice(step: Callable[[], T]) -> T:
    """Do a step, once more if the first try was killed."""
    try:
        result = step()
    except EngineError:
        return step()
    return result or step()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_killed_supervisor_leaves_nothing_behind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    total = count_instructions(monkeypatch, tmp_path)

    def killed_at(at: int) -> bool:
        try:
            with Engine(env={"CHEX_FAULT": f"supervisor:{at}", MARK: mark}) as engine:
                script(engine)
        except EngineClosed:
            return True
        return False

    with ThreadPoolExecutor(max_workers=3) as pool:
        noticed = list(pool.map(killed_at, range(1, total + 1, 5)))
    # The last instructions belong to the engine's end, when nobody listens any more.
    assert noticed.count(True) > len(noticed) // 2
    assert all(noticed[: len(noticed) // 2])


def test_a_dead_cell_says_what_died_and_where_the_state_is(mark: str) -> None:
    with Engine(env={MARK: mark}) as engine:
        engine.run("x = 1")
        engine.checkpoint("before")
        result = engine.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
        assert result.error is not None
        assert result.error.ename == "WorkerDied"
        assert "SIGSEGV" in result.error.evalue
        assert "'before'" in result.error.evalue
        assert engine.run("print(x)").text == "1\n"


def test_children_of_a_left_state_end_with_it(mark: str) -> None:
    with Engine(env={MARK: mark}) as engine:
        engine.checkpoint("before")
        started = "import subprocess; p = subprocess.Popen(['sleep', '1000']); print(p.pid)"
        pid = int(engine.run(started).text)
        engine.restore("before")
        assert wait_exit(pid)


def test_children_end_with_the_engine(mark: str) -> None:
    with Engine(env={MARK: mark}) as engine:
        engine.run("import subprocess; p = subprocess.Popen(['sleep', '1000'])")


def test_a_busy_worker_dies_with_its_supervisor(mark: str) -> None:
    engine = Engine(env={MARK: mark})
    engine.checkpoint("a")
    engine._send_command(do="ask", token=1, op="status", args={})
    os.kill(engine.pid, signal.SIGKILL)
    with pytest.raises(EngineClosed):
        engine.run("while True: pass")
    engine.close()


def test_closing_all_descriptors_is_survived(mark: str) -> None:
    """A cell that closes the link itself loses its worker, not the engine."""
    with Engine(env={MARK: mark}) as engine:
        engine.checkpoint("before")
        result = engine.run("import os; os.closerange(3, 256)")
        assert result.error is not None
        assert result.error.ename == "WorkerDied"
        assert engine.run("print(1)").text == "1\n"
