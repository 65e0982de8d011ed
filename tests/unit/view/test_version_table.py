"""The table of versions: what each took, and what it shares with others."""

from __future__ import annotations

from datetime import UTC, timedelta, timezone

from chexpoint.model import ExecutionTree, Version
from chexpoint.view import version_rows, versions_html, versions_text
from chexpoint.view.text import columns
from tests.unit.view.worlds import ident, node

TREE = ExecutionTree(
    [node(1, cost=1.0), node(2, 1, cost=2.0), node(3, 2, cost=4.0), node(4, 1, cost=100.0)],
    [
        Version(name="base", path=(ident(1), ident(2), ident(3)), created=1e9, origin="a.ipynb"),
        Version(
            name="fast",
            path=(ident(1), ident(4)),
            created=1e9 + 60,
            parameters=(("alpha", "0.1"), ("seed", "7")),
            status="error",
        ),
        Version(name="fast", number=2, path=(ident(9),), created=1e9 + 120),
    ],
)


def test_rows_tell_what_each_version_took_and_shares() -> None:
    rows = version_rows(TREE)
    assert [(row.label, row.cells, row.seconds, row.shared) for row in rows] == [
        ("base", 3, 7.0, 1),
        ("fast@1", 2, 101.0, 1),
        ("fast", 1, 0, 0),
    ]
    assert [row.node for row in rows] == [ident(3), ident(4), ident(9)]
    assert rows[1].status == "error"


def test_the_text_has_aligned_columns_and_times_of_a_zone() -> None:
    assert versions_text(TREE, zone=UTC).split("\n") == [
        "version  cells  computed  shared  status  when              parameters         origin",
        "base         3     7.0 s       1          2001-09-09 01:46                     a.ipynb",
        "fast@1       2   101.0 s       1  failed  2001-09-09 01:47  alpha=0.1, seed=7",
        "fast         1      0 ms       0          2001-09-09 01:48",
    ]
    assert "2001-09-09 03:46" in versions_text(TREE, zone=timezone(timedelta(hours=2)))


def test_columns_that_say_nothing_are_left_out() -> None:
    tree = ExecutionTree([node(1)], [Version(name="v", path=(ident(1),))])
    assert versions_text(tree).split("\n")[0] == "version  cells  computed  shared"


def test_lines_fit_whatever_the_names_are() -> None:
    wild = Version(
        name="\x1b日本" * 30, origin="o" * 500, created=1e300, parameters=(("p", "\ud800" * 99),)
    )
    tree = ExecutionTree(TREE.nodes.values(), [*TREE.versions, wild])
    for width in (40, 80, 120):
        lines = versions_text(tree, width=width).split("\n")
        assert all(columns(line) <= width and line.isprintable() for line in lines)
        assert len(lines) == 5
    versions_html(tree).encode("utf-8")


def test_html_is_escaped_and_complete() -> None:
    bold = Version(name="<b>", path=(ident(1),), created=1e9, parameters=(("<i>", "&"),))
    html = versions_html(ExecutionTree(TREE.nodes.values(), [*TREE.versions, bold]), zone=UTC)
    assert "&lt;b&gt;" in html
    assert "&lt;i&gt;=&amp;" in html
    assert html.count("<tr>") == 5
    assert "2001-09-09 01:46" in html
    assert "<b>" not in html


def test_no_versions_is_a_sentence() -> None:
    assert versions_text(ExecutionTree()) == "no versions are recorded yet"
    assert "no versions are recorded yet" in versions_html(ExecutionTree())
