"""Texts fit into their columns and into XML, whatever they hold."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.model import NodeId
from chexpoint.view.text import (
    aligned,
    clipped,
    columns,
    count,
    first_line,
    listed,
    printable,
    short,
    source_lines,
    wrapped,
    xml,
)

TEXTS = st.text(st.characters(), max_size=40)
"""Any characters: control characters and lone surrogates too."""


@given(TEXTS)
def test_any_text_is_well_formed_xml_on_one_line(text: str) -> None:
    document = f'<a b="{xml(text)}">{xml(text)}</a>'
    document.encode("utf-8")
    element = ElementTree.fromstring(document)  # noqa: S314 - our own text
    assert (element.text or "") == printable(text)
    assert element.attrib["b"] == printable(text)
    assert "\n" not in printable(text)


@given(TEXTS, st.integers(0, 30))
def test_clipped_texts_fit_and_keep_their_start(text: str, room: int) -> None:
    line = printable(text)
    short_line = clipped(line, room)
    assert columns(short_line) <= room
    if short_line != line and room:
        assert short_line.endswith("…")
        assert line.startswith(short_line[:-1])


@given(TEXTS, st.integers(2, 20))
def test_wrapped_texts_fit_and_lose_nothing(text: str, room: int) -> None:
    line = printable(text)
    pieces = list(wrapped(line, room))
    assert "".join(pieces) == line
    assert all(columns(piece) <= room for piece in pieces)


@given(st.lists(st.text("abc日", min_size=1, max_size=12), min_size=1, max_size=9))
def test_a_list_of_names_fits_and_counts_what_is_left_out(names: list[str]) -> None:
    for room in (12, 20, 200):
        text = listed(names, room)
        assert columns(text) <= room
        shown = text.split(", ")
        rest = int(shown.pop()[1:]) if shown[-1].startswith("+") else 0
        assert len(shown) + rest == len(names)
    assert listed(names, 200) == ", ".join(names)


@pytest.mark.parametrize(
    ("source", "line"),
    [
        ("x = 1\ny = 2", "x = 1"),
        ("\n\n   \n  deep()\n", "deep()"),
        ("", ""),
        ("a\tb", "a   b"),
        ("a\r\nb", "a"),
        ("\x1b[31mred", "\\x1b[31mred"),
    ],
)
def test_the_first_line_is_the_first_that_says_something(source: str, line: str) -> None:
    assert first_line(source) == line


def test_source_lines_keep_blank_lines_inside_and_escape_the_rest() -> None:
    assert source_lines("\na\r\n\n\tb\x00\n") == ["a", "", "    b\\x00"]


def test_columns_are_aligned_by_what_a_terminal_shows() -> None:
    rows = [("日本", "1", "x"), ("a", "100", "")]
    assert aligned(rows, right=[1]) == ["日本    1  x", "a     100"]
    assert aligned([]) == []


def test_numbers_have_their_noun() -> None:
    assert [count(n, "cell") for n in (0, 1, 1234)] == ["0 cells", "1 cell", "1,234 cells"]
    assert short(NodeId("0123456789ab")) == "01234567"
