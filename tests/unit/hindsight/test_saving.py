"""`save` returns at once, and what `load` gives back is what was there at that moment."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from chexpoint.errors import InvalidValue, UnknownImage
from chexpoint.hindsight.writing.saving import finish_saves, load, save
from chexpoint.store import Store
from tests.support.snapshots import children, shared_memory

PATIENCE_S = 120.0

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / ".chex").mkdir()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    yield tmp_path
    finish_saves()


def test_save_is_a_snapshot(folder: Path) -> None:
    value: dict[str, Any] = {"w": np.arange(300_000.0), "log": [1], "t": torch.ones(5000)}
    value["view"] = value["w"][10:20]
    saving = save(value, "model")
    value["w"][:] = -1
    value["t"].zero_()
    value["log"].append(2)
    assert saving.wait(PATIENCE_S)
    assert saving.is_done
    assert saving.failed == ""
    back = load("model")
    assert back["log"] == [1]
    assert (back["w"] == np.arange(300_000.0)).all()
    assert back["t"].sum() == 5000
    back["w"][10] = 5
    assert back["view"][0] == 5
    # In the project above, and nowhere else.
    assert Store.open(folder / ".chex" / "store", create=False).images()
    assert not (folder / "below" / ".chex").exists()


def test_newest_of_a_name_is_loaded() -> None:
    for number in range(4):
        save([number], "x")
    save("other", "x.y")
    assert load("x") == [3]
    assert load("x.y") == "other"


def test_objects_of_the_program_itself_come_back(tmp_path: Path) -> None:
    program = """
import chexpoint.hindsight.writing.saving as saving
class Point:
    def __init__(self, x): self.x = x
saving.save([Point(5), lambda: 7], "p")
"""
    after = program.replace('saving.save([Point(5), lambda: 7], "p")', "").rstrip() + (
        '\npoint, call = saving.load("p")\nprint(point.x, call(), type(point).__name__)\n'
    )
    # The first ends right after `save`: what was saved is there nevertheless.
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    shown = subprocess.run(
        [sys.executable, "-c", after], check=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert shown.stdout.split() == ["5", "7", "Point"]


def test_random_numbers_are_what_they_would_have_been() -> None:
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), np.random.random(), torch.rand(1).item()
    random.seed(1)
    np.random.seed(1)
    torch.manual_seed(1)
    save({"g": np.random.default_rng(0)}, "rng")
    load("rng")
    assert (random.random(), np.random.random(), torch.rand(1).item()) == expected


def test_loading_changes_nothing_of_the_process(tmp_path: Path) -> None:
    save([1], "x")
    os.environ["CHEX_TEST_LATER"] = "kept"
    os.chdir(tmp_path)
    try:
        assert load("x") == [1]
        assert os.environ["CHEX_TEST_LATER"] == "kept"
        assert Path.cwd() == tmp_path
    finally:
        del os.environ["CHEX_TEST_LATER"]


def test_what_cannot_be_saved_is_refused_at_once() -> None:
    with pytest.raises(InvalidValue, match=r"'g' .*cannot be saved"):
        save((number for number in range(3)), "g")
    with pytest.raises(UnknownImage):
        load("g")


@pytest.mark.parametrize("name", ["", "a/b", "../x", "x" * 81, ".hidden", "ä"])
def test_names_are_checked(name: str) -> None:
    with pytest.raises(InvalidValue, match="cannot name"):
        save(1, name)


def test_unknown_name_says_what_there_is() -> None:
    with pytest.raises(UnknownImage, match="Saved are: nothing"):
        load("model")
    save(1, "first")
    with pytest.raises(UnknownImage, match="Saved are: first"):
        load("second")


def test_folder_can_be_given(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    save([1, 2], "x", folder=elsewhere)
    assert load("x", folder=elsewhere) == [1, 2]
    with pytest.raises(UnknownImage):
        load("x")


def test_failure_is_told(folder: Path) -> None:
    (folder / ".chex" / "store").write_text("in the way")
    saving = save([1], "x")
    assert saving.wait(PATIENCE_S)
    assert saving.failed
    assert "x" in repr(saving)


def test_nothing_is_kept_after_finish() -> None:
    mapped, others = shared_memory(), children()
    saving = save(np.ones(100_000), "x")
    finish_saves()
    assert set(shared_memory()) <= set(mapped)
    # Libraries may start processes of their own.
    new = set(children()) - set(others)
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in new]
    assert not [command for command in commands if b"run_writer" in command]
    assert saving.wait(PATIENCE_S)
    assert saving.failed == ""


def test_fork_saves_by_itself() -> None:
    save("parent", "x")
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = 0 if save("child", "y").wait(PATIENCE_S) and load("y") == "child" else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert load("x") == "parent"
    assert load("y") == "child"
