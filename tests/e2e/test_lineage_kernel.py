"""Lineage in a real kernel: the magic, the project folder, and ``chex show`` afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.kernels import CHEX, Kernel, Launch

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Run some cells in a kernel, end it, and return what the magics showed."""
    shown = {}
    with Kernel(Launch(argv=CHEX), tmp_path_factory.mktemp("kernel")) as kernel:
        shown["cwd"] = str(kernel.cwd)
        (kernel.cwd / "data.csv").write_text("a,b\n1,2\n")
        kernel.run("x = 1")
        kernel.run("text = open('data.csv').read()")
        kernel.run("n = open('out.txt', 'w').write(text)")
        kernel.run("again = open('out.txt').read()")
        shown["last"] = kernel.run("%chex_lineage --json")
        shown["third"] = kernel.run("%chex_lineage 3 --json")
        shown["status"] = kernel.run("%chex_status --json")
        view = kernel.execute("%chex_lineage 2").ok()
        data = view.displays[0].content["data"]
        shown["html"], shown["text"] = data["text/html"], data["text/plain"]
        shown["error"] = kernel.execute("%chex_lineage 99").stderr
    return shown


def chex(*words: str, cwd: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "chexpoint", *words]
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False)


def inputs(lineage: dict[str, Any]) -> dict[str, list[str]]:
    return {i["name"]: i["digests"] for i in lineage["audit"]["inputs"] if i["kind"] == "file"}


def test_the_magic_shows_the_cell_before_it(recorded: dict[str, str]) -> None:
    last = json.loads(recorded["last"])
    assert last["source"] == "again = open('out.txt').read()"
    assert inputs(last) == {"./out.txt": ["cell:3"]}
    assert last["audit"]["mechanism"] == "system calls"


def test_the_magic_finds_a_cell_by_its_number(recorded: dict[str, str]) -> None:
    third = json.loads(recorded["third"])
    assert third["execution_count"] == 3
    assert [effect["kind"] for effect in third["audit"]["effects"]] == ["written"]


def test_the_picture_and_the_table_name_the_file(recorded: dict[str, str]) -> None:
    assert "<svg" in recorded["html"]
    assert "data.csv" in recorded["html"]
    assert "data.csv" in recorded["text"]


def test_an_unknown_cell_is_one_line(recorded: dict[str, str]) -> None:
    assert "99" in recorded["error"]
    assert "Traceback" not in recorded["error"]


def test_status_tells_how_cells_are_audited(recorded: dict[str, str]) -> None:
    assert json.loads(recorded["status"])["audit"] == "system calls"


def test_show_knows_the_cells_of_a_kernel_that_has_ended(recorded: dict[str, str]) -> None:
    shown = chex("show", "4", "--json", cwd=recorded["cwd"])
    assert shown.returncode == 0, shown.stderr
    fourth = json.loads(shown.stdout)
    assert fourth["source"] == "again = open('out.txt').read()"
    path = json.loads(chex("show", "4", "--lineage", "--json", cwd=recorded["cwd"]).stdout)["path"]
    assert [cell["execution_count"] for cell in path] == [1, 2, 3, 4]
    assert [cell["parent"] for cell in path[1:]] == [cell["node"] for cell in path[:-1]]


def test_show_draws_a_picture(recorded: dict[str, str], tmp_path: Path) -> None:
    target = tmp_path / "lineage.svg"
    drawn = chex("show", "4", "--lineage", "--svg", str(target), cwd=recorded["cwd"])
    assert drawn.returncode == 0, drawn.stderr
    assert "data.csv" in target.read_text()


def test_the_project_folder_is_private(recorded: dict[str, str]) -> None:
    folder = Path(recorded["cwd"]) / ".chex"
    assert folder.stat().st_mode & 0o077 == 0
    assert os.listdir(folder)


def test_nothing_recorded_is_one_line_of_advice(tmp_path: Path) -> None:
    shown = chex("show", cwd=str(tmp_path))
    assert shown.returncode != 0
    assert shown.stderr.count("\n") == 1
    assert "kernel" in shown.stderr
