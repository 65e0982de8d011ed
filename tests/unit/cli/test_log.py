"""``chex log`` finds versions and nodes, and shows their cells in order."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chexpoint.cli.log import LogCommand
from chexpoint.errors import InvalidValue
from chexpoint.model import path_cell_from_json
from chexpoint.project import Project
from tests.support.commands import run_command
from tests.unit.view.worlds import BASE, TUNED, record_version, recorded


def run(*words: str) -> int:
    """Run the verb with some words."""
    return run_command(LogCommand(), *words)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """Return the project of the working folder, with three versions."""
    monkeypatch.chdir(tmp_path)
    return recorded(tmp_path)


def sources(text: str) -> list[str]:
    return [line.strip() for line in text.split("\n") if line.startswith("    ")]


@pytest.mark.parametrize(
    ("words", "label", "cells"),
    [
        ((), "base", BASE),
        (("tuned",), "tuned", TUNED),
        (("base@1",), "base@1", BASE),
        (("base@2",), "base", BASE),
        (("2",), "2", BASE[:2]),
        (("[3]",), "[3]", BASE),
    ],
)
@pytest.mark.usefixtures("project")
def test_versions_and_cells_are_found(
    words: tuple[str, ...],
    label: str,
    cells: tuple[str, ...],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(*words) == 0
    text = capsys.readouterr().out
    assert text.split("\n")[0] == label
    assert sources(text) == list(cells)


def test_a_node_is_found_by_its_digits(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    node = project.version("tuned").path[1]
    assert run(node[:8]) == 0
    assert sources(capsys.readouterr().out) == list(TUNED[:2])


def test_json_holds_the_cells(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("tuned", "--json") == 0
    data = json.loads(capsys.readouterr().out)
    assert data["label"] == "tuned"
    cells = tuple(path_cell_from_json(cell) for cell in data["cells"])
    assert cells == project.cells(project.version("tuned"))


def test_long_cells_are_shown_in_full_if_that_is_wanted(
    project: Project, capsys: pytest.CaptureFixture[str]
) -> None:
    record_version(project, "long", ["\n".join(f"line_{i}" for i in range(30))])
    run("long")
    assert "... 24 more lines" in capsys.readouterr().out
    run("long", "--full")
    assert len(sources(capsys.readouterr().out)) == 30


@pytest.mark.parametrize(
    ("ref", "message"),
    [
        ("tunde", "no version 'tunde'. Did you mean tuned"),
        ("base@9", "no version 'base@9'"),
        ("99", r"no cell \[99\]"),
        ("abcdef012345", "no node 'abcdef012345'"),
    ],
)
@pytest.mark.usefixtures("project")
def test_a_mistake_is_explained(ref: str, message: str) -> None:
    with pytest.raises(InvalidValue, match=message):
        run(ref)


def test_an_empty_project_is_explained(tmp_path: Path) -> None:
    (tmp_path / ".chex").mkdir()
    for words in ((), ("base",), ("3",)):
        with pytest.raises(InvalidValue, match="nothing is recorded"):
            run(*words, "--project", str(tmp_path))
