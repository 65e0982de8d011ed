"""Snapshots arrive in the store as they were when they were taken, whatever happens meanwhile."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.hindsight.writing.fork_materialiser import ForkMaterialiser
from chexpoint.hindsight.writing.materialiser import (
    Materialiser,
    Part,
    Snapshot,
    StagingMaterialiser,
    open_materialiser,
)
from chexpoint.hindsight.writing.writer import HEAD
from chexpoint.hindsight.writing.writer_layout import layout_of
from chexpoint.hindsight.writing.writer_lines import append_line, read_lines
from chexpoint.store import Store
from tests.support.snapshots import (
    children,
    contents_of,
    descriptors,
    part,
    shared_memory,
    snapshot,
)

KINDS = ("staging", "fork")
PATIENCE_S = 120.0

pytestmark = pytest.mark.slow


def noise(seed: int, nbytes: int = 20_000) -> bytes:
    return random.Random(seed).randbytes(nbytes)


def make(folder: Path, kind: str = "staging", **more: Any) -> Materialiser:
    return open_materialiser(str(folder / "store"), str(folder / "run"), kind=kind, **more)


def lines(folder: Path) -> dict[str, dict[str, Any]]:
    return read_lines(str(folder / "run"))


@pytest.mark.parametrize("kind", KINDS)
def test_snapshot_is_stored_as_it_was(tmp_path: Path, kind: str) -> None:
    state = bytearray(noise(1))
    text = part("s", b"plain", is_stream=True)

    def copy_into(memory: memoryview) -> None:
        memory[:] = state

    leaf = Part(key="model/weight", kind="array", nbytes=len(state), copy_into=copy_into)
    empty = part("empty", b"")
    materialiser = make(tmp_path, kind)
    materialiser.start()
    before = bytes(state)
    given_parts = Snapshot(name="loop.r.0", document={"ä": [1]}, parts=(leaf, text, empty))
    paid = materialiser.submit(given_parts, wait=False)
    assert paid is not None
    assert paid.seconds > 0
    state[:] = noise(2)
    assert materialiser.submit(snapshot("loop.r.1", "loop.r.0", a=b"x" * 50), wait=True)
    assert materialiser.drain(PATIENCE_S)
    done = {each.name: each for each in materialiser.poll()}
    assert done.keys() == {"loop.r.0", "loop.r.1"}
    assert not any(each.failed for each in done.values())
    assert done["loop.r.0"].stored_bytes > 0
    assert contents_of(tmp_path / "store", "loop.r.0") == {
        "model/weight": before,
        "s": b"plain",
        "empty": b"",
    }
    with Store.open(tmp_path / "store").read("loop.r.0") as image:
        assert image.document == {"ä": [1]}
    line = lines(tmp_path)["loop.r.0"]
    assert line["bytes"] == len(before) + 5
    assert line["digests"] == {
        "model/weight": xxhash.xxh3_128_hexdigest(before),
        "empty": xxhash.xxh3_128_hexdigest(b""),
    }
    assert materialiser.poll() == []
    materialiser.finish()


def is_ours(pid: str) -> bool:
    """Return whether a process is a writer, or a copy of this one; libraries have others."""
    command = Path(f"/proc/{pid}/cmdline").read_bytes()
    return b"run_writer" in command or command == Path("/proc/self/cmdline").read_bytes()


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_left_after_finish(tmp_path: Path, kind: str) -> None:
    before, others, mapped = descriptors(), children(), shared_memory()
    handler = signal.getsignal(signal.SIGCHLD)
    materialiser = make(tmp_path, kind)
    materialiser.submit(snapshot("loop.r.0", a=noise(1)), wait=True)
    assert subprocess.run(["false"], check=False).returncode == 1
    materialiser.finish()
    assert not [pid for pid in set(children()) - set(others) if is_ours(pid)]
    assert set(shared_memory()) <= set(mapped)
    assert descriptors() == before
    assert signal.getsignal(signal.SIGCHLD) == handler
    # What was on its way arrives, and can still be asked for.
    assert materialiser.drain(PATIENCE_S)
    assert [each.failed for each in materialiser.poll()] == [""]
    # It can be used again.
    materialiser.submit(snapshot("loop.r.1", "loop.r.0", a=noise(2)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    materialiser.finish()
    assert contents_of(tmp_path / "store", "loop.r.1") == {"a": noise(2)}


@pytest.mark.parametrize("kind", KINDS)
def test_handler_that_collects_all_children_does_no_harm(tmp_path: Path, kind: str) -> None:
    collected = []

    def collect(*_: object) -> None:
        while True:
            try:
                pid, _status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            collected.append(pid)

    before = signal.signal(signal.SIGCHLD, collect)
    try:
        materialiser = make(tmp_path, kind)
        for number in range(3):
            materialiser.submit(snapshot(f"loop.r.{number}", a=noise(number)), wait=True)
        assert materialiser.drain(PATIENCE_S)
        assert [each.failed for each in materialiser.poll()] == ["", "", ""]
        materialiser.finish()
        assert signal.getsignal(signal.SIGCHLD) is collect
    finally:
        signal.signal(signal.SIGCHLD, before)


@pytest.mark.parametrize("kind", KINDS)
def test_what_goes_wrong_is_told_and_the_rest_goes_on(tmp_path: Path, kind: str) -> None:
    def copy_into(_: memoryview) -> None:
        raise RuntimeError("the tensor is gone")

    broken = Part(key="a", kind="array", nbytes=10, copy_into=copy_into)
    materialiser = make(tmp_path, kind)
    materialiser.submit(Snapshot(name="loop.r.0", document={}, parts=(broken,)), wait=True)
    materialiser.submit(snapshot("loop.r.1", "loop.r.0", a=noise(1)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    # The name is taken; and one that cannot be.
    materialiser.submit(snapshot("loop.r.1", a=noise(2)), wait=True)
    materialiser.submit(snapshot("no/name", a=noise(2)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    done = [(each.name, each.failed) for each in materialiser.poll()]
    why = dict(done[:1] + done[2:])
    assert "the tensor is gone" in why["loop.r.0"]
    assert ("loop.r.1", "") in done
    assert "is in the store" in why["loop.r.1"]
    assert "cannot name an image" in why["no/name"]
    materialiser.finish()
    assert contents_of(tmp_path / "store", "loop.r.1") == {"a": noise(1)}


@pytest.mark.parametrize("kind", KINDS)
def test_store_that_is_full_is_told(tmp_path: Path, kind: str) -> None:
    materialiser = make(tmp_path, kind, store_budget=50_000)
    materialiser.submit(snapshot("loop.r.0", a=noise(1, 200_000)), wait=True)
    materialiser.submit(snapshot("loop.r.1", a=noise(2, 10_000)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    done = {each.name: each.failed for each in materialiser.poll()}
    materialiser.finish()
    assert "larger than the budget" in done["loop.r.0"]
    assert done["loop.r.1"] == ""
    assert "larger than the budget" in lines(tmp_path)["loop.r.0"]["failed"]


def test_store_that_cannot_be_opened_is_told(tmp_path: Path) -> None:
    (tmp_path / "store").write_text("no folder")
    materialiser = make(tmp_path)
    materialiser.submit(snapshot("loop.r.0", a=noise(1)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    (saved,) = materialiser.poll()
    assert saved.failed
    materialiser.finish()


def test_memory_is_bounded_and_those_who_wait_get_room(tmp_path: Path) -> None:
    budget = 300_000
    materialiser = make(tmp_path, budget_bytes=budget)
    taken = [
        materialiser.submit(snapshot(f"loop.r.{number}", a=noise(number, 90_000)), wait=False)
        for number in range(40)
    ]
    count = sum(paid is not None for paid in taken)
    for number in range(40, 46):
        assert materialiser.submit(snapshot(f"loop.r.{number}", a=noise(number, 90_000)), wait=True)
        sizes = [int(line.split("-")[1].split()[0], 16) for line in shared_memory()]
        starts = [int(line.split("-")[0], 16) for line in shared_memory()]
        assert sum(sizes) - sum(starts) <= budget + 4096
    assert materialiser.drain(PATIENCE_S)
    done = materialiser.poll()
    assert len(done) == count + 6
    assert not any(each.failed for each in done)
    # What was refused was not taken in part.
    assert lines(tmp_path).keys() == {each.name for each in done}
    materialiser.finish()


def test_snapshot_larger_than_the_budget_goes_through_a_file(tmp_path: Path) -> None:
    materialiser = make(tmp_path, budget_bytes=100_000)
    large = {"a": noise(1, 400_000), "b": noise(2, 90_000)}
    first = snapshot("loop.r.0", a=large["a"], b=large["b"])
    second = snapshot("loop.r.1", "loop.r.0", a=large["a"], b=large["b"])
    assert materialiser.submit(first, wait=False) is not None
    (refused,) = materialiser.poll()
    assert "raise the budget" in refused.failed
    materialiser.submit(first, wait=True)
    materialiser.submit(second, wait=True)
    assert materialiser.drain(PATIENCE_S)
    assert [each.failed for each in materialiser.poll()] == ["", ""]
    materialiser.finish()
    assert contents_of(tmp_path / "store", "loop.r.0") == large
    assert contents_of(tmp_path / "store", "loop.r.1") == large
    assert sorted(os.listdir(tmp_path / "run")) == ["saved.jsonl", "writer.lock"]


def test_many_small_snapshots_are_all_stored(tmp_path: Path) -> None:
    materialiser = make(tmp_path)
    for number in range(100):
        assert materialiser.submit(snapshot(f"loop.r.{number}", a=b"%d" % number), wait=True)
    assert materialiser.drain(PATIENCE_S)
    assert len(materialiser.poll()) == 100
    materialiser.finish()
    assert contents_of(tmp_path / "store", "loop.r.99") == {"a": b"99"}


@pytest.mark.parametrize("kind", KINDS)
def test_fork_of_the_user_uses_nothing_of_ours(tmp_path: Path, kind: str) -> None:
    materialiser = make(tmp_path, kind)
    materialiser.submit(snapshot("loop.r.0", a=noise(1)), wait=True)
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            # It has a writer of its own.
            is_clean = shared_memory() == [] and materialiser.poll() == []
            materialiser.submit(snapshot("loop.r.1", a=noise(2)), wait=True)
            is_stored = materialiser.drain(PATIENCE_S)
            done = [(each.name, each.failed) for each in materialiser.poll()]
            materialiser.finish()
            code = 0 if is_clean and is_stored and done == [("loop.r.1", "")] else 2
        finally:
            os._exit(code)
    materialiser.submit(snapshot("loop.r.2", "loop.r.0", a=noise(3)), wait=True)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert materialiser.drain(PATIENCE_S)
    failed = {each.name: each.failed for each in materialiser.poll()}
    assert failed == {"loop.r.0": "", "loop.r.2": ""}
    materialiser.finish()
    for number in range(3):
        image = f"loop.r.{number}"
        assert contents_of(tmp_path / "store", image) == {"a": noise(number + 1)}


def test_interrupt_in_the_middle_loses_nothing_else(tmp_path: Path) -> None:
    def copy_into(memory: memoryview) -> None:
        memory[:5] = b"12345"
        raise KeyboardInterrupt

    materialiser = make(tmp_path)
    materialiser.submit(snapshot("loop.r.0", a=noise(1)), wait=True)
    broken = Part(key="a", kind="array", nbytes=10, copy_into=copy_into)
    with pytest.raises(KeyboardInterrupt):
        materialiser.submit(Snapshot(name="loop.r.1", document={}, parts=(broken,)), wait=True)
    materialiser.submit(snapshot("loop.r.2", a=noise(2)), wait=True)
    assert materialiser.drain(PATIENCE_S)
    done = {each.name: each.failed for each in materialiser.poll()}
    assert done == {"loop.r.0": "", "loop.r.2": ""}
    materialiser.finish()
    assert shared_memory() == []


@pytest.mark.parametrize("budget", [0, -5])
def test_budget_that_holds_nothing_is_refused(tmp_path: Path, budget: int) -> None:
    with pytest.raises(InvalidValue, match="budget"):
        make(tmp_path, budget_bytes=budget)


def test_kind_comes_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(make(tmp_path, ""), StagingMaterialiser)
    monkeypatch.setenv("CHEX_MATERIALISER", "fork")
    assert isinstance(make(tmp_path, ""), ForkMaterialiser)
    monkeypatch.setenv("CHEX_MATERIALISER", "thread")
    with pytest.raises(InvalidValue, match="staging or fork"):
        make(tmp_path, "")


@given(
    keys=st.lists(st.text(max_size=20), unique=True, max_size=8),
    sizes=st.lists(st.integers(0, 10**13), min_size=8, max_size=8),
    name=st.text(max_size=30),
)
def test_layout_leaves_room_for_everything(keys: list[str], sizes: list[int], name: str) -> None:
    def copy_into(_: memoryview) -> None:
        raise AssertionError

    parts = tuple(
        Part(key=key, kind="stream", nbytes=size, copy_into=copy_into)
        for key, size in zip(keys, sizes, strict=False)
    )
    layout = layout_of(Snapshot(name=name, document={name: name}, parts=parts, like=name))
    end = len(layout.head)
    for offset, each in zip(layout.offsets, parts, strict=True):
        assert offset % 64 == 0
        assert offset >= end
        end = offset + each.nbytes
    assert layout.nbytes >= end
    header = json.loads(layout.head[HEAD.size :])
    assert [entry[2] for entry in header["parts"]] == list(layout.offsets)


def test_line_that_was_cut_off_spoils_no_other(tmp_path: Path) -> None:
    append_line(str(tmp_path), {"image": "a", "bytes": 1})
    with open(tmp_path / "saved.jsonl", "ab") as file:
        file.write(b'{"image":"b","by')
    append_line(str(tmp_path), {"image": "c", "bytes": 3})
    assert read_lines(str(tmp_path)).keys() == {"a", "c"}
