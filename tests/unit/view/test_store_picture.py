"""Pictures and pages of a store: well-formed, in proportion, readable in both themes."""

from __future__ import annotations

import re
from datetime import UTC
from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.view import PAGE_START, STORE_START, store_html, store_svg
from tests.unit.view.stores import CONNECTION, MB, image, usage_of

SVG = "{http://www.w3.org/2000/svg}"
GROWN = usage_of(image(0), image(1), image(2, lost=(CONNECTION,)), budget_bytes=1000 * MB)


def drawn(text: str) -> ElementTree.Element:
    """Return a picture of ours as elements."""
    return ElementTree.fromstring(text)  # noqa: S314 - our own text


def of_class(picture: ElementTree.Element, tag: str, style: str) -> list[ElementTree.Element]:
    """Return the elements of a class."""
    return [each for each in picture.iter(SVG + tag) if each.get("class") == style]


def texts(picture: ElementTree.Element) -> list[str]:
    """Return everything that is written."""
    return [each.text or "" for each in picture.iter(SVG + "text")]


def test_the_areas_are_in_proportion() -> None:
    picture = drawn(store_svg(GROWN))
    (whole,) = of_class(picture, "path", "whole")
    (stored,) = of_class(picture, "path", "stored")
    floor, *states = (float(y) for y in re.findall(r"[ V]([\d.]+)", whole.get("d", "")))
    _, *taken = (float(y) for y in re.findall(r"[ V]([\d.]+)", stored.get("d", "")))
    assert states[-1] == taken[-1] == floor
    first, second, third = (floor - y for y in states[:-1])
    assert abs(second - 2 * first) < 0.2
    assert abs(third - 3 * first) < 0.2
    assert abs((floor - taken[2]) - first) < 0.2  # what the others have added is too little to see


def test_the_budget_is_drawn_unless_it_is_far_away() -> None:
    assert "budget 1000 MB" in texts(drawn(store_svg(GROWN)))
    far = usage_of(*GROWN.images, budget_bytes=2**50)
    assert not of_class(drawn(store_svg(far)), "path", "budget")
    assert not of_class(drawn(store_svg(usage_of(image(0)))), "path", "budget")


def test_every_image_tells_about_itself() -> None:
    picture = drawn(store_svg(GROWN, names={"i2": "5f3a91c2 <cell>"}, zone=UTC))
    titles = [each.text or "" for each in picture.iter(SVG + "title")]
    assert titles[0] == "3 images: states of 600 MB in 200 MB, 3.0 times smaller"
    assert titles[3].split("\n") == [
        "image 3: 5f3a91c2 <cell>",
        "state of 200 MB, 40.0 KB added in 250 ms",
        "so far: states of 600 MB, 200 MB stored",
        "not stored: db",
        "2026-11-17 12:02",
    ]
    # One in the chart, one in the legend.
    assert len(of_class(picture, "circle", "lost")) == 2


def test_very_many_images_are_drawn_together() -> None:
    picture = drawn(store_svg(usage_of(*(image(number) for number in range(2500)))))
    bars = of_class(picture, "rect", "touch")
    assert 300 < len(bars) <= 400
    titles = [(each.text or "").split("\n")[0] for each in picture.iter(SVG + "title")]
    assert titles[1] == "images 1 to 7"
    assert titles[-1] == "image 2500: i2499"


@settings(deadline=None, max_examples=30)
@given(
    st.lists(
        st.builds(
            image,
            st.integers(0, 99),
            name=st.text(max_size=20),
            state_bytes=st.integers(0, 2**50),
            stored_bytes=st.integers(0, 2**50),
            time=st.floats(0, 1e12),
        ),
        max_size=20,
    ),
    st.integers(0, 2000),
    st.none() | st.integers(1, 2**50),
)
def test_any_store_is_drawn_within_its_frame(
    images: list[object], width: int, budget: int | None
) -> None:
    usage = usage_of(*images, budget_bytes=budget)  # type: ignore[arg-type]
    picture = drawn(store_svg(usage, width=width, zone=UTC))
    wide, tall = float(picture.get("width", "")), float(picture.get("height", ""))
    for disc in picture.iter(SVG + "circle"):
        assert 0 <= float(disc.get("cx", "")) <= wide
        assert 0 <= float(disc.get("cy", "")) <= tall
    for rect in picture.iter(SVG + "rect"):
        assert float(rect.get("x", "")) + float(rect.get("width", "")) <= wide + 0.2


def test_themes_are_those_of_the_other_pictures() -> None:
    assert store_svg(GROWN).startswith(f'{STORE_START} chex-tree" ')
    assert store_svg(GROWN, dark=True).startswith(f'{STORE_START} chex-tree chex-dark" ')
    assert store_svg(GROWN, dark=False).startswith(f'{STORE_START} chex-tree chex-light" ')
    assert "prefers-color-scheme: dark" in store_svg(GROWN)


def test_the_page_has_facts_picture_and_images() -> None:
    page = store_html(GROWN, names={"i1": "<b>"}, zone=UTC)
    assert page.startswith(PAGE_START)
    assert "<tr><th>budget</th><td>1000 MB, 20% taken</td></tr>" in page
    assert STORE_START in page
    assert page.index("12:02</td>") < page.index("12:00</td>")  # the newest is on top
    assert "<td>&lt;b&gt;</td>" in page
    assert "<li>db (sqlite3.Connection): a connection ends with its process</li>" in page
    assert "<li>" not in store_html(usage_of(image(0)))
