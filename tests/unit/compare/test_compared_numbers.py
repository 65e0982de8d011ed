"""Numbers are close within the tolerance, and a tolerance makes sense."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from chexpoint.compare.numbers import far_elements, has_close_numbers, is_close
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance
from chexpoint.errors import InvalidValue


@pytest.mark.parametrize(
    ("recorded", "replayed", "is_near"),
    [
        (1.0, 1.0 + 9e-7, True),
        (1.0, 1.0 + 2e-6, False),
        (0.0, 9e-10, True),
        (0.0, 2e-9, False),
        (math.nan, math.nan, True),
        (math.nan, 0.0, False),
        (math.inf, math.inf, True),
        (math.inf, -math.inf, False),
        (math.inf, 1e308, False),
    ],
)
def test_numbers_are_close_within_the_tolerance(
    recorded: float, replayed: float, is_near: bool
) -> None:
    assert is_close(recorded, replayed, Tolerance()) == is_near
    assert is_close(replayed, recorded, Tolerance()) == is_near
    arrays = np.array([recorded, 5.0]), np.array([replayed, 5.0])
    assert far_elements(*arrays, Tolerance())[1] == (not is_near)


def test_another_tolerance_has_another_result() -> None:
    assert compare_texts("0.50", "0.51", Tolerance(rtol=0.05)).status == "close"
    assert compare_texts("0.50", "0.51", Tolerance(atol=0.02)).status == "close"
    assert compare_texts("0.5", "0.50000001", Tolerance(rtol=0, atol=0)).status == "different"
    assert compare_texts("0.5", "0.500", Tolerance(rtol=0, atol=0)).status == "close"


def test_whole_numbers_are_never_merely_close() -> None:
    loose = Tolerance(rtol=1, atol=100)
    assert not has_close_numbers("5 rows", "6 rows", loose)
    assert not has_close_numbers("1,000", "1,001", loose)
    assert has_close_numbers("+5", "5", loose)
    assert far_elements(np.array([5]), np.array([6]), loose) == (1, 1)


def test_a_number_with_too_many_digits_is_text() -> None:
    assert not has_close_numbers("0." + "1" * 500, "0." + "1" * 501, Tolerance())


@pytest.mark.parametrize(
    ("recorded", "replayed", "found"),
    [
        (np.array([1.0, 2.0, np.nan]), np.array([1.0, 2.0, np.nan]), (0, 0)),
        (np.array([1.0, 2.0]), np.array([1.0 + 1e-9, 3.0]), (2, 1)),
        (np.array([1 + 2j]), np.array([1 + 2.0000001j]), (1, 0)),
        (np.array([60000], "f2"), np.array([-60000], "f2"), (1, 1)),
        (np.array(["a", "b"]), np.array(["a", "c"]), (1, 1)),
        (np.array(["NaT", "2020"], "M8[D]"), np.array(["NaT", "2021"], "M8[D]"), (1, 1)),
        (np.array([True]), np.array([False]), (1, 1)),
        (np.zeros((0, 3)), np.zeros((0, 3)), (0, 0)),
    ],
)
def test_elements_that_differ_and_that_are_far_are_counted(
    recorded: np.ndarray[Any, Any], replayed: np.ndarray[Any, Any], found: tuple[int, int]
) -> None:
    assert far_elements(recorded, replayed, Tolerance()) == found


@pytest.mark.parametrize("name", ["rtol", "atol", "pixels", "shade"])
@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", None, True])
def test_a_tolerance_that_makes_no_sense_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InvalidValue, match=rf"^{name} is .*Write for example"):
        Tolerance(**{name: value})


def test_a_share_is_at_most_one() -> None:
    assert Tolerance(rtol=1, pixels=1, shade=1, atol=1e9).atol == 1e9
    with pytest.raises(InvalidValue):
        Tolerance(pixels=1.5)
