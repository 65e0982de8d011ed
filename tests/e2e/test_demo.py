"""``chex demo``, as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from chexpoint.cli.demo import QUICK_STUDY, QUICK_VERSIONS
from chexpoint.project import Project
from chexpoint.view import PAGE_START

pytestmark = pytest.mark.slow


def test_the_quick_demo_computes_less_and_keeps_a_project_with_a_report(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-m", "chexpoint", "demo", "--quick", "--json", "--keep", "out"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        cwd=tmp_path,
    )
    assert result.stderr == ""
    assert result.returncode == 0
    data = json.loads(result.stdout)
    assert data["reproduced"] is True
    assert data["lacking"] == {}
    (study,) = data["studies"]
    assert (study["study"], study["reproduced"]) == (QUICK_STUDY, True)
    replay = study["replay"]
    assert [version["status"] for version in replay["versions"]] == ["same"] * QUICK_VERSIONS
    assert replay["computed_cells"] < replay["cells_in_versions"]

    folder = tmp_path / "out" / QUICK_STUDY
    tree = Project.at(folder).tree()
    assert len(tree) == replay["computed_cells"]
    assert (folder / "report.html").read_text(encoding="utf-8").startswith(PAGE_START)
