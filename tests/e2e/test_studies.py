"""The bundled studies: each version runs in CHEX without a doubt, and is reproduced by a replay."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

from chexpoint.cli.demo import STUDIES, Study
from chexpoint.model import ExecutionTree, Recording, Replay
from chexpoint.project import (
    Batch,
    Project,
    ProjectFiles,
    VersionRun,
    combinations,
    plan_versions,
    read_source,
    recording_of,
)
from chexpoint.replay import Replayer

NOTEBOOKS = Path(__file__).parent.parent.parent / "notebooks"

pytestmark = pytest.mark.slow


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """A study that was recorded and replayed."""

    study: str
    runs: tuple[VersionRun, ...]
    recording: Recording
    replay: Replay


@pytest.fixture(scope="module", params=STUDIES)
def recorded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return a study, recorded in a copy of its folder and replayed; once for all tests."""
    study = Study.bundled(request.param)
    folder = shutil.copytree(study.folder, tmp_path_factory.mktemp("studies") / study.name)
    tasks = plan_versions([read_source(folder / name) for name in study.versions], combinations([]))
    with Batch(timeout_s=120) as batch:
        runs = tuple(batch.record(task) for task in tasks)
    project = Project.at(folder)
    recording = recording_of(project)
    replay = Replayer(recording, ProjectFiles(project)).run()
    return Recorded(study=study.name, runs=runs, recording=recording, replay=replay)


def notebooks(study: str) -> Iterator[tuple[str, Any]]:
    for name in Study.bundled(study).versions:
        yield name, nbformat.read(NOTEBOOKS / study / name, as_version=4)


def depths_of_branches(tree: ExecutionTree) -> set[int]:
    """Return after how many cells versions part."""
    return {len(tree.path(node)) for node in tree.nodes if len(tree.children(node)) > 1}


# ---------------------------------------------------------------- as files


def test_every_folder_of_notebooks_is_a_study() -> None:
    folders = {path.parent.name for path in NOTEBOOKS.glob("*/v*.ipynb")}
    assert folders == set(STUDIES)


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_has_six_versions_and_small_data_with_a_source(study: str) -> None:
    folder = NOTEBOOKS / study
    assert len(Study.bundled(study).versions) >= 6
    data = [path for path in folder.iterdir() if path.suffix not in {".ipynb", ".md"}]
    assert 0 < sum(path.stat().st_size for path in data) < 300_000
    about = (folder / "README.md").read_text(encoding="utf-8").split("## Data")[1]
    assert "licence" in about
    assert all(f"`{path.name}`" in about for path in data)


@pytest.mark.parametrize("study", STUDIES)
def test_versions_are_stored_for_chex_and_without_outputs(study: str) -> None:
    for name, notebook in notebooks(study):
        nbformat.validate(notebook)
        assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
        assert notebook.metadata.kernelspec.name == "chex", name
        for cell in notebook.cells:
            assert cell.cell_type == "markdown" or not (cell.outputs or cell.execution_count), name


@pytest.mark.parametrize("study", STUDIES)
def test_a_cell_has_the_same_id_in_all_versions(study: str) -> None:
    ids: dict[str, set[str]] = {}
    for _, notebook in notebooks(study):
        for cell in notebook.cells:
            ids.setdefault(cell.source, set()).add(cell.id)
    assert {source: found for source, found in ids.items() if len(found) > 1} == {}


# ---------------------------------------------------------------- in CHEX


def test_every_cell_of_every_version_succeeds(recorded: Recorded) -> None:
    assert [run.task.file.path.name for run in recorded.runs] == list(
        Study.bundled(recorded.study).versions
    )
    failed = [(run.task.name, cell.error) for run in recorded.runs for cell in run.cells]
    assert {error for _, error in failed} == {None}


def test_no_cell_is_in_doubt(recorded: Recorded) -> None:
    doubts = {cell.cell_id: cell.lineage.doubt() for cell in recorded.recording.cells.values()}
    assert {cell: doubt for cell, doubt in doubts.items() if doubt} == {}


def test_versions_part_at_several_depths(recorded: Recorded) -> None:
    tree = recorded.recording.tree
    assert len(tree.versions) == len(recorded.runs)
    assert len(depths_of_branches(tree)) >= 3
    # Each version has an end of its own.
    assert len({version.path[-1] for version in tree.versions}) == len(tree.versions)


def test_a_replay_computes_each_node_once_and_everything_is_the_same(recorded: Recorded) -> None:
    replay = recorded.replay
    wrong = {
        recorded.recording.cells[node].cell_id: (cell.status, cell.reasons)
        for node, cell in replay.cells.items()
        if cell.status != "same"
    }
    assert wrong == {}
    assert replay.is_good
    assert replay.computed_cells == len(recorded.recording.tree)
    assert replay.computed_cells < replay.cells_in_versions


def test_files_are_in_the_lineage(recorded: Recorded) -> None:
    tree, cells = recorded.recording.tree, recorded.recording.cells
    read: Counter[str] = Counter()
    written: Counter[str] = Counter()
    for version in tree.versions:
        for node in version.path:
            audit = cells[node].lineage.audit
            read.update(each.name for each in audit.inputs if each.kind == "file")
            written.update(each.path for each in audit.effects if each.kind == "written")
    expected: dict[str, tuple[dict[str, int], int]] = {
        "digits": ({"./digits.csv.gz": 6}, 0),
        "epidemic": ({"./disease.json": 6, "./measures_a.json": 5, "./measures_b.json": 1}, 6),
        "relief": ({"./elevation.npz": 6}, 0),
    }
    assert (dict(read), len(written)) == expected[recorded.study]


def test_what_was_found_is_what_the_readme_says(recorded: Recorded) -> None:
    about = (NOTEBOOKS / recorded.study / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(v\w+)` \|.*\| ([\d.,]+)[ m]*\|$", about, re.MULTILINE)
    told = {name: float(result.replace(",", "")) for name, result in rows}
    found = {label: result_of(recorded, label) for label in recorded.recording.labels}
    # Other versions of the libraries may round in another way.
    assert found == pytest.approx(told, rel=0.01)


def result_of(recorded: Recorded, label: str) -> float:
    """Return the result of a version, from what its cells printed."""
    before = {
        "digits": "accuracy ",
        "epidemic": "cases after day 140 ",
        "relief": "the error is ",
    }
    text = "".join(
        output["text"]
        for node in recorded.recording.labels[label].path
        for output in recorded.recording.cells[node].outputs
        if output["output_type"] == "stream"
    )
    return float(text.rpartition(before[recorded.study])[2].split()[0])
