"""``chex record`` understands its words, and tells in lines and in JSON what came of it."""

from __future__ import annotations

import argparse
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from chexpoint.cli.command import OneLineParser
from chexpoint.cli.record import RecordCommand
from chexpoint.cli.record_report import Report, failure_line, version_line
from chexpoint.errors import InvalidValue
from chexpoint.model import CellError, NodeId
from chexpoint.project.batch import CellRun, VersionRun
from chexpoint.project.batch_plan import VersionTask, plan_versions
from chexpoint.project.parameters import combinations
from chexpoint.project.sources import SourceCell, SourceFile


def parsed(*words: str) -> argparse.Namespace:
    parser = OneLineParser()
    RecordCommand().prepare_parser(parser)
    return parser.parse_args(words)


def record(*words: str) -> int:
    return RecordCommand().run(parsed(*words))


def task_of(path: str, *options: str) -> VersionTask:
    kind: Any = "script" if path.endswith(".py") else "notebook"
    file = SourceFile(path=Path(path), kind=kind, cells=(SourceCell(source="x = 1", number=1),))
    (task,) = plan_versions([file], combinations(options))
    return task


def run_of(path: str, *cells: CellRun, options: tuple[str, ...] = ()) -> VersionRun:
    is_ok = all(cell.error is None for cell in cells)
    return VersionRun(
        task=task_of(path, *options),
        status="ok" if is_ok else "error",
        cells=cells,
        seconds=1.25,
        number=1,
    )


def cell_run(number: int | None, error: CellError | None = None, **more: Any) -> CellRun:
    cell = SourceCell(source="x = 1", number=number, **more)
    return CellRun(cell=cell, node=NodeId("5f3a"), seconds=0.5, error=error)


ZERO = CellError(ename="ZeroDivisionError", evalue="division by zero", traceback=())
DEEP = CellError(
    ename="ValueError",
    evalue="two\n  lines",
    traceback=(
        "Traceback (most recent call last):",
        '  File "/home/me/train.py", line 17, in <module>',
        '  File "/home/me/train.py", line 3, in f',
        '  File "/usr/lib/python3/json.py", line 99, in g',
    ),
)


# ---------------------------------------------------------------- words


def test_files_and_options_come_in_any_order() -> None:
    args = parsed("a.py", "-p", "x=1", "b.py", "--quiet", "c.ipynb", "-p", "y=2,3")
    assert args.files == ["a.py", "b.py", "c.ipynb"]
    assert args.parameters == ["x=1", "y=2,3"]
    assert args.arguments == []


def test_words_after_two_dashes_are_for_the_script() -> None:
    args = parsed("a.py", "--quiet", "--", "--name", "x", "--", "file")
    assert args.files == ["a.py"]
    assert args.name is None
    assert args.arguments == ["--name", "x", "--", "file"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.py", "--timeout", "soon"], "'soon' is no time in seconds"),
        (["a.py", "--timeout", "0"], "'0' is no time in seconds"),
        (["a.py", "--timeout", "nan"], "'nan' is no time in seconds"),
        ([], "FILE"),
        (["--", "a.py"], "FILE"),
        (["a.py", "--nonsense"], "--nonsense"),
    ],
)
def test_a_wrong_command_line_is_told_in_one_line(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        parsed(*words)
    assert caught.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["a.py", "-p", "x"], "write -p NAME=VALUE"),
        (["a.py", "b.py", "--name", "x"], "one by one"),
        (["a.py", "--name", "x/y"], "cannot be in the name"),
        (["a.py", "--project", "nowhere"], "no folder nowhere"),
        (["a.py", "-p", "x=1,2", "--fresh", "--reuse"], "choose one"),
        (["a.py", "-p", "x=1:100", "-p", "y=1:101"], "10100 versions: at most 10000"),
        (["a.ipynb", "--", "x"], "takes no arguments"),
    ],
)
def test_what_cannot_be_done_is_refused_before_anything_runs(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text("x = 1\n")
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    with pytest.raises(InvalidValue, match=message):
        record(*words)
    assert not (tmp_path / ".chex").exists()


def test_files_that_cannot_be_read_are_told_one_by_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.py").write_text("x = = 1\n")
    (tmp_path / "b.ipynb").write_text("{")
    words = [str(tmp_path / name) for name in ("a.py", "b.ipynb", "none.py")]
    assert record(*words, "--json") == 1
    told = capsys.readouterr()
    assert json.loads(told.out)["versions"] == []
    assert [each["file"] for each in json.loads(told.out)["unread"]] == words
    first, second, third = told.err.splitlines()
    assert first == f"chex: {tmp_path}/a.py:1: SyntaxError: invalid syntax"
    assert "b.ipynb: not JSON" in second
    assert "none.py: No such file" in third


def test_a_notebook_without_cells_is_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}
    (tmp_path / "a.ipynb").write_text(json.dumps(notebook))
    assert record(str(tmp_path / "a.ipynb")) == 0
    told = capsys.readouterr()
    assert "no code cells" in told.err
    assert told.out.startswith("0 versions recorded")


