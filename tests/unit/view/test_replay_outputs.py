"""Outputs of strangers are shown, and nothing else happens; terminal colours become classes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import Output
from chexpoint.view import replay_page
from chexpoint.view.replay_ansi import ansi_html
from chexpoint.view.replay_outputs import output_html, outputs_html, pair_html
from tests.support.replay_html import named, tags_of
from tests.support.replay_outputs import (
    CURVE,
    bars,
    differing,
    display,
    odd_outputs,
    printed,
    result,
)
from tests.support.replays import Sample, build


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("a < b", "a &lt; b"),
        ("\x1b[31mred\x1b[0m", '<span class="ansi-red">red</span>'),
        (
            "\x1b[1;32mx\x1b[22my\x1b[39mz",
            '<span class="ansi-green ansi-bold">x</span><span class="ansi-green">y</span>z',
        ),
        ("\x1b[94mblue\x1b[m", '<span class="ansi-blue">blue</span>'),
        ("\x1b[38;5;28mgreen", '<span class="ansi-green">green</span>'),
        ("\x1b[38;5;241mgrey", "grey"),
        ("\x1b[38;2;250;10;20mred", '<span class="ansi-red">red</span>'),
        ("\x1b[48;5;220mx\x1b[49my", '<span class="ansi-marked">x</span>y'),
        ("\x1b[43mx\x1b[0my", '<span class="ansi-marked">x</span>y'),
        ("\x1b[2Ka\x1b[3Ab", "ab"),
        ("\x1b]8;;https://example.org\x07link\x1b]8;;\x07", "link"),
        ("\x1b[38mx", '<span class="ansi-black">x</span>'),
    ],
)
def test_colours_become_classes(text: str, html: str) -> None:
    assert ansi_html(text) == html


@given(st.text(alphabet="a<&\n\x1b[]0123;m8\x07", max_size=40))
def test_whatever_a_terminal_is_told_the_html_is_well_formed(text: str) -> None:
    html = ansi_html(text)
    assert "\x1b" not in html
    tags_of(f"<pre>{html}</pre>")


def test_what_looks_best_stands_for_an_output() -> None:
    table = result(1, text__plain="a  b", text__html="<table><tr><td>1</td></tr></table>")
    assert "<iframe" in output_html(table)
    assert "<img" in output_html(display({"image/png": bars(5), "text/plain": "<Figure>"}))
    assert output_html(printed("hello\n")) == '<pre class="output">hello</pre>'
    assert "$x^2$" in output_html(display({"text/latex": "$x^2$"}))


@pytest.mark.parametrize(
    "output",
    [
        {},
        {"output_type": "stream"},
        {"output_type": "stream", "text": 5},
        {"output_type": "stream", "text": ["a", "b"]},
        {"output_type": "error"},
        {"output_type": "error", "traceback": "no list"},
        {"output_type": "display_data", "data": 7},
        {"output_type": "display_data", "data": {"image/png": "no base64!"}},
        {"output_type": "display_data", "data": {"text/html": "<script>x</script>"}},
        {"output_type": "display_data", "data": {"application/json": {"a": [1]}}},
    ],
)
def test_odd_outputs_are_shown_somehow(output: Output) -> None:
    tags_of(f"<div>{output_html(output)}{pair_html([output], [])}{pair_html([], [output])}</div>")


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(st.lists(odd_outputs, max_size=3), st.lists(odd_outputs, max_size=3))
def test_whatever_outputs_are_the_page_is_well_formed(
    left: list[Output], right: list[Output]
) -> None:
    sample = Sample(
        source="a",
        recorded=tuple(left),
        replayed=tuple(right),
        status="different",
        differences=tuple(differing("differs", at, at) for at in range(2)),
    )
    tags = tags_of(replay_page(build({"a": sample}, {"v": "a"})))
    assert len(named(tags, "script")) == 1


def test_pictures_are_addresses_that_hold_them() -> None:
    html = pair_html(
        [display({"image/svg+xml": CURVE.format("red", 5)})],
        [display({"image/svg+xml": "<svg onload='alert(1)'/>"})],
    )
    images = [image.attributes["src"] for image in named(tags_of(html), "img")]
    assert [source[:19] for source in images] == ["data:image/svg+xml,"] * 2
    assert "onload" not in html.replace(images[1], "")


@pytest.mark.parametrize(
    ("html", "kept"),
    [
        ("<p>a</p><script>alert(1)</script><p>b</p>", "<p>a</p><p>b</p>"),
        ("<SCRIPT src=x></SCRIPT >c", "c"),
        ("d<script>never closed", "d"),
        ("e<script>'<script>'</script>f", "ef"),
        ('<link rel="preconnect" href="//e.org">g<META x><base href=y>', "g"),
    ],
)
def test_no_script_and_nothing_that_loads_is_left_in_a_frame(html: str, kept: str) -> None:
    (frame,) = named(tags_of(output_html(display({"text/html": html}))), "iframe")
    assert frame.attributes["srcdoc"].endswith(f"</style>{kept}")
    assert frame.attributes["sandbox"] == ""


def test_html_of_nothing_but_scripts_is_a_note() -> None:
    html = output_html(display({"text/html": "<script>" + "x" * 10**6 + "</script>"}))
    assert html == '<p class="faint">Its scripts do not run here.</p>'


def test_too_much_html_and_too_many_letters_are_a_note() -> None:
    assert "HTML of 391 KB is not shown here." in output_html(display({"text/html": "x" * 400_000}))
    long = output_html(printed("y" * 10_000))
    assert "and 9,610 more letters" in long
    assert len(long) < 1000
    assert "and 60 more outputs" in outputs_html([printed("z")] * 100)


def test_what_two_outputs_have_in_common_is_not_repeated() -> None:
    left = result(1, text__plain="x = 1", text__html="<b>1</b>")
    right = result(1, text__plain="x = 2", text__html="<b>1</b>")
    html = pair_html([left], [right])
    assert "<iframe" not in html
    assert "x = <b>1</b>" in html
    assert "x = <b>2</b>" in html


def test_outputs_in_which_no_difference_can_be_seen_are_both_shown() -> None:
    one, two = (result(1, text__plain=f"<object at 0x7f00{n}aaaaaa>") for n in (1, 2))
    assert pair_html([one], [two]).count("<pre") == 2


def test_data_are_compared_line_by_line() -> None:
    left, right = (display({"application/json": {"a": n, "b": 0}}) for n in (1, 2))
    html = pair_html([left], [right])
    assert '<td class="old"> &quot;a&quot;: <b>1</b>,</td>' in html
    assert '<td class="new"> &quot;a&quot;: <b>2</b>,</td>' in html
