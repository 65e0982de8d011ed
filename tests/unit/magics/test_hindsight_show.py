"""A replay in hindsight under a cell: its bar, and its end."""

from __future__ import annotations

import json
import math
import os
import stat

import pandas as pd  # type: ignore[import-untyped]

from chexpoint.magics.hindsight_magics import _written
from chexpoint.magics.hindsight_show import HindsightBar, HindsightEnd, table_of
from chexpoint.view import hindsight_json
from tests.unit.view.hindsights import result, row


def progress(version: str, done: int, left: float | None = None) -> dict[str, object]:
    return {"kind": "progress", "version": version, "done": done, "total": 8, "seconds_left": left}


def test_before_anything_has_happened_something_is_going_on() -> None:
    bar = HindsightBar()
    assert repr(bar) == "CHEX: replaying: starting"
    assert "<progress" in bar._repr_html_()


def test_there_is_a_bar_for_each_version() -> None:
    bar = HindsightBar()
    bar.take(progress("a<b", 8, 0.0))
    bar.take(progress("deep", 2, 5.0))
    bar.take(progress("deep", 4, 5.0))
    told = "a<b: 8 of 8 iterations; deep: 4 of 8 iterations, 5.0 s left"
    assert repr(bar) == f"CHEX: replaying: {told}"
    assert bar._repr_html_().count("<progress") == 2
    assert "a<b" not in bar._repr_html_()


def test_events_are_taken_apart() -> None:
    found = result(row(0, 1.0), row(0, 2.0, name="loss", is_added=False))
    end = HindsightEnd()
    summary = {"kind": "summary", "text": "table\n\nnote\nlast", "html": "<p>", "svg": "<svg>"}
    lines = [progress("base", 1), summary, {"kind": "result", **hindsight_json([found])}]
    assert end.take(map(json.dumps, lines)) == [progress("base", 1)]
    assert (end.html, end.svg, end.told()) == ("<p>", "<svg>", "note\nlast")
    assert end.rows() == [row(0, 1.0)]


def test_values_become_a_table_with_a_column_for_each_loop() -> None:
    table = table_of([row(0, 1.5), row(1, math.nan, step=2)])
    assert isinstance(table, pd.DataFrame)
    assert list(table.columns) == ["version", "epoch", "step", "name", "value", "standing"]
    assert table["value"][0] == 1.5
    assert math.isnan(table["value"][1])
    assert table_of([]).empty


def test_the_cell_goes_into_a_file_that_is_private_and_goes_again() -> None:
    with _written("é = 1") as path:
        assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
        with open(path, encoding="utf-8") as file:
            assert file.read() == "é = 1"
    assert not os.path.exists(path)
