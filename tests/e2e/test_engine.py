"""The headless engine, with real processes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chexpoint.engine import Engine, ImagesWritten
from chexpoint.errors import (
    EngineClosed,
    EngineTimeout,
    ForkRefused,
    InvalidValue,
    RestoreFailed,
    UnknownCheckpoint,
)
from chexpoint.model import Status


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with Engine(cwd=tmp_path) as started:
        yield started


def eventually(engine: Engine, holds: Callable[[Status], bool]) -> Status:
    """Return the first status for which something holds; memory is measured in the background."""
    deadline = time.monotonic() + 30
    while not holds(status := engine.status()):
        assert time.monotonic() < deadline, f"never came true: {status}"
    return status


def test_outputs_are_those_of_a_notebook(engine: Engine) -> None:
    result = engine.run(
        "import sys\n"
        "from IPython.display import display, update_display, HTML\n"
        "print('a'); print('b', file=sys.stderr)\n"
        "display(HTML('<b>1</b>'), display_id='d')\n"
        "update_display(HTML('<b>2</b>'), display_id='d')\n"
        "6 * 7"
    )
    assert result.status == "ok"
    assert result.execution_count == 1
    kinds = {o["output_type"] for o in result.outputs}
    assert kinds == {"stream", "display_data", "execute_result"}
    (shown,) = [o for o in result.outputs if o["output_type"] == "display_data"]
    assert shown["data"]["text/html"] == "<b>2</b>"
    assert result.outputs[-1]["data"]["text/plain"] == "42"


def test_an_error_is_returned_not_raised(engine: Engine) -> None:
    result = engine.run("print('before'); 1 / 0")
    assert result.status == "error"
    assert result.error is not None
    assert result.error.ename == "ZeroDivisionError"
    assert result.text == "before\n"


def test_restore_keeps_the_checkpoint_and_take_uses_it_up(engine: Engine) -> None:
    engine.run("x = [1]")
    engine.checkpoint("a")
    for _ in range(3):
        engine.run("x.append(2)")
        engine.restore("a")
        assert engine.run("print(x)").text == "[1]\n"
    engine.run("x.append(2)")
    engine.take("a")
    assert engine.run("print(x)").text == "[1]\n"
    with pytest.raises(UnknownCheckpoint):
        engine.restore("a")


def test_branches_do_not_see_each_other(engine: Engine) -> None:
    engine.run("path = []")
    root = engine.checkpoint().id
    leaves = {}
    for first in "ab":
        engine.restore(root)
        engine.run(f"path.append('{first}')")
        middle = engine.checkpoint().id
        for second in "cd":
            engine.restore(middle)
            engine.run(f"path.append('{second}')")
            leaves[first + second] = engine.checkpoint().id
    for word, checkpoint in reversed(leaves.items()):
        engine.restore(checkpoint)
        assert engine.run("print(''.join(path))").text == f"{word}\n"


def test_root_is_the_fresh_interpreter(engine: Engine) -> None:
    engine.run("x = 1; import colorsys")
    engine.restore("root")
    shown = engine.run("import sys; print('x' in globals(), 'colorsys' in sys.modules)").text
    assert shown == "False False\n"
    assert engine.run("1").execution_count == 2
    with pytest.raises(InvalidValue):
        engine.evict("root")


def test_ids_are_never_used_again(engine: Engine) -> None:
    seen = set()
    for _ in range(5):
        checkpoint = engine.checkpoint()
        assert checkpoint.id not in seen
        seen.add(checkpoint.id)
        engine.evict(checkpoint.id)


def test_a_name_moves_to_the_newest_checkpoint(engine: Engine) -> None:
    engine.run("x = 1")
    first = engine.checkpoint("a")
    engine.run("x = 2")
    engine.checkpoint("a")
    engine.run("x = 3")
    engine.restore("a")
    assert engine.run("print(x)").text == "2\n"
    engine.restore(first.id)
    assert engine.run("print(x)").text == "1\n"


def test_unknown_names_are_answered_with_the_closest(engine: Engine) -> None:
    engine.checkpoint("clean data")
    with pytest.raises(UnknownCheckpoint, match="Did you mean clean data"):
        engine.restore("clean dta")
    with pytest.raises(InvalidValue, match="choose another name"):
        engine.checkpoint("c7")


def test_the_budget_evicts_the_least_useful_first(engine: Engine) -> None:
    engine.run("import numpy as np")
    engine.checkpoint("cheap but named")
    ids = []
    for n in range(6):
        engine.run(f"a = np.full(2**21, {n}.0)")
        ids.append(engine.checkpoint().id)
    engine.run("a = None")
    full = eventually(engine, lambda s: s.held_bytes > 90 * 2**20)
    assert len(full.checkpoints) == 8
    engine.set_budget(60 * 2**20)
    status = eventually(engine, lambda s: s.held_bytes <= 60 * 2**20)
    left = {c.name or c.id for c in status.checkpoints}
    assert {"root", "cheap but named"} <= left
    assert len(left) < 8
    for n, checkpoint in enumerate(ids):
        if checkpoint in left:
            engine.restore(checkpoint)
            assert engine.run("print(bool((a == " + str(n) + ").all()))").text == "True\n"
        else:
            with pytest.raises(UnknownCheckpoint):
                engine.restore(checkpoint)


def test_sizes_are_what_a_checkpoint_alone_holds(engine: Engine) -> None:
    engine.run("import numpy as np; a = np.ones(2**24)")  # 128 MiB
    shared = engine.checkpoint().id
    small = eventually(engine, lambda s: s.held_bytes > 0 and s.worker_bytes > 2**27)
    assert {c.id: c.size_bytes for c in small.checkpoints}[shared] < 2**25
    engine.run("a += 1")
    engine.checkpoint()
    eventually(engine, lambda s: {c.id: c.size_bytes for c in s.checkpoints}[shared] > 2**27)


def test_a_failing_fork_means_no_checkpoint_and_a_working_engine(engine: Engine) -> None:
    engine.run(
        "import chexpoint.engine.freeze as freeze, errno\n"
        "real = freeze._fork\n"
        "def fail(): raise OSError(errno.EAGAIN, 'Resource temporarily unavailable')\n"
        "freeze._fork = fail"
    )
    with pytest.raises(ForkRefused) as refused:
        engine.checkpoint()
    assert refused.value.reasons[0].kind == "fork"
    assert engine.run("print(1)").text == "1\n"
    engine.run("freeze._fork = real")
    engine.checkpoint("works again")
    engine.restore("works again")


def test_a_restore_without_memory_for_a_successor_uses_the_checkpoint_up(engine: Engine) -> None:
    engine.run(
        "import chexpoint.engine.freeze as freeze, errno\n"
        "real, calls = freeze._fork, []\n"
        "def only_two():\n"
        "    calls.append(1)\n"
        "    if len(calls) > 2: raise OSError(errno.ENOMEM, 'Cannot allocate memory')\n"
        "    return real()\n"
        "freeze._fork = only_two"
    )
    engine.run("x = 1")
    engine.checkpoint("a")
    engine.run("x = 2")
    engine.restore("a")
    assert engine.run("print(x)").text == "1\n"
    with pytest.raises(UnknownCheckpoint):
        engine.restore("a")


def test_automatic_checkpoints_follow_the_rule(tmp_path: Path) -> None:
    with Engine(cwd=tmp_path, auto="rule", budget_bytes=2**33) as engine:
        for n in range(10):
            engine.run(f"x = {n}")
        before = len(engine.status().checkpoints)
        assert before < 10  # a busy machine may hold up one cell or another
        engine.run("import time; time.sleep(2)")
        engine.run("pass")
        assert len(engine.status().checkpoints) > before
    with Engine(cwd=tmp_path, auto="always") as engine:
        for n in range(3):
            engine.run(f"x = {n}")
        engine.run("pass")
        assert len(engine.status().checkpoints) >= 4


def test_a_cell_that_takes_too_long_is_interrupted(engine: Engine) -> None:
    result = engine.run("import time; time.sleep(100)", timeout_s=2)
    assert result.error is not None
    assert result.error.ename == "KeyboardInterrupt"
    assert engine.run("print(1)").text == "1\n"


def test_a_cell_that_ignores_the_interrupt_times_out(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.engine.headless._INTERRUPT_TIMEOUT_S", 0.5)
    with pytest.raises(EngineTimeout):
        engine.run(
            "import time\n"
            "while True:\n"
            "    try: time.sleep(100)\n"
            "    except KeyboardInterrupt: pass",
            timeout_s=2,
        )


def test_a_second_thread_can_interrupt(engine: Engine) -> None:
    started = threading.Event()

    def interrupt() -> None:
        started.wait()
        engine.interrupt()

    thread = threading.Thread(target=interrupt)
    thread.start()
    result = engine.run(
        "print('go', flush=True)\nimport time; time.sleep(100)", on_output=lambda _: started.set()
    )
    thread.join()
    assert result.error is not None
    assert result.error.ename == "KeyboardInterrupt"


def test_files_written_since_a_checkpoint_are_named(engine: Engine, tmp_path: Path) -> None:
    engine.run("open('old.txt', 'w').write('1'); open('same.txt', 'w').write('1')")
    engine.checkpoint("a")
    engine.run("open('old.txt', 'a').write('2'); open('new.txt', 'w').write('3')")
    engine.run("import os; open('gone.txt', 'w').write('4'); os.remove('gone.txt')")
    warnings = " ".join(engine.restore("a").warnings)
    assert "old.txt" in warnings
    assert "new.txt" in warnings
    assert "same.txt" not in warnings
    assert "gone.txt" not in warnings
    (tmp_path / "new.txt").unlink()
    assert "new.txt" not in " ".join(engine.restore("a").warnings)


def test_an_engine_that_has_ended_says_so(tmp_path: Path) -> None:
    engine = Engine(cwd=tmp_path)
    engine.close()
    with pytest.raises(EngineClosed):
        engine.run("1")


def run_until_closed(engine: Engine) -> None:
    while engine.run("1").status == "aborted":
        pass  # sent before the engine had ended


def test_exit_in_a_cell_ends_the_engine(tmp_path: Path) -> None:
    with Engine(cwd=tmp_path) as engine:
        engine.run("exit")
        with pytest.raises(EngineClosed):
            run_until_closed(engine)


def test_magics_work_without_jupyter(engine: Engine) -> None:
    engine.run("x = 1\n%chex_checkpoint one")
    engine.run("x = 2")
    result = engine.run("%chex_restore one")
    assert "back at" in result.text
    assert engine.run("print(x)").text == "1\n"


def test_a_process_that_cannot_be_examined_is_not_checkpointed_and_lives_on(
    engine: Engine,
) -> None:
    engine.run(
        "x = 1\n"
        "import chexpoint.engine.worker as worker\n"
        "real = worker.find_hazards\n"
        "def fail(*_): raise RuntimeError('odd')\n"
        "worker.find_hazards = fail"
    )
    with pytest.raises(ForkRefused, match="odd"):
        engine.checkpoint()
    assert engine.run("worker.find_hazards = real; print(x)").text == "1\n"
    engine.checkpoint("a")


def test_a_state_that_cannot_be_repaired_is_not_restored(engine: Engine) -> None:
    engine.run(
        "x = 1\n"
        "import chexpoint.engine.repairs as repairs\n"
        "def fail(self): raise RuntimeError('odd')\n"
        "repairs.Repairs.after_thaw = fail"
    )
    engine.checkpoint("a")
    engine.run("x = 2")
    with pytest.raises(RestoreFailed, match="what it was before"):
        engine.restore("a")
    assert engine.run("print(x)").text == "2\n"


def test_who_waits_for_an_image_is_told_while_the_next_cell_runs(tmp_path: Path) -> None:
    flag = tmp_path / "written"
    told: list[int] = []

    def tell(written: ImagesWritten) -> None:
        told.append(len(written.images))
        flag.touch()

    with Engine(cwd=tmp_path) as engine:
        engine.use_store(str(tmp_path / "store"))
        engine.run("import os, time\nx = 1")
        engine.checkpoint(image=True)
        engine.when_written(tell)
        waiting = f"while not os.path.exists({str(flag)!r}): time.sleep(0.01)"
        result = engine.run(waiting, timeout_s=60)
        assert result.status == "ok"
        assert told == [1]
        assert engine.run("print(x)").text == "1\n"


def test_which_states_are_held_can_be_changed_between_cells(engine: Engine) -> None:
    engine.run("x = 1")
    engine.set_auto("always")
    engine.run("x = 2")
    # The first is the fresh interpreter.
    eventually(engine, lambda status: len(status.checkpoints) == 2)
    engine.set_auto("never")
    engine.run("x = 3")
    engine.run("x = 4")
    assert len(engine.status().checkpoints) == 2
