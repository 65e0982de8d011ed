"""The materialiser of the seed: children are few, ours alone, and harm nobody."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest
import torch

from chexpoint.hindsight.writing.fork_materialiser import MOST_CHILDREN, ForkMaterialiser
from chexpoint.hindsight.writing.materialiser import Part, Snapshot
from tests.support.snapshots import children, contents_of, snapshot

PATIENCE_S = 120.0

pytestmark = pytest.mark.slow


def make(folder: Path) -> ForkMaterialiser:
    return ForkMaterialiser(str(folder / "store"), str(folder / "run"))


def test_children_are_bounded_and_collected(tmp_path: Path) -> None:
    # Children wait for a lock that we have; the file is opened in the child, as it is its own then.
    lock = os.open(tmp_path / "gate", os.O_RDWR | os.O_CREAT)
    fcntl.flock(lock, fcntl.LOCK_EX)

    def copy_into(memory: memoryview) -> None:
        own = os.open(tmp_path / "gate", os.O_RDWR)
        fcntl.flock(own, fcntl.LOCK_SH)
        memory[:] = b"through"

    materialiser = make(tmp_path)
    waiting = Part(key="gate", kind="array", nbytes=7, copy_into=copy_into)
    for number in range(MOST_CHILDREN):
        one = Snapshot(name=f"loop.r.{number}", document={}, parts=(waiting,))
        assert materialiser.submit(one, wait=False) is not None
    assert materialiser.submit(snapshot("loop.r.9", a=b"1"), wait=False) is None
    assert len(children()) == MOST_CHILDREN
    assert materialiser.poll() == []
    assert not materialiser.drain(0.0)
    os.close(lock)
    assert materialiser.drain(PATIENCE_S)
    assert sorted(each.name for each in materialiser.poll() if not each.failed) == [
        "loop.r.0",
        "loop.r.1",
    ]
    assert children() == []
    assert contents_of(tmp_path / "store", "loop.r.0") == {"gate": b"through"}


def test_other_children_are_left_alone(tmp_path: Path) -> None:
    other = os.fork()
    if other == 0:
        os._exit(7)
    os.waitid(os.P_PID, other, os.WEXITED | os.WNOWAIT)
    materialiser = make(tmp_path)
    materialiser.submit(snapshot("loop.r.0", a=b"abc"), wait=True)
    assert materialiser.drain(PATIENCE_S)
    materialiser.finish()
    assert os.waitstatus_to_exitcode(os.waitpid(other, 0)[1]) == 7


def test_child_that_is_killed_is_told(tmp_path: Path) -> None:
    def copy_into(_: memoryview) -> None:
        os.kill(os.getpid(), 9)

    materialiser = make(tmp_path)
    broken = Part(key="a", kind="array", nbytes=3, copy_into=copy_into)
    materialiser.submit(Snapshot(name="loop.r.0", document={}, parts=(broken,)), wait=True)
    materialiser.submit(snapshot("loop.r.1", a=b"abc"), wait=True)
    assert materialiser.drain(PATIENCE_S)
    failed = {each.name: each.failed for each in materialiser.poll()}
    assert "ended before" in failed["loop.r.0"]
    assert failed["loop.r.1"] == ""


def test_threads_of_torch_do_not_stop_the_child(tmp_path: Path) -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        weights = torch.randn(1_000_000)
        torch.mm(torch.randn(400, 400), torch.randn(400, 400))

        def copy_into(memory: memoryview) -> None:
            torch.frombuffer(memory, dtype=torch.float32).copy_(weights)

        leaf = Part(key="w", kind="array", nbytes=weights.nbytes, copy_into=copy_into)
        materialiser = make(tmp_path)
        before = weights.numpy().tobytes()
        materialiser.submit(Snapshot(name="loop.r.0", document={}, parts=(leaf,)), wait=True)
        weights.add_(1)
        assert materialiser.drain(PATIENCE_S)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(threads)
    assert contents_of(tmp_path / "store", "loop.r.0") == {"w": before}


def test_page_faults_are_counted_only_after_a_fork(tmp_path: Path) -> None:
    materialiser = make(tmp_path)
    assert materialiser.paid_later() == 0.0
    memory = bytearray(64 << 20)
    assert materialiser.paid_later() == 0.0
    materialiser.submit(snapshot("loop.r.0", a=b"abc"), wait=True)
    memory[::4096] = bytes(len(memory) // 4096)
    assert materialiser.paid_later() >= 0.0
    materialiser.finish()
