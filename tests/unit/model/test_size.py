"""Sizes and durations as people write and read them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.errors import InvalidValue
from chexpoint.model import format_seconds, format_size, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("1k", 1024),
        ("512M", 512 * 2**20),
        ("1.5 GB", 3 * 2**29),
        ("4GiB", 4 * 2**30),
        (" 2 tb ", 2 * 2**40),
        (".5G", 2**29),
    ],
)
def test_sizes_are_understood(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", "G", "-1G", "1X", "1 2", "inf", "nan", "0", "1e9999G", "1GG", "٣G", "9" * 400]
)
def test_what_is_not_a_size_says_so(text: str) -> None:
    with pytest.raises(InvalidValue, match="is not a size"):
        parse_size(text)


@given(st.text())
def test_any_text_is_a_size_or_a_clear_error(text: str) -> None:
    with contextlib.suppress(InvalidValue):
        assert parse_size(text) >= 1


@given(st.integers(0, 2**50))
def test_formatted_sizes_are_short_and_close(size: int) -> None:
    text = format_size(size)
    assert len(text) <= 10
    if size:
        assert parse_size(text) == pytest.approx(size, rel=0.06)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.012, "12 ms"), (3.44, "3.4 s"), (300, "5 min"), (9000, "2.5 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text
