"""Programs that record themselves with `chexpoint.loop`, and programs of all shapes: both do what
they do without CHEX, and can be asked in hindsight.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
LOOP = "chexpoint.loop("
PROBE = "#? "
"""Begins statements that are added after the training."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """A program, with the statements that are added to it later as comments."""

    text: str

    @property
    def source(self) -> str:
        lines = textwrap.dedent(self.text).splitlines()
        return "".join(f"{line}\n" for line in lines if PROBE not in line)

    @property
    def probed(self) -> str:
        return textwrap.dedent(self.text).replace(PROBE, "")


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHEX_")}
    return {**kept, "COLUMNS": "100", **more}


def run(folder: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=folder,
        env=environment(**more),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )


def chex(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command; it may end badly, but not with a traceback."""
    done = run(folder, sys.executable, "-m", "chexpoint", *words)
    assert "Traceback" not in done.stdout + done.stderr
    return done


def hindsight(folder: Path, source: str, *words: str, code: int = 0) -> dict[str, Any]:
    """Return what the command found in the only version."""
    (folder / "probed.py").write_text(source, encoding="utf-8")
    done = chex(folder, "hindsight", "probed.py", *words, "--json")
    assert done.returncode == code, done.stdout + done.stderr
    (version,) = json.loads(done.stdout)["versions"]
    assert isinstance(version, dict)
    return version


def added_lines(version: dict[str, Any]) -> list[str]:
    return [row["value"] for row in version["rows"] if row["added"]]


def plain(folder: Path, source: str) -> subprocess.CompletedProcess[str]:
    """Run a program as if CHEX were not there."""
    (folder / "plain.py").write_text(source, encoding="utf-8")
    done = run(folder, sys.executable, "plain.py", CHEX_OVERHEAD="off")
    done.stderr = done.stderr.replace("plain.py", "train.py")
    return done


def probes_of(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line for line in done.stdout.splitlines() if line.startswith("probe")]


# Each takes about half a second in its loops: less is not worth a checkpoint.
SHAPES = {
    "nested": """\
        import time
        import chexpoint

        def outer():
            total, seen = 0.5, []

            def step(at):
                nonlocal total
                total = total * 1.25 + at
                seen.append(total)
                time.sleep(0.015)

            def epochs():
                for epoch in chexpoint.loop(range(12), name="round"):
                    for at in range(3):
                        step(at)
                    #? print("probe", total, len(seen))
                    print(round(total, 3))

            epochs()
            return total

        print(outer())
        """,
    "break": """\
        import time
        import chexpoint

        loss = 1.0
        for epoch in chexpoint.loop(range(1000)):
            for step in range(3):
                if loss < 0.02:
                    break
                loss *= 0.9
                time.sleep(0.015)
            #? print("probe", loss)
            if loss < 0.02:
                break
            if epoch % 2:
                continue
            print(epoch, loss)
        print("ended", epoch, loss)
        """,
    "return": """\
        import time
        import chexpoint

        def search():
            found = []
            for epoch in chexpoint.loop(range(1000)):
                for step in range(3):
                    found.append(epoch * step)
                    time.sleep(0.015)
                #? print("probe", sum(found))
                if len(found) > 30:
                    return found

        print(sum(search()))
        print(sum(search()))
        """,
    "exception": """\
        import time
        import chexpoint

        def train(limit, state):
            for epoch in chexpoint.loop(range(100)):
                for step in range(3):
                    state["weight"] *= 1.5
                    time.sleep(0.015)
                #? print("probe", limit, state)
                if state["weight"] > limit:
                    raise OverflowError(state["weight"])

        state = {"weight": 1.0}
        try:
            train(1e6, state)
        except OverflowError as error:
            print("caught", error)
        state["weight"] = 2.0
        try:
            train(1e6, state)
        except OverflowError as error:
            print("caught again", error)
        """,
    "generator": """\
        import time
        import chexpoint

        def batches():
            state = 7
            while state != 1:
                state = state // 2 if state % 2 == 0 else 3 * state + 1
                yield state

        total = 0
        for number in chexpoint.loop(batches()):
            for step in range(2):
                total += number * step
                time.sleep(0.015)
            #? print("probe", total)
        print(total)
        """,
    "fork": """\
        import os, time
        import chexpoint

        total = 1.0
        for epoch in chexpoint.loop(range(12)):
            for step in range(3):
                total = total * 1.1 + step
                time.sleep(0.015)
            child = os.fork()
            if child == 0:
                for again in chexpoint.loop(range(2)):
                    total += again
                os._exit(int(total) % 7)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
            del child  # another number each time
            #? print("probe", total, code)
            print(code)
        """,
    "processes": """\
        import multiprocessing, subprocess, sys, time
        import chexpoint

        def square(x):
            return sum(x for _ in chexpoint.loop(range(x)))

        if __name__ == "__main__":
            total = 0
            with multiprocessing.get_context("fork").Pool(2) as pool:
                for epoch in chexpoint.loop(range(12)):
                    for step in range(3):
                        total += step + epoch
                        time.sleep(0.012)
                    squares = pool.map(square, range(4))
                    said = subprocess.run([sys.executable, "-Sc", "print(5)"],
                                          capture_output=True, check=True).stdout
                    #? print("probe", total)
                    print(squares, said)
        """,
}


