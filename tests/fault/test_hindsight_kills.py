"""Trainings that are killed, and records that are damaged: the rest of them can be replayed, or it
is said what is missing.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from chexpoint.store import Store
from tests.support.processes import marked, wait_none_marked, wait_until

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0
MARK = "CHEX_TEST_MARK"

# Goes on until it is killed, unless it is told after how many epochs to end.
TRAINING = """\
import random, time
import numpy as np
import chexpoint

random.seed(1)
np.random.seed(1)

def train(epochs):
    rng = np.random.default_rng(3)
    weights = np.zeros((8, 8))
    for epoch in chexpoint.loop(range(epochs)):
        for step in range(3):
            weights += 0.1 * rng.normal(size=(8, 8))
            time.sleep(0.012)
        print(epoch, flush=True)

train(EPOCHS)
"""
NORM = '        print("norm", float(np.linalg.norm(weights)).hex())\n'


def training(epochs: int) -> str:
    return TRAINING.replace("EPOCHS", str(epochs))


def probed(epochs: int) -> str:
    return training(epochs).replace("        print(epoch", NORM + "        print(epoch")


def environment(mark: str = "") -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("CHEX_")}
    return {**kept, "COLUMNS": "100", MARK: mark}


def norms(epochs: int, folder: Path) -> list[str]:
    """Return what a run that logged it from the start would have logged."""
    (folder / "plain.py").write_text(probed(epochs), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "plain.py"],
        cwd=folder,
        env=environment() | {"CHEX_OVERHEAD": "off"},
        capture_output=True,
        text=True,
        check=True,
    )
    return [line for line in done.stdout.splitlines() if line.startswith("norm")]


def hindsight(folder: Path, epochs: int, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the command; whatever is damaged, it ends without a traceback."""
    (folder / "probed.py").write_text(probed(epochs), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "chexpoint", "hindsight", "probed.py", *words, "--json"],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "bug in CHEX" not in done.stderr
    return done


def replayed(done: subprocess.CompletedProcess[str]) -> tuple[list[str], set[str]]:
    """Return the values that were found in hindsight, and how far they can be trusted."""
    assert done.returncode == 0, done.stdout + done.stderr
    (version,) = json.loads(done.stdout)["versions"]
    rows = [row for row in version["rows"] if row["added"]]
    return [row["value"] for row in rows], {row["standing"] for row in rows}


def run_folder(folder: Path) -> Path:
    (found,) = (folder / ".chex" / "loops").iterdir()
    return found


def saved_images(folder: Path) -> list[str]:
    """Return what was reported as saved; the last line may be half a line."""
    file = run_folder(folder) / "saved.jsonl"
    if not file.exists():
        return []
    *lines, _ = file.read_bytes().split(b"\n")
    found: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return [line["image"] for line in found if not line.get("failed")]


