"""Logs show cells from the first to the last."""

from __future__ import annotations

from dataclasses import replace

from chexpoint.view import log_html, log_text
from chexpoint.view.text import columns
from tests.unit.view.worlds import ident, side_cell

FIRST = side_cell("import numpy as np", 1).cell
SECOND = replace(side_cell("a\nb\nc\nd\n\te<f>", 2).cell, is_reused=True)
THIRD = replace(side_cell("1/0", 3).cell, status="error", execution_count=12)
CELLS = (FIRST, SECOND, THIRD)


def test_cells_stand_in_order_with_all_that_is_known() -> None:
    assert log_text(CELLS, lines=2).split("\n") == [
        f"cell 1  [1]  node {ident(1)[:12]}  1.5 s",
        "    import numpy as np",
        "",
        f"cell 2  [2]  node {ident(2)[:12]}  1.5 s  reused",
        "    a",
        "    b",
        "    ... 3 more lines",
        "",
        f"cell 3  [12]  node {ident(3)[:12]}  1.5 s  failed",
        "    1/0",
        "",
        "3 cells, 4.5 s; 1 reused, which saved 1.5 s",
    ]


def test_all_lines_are_shown_if_that_is_wanted() -> None:
    assert "        e<f>" in log_text(CELLS, lines=None).split("\n")
    assert "more line" not in log_text(CELLS, lines=None)


def test_lines_fit_and_are_fit_to_be_printed() -> None:
    wild = replace(FIRST, source="\x1b[2J\ud800" * 99 + "\n" + "日" * 10_000)
    lines = log_text((wild,), width=50).split("\n")
    assert all(columns(line) <= 50 and line.isprintable() for line in lines)


def test_html_is_escaped_and_in_order() -> None:
    html = log_html(CELLS)
    assert html.index("import numpy") < html.index("e&lt;f&gt;") < html.index("1/0")
    assert html.count("reused</td>") == html.count("failed</td>") == 1
    assert "3 cells, 4.5 s" in html
    log_html((replace(FIRST, source="\x00\ud800"),)).encode("utf-8")


def test_no_cells_is_said() -> None:
    assert log_text(()) == "no cells"
    assert "no cells" in log_html(())
