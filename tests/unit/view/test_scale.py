"""Dearer cells are brighter, larger states have larger discs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chexpoint.view.scale import CostScale, SizeScale, colour, cost_scale
from chexpoint.view.style import VERSION_COLOURS

COSTS = st.floats(0, 1e6)


def luminance(code: str) -> float:
    """Return how light a colour is, as the guidelines for accessible pages define it."""
    parts = [int(code[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@given(COSTS, COSTS)
def test_dearer_is_never_darker(one: float, other: float) -> None:
    scale = CostScale(least=0.001, most=1e5)
    low, high = sorted((one, other))
    assert 0 <= scale.place(low) <= scale.place(high) <= 1
    assert luminance(scale.colour(low)) <= luminance(scale.colour(high)) + 0.01


def test_the_ends_of_the_scale_are_far_apart() -> None:
    scale = cost_scale([0.0, 0.5, 3600.0])
    assert scale.least == 0.001
    assert scale.place(0.0) == 0
    assert scale.place(3600.0) == 1
    assert contrast(colour(0), colour(1)) > 10


def test_colours_grow_lighter_all_along() -> None:
    lights = [luminance(colour(i / 50)) for i in range(51)]
    assert lights == sorted(lights)
    assert len(set(lights)) == len(lights)


def test_equal_costs_have_one_colour() -> None:
    scale = cost_scale([2.0, 2.0])
    assert scale.colour(2.0) == scale.colour(99.0) == colour(0)
    assert cost_scale([]).colour(1.0) == colour(0)


@given(st.integers(0, 2**50), st.integers(0, 2**50))
def test_larger_states_have_larger_discs(one: int, other: int) -> None:
    scale = SizeScale(largest=2**40, least_px=3, most_px=9)
    low, high = sorted((one, other))
    assert 3 <= scale.radius(low) <= scale.radius(high) <= 9
    assert scale.radius(0) == 3
    assert scale.radius(2**40) == 9
    assert SizeScale(largest=0, least_px=3, most_px=9).radius(5) == 3


def test_lines_of_versions_stand_out_on_black_and_on_white() -> None:
    for code in (*VERSION_COLOURS, "#d81b60", "#8c8c8c"):
        assert contrast(code, "#ffffff") >= 3
        assert contrast(code, "#0d1117") >= 3
