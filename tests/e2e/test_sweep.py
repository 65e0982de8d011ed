"""Sweeps with a real engine: what versions begin with is run once, if that is surely right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chexpoint.project import (
    Batch,
    Project,
    VersionRun,
    combinations,
    in_turns,
    plan_versions,
    read_source,
)
from tests.support.studies import write_notebook

pytestmark = pytest.mark.slow

TIMEOUT_S = 120.0


def notebook(path: Path, *sources: str) -> Path:
    """Write a notebook; cells that begin with ``# parameters`` have the tag."""
    tagged = [at for at, source in enumerate(sources) if source.startswith("# parameters")]
    return write_notebook(path, sources, {at: ["parameters"] for at in tagged})


def swept(batch: Batch, file: Path, *options: str) -> tuple[list[VersionRun], list[str]]:
    """Return what came of all versions, and why something was not shared."""
    runs, reasons = [], []
    for turn in in_turns(plan_versions([read_source(file)], combinations(options))):
        runs.append(batch.record(turn.task, keep=turn.keep))
        reasons.append(batch.why_not_shared)
    return runs, reasons


def known(runs: Sequence[VersionRun]) -> list[int]:
    return [sum(cell.is_reused for cell in run.cells) for run in runs]


def printed(run: VersionRun) -> str:
    project = Project.at(run.task.folder)
    cells = project.cells(project.version(f"{run.task.name}@{run.number}"))
    shown = [output for cell in cells for output in project.outputs(cell.execution)]
    return "".join(output.get("text", "") for output in shown)


def test_versions_share_what_they_begin_with_unless_that_may_be_wrong(tmp_path: Path) -> None:
    with Batch(timeout_s=TIMEOUT_S) as batch:
        _two_places(batch, tmp_path)
        _what_is_drawn_by_lot(batch, tmp_path)
        _what_another_version_has_changed(batch, tmp_path)
        _what_another_version_has_written_over(batch, tmp_path)
        _what_a_failing_version_leaves(batch, tmp_path)


def _two_places(batch: Batch, folder: Path) -> None:
    file = notebook(
        folder / "two.ipynb",
        *("items = []", "# parameters\nn = 1", "items.append(n)"),
        *("# parameters\nlr = 1", "items.append(lr)\nprint(items)"),
    )
    runs, reasons = swept(batch, file, "lr=0.1,0.2", "n=5,6")
    assert [run.status for run in runs] == ["ok"] * 4
    assert known(runs) == [0, 5, 2, 5]
    assert reasons == [""] * 4
    # Each has its own state, and not what another one has done to it.
    assert [printed(run) for run in runs] == [
        *("[5, 0.1]\n", "[5, 0.2]\n", "[6, 0.1]\n", "[6, 0.2]\n")
    ]
    project = Project.at(folder)
    assert len(project.tree().nodes) == 2 + 2 * (3 + 2 * 2)
    first, second = (project.cells(project.version(run.task.name)) for run in runs[:2])
    assert [cell.execution for cell in first[:5]] == [cell.execution for cell in second[:5]]
    assert first[5].execution != second[5].execution


def _what_is_drawn_by_lot(batch: Batch, folder: Path) -> None:
    file = notebook(
        folder / "lot.ipynb",
        "import random\nlot = random.random()",
        "# parameters\nn = 1",
        "print(lot)",
    )
    runs, reasons = swept(batch, file, "n=5,6")
    assert known(runs) == [0, 0]
    assert "random" in reasons[0]
    assert printed(runs[0]) != printed(runs[1])


def _what_another_version_has_changed(batch: Batch, folder: Path) -> None:
    (folder / "data.txt").write_text("1", encoding="utf-8")
    file = notebook(
        folder / "changing.ipynb",
        "from pathlib import Path\nseen = Path('data.txt').read_text()",
        "# parameters\nn = 1",
        "_ = Path('data.txt').write_text(str(n))\nprint(seen)",
    )
    runs, reasons = swept(batch, file, "n=5,6")
    assert known(runs) == [0, 0]
    assert "data.txt" in reasons[1]
    assert [printed(run) for run in runs] == ["1\n", "5\n"]


def _what_another_version_has_written_over(batch: Batch, folder: Path) -> None:
    file = notebook(
        folder / "writing.ipynb",
        "from pathlib import Path\n_ = Path('out.txt').write_text('new')",
        "# parameters\nn = 1",
        "print(Path('out.txt').read_text())\n_ = Path('out.txt').write_text(str(n))",
    )
    runs, _ = swept(batch, file, "n=5,6")
    assert [printed(run) for run in runs] == ["new\n", "new\n"]


def _what_a_failing_version_leaves(batch: Batch, folder: Path) -> None:
    file = notebook(
        folder / "failing.ipynb",
        "items = [1]",
        "# parameters\nn = 1",
        "items.append(n)\nassert n != 5",
        "import os\nif n == 6: os._exit(3)",
        "print(items)",
    )
    runs, _ = swept(batch, file, "n=5,6,7")
    assert [run.status for run in runs] == ["error", "error", "ok"]
    assert printed(runs[2]) == "[1, 7]\n"


def test_the_command_lists_shares_and_runs_afresh(tmp_path: Path) -> None:
    text = "print('loaded')\n\n# parameters\nlr = 1\n\nprint(lr)\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")

    def chex(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "chexpoint", "record", "train.py", "-p", "lr=2:6:2", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )
        assert (done.returncode, done.stderr) == (0, "")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    listed = chex("--dry-run", "--json")
    assert [version["parameters"] for version in listed["versions"]] == [
        *({"lr": 2}, {"lr": 4}, {"lr": 6})
    ]
    assert (listed["cells"], listed["cells_to_run"]) == (15, 9)
    assert not (tmp_path / ".chex").exists()
    assert _reused(chex("--json")) == [0, 3, 3]
    assert _reused(chex("--json", "--fresh")) == [0, 0, 0]
    assert len(Project.at(tmp_path).tree().nodes) == 9


def _reused(told: dict[str, Any]) -> list[int]:
    return [sum(cell["reused"] for cell in version["cells"]) for version in told["versions"]]