@contextmanager
def started(folder: Path, *argv: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program that the test kills; nothing of it may be left."""
    mark = folder.name + str(os.getpid())
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=environment(mark),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        yield process
        process.kill()
    assert wait_none_marked(MARK, mark, timeout_s=TIMEOUT_S) == []


def wait_saved(folder: Path, number: int) -> None:
    loops = folder / ".chex" / "loops"
    assert wait_until(lambda: list(loops.glob("*/run.json")))
    assert wait_until(lambda: len(saved_images(folder)) >= number)


# ---------------------------------------------------------------- kills

MANY = 100_000


@pytest.mark.parametrize("images", [4])
def test_a_killed_training_is_replayed_as_far_as_it_was_recorded(
    images: int, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(training(MANY), encoding="utf-8")
    with started(tmp_path, sys.executable, "train.py") as process:
        wait_saved(tmp_path, images)
        process.kill()
    found = saved_images(tmp_path)
    store = Store.open(tmp_path / ".chex" / "store")
    assert store.fsck().damages == ()
    for image in found:
        store.read(image).close()
    values, standings = replayed(hindsight(tmp_path, MANY, "--epochs", "0:8"))
    assert values == norms(8, tmp_path)
    assert standings <= {"exact", "unverified"}


def test_a_writer_that_is_killed_does_not_disturb_the_training(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(training(40), encoding="utf-8")
    mark = tmp_path.name + str(os.getpid())
    with started(tmp_path, sys.executable, "train.py") as process:
        wait_saved(tmp_path, 1)
        for each in marked(MARK, mark):
            if "run_writer" in each.command and each.pid != process.pid:
                os.kill(each.pid, signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.read().split() == [str(number) for number in range(40)]
        assert process.wait(TIMEOUT_S) == 0
    values, standings = replayed(hindsight(tmp_path, 40))
    assert values == norms(40, tmp_path)
    assert standings <= {"exact", "unverified"}


@pytest.mark.parametrize("victim", ["command", "engine"])
def test_a_killed_recording_leaves_runs_that_can_be_read(victim: str, tmp_path: Path) -> None:
    source = training(MANY).replace("chexpoint.loop(range(epochs))", "range(epochs)")
    (tmp_path / "train.py").write_text(source, encoding="utf-8")
    mark = tmp_path.name + str(os.getpid())
    argv = (sys.executable, "-m", "chexpoint", "record", "train.py", "--name", "v")
    with started(tmp_path, *argv) as process:
        wait_saved(tmp_path, 2)
        others = [each for each in marked(MARK, mark) if each.pid != process.pid]
        assert others
        if victim == "engine":
            for each in others:
                if "run_writer" not in each.command:
                    os.kill(each.pid, signal.SIGKILL)
            assert process.wait(TIMEOUT_S) != 0
        process.kill()
    store = Store.open(tmp_path / ".chex" / "store")
    for image in saved_images(tmp_path):
        store.read(image).close()
    probed_source = probed(MANY).replace("chexpoint.loop(range(epochs))", "range(epochs)")
    (tmp_path / "again.py").write_text(probed_source, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "chexpoint", "hindsight", "again.py", "--epochs", "0:8", "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert "Traceback" not in done.stdout + done.stderr
    if done.returncode == 0:
        values, standings = replayed(done)
        assert values == norms(8, tmp_path)
        assert standings <= {"exact", "unverified"}
    else:
        assert done.stderr.startswith("chex: ")
        assert done.stderr.count("\n") == 1
        assert "bug in CHEX" not in done.stderr


# ---------------------------------------------------------------- damages

EPOCHS = 14


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training that has ended well."""
    folder = tmp_path_factory.mktemp("recorded")
    (folder / "train.py").write_text(training(EPOCHS), encoding="utf-8")
    subprocess.run(
        [sys.executable, "train.py"],
        cwd=folder,
        # On a busy machine none may be worth it.
        env=environment() | {"CHEX_OVERHEAD": "always"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    assert saved_images(folder)
    return folder


@pytest.fixture(scope="module")
def truth(recorded: Path) -> list[str]:
    return norms(EPOCHS, recorded)


@pytest.fixture
def copied(recorded: Path, tmp_path: Path) -> Path:
    """The same at the same place: scripts are found by their path."""
    kept = tmp_path / "kept"
    shutil.copytree(recorded / ".chex", kept, symlinks=True)
    shutil.rmtree(recorded / ".chex")
    shutil.copytree(kept, recorded / ".chex", symlinks=True)
    return recorded


@pytest.fixture(autouse=True)
def undamaged(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[None]:
    """Bring the recorded training back to what it was."""
    if "copied" not in request.fixturenames:
        yield
        return
    folder: Path = request.getfixturevalue("copied")
    yield
    shutil.rmtree(folder / ".chex")
    shutil.copytree(tmp_path / "kept", folder / ".chex", symlinks=True)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    os.truncate(path, 0)


def scribble(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 40] = b"\x00\xff" * 20
    path.chmod(0o644)
    path.write_bytes(data)


def lists(path: Path) -> None:
    path.write_text("[1, 2]\n[3]\n", encoding="utf-8")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "cut": cut,
    "empty": empty,
    "scribbled": scribble,
    "lists": lists,
    "gone": Path.unlink,
}


@pytest.mark.parametrize(
    ("file", "damage"),
    [
        ("run.json", "cut"),
        ("run.json", "lists"),
        ("events.jsonl", "cut"),
        ("events.jsonl", "scribbled"),
        ("saved.jsonl", "empty"),
        ("saved.jsonl", "gone"),
    ],
)
def test_a_damaged_record_is_used_as_far_as_it_goes_or_refused_in_a_line(
    file: str, damage: str, copied: Path, truth: list[str]
) -> None:
    DAMAGES[damage](run_folder(copied) / file)
    done = hindsight(copied, EPOCHS)
    if done.returncode == 0:
        values, standings = replayed(done)
        assert values == truth[: len(values)]
        assert standings <= {"exact", "unverified"}
    elif done.stdout:
        # What of the record can still be read does not fit the replay, and that is said.
        (version,) = json.loads(done.stdout)["versions"]
        assert version["failed"] or version["findings"]
    else:
        assert done.stderr.startswith("chex: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("damage", ["cut", "scribbled", "gone"])
def test_states_in_a_damaged_store_are_computed_again(
    damage: str, copied: Path, truth: list[str]
) -> None:
    packs = [
        path
        for path in (copied / ".chex" / "store").rglob("*")
        if path.is_file() and "pack" in str(path.relative_to(copied))
    ]
    assert packs
    for path in packs:
        DAMAGES[damage](path)
    values, standings = replayed(hindsight(copied, EPOCHS, "--workers", "2"))
    assert values == truth
    assert standings <= {"exact", "unverified"}


def test_a_store_that_is_gone_is_no_reason_to_fail(copied: Path, truth: list[str]) -> None:
    shutil.rmtree(copied / ".chex" / "store")
    values, standings = replayed(hindsight(copied, EPOCHS))
    assert values == truth
    assert standings <= {"exact", "unverified"}
