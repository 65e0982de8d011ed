"""``chex diff`` compares versions and nodes in every form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chexpoint.cli.diff import DiffCommand
from chexpoint.errors import InvalidValue
from chexpoint.project import Project
from tests.support.commands import run_command
from tests.unit.view.worlds import recorded


def run(*words: str) -> int:
    """Run the verb with some words."""
    return run_command(DiffCommand(), *words)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project of the working folder, with three versions."""
    monkeypatch.chdir(tmp_path)
    return recorded(tmp_path)


@pytest.mark.usefixtures("project")
def test_versions_are_compared_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("base", "tuned") == 0
    lines = capsys.readouterr().out.split("\n")
    assert lines[:2] == ["--- base (3 cells)", "+++ tuned (4 cells)"]
    assert "= cell 1: the same state" in lines
    assert "    - x = np.arange(10)" in lines
    assert "    + x = np.arange(20)" in lines
    assert "+ cell 4: only in tuned" in lines
    assert lines[-2] == "2 same, 1 changed, 1 added"


@pytest.mark.usefixtures("project")
def test_runs_of_the_same_code_do_not_differ(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("base@1", "base") == 0
    assert capsys.readouterr().out.endswith("\nno differences\n")


def test_nodes_are_compared(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    one, other = project.version("base").path[1], project.version("tuned").path[1]
    assert run(one[:8], other[:8], "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert [cell["state"] for cell in data["cells"]] == ["same", "changed"]
    assert data["left"] == one[:8]


@pytest.mark.usefixtures("project")
def test_a_page_is_drawn_and_drawn_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert run("base", "tuned", "--html", "diff.html") == 0
        assert capsys.readouterr().out == "drew diff.html\n"
        assert "np.arange(<b>2</b>0)" in (tmp_path / "diff.html").read_text()
    run("base", "tuned", "--html")
    assert capsys.readouterr().out.startswith("<!DOCTYPE html>")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("base", "nosuch"), "no version 'nosuch'"),
        (("base", "tuned", "--html", "mine.html"), "not a page of chex diff"),
        (("base", "tuned", "--html", "--json"), "cannot both go to standard output"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_mistake_is_explained(tmp_path: Path, words: tuple[str, ...], message: str) -> None:
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(InvalidValue, match=message):
        run(*words)
    assert (tmp_path / "mine.html").read_text() == "mine"
