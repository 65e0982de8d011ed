"""``chex versions`` lists what was recorded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chexpoint.cli.versions import VersionsCommand
from chexpoint.errors import InvalidValue
from chexpoint.model import CellRecord
from chexpoint.project import Project
from tests.support.commands import run_command
from tests.unit.view.worlds import lineage_of, recorded, side_cell


def run(*words: str) -> int:
    """Run the verb with some words."""
    return run_command(VersionsCommand(), *words)


def test_versions_are_listed_oldest_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recorded(tmp_path)
    assert run("--project", str(tmp_path), "--all") == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.rstrip().split("\n"))
    assert head == ["version", "cells", "computed", "shared", "when", "origin"]
    assert [row[:5] for row in rows] == [
        ["base@1", "3", "7.5", "s", "3"],
        ["tuned", "4", "10.0", "s", "1"],
        ["base", "3", "7.5", "s", "3"],
    ]


def test_json_holds_the_same_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    project = recorded(tmp_path)
    assert run("--project", str(tmp_path), "--json") == 0
    current = json.loads(capsys.readouterr().out)["versions"]
    assert [row["label"] for row in current] == ["tuned", "base"]
    assert run("--project", str(tmp_path), "--json", "--all") == 0
    rows = json.loads(capsys.readouterr().out)["versions"]
    assert [row["label"] for row in rows] == ["base@1", "tuned", "base"]
    assert [row["node"] for row in rows] == [version.node for version in project.versions()]
    assert rows[1]["shared"] == 1
    assert rows[0]["parameters"] == {}


def test_no_versions_are_explained(tmp_path: Path) -> None:
    (tmp_path / ".chex").mkdir()
    with pytest.raises(InvalidValue, match="nothing is recorded"):
        run("--project", str(tmp_path))
    cell = side_cell("x = 1", 1).cell
    Project.at(tmp_path).record(CellRecord(lineage=lineage_of(cell, 1)), session="s")
    with pytest.raises(InvalidValue, match="no version is recorded"):
        run("--project", str(tmp_path))
