"""Training process and writer die at any point: what was reported as saved is there, and whole."""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from chexpoint.hindsight.writing.materialiser import Part, Snapshot, StagingMaterialiser
from chexpoint.hindsight.writing.writer_lines import read_lines
from chexpoint.hindsight.writing.writer_lock import hasten, wait_written
from chexpoint.store import Store
from tests.support.processes import marked, wait_exit, wait_none_marked
from tests.support.snapshots import contents_of, snapshot

MARK = "CHEX_TEST_WRITER"
PATIENCE_S = 120.0

pytestmark = pytest.mark.slow


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Everything that is started carries it, and is gone in the end."""
    value = uuid.uuid4().hex
    monkeypatch.setenv(MARK, value)
    yield value
    assert wait_none_marked(MARK, value, timeout_s=PATIENCE_S) == []


def noise(seed: int, nbytes: int = 300_000) -> bytes:
    return random.Random(seed).randbytes(nbytes)


def make(folder: Path) -> StagingMaterialiser:
    return StagingMaterialiser(str(folder / "store"), str(folder / "run"), budget_bytes=16 << 20)


def writer_of(mark: str) -> int:
    """Return the writer's process id, as soon as it runs."""
    while True:
        found = [each.pid for each in marked(MARK, mark) if "run_writer.py" in each.command]
        found = [pid for pid in found if pid != os.getpid()]
        if found:
            return found[-1]


def check_store(folder: Path, names: set[str]) -> None:
    """Check that images are whole that the record calls saved, and that nothing is damaged."""
    lines = read_lines(str(folder / "run"))
    assert {name for name, line in lines.items() if not line.get("failed")} == names
    store = Store.open(folder / "store")
    assert store.fsck().damages == ()
    for name in names:
        assert contents_of(folder / "store", name) == {"a": noise(int(name.split(".")[-1]))}


PROGRAM = """
import ctypes, json, os, random, signal, sys
from chexpoint.hindsight.writing.materialiser import Part, Snapshot, StagingMaterialiser

folder, count, where = sys.argv[1], int(sys.argv[2]), sys.argv[3]
materialiser = StagingMaterialiser(folder + "/store", folder + "/run", budget_bytes=16 << 20)

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def snapshot(number, is_last):
    contents = random.Random(number).randbytes(300_000)
    def copy_into(memory):
        memory[:1000] = contents[:1000]
        if is_last and where == "copying":
            die()
        memory[:] = contents
    part = Part(key="a", kind="array", nbytes=len(contents), copy_into=copy_into)
    return Snapshot(name=f"loop.r.{number}", document={}, parts=(part,))

for number in range(count):
    materialiser.submit(snapshot(number, number == count - 1), wait=True)
if where == "child":
    # A fork that no hook of Python's sees: it holds our end of the connection.
    if ctypes.CDLL(None).fork() == 0:
        os.close(1)
        while True:
            signal.pause()
if where == "stored":
    materialiser.drain(None)
    print(json.dumps([each.name for each in materialiser.poll()]), flush=True)
die()
"""


@pytest.mark.parametrize("where", ["submitted", "copying", "stored"])
@pytest.mark.parametrize("count", [1, 4])
def test_training_process_is_killed(tmp_path: Path, mark: str, where: str, count: int) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), str(count), where],
        check=False,
        capture_output=True,
    )
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    # The writer stores what it has got, and ends.
    assert wait_written(tmp_path / "run", PATIENCE_S)
    assert wait_none_marked(MARK, mark, timeout_s=PATIENCE_S) == []
    complete = count - (where == "copying")
    check_store(tmp_path, {f"loop.r.{number}" for number in range(complete)})
    if where == "stored":
        assert len(json.loads(ended.stdout)) == count


def test_writer_ends_though_a_child_holds_the_connection(tmp_path: Path, mark: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), "2", "child"],
        check=False,
        stdout=subprocess.PIPE,
    )
    assert ended.returncode == -signal.SIGKILL
    writers = [each.pid for each in marked(MARK, mark) if "run_writer.py" in each.command]
    assert all(wait_exit(pid, timeout_s=PATIENCE_S) for pid in writers)
    check_store(tmp_path, {"loop.r.0", "loop.r.1"})
    (child,) = marked(MARK, mark)
    os.kill(child.pid, signal.SIGKILL)