# ---------------------------------------------------------------- lines


def test_a_version_is_told_in_one_line() -> None:
    assert version_line(run_of("a.py", cell_run(1))) == "a: 1 cell in 1.2 s"
    failed = run_of("a.py", cell_run(1), cell_run(2, ZERO))
    assert version_line(failed) == "a: 2 cells in 1.2 s, the last one failed"
    stopped = replace(failed, status="interrupted")
    assert version_line(stopped) == "a: 2 cells in 1.2 s, interrupted"


@pytest.mark.parametrize(
    ("run", "line"),
    [
        (
            run_of("dir/a.ipynb", cell_run(3, ZERO)),
            "dir/a.ipynb: cell 3: ZeroDivisionError: division by zero",
        ),
        (
            run_of("a.ipynb", cell_run(3, ZERO), options=("lr=0.1",)),
            "a.ipynb: cell 3 of a,lr=0.1: ZeroDivisionError: division by zero",
        ),
        (
            run_of("train.py", cell_run(3, DEEP, line=15)),
            "train.py:3: cell 3: ValueError: two lines",
        ),
        (
            run_of("train.py", cell_run(3, ZERO, line=15)),
            "train.py:15: cell 3: ZeroDivisionError: division by zero",
        ),
        (
            run_of("train.py", cell_run(None, ZERO, kind="end")),
            "train.py: the end cell: ZeroDivisionError: division by zero",
        ),
        (
            run_of("a.ipynb", cell_run(1, CellError(ename="Stop", evalue="", traceback=()))),
            "a.ipynb: cell 1: Stop",
        ),
    ],
)
def test_a_failure_names_the_file_the_cell_and_the_error(run: VersionRun, line: str) -> None:
    assert failure_line(run) == line


def test_a_long_error_is_cut() -> None:
    error = CellError(ename="E", evalue="x" * 10_000, traceback=())
    assert len(failure_line(run_of("a.ipynb", cell_run(1, error)))) < 400


def test_quiet_means_errors_only(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report(is_quiet=True)
    report.recorded(run_of("a.ipynb", cell_run(1)))
    report.recorded(run_of("b.ipynb", cell_run(1, ZERO)))
    report.summarize()
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "chex: b.ipynb: cell 1: ZeroDivisionError: division by zero\n"
    assert report.exit_code == 1


def test_the_summary_counts_what_was_recorded(capsys: pytest.CaptureFixture[str]) -> None:
    report = Report()
    report.recorded(run_of("a.ipynb", cell_run(1), cell_run(2)))
    report.recorded(run_of("b.ipynb", cell_run(1)))
    report.summarize()
    assert "2 versions recorded: 3 cells in " in capsys.readouterr().out.splitlines()[-1]
    assert report.exit_code == 0


def test_the_worst_exit_code_counts() -> None:
    report = Report()
    report.fail("interrupted", 130)
    report.fail("failed")
    assert report.exit_code == 130


def test_json_tells_everything(tmp_path: Path) -> None:
    report = Report(is_quiet=True)
    path = str(tmp_path / "a.ipynb")
    run = run_of(
        path, cell_run(1), cell_run(2, ZERO), options=("lr=0.1", "n=nan", "xs=[1, {'a': -1e999}]")
    )
    report.recorded(run)
    told = json.loads(json.dumps(report.to_json(), allow_nan=False))
    (version,) = told["versions"]
    assert version["file"] == path
    assert version["project"] == str(tmp_path)
    assert version["parameters"] == {"lr": 0.1, "n": "nan", "xs": [1, {"a": "-inf"}]}
    assert version["status"] == "error"
    assert version["cells"][1] == {
        "number": 2,
        "kind": "cell",
        "line": None,
        "node": "5f3a",
        "seconds": 0.5,
        "status": "error",
        "error": "ZeroDivisionError: division by zero",
        "reused": False,
    }
    assert told["cells"] == 2
    assert math.isfinite(told["seconds"])
