"""How far a replay has got: bars on a terminal, lines elsewhere, JSON lines for programs."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chexpoint.cli.replay_progress import (
    Bars,
    Events,
    line_of,
    one_line,
    opened_events,
    shown_progress,
    standing,
)
from chexpoint.errors import InvalidValue
from chexpoint.model import ReplayProgress, progress_from_json

HALF = ReplayProgress(
    kind="cell",
    version="tuned",
    cell=2,
    cells=5,
    status="same",
    computed=6,
    to_compute=12,
    saved=3,
    versions=4,
    versions_done=1,
    seconds_left=4.0,
    held_bytes=10 * 2**20,
    budget_bytes=2**30,
)
DONE = ReplayProgress(kind="version", version="tuned", status="same", computed=9, to_compute=12)
BROKEN = ReplayProgress(
    kind="version", version="deep", status="failed", text="cell 3: ValueError: no\nnumber"
)


def test_time_cells_and_memory_are_told() -> None:
    assert standing(HALF) == "4.0 s left, 3 cells saved, 10.0 MB of 1.0 GB held"
    unlimited = ReplayProgress(kind="cell", saved=1, held_bytes=2048, budget_bytes=2.0**62)
    assert standing(unlimited) == "1 cell saved, 2.0 KB held"
    assert standing(ReplayProgress(kind="begin")) == ""


def test_versions_and_notes_get_a_line_and_cells_do_not() -> None:
    assert line_of(DONE) == "tuned: same"
    assert line_of(BROKEN) == "deep: failed, cell 3: ValueError: no number"
    assert line_of(ReplayProgress(kind="note", text="planned again")) == "planned again"
    assert line_of(HALF) is None


@given(st.text())
def test_no_text_can_command_a_terminal(text: str) -> None:
    line = one_line(text)
    assert line.isprintable()
    assert line == one_line(line)


def drawn(*happened: ReplayProgress) -> tuple[str, list[str]]:
    """Return all that a terminal was sent, and the bars at the end."""
    sent, bars_only = io.StringIO(), io.StringIO()
    with Bars(Console(file=sent, force_terminal=True, width=120, color_system=None)) as bars:
        for progress in happened:
            bars.watch(progress)
        Console(file=bars_only, width=120).print(bars.picture())
    return sent.getvalue(), [line.rstrip() for line in bars_only.getvalue().splitlines()]


def test_there_is_a_bar_for_all_and_one_for_each_worker() -> None:
    other = ReplayProgress(kind="cell", worker=1, version="[b]base", cell=1, cells=3, to_compute=12)
    _, (whole, first, second) = drawn(other, HALF)
    assert whole.split()[0] == "all"
    assert whole.endswith("6/12 cells 4.0 s left, 3 cells saved, 10.0 MB of 1.0 GB held")
    assert [first.split()[0], second.split()[0]] == ["[b]base", "tuned"]
    assert [first.split()[-2:], second.split()[-2:]] == [["1/3", "cells"], ["2/5", "cells"]]


def test_the_bar_of_a_version_goes_when_it_is_done() -> None:
    sent, (whole,) = drawn(HALF, DONE)
    assert "tuned: same" in sent
    assert whole.endswith("9/12 cells")
    sent, (_, still) = drawn(HALF, BROKEN)
    assert "deep: failed" in sent
    assert still.split()[0] == "tuned"


def test_without_a_terminal_finished_versions_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_progress(is_quiet=False) as watch:
        for progress in (ReplayProgress(kind="begin"), HALF, DONE, ReplayProgress(kind="end")):
            watch(progress)
    captured = capsys.readouterr()
    assert captured.err == "tuned: same\n"
    assert captured.out == ""
    with shown_progress(is_quiet=True) as watch:
        watch(DONE)
    assert capsys.readouterr().err == ""


def test_events_are_lines_of_json_that_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    with opened_events(str(path)) as events:
        assert events is not None
        events.watch(HALF)
        assert progress_from_json(json.loads(path.read_text())) == HALF  # at once
        events.end({"kind": "result", "reproduced": True})
    assert json.loads(path.read_text().splitlines()[-1]) == {"kind": "result", "reproduced": True}


def test_events_may_go_to_standard_output(capsys: pytest.CaptureFixture[str]) -> None:
    with opened_events("-") as events:
        assert events is not None
        events.watch(DONE)
    assert json.loads(capsys.readouterr().out)["version"] == "tuned"


def test_a_reader_that_goes_away_does_not_end_the_replay() -> None:
    file = io.StringIO()
    events = Events(file)
    file.close()
    events.watch(HALF)
    events.watch(DONE)
    assert "closed file" in events.problem


def test_events_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidValue, match=r"cannot write .*: Is a directory"),
        opened_events(str(tmp_path)),
    ):
        pass