@pytest.mark.parametrize("stored", [0, 1, 3])
def test_writer_is_killed(tmp_path: Path, mark: str, stored: int) -> None:
    materialiser = make(tmp_path)
    materialiser.start()
    pid = writer_of(mark)
    names = [f"loop.r.{number}" for number in range(4)]
    for number, name in enumerate(names):
        materialiser.submit(snapshot(name, a=noise(number)), wait=True)
    while len(read_lines(str(tmp_path / "run"))) < stored:
        hasten(pid)
    os.kill(pid, signal.SIGKILL)
    assert materialiser.drain(PATIENCE_S)
    done = {each.name: each.failed for each in materialiser.poll()}
    assert done.keys() == set(names)
    saved = {name for name, failed in done.items() if not failed}
    assert len(saved) >= stored
    # The training goes on with another.
    assert materialiser.submit(snapshot("loop.r.5", names[-1], a=noise(5)), wait=False)
    assert materialiser.drain(PATIENCE_S)
    assert [each.failed for each in materialiser.poll()] == [""]
    materialiser.finish()
    check_store(tmp_path, saved | {"loop.r.5"})


def test_writer_is_killed_while_a_snapshot_is_copied(tmp_path: Path, mark: str) -> None:
    materialiser = make(tmp_path)
    materialiser.start()
    pid = writer_of(mark)

    def copy_into(memory: memoryview) -> None:
        os.kill(pid, signal.SIGKILL)
        assert wait_exit(pid, timeout_s=PATIENCE_S)
        memory[:] = b"abc"

    part = Part(key="a", kind="array", nbytes=3, copy_into=copy_into)
    materialiser.submit(Snapshot(name="loop.r.0", document={}, parts=(part,)), wait=True)
    materialiser.submit(snapshot("loop.r.1", a=noise(1)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    done = {each.name: each.failed for each in materialiser.poll()}
    assert "ended before" in done["loop.r.0"]
    assert done["loop.r.1"] == ""
    materialiser.finish()


def test_writer_is_killed_after_finish(tmp_path: Path, mark: str) -> None:
    materialiser = make(tmp_path)
    materialiser.start()
    pid = writer_of(mark)
    os.kill(pid, signal.SIGSTOP)
    materialiser.submit(snapshot("loop.r.0", a=noise(0)), wait=True)
    materialiser.finish()
    assert not materialiser.drain(0.0)
    os.kill(pid, signal.SIGKILL)
    assert materialiser.drain(PATIENCE_S)
    (saved,) = materialiser.poll()
    assert "ended before" in saved.failed


def test_stopped_writer_stops_nobody(tmp_path: Path, mark: str) -> None:
    materialiser = make(tmp_path)
    materialiser.start()
    pid = writer_of(mark)
    os.kill(pid, signal.SIGSTOP)
    taken = [
        materialiser.submit(snapshot(f"loop.r.{number}", a=noise(number)), wait=False)
        for number in range(100)
    ]
    count = sum(paid is not None for paid in taken)
    # As many as the memory holds.
    assert 40 <= count <= 60
    assert not materialiser.drain(0.0)
    os.kill(pid, signal.SIGCONT)
    assert materialiser.drain(PATIENCE_S)
    assert len(materialiser.poll()) == count
    materialiser.finish()
    check_store(tmp_path, {f"loop.r.{number}" for number in range(count)})


def test_writer_that_cannot_start_does_not_stop_the_training(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONHOME", str(tmp_path / "nowhere"))
    materialiser = make(tmp_path)
    for number in range(10):
        assert materialiser.submit(snapshot(f"loop.r.{number}", a=b"1"), wait=True)
        assert materialiser.drain(PATIENCE_S)
    done = materialiser.poll()
    assert len(done) == 10
    assert all(each.failed for each in done)
    assert "not started again" in done[-1].failed
    materialiser.finish()


def test_disk_is_full_for_a_while(tmp_path: Path, mark: str) -> None:
    materialiser = make(tmp_path)
    materialiser.submit(snapshot("loop.r.0", a=noise(0)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    pid = writer_of(mark)
    unlimited = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    # Files can be no larger than this: the pack of the next image cannot be written.
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (100_000, unlimited[1]))
    materialiser.submit(snapshot("loop.r.1", "loop.r.0", a=noise(1)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)
    materialiser.submit(snapshot("loop.r.2", "loop.r.1", a=noise(2)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    done = {each.name: each.failed for each in materialiser.poll()}
    assert done["loop.r.0"] == done["loop.r.2"] == ""
    assert done["loop.r.1"]
    materialiser.finish()
    check_store(tmp_path, {"loop.r.0", "loop.r.2"})


def test_record_cannot_be_written(tmp_path: Path, mark: str) -> None:
    (tmp_path / "run").write_text("no folder")
    materialiser = make(tmp_path)
    materialiser.submit(snapshot("loop.r.0", a=noise(0)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    (saved,) = materialiser.poll()
    assert "record of it cannot be written" in saved.failed
    materialiser.finish()
