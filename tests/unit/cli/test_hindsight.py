"""``chex hindsight``: what is asked, what is refused, and what would be done."""

from __future__ import annotations

import csv
import io
import json
import math
from argparse import Namespace
from pathlib import Path

import pytest
from rich.console import Console

from chexpoint.cli import main
from chexpoint.cli.gc import unknown_images
from chexpoint.cli.hindsight_files import HindsightFiles
from chexpoint.cli.hindsight_progress import IterationBars
from chexpoint.cli.hindsight_work import parse_epochs
from chexpoint.errors import InvalidValue
from chexpoint.project import loops_folder
from chexpoint.replay import HindsightProgress
from chexpoint.store import Store
from tests.unit.project.hindsight_runs import INNER, PROBED, SET_UP, TRAINING, trained
from tests.unit.view.hindsights import result, row


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working folder: a project with a version whose training was recorded."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    trained(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "epochs"),
    [
        ("40:60", (40, 60)),
        (":10", (0, 10)),
        ("90:", (90, 10**9)),
        ("7", (7, 8)),
        (" 1 : 2 ", (1, 2)),
    ],
)
def test_epochs_are_a_range(text: str, epochs: tuple[int, int]) -> None:
    assert parse_epochs(text) == epochs


@pytest.mark.parametrize("text", ["", ":", "5:5", "6:5", "a:b", "-1:3", "1:2:3", "1.5"])
def test_other_epochs_are_refused(text: str) -> None:
    with pytest.raises(InvalidValue, match="write A:B"):
        parse_epochs(text)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "why"),
    [
        ([], "name the FILE with the added statements"),
        (["a.py", "--cell", "b.py"], "leave one of them out"),
        (["a.py", "--version", "v", "--all-versions"], "leave one of them out"),
        (["a.py", "--json", "--events", "-"], "cannot both go to standard output"),
        (["a.py", "--workers", "0"], "give 1 or more"),
        (["a.py", "--epochs", "9:3"], "write A:B"),
        (["a.py", "--csv", "a.txt"], "does not end in .csv"),
        (["a.py", "--plot", "a.png"], "write --plot OUT.svg"),
        (["missing.py"], "missing.py: No such file"),
        (["--cell", "missing.py"], "cannot read the cell missing.py"),
        (["a.txt"], "a.txt"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["hindsight", *words]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert why in captured.err


def test_where_nothing_is_recorded_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text(PROBED)
    assert main(["hindsight", str(tmp_path / "train.py")]) == 2
    assert "no .chex folder in" in capsys.readouterr().err


def test_a_dry_run_says_what_would_be_replayed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cell.py").write_text(PROBED)
    assert main(["hindsight", "--cell", "cell.py", "--dry-run"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("base: 4 iterations, about ")
    assert lines[0].endswith("(training took 4.0 s)")
    assert lines[1].startswith("  loop 1 of cell 2: 0:4 from the beginning, ")
    assert main(["hindsight", "--cell", "cell.py", "--dry-run", "--json", "--epochs", "2:3"]) == 0
    (version,) = json.loads(capsys.readouterr().out)["versions"]
    assert (version["version"], version["iterations"]) == ("base", 1)
    assert [version["parts"][0][name] for name in ("start", "stop")] == [2, 3]


def test_the_work_is_shared_by_workers(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "train.py").write_text(f"{SET_UP}\n{INNER}\n")
    (folder / "cell.py").write_text(INNER)
    words = ["hindsight", "--cell", "cell.py", "--dry-run", "--json", "--workers", "2"]
    assert main(words) == 0
    (version,) = json.loads(capsys.readouterr().out)["versions"]
    assert len(version["parts"]) == 2
    assert version["parts"][1]["is_jump"]


def test_each_change_that_is_no_log_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = PROBED.replace("w += x", "w += 2 * x")
    (folder / "cell.py").write_text(changed)
    assert main(["hindsight", "--cell", "cell.py"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "w += 2 * x" in captured.err
    assert all(line.startswith("chex: Cell 2, line ") for line in captured.err.splitlines())


def test_other_versions_are_planned_or_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trained(folder, "longer", cells=(SET_UP, TRAINING.replace("(4)", "(9)")), digits="b")
    trained(folder, "alien", cells=("y = 1",), digits="c")
    (folder / "cell.py").write_text(PROBED)
    assert main(["hindsight", "--cell", "cell.py", "--all-versions", "--dry-run", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [version["version"] for version in data["versions"]] == ["base", "longer"]
    assert [left["version"] for left in data["left_out"]] == ["alien"]
    assert data["left_out"][0]["reason"]


def test_a_version_that_is_not_there_is_told(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cell.py").write_text(PROBED)
    assert main(["hindsight", "--cell", "cell.py", "--version", "bas"]) == 2
    assert "Did you mean base?" in capsys.readouterr().err


# ---------------------------------------------------------------- files


def test_values_are_written_as_a_table_and_a_picture(tmp_path: Path) -> None:
    args = Namespace(csv=str(tmp_path / "v.csv"), plot=str(tmp_path / "v.svg"))
    files = HindsightFiles.wanted(args)
    found = [result(row(0, 0.1), row(1, math.nan), row(0, 1, name="loss", is_added=False))]
    told = files.write(found, ())
    assert told == [f"wrote 2 rows to {args.csv}", f"drew {args.plot}"]
    with open(args.csv, encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert first == {
        "version": "base",
        "epoch": "0",
        "name": "norm",
        "value": "0.1",
        "standing": "exact",
        "line": "7",
        "via": "print",
    }
    assert second["value"] == "nan"
    assert HindsightFiles.wanted(args).plot is not None  # ours may be drawn again
    Path(args.plot).write_text("<svg>mine</svg>")
    with pytest.raises(InvalidValue, match="is not a picture of chex hindsight"):
        HindsightFiles.wanted(args)


def test_there_is_a_bar_for_the_iterations_of_a_version() -> None:
    out = io.StringIO()
    with IterationBars(Console(file=io.StringIO(), width=120)) as bars:
        bars.watch(HindsightProgress(version="[b]base", done=3, total=8, seconds_left=4.0))
        Console(file=out, width=120).print(bars.picture())
    (line,) = out.getvalue().splitlines()
    assert line.split()[0] == "[b]base"
    assert line.rstrip().endswith("3/8 iterations 4.0 s left")


# ---------------------------------------------------------------- images


def test_images_of_runs_and_programs_are_of_use(folder: Path) -> None:
    project = trained(folder, "other", digits="d")
    names = ["loop.run-base.0", "loop.gone.0", "save.model.1", "stray", "loop.run-base", "save."]
    with Store.open(folder / ".chex" / "store") as store:
        for name in names:
            store.put(name, {}, streams={}, arrays={})
        assert loops_folder(project).is_dir()
        useless = set(unknown_images(project, store, before=math.inf))
    assert useless == {"loop.gone.0", "stray", "loop.run-base", "save."}
