"""Values over iterations, drawn."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from chexpoint.model import HindsightResult
from chexpoint.view import HINDSIGHT_START, hindsight_svg
from chexpoint.view.hindsight_chart import round_values
from tests.unit.view.hindsights import result, row

SVG = "{http://www.w3.org/2000/svg}"


def drawn(*results: HindsightResult) -> ElementTree.Element:
    text = hindsight_svg(results)
    assert text.startswith(HINDSIGHT_START)
    return ElementTree.fromstring(text)  # noqa: S314 - our own text


def ways(picture: ElementTree.Element) -> list[str]:
    """Return the lines of the groups, not those of the axes."""
    return [
        path.attrib["d"] for group in picture.iter(f"{SVG}g") for path in group.iter(f"{SVG}path")
    ]


def test_each_name_of_each_version_is_a_line() -> None:
    one = result(row(0, 1.0), row(1, 0.5), row(0, 3.0, name="loss"), row(1, 2.0, name="loss"))
    two = result(row(0, 2.0, version="b"), row(1, 1.0, version="b"), version="b")
    picture = drawn(one, two)
    assert len(ways(picture)) == 3
    titles = [title.text for title in picture.iter(f"{SVG}title")]
    assert titles[1:] == ["base: norm", "base: loss", "b: norm"]


def test_steps_stand_between_epochs() -> None:
    rows = [row(epoch, 1.0 + step, step=step) for epoch in range(2) for step in range(4)]
    (way,) = ways(drawn(result(*rows)))
    xs = [float(point.split()[0]) for point in way.removeprefix("M").split("L")]
    assert xs == sorted(xs)
    assert len(set(xs)) == 8


def test_what_diverged_is_marked() -> None:
    picture = drawn(result(row(0, 1.0), row(1, 2.0, standing="diverged")))
    rings = [each for each in picture.iter(f"{SVG}circle") if each.attrib["class"] == "apart"]
    assert len(rings) == 1


def test_without_numbers_it_is_said() -> None:
    for found in (result(), result(row(0, "text"), row(1, float("nan")))):
        assert "there are no numbers to draw" in hindsight_svg([found])


def test_a_long_line_is_drawn_with_as_many_points_as_can_be_seen() -> None:
    rows = [row(epoch, float(epoch % 7)) for epoch in range(20_000)]
    (way,) = ways(drawn(result(*rows)))
    assert way.count("L") < 2000


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_any_numbers_can_be_drawn(values: list[float]) -> None:
    drawn(result(*(row(epoch, value) for epoch, value in enumerate(values))))


@given(
    st.floats(-1e12, 1e12),
    st.floats(1e-6, 1e12),
    st.integers(1, 12),
)
def test_round_values_lie_between_the_ends(low: float, span: float, most: int) -> None:
    found = round_values(low, low + span, most)
    assert len(found) <= most + 2
    slack = abs(low) * 1e-6 + span * 1e-6
    assert all(low - slack <= value <= low + span + slack for value in found)
