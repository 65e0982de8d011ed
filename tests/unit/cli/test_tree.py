"""``chex tree`` shows what was recorded in every form, and overwrites nothing of the user's."""

from __future__ import annotations

import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from chexpoint.cli.tree import TreeCommand
from chexpoint.errors import InvalidValue
from chexpoint.model import tree_from_json
from chexpoint.project import Project
from tests.support.commands import run_command
from tests.unit.view.worlds import recorded


def run(*words: str) -> int:
    """Run the verb with some words."""
    return run_command(TreeCommand(), *words)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project of the working folder, with three versions."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    return recorded(tmp_path)


@pytest.mark.usefixtures("project")
def test_the_tree_is_text_by_default(capsys: pytest.CaptureFixture[str]) -> None:
    assert run() == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[0] == "○    fresh interpreter"
    assert "import numpy as np" in lines[1]
    assert "(tuned) x = np.arange(20) …" in lines[2]
    assert "(base) x = np.arange(10) …" in lines[3]
    assert "6 cells, 2 versions" in lines


@pytest.mark.usefixtures("project")
def test_a_terminal_without_the_signs_gets_others(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", written)
    assert run() == 0
    written.seek(0)
    lines = written.read().split("\n")
    assert lines[0] == "o    fresh interpreter"
    assert lines[2].startswith("+-*  ")
    assert lines[2].endswith("(tuned) x = np.arange(20) ~")


def test_json_is_a_tree_file(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert tree_from_json(data) == project.tree().current() != project.tree()
    assert {"cell", "versions", "checkpoint"} <= set(data["nodes"][0])


@pytest.mark.usefixtures("project")
def test_pictures_and_pages_are_drawn_and_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert run("--svg", "tree.svg", "--html", "tree.html") == 0
        assert capsys.readouterr().out == "drew tree.svg\ndrew tree.html\n"
        picture = ElementTree.parse(tmp_path / "tree.svg")  # noqa: S314 - our own file
        assert {"base", "tuned"} <= {element.text for element in picture.iter()}
        assert "<td >tuned</td>" in (tmp_path / "tree.html").read_text()


@pytest.mark.usefixtures("project")
def test_a_picture_goes_to_standard_output_beside_a_page_in_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("--svg", "--html", "tree.html") == 0
    ElementTree.fromstring(capsys.readouterr().out)  # noqa: S314 - our own text
    assert (tmp_path / "tree.html").exists()
    assert run("--html", "-") == 0
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--svg", "mine.svg"), "mine.svg exists and is not a picture of chex tree"),
        (("--html", "mine.html"), "mine.html exists and is not a page of chex tree"),
        (("--svg", "tree.png"), "does not end in .svg: write chex tree --svg FILE.svg"),
        (("--html", "tree"), "does not end in .html"),
        (("--svg", "--html"), "--svg and --html cannot both go to standard output"),
        (("--html", "--json"), "--html and --json cannot both go to standard output"),
        (("--project", "nowhere"), "no folder nowhere"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_mistake_is_explained_and_nothing_is_lost(
    tmp_path: Path, words: tuple[str, ...], message: str
) -> None:
    for name in ("mine.svg", "mine.html"):
        (tmp_path / name).write_text("<svg>mine</svg>")
    with pytest.raises(InvalidValue, match=message):
        run(*words)
    assert (tmp_path / "mine.svg").read_text() == "<svg>mine</svg>"
    assert (tmp_path / "mine.html").read_text() == "<svg>mine</svg>"


def test_a_project_without_cells_is_explained(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue, match=r"no \.chex folder"):
        run("--project", str(tmp_path))
    (tmp_path / ".chex").mkdir()
    with pytest.raises(InvalidValue, match="nothing is recorded"):
        run("--project", str(tmp_path))
