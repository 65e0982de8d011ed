"""Versions that real engines have recorded: packed, opened elsewhere, and unpacked."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from chexpoint.package import open_package, unpack
from chexpoint.project import Project
from chexpoint.project.packing import pack

pytestmark = pytest.mark.slow

DATA = "city,mm\n" + "".join(f"c{number},{number * 7 % 13}\n" for number in range(200))
HELPER = "def scaled(table, factor):\n    return table.assign(mm=table.mm * factor)\n"
SCRIPT = """\
# %% a first look
import os
import pandas as pd
from helper import scaled
table = pd.read_csv("data/rain.csv")
sorted(os.listdir("data"))
# %% parameters
factor = 2
# %%
table = scaled(table, factor)
print(table.mm.sum())
# %%
print(table.describe())
# %%
table.to_csv("scaled.csv")
# %%
pd.read_csv("scaled.csv").mm.max()
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which three versions were recorded."""
    folder = tmp_path_factory.mktemp("author") / "rain"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "rain.csv").write_text(DATA)
    (folder / "data" / "unread.csv").write_text("seen in a list only\n")
    (folder / "helper.py").write_text(HELPER)
    (folder / "rain.py").write_text(SCRIPT)
    words = ["record", str(folder / "rain.py"), "-p", "factor=2,3,5"]
    command = [sys.executable, "-m", "chexpoint", *words]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return folder


@pytest.fixture(scope="module")
def package(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out") / "rain.chex"
    pack(Project.at(project), None, out)
    return out


def test_a_package_has_all_that_the_cells_have_read(package: Path, tmp_path: Path) -> None:
    with open_package(package) as found:
        summary = found.summary
        assert len(summary.versions) == 3
        assert summary.left_out == ()
        assert summary.notes == ()
        assert {"pandas", "numpy", "ipykernel"} <= set(found.needed)
        unpacked = unpack(found, tmp_path / "reviewer")
    assert (tmp_path / "reviewer" / "data" / "rain.csv").read_text() == DATA
    assert (tmp_path / "reviewer" / "data" / "unread.csv").exists()
    assert (tmp_path / "reviewer" / "helper.py").read_text() == HELPER
    # What a cell has written, a replay writes again.
    assert not (tmp_path / "reviewer" / "scaled.csv").exists()
    for path in unpacked.notebooks.values():
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        assert any("mm" in json.dumps(cell.outputs) for cell in notebook.cells)


def test_lineage_and_tree_take_at_most_a_kilobyte_a_cell(package: Path) -> None:
    with open_package(package) as found:
        summary = found.summary
    size = summary.lineage_bytes / summary.cells
    sys.stdout.write(f"\nlineage and tree: {size:.0f} bytes a cell, {summary.cells} cells\n")
    assert size <= 1024


def test_the_bytes_do_not_depend_on_where_the_project_is(
    project: Path, package: Path, tmp_path: Path
) -> None:
    pack(Project.at(project), None, tmp_path / "again.chex")
    assert (tmp_path / "again.chex").read_bytes() == package.read_bytes()
    shutil.copytree(project, tmp_path / "elsewhere" / "rain")
    pack(Project.at(tmp_path / "elsewhere" / "rain"), None, tmp_path / "copied.chex")
    assert (tmp_path / "copied.chex").read_bytes() == package.read_bytes()


def test_a_file_that_is_gone_is_packed_from_what_was_kept(
    project: Path, package: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "rain"
    shutil.copytree(project, copy)
    (copy / "data" / "rain.csv").write_text("something else\n")
    pack(Project.at(copy), None, tmp_path / "kept.chex")
    with open_package(package) as before, open_package(tmp_path / "kept.chex") as after:
        assert before.digests <= after.digests
        assert after.recording.tree == before.recording.tree
