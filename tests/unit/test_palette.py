"""One set of colours and signs, which everybody can tell apart, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chexpoint import palette
from chexpoint.palette import DARK, LIGHT, VERSION_COLOURS, Look, progress_html
from tests.support.colours import contrast

SOURCE = Path(palette.__file__).parent
LOOKS = [look for look in vars(palette).values() if isinstance(look, Look)]
LAB_DARK = "#111111"
"""The paper of JupyterLab's dark theme."""


@pytest.mark.parametrize("colour", sorted({look.colour for look in LOOKS} | {*VERSION_COLOURS}))
def test_a_colour_stands_out_on_light_and_dark_paper(colour: str) -> None:
    assert min(contrast(colour, paper) for paper in (LIGHT[1], DARK[1], LAB_DARK)) >= 3


def test_no_two_things_have_the_same_sign_or_word() -> None:
    assert len(LOOKS) == 10
    for each in ("sign", "word", "style"):
        assert len({getattr(look, each) for look in LOOKS}) == len(LOOKS)


def test_a_sign_in_its_colour_is_not_read_aloud() -> None:
    html = palette.REUSED.html()
    assert html == '<b style="color:#00926a" aria-hidden="true">↩</b>'


def test_a_bar_without_an_end_only_shows_that_something_goes_on() -> None:
    assert "value" not in progress_html("a", 3, 0)
    assert "value='3' max='4'" in progress_html("<a>", 3, 4)
    assert "aria-label='&lt;a&gt;'" in progress_html("<a>", 3, 4)


def test_the_legend_has_every_sign_with_its_colour() -> None:
    legend = (SOURCE.parent.parent / "docs" / "reference" / "signs.md").read_text("utf-8")
    rows = re.findall(r"(?m)^\| `(.)`.*`(#\w{6})` \|", legend)
    assert sorted(rows) == sorted((look.sign, look.colour) for look in LOOKS)


def test_no_module_has_colours_of_its_own() -> None:
    # The page of a replay shows what terminals coloured, and its own greys.
    known = {"palette.py", "replay_style.py", "replay_outputs.py"}
    found = {
        path.name
        for path in SOURCE.rglob("*.py")
        if re.search(r"#(?:[0-9a-fA-F]{3}|[0-9a-fA-F]{6})\b[;\"' ]", path.read_text("utf-8"))
    }
    assert found - known == set()
