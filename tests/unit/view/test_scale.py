"""Dearer cells are brighter, larger states have larger discs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chexpoint.view.scale import CostScale, SizeScale, colour, cost_scale
from tests.support.colours import contrast, luminance

COSTS = st.floats(0, 1e6)


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
