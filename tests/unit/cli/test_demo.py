"""``chex demo`` judges what it sees, and fails when it should."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from ipykernel.kernelspec import write_kernel_spec

from chexpoint.cli import main
from chexpoint.cli.demo import kind_of, render_result, render_run, summarize
from chexpoint.cli.notebook import CellRun, NotebookCell, code_cells, open_kernel
from chexpoint.cli.resources import bundled
from chexpoint.errors import ChexError


def cell(source: str, *tags: str) -> NotebookCell:
    """Return a cell whose id is its source."""
    return NotebookCell(id=source, source=source, tags=frozenset(tags))


def ran(source: str, text: str = "", *tags: str, seconds: float = 0.01) -> CellRun:
    """Return a cell that ran."""
    return CellRun(cell=cell(source, *tags), status="ok", text=text, seconds=seconds)


def story(*after: str) -> list[CellRun]:
    """Return a run in which the cell shows ``1`` at first, and then what each restore gives."""
    runs = [
        ran("x = slow()", seconds=3.0),
        ran("%chex_checkpoint a"),
        ran("show(x)", "1", "same"),
    ]
    for text in after:
        runs += [ran("%chex_restore a"), ran("show(x)", text, "same")]
    return runs


def test_restores_that_give_the_same_state_are_summarized() -> None:
    result = summarize(story("1", "1"))
    assert result.seconds("restore") == (0.01, 0.01)
    assert result.seconds("checkpoint") == (0.01,)
    assert result.to_json()["compute_seconds"] == pytest.approx(3.03)
    assert any("3.0 s" in line for line in render_result(result))


@pytest.mark.parametrize("after", [("2",), ("1", "2"), ("",)])
def test_a_wrong_state_is_an_error(after: tuple[str, ...]) -> None:
    with pytest.raises(ChexError, match="the restored state is wrong"):
        summarize(story(*after))


def test_a_restore_that_is_not_looked_at_is_an_error() -> None:
    with pytest.raises(ChexError, match="did not show a state"):
        summarize(story("1")[:-1])
    with pytest.raises(ChexError, match="did not show a state"):
        summarize([])


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("x = 1", "compute"),
        ("%chex_checkpoint a", "checkpoint"),
        ("%chex_restore a", "restore"),
        ("%chex_status", "status"),
    ],
)
def test_kinds_of_cells(source: str, kind: str) -> None:
    assert kind_of(cell(source)) == kind


def test_a_cell_is_shown_in_one_line() -> None:
    line = render_run(ran("import x\n" + "y = " + "1 + " * 50 + "1", seconds=0.5)).plain
    assert "\n" not in line
    assert "..." in line
    assert "500 ms" in line


def test_what_tells_states_apart_is_shown() -> None:
    assert "-> 42" in render_run(ran("show(x)", "42\n", "same")).plain
    assert "42" not in render_run(ran("show(x)", "42\n")).plain


def test_the_bundled_notebook_tells_the_story() -> None:
    cells = code_cells(bundled("notebooks") / "01_first_steps.ipynb")
    kinds = [kind_of(cell) for cell in cells]
    assert kinds.count("restore") + 1 == len([cell for cell in cells if "same" in cell.tags])
    assert kinds.index("checkpoint") < kinds.index("restore")


def stock_spec(folder: Path) -> Path:
    """Write the spec of the stock kernel where that of CHEX is expected."""
    return Path(write_kernel_spec(folder))


def broken_spec(folder: Path) -> Path:
    """Write a spec whose kernel ends at once."""
    folder.mkdir(parents=True)
    argv = [sys.executable, "-c", "raise SystemExit('no fork today')", "{connection_file}"]
    spec = {"argv": argv, "display_name": "broken", "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec))
    return folder


@pytest.mark.slow
def test_a_runner_collects_what_a_cell_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chexpoint.cli.notebook.write_spec", stock_spec)
    with open_kernel(tmp_path) as kernel:
        shown = kernel.run(cell("print('a'); 'b'"))
        assert (shown.status, shown.text) == ("ok", "a\n'b'")
        failed = kernel.run(cell("1 / 0"))
        assert (failed.status, failed.text) == ("error", "ZeroDivisionError: division by zero")
        assert kernel.run(cell("import os; os.getcwd()")).text == repr(str(tmp_path / "work"))
        with pytest.raises(ChexError, match="did not end in time"):
            kernel.run(cell("import time; time.sleep(60)"), timeout_s=0.1)


@pytest.mark.slow
def test_a_kernel_that_dies_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("chexpoint.cli.notebook.write_spec", stock_spec)
    with (
        open_kernel(tmp_path) as kernel,
        pytest.raises(ChexError, match="the kernel died in cell"),
    ):
        kernel.run(cell("import os; os._exit(3)"))


@pytest.mark.slow
def test_a_kernel_that_does_not_start_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chexpoint.cli.notebook.write_spec", broken_spec)
    assert main(["demo"]) == 1
    assert capsys.readouterr().err == "chex: the CHEX kernel did not start: no fork today\n"


@pytest.mark.slow
def test_a_failing_cell_fails_the_demo(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # The stock kernel knows no magic of ours.
    monkeypatch.setattr("chexpoint.cli.notebook.write_spec", stock_spec)
    assert main(["demo", "--json"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    assert "cell 'checkpoint' of 01_first_steps.ipynb failed" in captured.err