# Generators are tried without a word about CHEX.
@pytest.mark.parametrize("name", ["exception", "nested", "processes"])
def test_a_program_that_records_itself_does_what_it_does_without(name: str, tmp_path: Path) -> None:
    shape = Shape(text=SHAPES[name])
    alone = plain(tmp_path, shape.source)
    assert not (tmp_path / ".chex").exists()
    (tmp_path / "train.py").write_text(shape.source, encoding="utf-8")
    done = run(tmp_path, sys.executable, "train.py")
    assert (done.stdout, done.stderr) == (alone.stdout, alone.stderr)
    assert done.returncode == alone.returncode

    expected = probes_of(plain(tmp_path, shape.probed))
    assert len(expected) >= 10
    version = hindsight(tmp_path, shape.probed)
    assert added_lines(version) == expected, version
    assert {row["standing"] for row in version["rows"]} <= {"exact", "unverified"}


def test_the_users_handler_of_ended_children_stays_his(tmp_path: Path) -> None:
    source = """\
        import os, signal, subprocess, sys, time
        import chexpoint

        ended = []

        def reap(number, frame):
            try:
                while (found := os.waitpid(-1, os.WNOHANG))[0]:
                    ended.append(found)
            except ChildProcessError:
                pass

        signal.signal(signal.SIGCHLD, reap)
        weight = 1.0
        for epoch in chexpoint.loop(range(12)):
            for step in range(3):
                weight *= 0.9
                time.sleep(0.015)
            if epoch == 6:
                child = os.posix_spawn(sys.executable, ["python", "-Sc", "pass"], os.environ)
        while not ended:
            signal.sigtimedwait([], 0.01)
        print(ended == [(child, 0)], signal.getsignal(signal.SIGCHLD) is reap)
        """
    (tmp_path / "train.py").write_text(textwrap.dedent(source), encoding="utf-8")
    done = run(tmp_path, sys.executable, "train.py")
    assert (done.stdout, done.stderr) == ("True True\n", "")


INTERRUPTED = Shape(
    text="""\
    import time
    import chexpoint

    weight = 1.0
    for epoch in chexpoint.loop(range(100000)):
        for step in range(3):
            weight *= 0.99
            time.sleep(0.01)
        #? print("probe", weight)
        print(epoch, flush=True)
    """
)


def test_an_interrupted_training_can_be_asked_in_hindsight(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(INTERRUPTED.source, encoding="utf-8")
    with subprocess.Popen(
        [sys.executable, "train.py"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as training:
        assert training.stdout is not None
        for line in training.stdout:
            if line == "25\n":
                training.send_signal(signal.SIGINT)
        assert training.stderr is not None
        assert training.stderr.read().splitlines()[-1] == "KeyboardInterrupt"
    assert training.returncode == -signal.SIGINT

    weight, expected = 1.0, []
    for _ in range(25):
        for _ in range(3):
            weight *= 0.99
        expected.append(f"probe {weight}")
    version = hindsight(tmp_path, INTERRUPTED.probed, "--epochs", "0:25")
    assert added_lines(version) == expected
    assert {row["standing"] for row in version["rows"]} <= {"exact", "unverified"}


# ---------------------------------------------------------------- without a word about CHEX

HANDS_FREE = {
    "while": """\
        import time
        import random

        random.seed(4)
        loss, rounds = 1.0, 0
        while loss > 0.02:
            for step in range(3):
                loss *= 0.9 + random.random() / 50
                time.sleep(0.015)
            rounds += 1
            #? print("probe", rounds, loss)
            print(rounds)
        """,
    "generator": SHAPES["generator"].replace(LOOP + "batches())", "batches()"),
    "method": """\
        import time

        class Trainer:
            '''Keeps what it learns in itself.'''

            def __init__(self):
                self.weights, self.log = {"a": 1.0}, []

            def step(self, at):
                self.weights["a"] += at * self.weights["a"] / 7
                time.sleep(0.015)

            def fit(self, epochs):
                for epoch in range(epochs):
                    for at in range(3):
                        self.step(at)
                    self.log.append(self.weights["a"])
                    yield epoch

        trainer = Trainer()
        for epoch in trainer.fit(12):
            #? print("probe", sum(trainer.log))
            print(epoch, trainer.weights)
        """,
}


@pytest.mark.parametrize("name", sorted(HANDS_FREE))
def test_loops_of_all_shapes_are_recorded_as_they_are(name: str, tmp_path: Path) -> None:
    shape = Shape(text=HANDS_FREE[name].replace("import chexpoint\n", "\n"))
    alone = plain(tmp_path, shape.source)
    (tmp_path / "train.py").write_text(shape.source, encoding="utf-8")
    done = chex_recorded(tmp_path)
    assert done == alone.stdout

    expected = probes_of(plain(tmp_path, shape.probed))
    assert len(expected) >= 10
    version = hindsight(tmp_path, shape.probed)
    assert added_lines(version) == expected, version
    assert {row["standing"] for row in version["rows"]} <= {"exact", "unverified"}


def chex_recorded(folder: Path) -> str:
    """Record the training; return what it printed, as the catalog has it."""
    from chexpoint.project import Project

    chex(folder, "record", "train.py", "--name", "v")
    project = Project.at(folder)
    outputs = [
        output
        for cell in project.cells(project.version("v"))
        for output in project.outputs(cell.execution)
    ]
    return "".join(o["text"] for o in outputs if o.get("name") == "stdout")
