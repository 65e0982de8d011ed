"""Every type of the matrix comes back equal in another process, or is named as lost."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import type_matrix

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "image-types.md"


def run(what: str, folder: Path) -> str:
    """Make or load the matrix in a process of its own; return what it prints."""
    command = [sys.executable, "-W", "ignore", type_matrix.__file__, what, "images.pickle"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
def test_each_type_comes_back_equal_or_is_named_as_lost(tmp_path: Path) -> None:
    run("make", tmp_path)
    outcomes = dict(json.loads(line) for line in run("load", tmp_path).splitlines())
    expected = {case.title: case.expected for case in type_matrix.installed_cases()}
    assert outcomes == expected


def test_the_matrix_is_as_wide_as_promised() -> None:
    cases = type_matrix.installed_cases()
    assert len({case.title for case in cases}) == len(cases) >= 60
    assert len({case.library for case in cases}) >= 20
    assert {case.expected for case in cases} == {"restored", "lost"}


def test_each_class_of_kishus_list_has_a_case_or_a_reason() -> None:
    titles = {case.title for case in type_matrix.all_cases()}
    classes = type_matrix.kishu_classes()
    unknown = [
        name
        for name, case in classes.items()
        if case not in titles and not case.startswith("not tried: ")
    ]
    assert unknown == []
    assert sum(case in titles for case in classes.values()) >= 120


def test_the_reference_page_shows_the_matrix() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text.endswith(type_matrix.tables())
