"""The report of a replay: complete, well-formed, without a way out, and usable when it is large."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from chexpoint.model import ExecutionTree, MemoryMoment, Recording, Replay
from chexpoint.palette import LOOKS
from chexpoint.view import PAGE_START, replay_page
from chexpoint.view.replay_outputs import FRAME_POLICY
from tests.support.replay_html import Tag, named, tags_of
from tests.support.replay_outputs import bars, differing, display, printed
from tests.support.replays import (
    HOSTILE,
    PENGUINS,
    Sample,
    build,
    good_replay,
    hostile_replay,
    interrupted_replay,
    many_replay,
    sample_replay,
)

ALL = [sample_replay, good_replay, interrupted_replay, hostile_replay]
LOADING = ("src", "href", "xlink:href", "srcset", "poster", "data", "action", "background")
LARGEST = 15_000_000


def words_of(html: str) -> str:
    (body,) = named(tags_of(html), "body")
    return body.words


def rows_of(html: str) -> list[Tag]:
    return named(tags_of(html), "li", "version")


def row_of(html: str, label: str) -> str:
    """Return the words of the row of a version."""
    (found,) = (row.words for row in rows_of(html) if f" {label} " in row.words)
    return found


def squares_of(html: str) -> list[Tag]:
    return [tag for tag in tags_of(html) if "square" in tag.styles]


# ---------------------------------------------------------------- what it says


def test_the_verdict_and_the_totals_come_first() -> None:
    html = replay_page(sample_replay())
    assert html.startswith(PAGE_START)
    (head,) = named(tags_of(html), "h1")
    assert head.words == "4 of 6 versions reproduced"
    words = words_of(html)
    assert "3 same, 1 close, 1 different, 1 failed" in words
    assert "11 computed instead of 28" in words
    assert "17 cells saved (61 %)" in words
    assert "96.0 MB held by checkpoints at most" in words
    assert "the budget is 128 MB" in words


@pytest.mark.parametrize(
    ("make", "sign"), [(sample_replay, "✗"), (good_replay, "✓"), (interrupted_replay, "…")]
)
def test_the_sign_at_the_top_is_that_of_the_whole_replay(
    make: Callable[[], Replay], sign: str
) -> None:
    (big,) = named(tags_of(replay_page(make())), "div", "big")
    assert big.words == sign


def test_times_are_bars_as_long_as_they_are() -> None:
    replay = replace(sample_replay(), seconds=7.75)
    bars_of_time = re.findall(r'<i style="width:([\d.]+)%', replay_page(replay))[1:4]
    assert [float(width) for width in bars_of_time] == [
        100.0,
        pytest.approx(100 * replay.no_cache_seconds / replay.recorded_seconds, abs=0.1),
        pytest.approx(10.0, abs=0.1),
    ]


def test_every_version_is_a_row_with_a_square_for_each_cell() -> None:
    replay = sample_replay()
    html = replay_page(replay)
    versions = replay.recording.labels
    assert [row.words.split()[2] for row in rows_of(html)] == list(versions)
    assert len(squares_of(html)) == replay.cells_in_versions
    assert row_of(html, "scaled") == (
        "✗ failed scaled 4.3 s recorded 5.3 s cell 3: KeyError: 'flipper_length'"
    )


def test_every_square_leads_to_its_cell() -> None:
    html = replay_page(sample_replay())
    tags = tags_of(html)
    ids = [tag.attributes["id"] for tag in tags if "id" in tag.attributes]
    assert len(ids) == len(set(ids))
    links = [tag.attributes["href"] for tag in named(tags, "a")]
    assert len(links) > 28
    assert {link for link in links if link[0] != "#" or link[1:] not in ids} == set()


def test_statuses_are_never_told_by_a_colour_alone() -> None:
    html = replay_page(interrupted_replay())
    assert len({look.sign for look in LOOKS.values()}) == len(LOOKS)
    for square in squares_of(html):
        (style,) = square.styles & {look.style for look in LOOKS.values()}
        (look,) = (look for look in LOOKS.values() if look.style == style)
        assert re.match(rf"cell \d: {look.word}", square.attributes["title"])
        assert f'.square.{style}::before {{ content: "{look.sign}"' in html


def test_differing_texts_are_side_by_side_with_what_differs_marked() -> None:
    html = replay_page(sample_replay())
    assert '<td class="old">accuracy   0.9<b>701</b></td>' in html
    assert '<td class="new">accuracy   0.9<b>552</b></td>' in html
    assert '<tr class="alike"><td>f1         0.9690</td><td>f1         0.9690</td></tr>' in html


def test_differing_pictures_are_side_by_side_and_can_be_laid_over_each_other() -> None:
    html = replay_page(sample_replay())
    (label, *_) = named(tags_of(html), "label", "over")
    assert "what is not white differs" in label.words
    for side, picture in (("recorded", bars(120, 60, 90)), ("replayed", bars(110, 60, 97))):
        assert f'<img src="data:image/png;base64,{picture}" alt="{side} picture">' in html


def test_outputs_that_are_the_same_are_folded() -> None:
    html = replay_page(sample_replay())
    assert "1 output that is the same" in html
    (fold,) = (
        tag for tag in named(tags_of(html), "details", "fold") if "that is the same" in tag.words
    )
    assert "open" not in fold.attributes
    assert fold.words.endswith("done")


def test_what_a_cell_showed_only_once_stands_alone() -> None:
    words = words_of(replay_page(sample_replay()))
    assert "was not shown when it was recorded recorded replayed UserWarning" in words


def test_an_exception_is_shown_in_colours() -> None:
    html = replay_page(sample_replay())
    (pre,) = named(tags_of(html), "pre", "traceback")
    assert "----> 2 scaled['x'] = frame['flipper_length']" in "".join(pre.text)
    assert '<span class="ansi-red">KeyError</span>' in html


def test_pieces_of_a_stream_are_compared_as_one_text() -> None:
    pieces = tuple(printed(text) for text in ("one\n", "two\n"))
    sample = Sample(
        source="work()",
        recorded=(pieces[0], printed("!\n", "stderr"), pieces[1]),
        replayed=(printed("one\n2\n"), printed("!\n", "stderr")),
        status="different",
        differences=(differing("stdout differs in line 2"),),
    )
    html = replay_page(build({"a": sample}, {"v": "a"}))
    assert '<tr class="alike"><td>one</td><td>one</td></tr>' in html
    assert '<tr><td class="old">two</td><td class="new">2</td></tr>' in html
    assert "what else" not in html
    assert "1 output that is the same" in html


def test_reasons_stand_once_above_what_they_are_about() -> None:
    html = replay_page(sample_replay())
    assert "<h4>stdout differs in lines 1 and 2</h4>" in html
    assert "<li>stdout differs in lines 1 and 2</li>" not in html
    assert "<li>wrote other contents to ./model.bin</li>" in html


def test_excused_cells_are_marked_and_do_not_spoil_their_version() -> None:
    html = replay_page(sample_replay())
    assert row_of(html, "stamped").startswith("✓ same")
    (square,) = (square for square in squares_of(html) if "excused" in square.styles)
    assert square.attributes["title"] == "cell 6: different, excused, 450 ms"


def test_an_interrupted_replay_says_so_and_what_is_not_done() -> None:
    html = replay_page(interrupted_replay())
    assert "This replay was interrupted." in html
    assert row_of(html, "deeper").startswith("… not done")
    assert row_of(html, "scaled").startswith("… left out")
    assert "There was no time for scaled." in html
    assert "there was no budget" in html
    assert "interrupted" not in replay_page(sample_replay())


def test_memory_is_drawn_for_wide_and_narrow_windows() -> None:
    html = replay_page(sample_replay())
    charts = named(tags_of(html), "svg", "chart")
    assert [chart.attributes["width"] for chart in charts] == ["1120", "340"]
    assert all("budget 128 MB" in chart.words for chart in charts)
    assert "Memory over time" not in replay_page(interrupted_replay())


def test_notes_and_the_environment_are_there() -> None:
    words = words_of(replay_page(sample_replay()))
    assert "pandas is 2.3.0 here" in words
    assert "/data/weights.bin is outside of the project" in words
    assert "CPython 3.11.9" in words
    assert "3 packages numpy 2.1.0" in words


# ---------------------------------------------------------------- that it is safe


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_every_page_is_well_formed(make: Callable[[], Replay]) -> None:
    tags = tags_of(replay_page(make()))
    assert [tag.name for tag in tags[:3]] == ["html", "head", "meta"]
    landmarks = {tag.name for tag in tags}
    assert {"header", "nav", "main", "footer", "h1"} <= landmarks
    assert all("alt" in tag.attributes for tag in named(tags, "img"))
    assert all(tag.attributes["title"] for tag in named(tags, "iframe"))


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_nothing_is_loaded_from_anywhere(make: Callable[[], Replay]) -> None:
    html = replay_page(make())
    tags = tags_of(html)
    addresses = [tag.attributes[name] for tag in tags for name in LOADING if name in tag.attributes]
    assert {address[:11] for address in addresses if address[0] != "#"} <= {"data:image/"}
    assert not [name for tag in tags for name in tag.attributes if name.startswith("on")]
    assert {tag.name for tag in tags}.isdisjoint({"link", "base", "object", "embed", "form"})
    styles = "".join(tag.words for tag in named(tags, "style"))
    styles += "".join(tag.attributes.get("style", "") for tag in tags)
    assert "@import" not in styles
    assert "url(" not in styles


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_only_our_script_may_run(make: Callable[[], Replay]) -> None:
    tags = tags_of(replay_page(make()))
    (script,) = named(tags, "script")
    digest = hashlib.sha256("".join(script.text).encode()).digest()
    (policy,) = (
        tag.attributes["content"]
        for tag in named(tags, "meta")
        if tag.attributes.get("http-equiv") == "Content-Security-Policy"
    )
    assert policy.startswith("default-src 'none'; img-src data:; style-src 'unsafe-inline'; ")
    assert f"script-src 'sha256-{base64.b64encode(digest).decode()}'; " in policy
    assert "base-uri 'none'; form-action 'none'" in policy


def test_html_of_a_stranger_is_in_a_frame_that_may_do_nothing() -> None:
    frames = named(tags_of(replay_page(hostile_replay())), "iframe")
    assert frames
    for frame in frames:
        assert frame.attributes["sandbox"] == ""
        inside = frame.attributes["srcdoc"]
        assert f'content="{FRAME_POLICY}"' in inside
        for forbidden in ("<script", "<link", "<base", "example.org"):
            assert forbidden not in inside
        assert inside.count("<meta") == 2


class _Texts(HTMLParser):
    """Collects tags and text as a browser would, whatever they are."""

    def __init__(self) -> None:
        super().__init__()
        self.images: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.images.append(dict(attrs).get("src") or "")


def test_hostile_text_stays_text() -> None:
    html = replay_page(hostile_replay())
    reader = _Texts()
    reader.feed(html)
    assert all(source.startswith("data:image/svg+xml,") for source in reader.images)
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;" in html
    assert html.count("</script>") == 1
    assert not re.search(r"[\x00-\x08\x0b-\x1f]", html)


# ---------------------------------------------------------------- when it is large


@pytest.mark.slow
def test_five_hundred_versions_make_a_page_that_can_be_used() -> None:
    replay = many_replay(500, 10)
    html = replay_page(replay)
    assert len(html.encode()) < LARGEST / 10
    assert html.count('<li class="version ') == 500
    assert html.count('<a class="square ') + html.count('<span class="square ') == 5000
    assert "452 versions reproduced" in html
    assert "40 of 500 versions are drawn, those first that are not reproduced" in html


@pytest.mark.slow
def test_large_outputs_are_shortened_and_said_to_be() -> None:
    picture = display({"image/png": "A" * 2_000_000})
    other = display({"image/png": "B" * 2_000_000})
    text = printed("x" * 1_000_000)
    samples = {
        f"{at}": Sample(
            source="plot()\n" * 500,
            recorded=(picture, text),
            replayed=(other, printed("x" * 999_999 + "y")),
            status="different",
            differences=(differing("the picture differs"), differing("the text differs", 1, 1)),
        )
        for at in range(5)
    }
    html = replay_page(build(samples, {f"v{at}": f"{at}" for at in range(5)}))
    assert len(html) < LARGEST
    assert "Its outputs would make this page too large." in html
    assert "and 380 more lines" in html


@pytest.mark.slow
def test_more_cells_than_anybody_reads_are_counted() -> None:
    many = {
        f"{at}": Sample(source=f"a{at}", after=f"{at - 1}" if at else "", status="different")
        for at in range(1600)
    }
    html = replay_page(build(many, {"v": "1599"}))
    assert "and 100 more cells" in html
    assert html.count('<a class="square ') == 1500
    assert html.count('<span class="square ') == 100


def test_a_difference_far_into_a_long_text_is_found() -> None:
    lines = [f"line {at}" for at in range(5000)]
    changed = [*lines[:4000], "other", *lines[4001:]]
    sample = Sample(
        source="print()",
        recorded=(printed("\n".join(lines)),),
        replayed=(printed("\n".join(changed)),),
        status="different",
        differences=(differing("stdout differs in line 4001"),),
    )
    html = replay_page(build({"a": sample}, {"v": "a"}))
    assert "3,997 lines the same" in html
    assert '<td class="new">other</td>' in html


def test_a_difference_far_into_a_long_line_is_found() -> None:
    sample = Sample(
        source="print()",
        recorded=(printed("a" * 9000 + "left" + "b" * 9000),),
        replayed=(printed("a" * 9000 + "right" + "b" * 9000),),
        status="different",
        differences=(differing("stdout differs"),),
    )
    html = replay_page(build({"a": sample}, {"v": "a"}))
    assert f"…{'a' * 60}" in html
    assert "a" * 500 not in html


def test_a_replay_of_nothing_is_a_page_too() -> None:
    nothing = Replay(recording=Recording(tree=ExecutionTree(), cells={}), cells={}, seconds=0.0)
    html = replay_page(nothing)
    tags_of(html)
    assert "0 of 0 versions reproduced" in html


def test_odd_numbers_do_no_harm() -> None:
    moments = tuple(MemoryMoment(time=at, held_bytes=0) for at in (0.0, 0.0, 5.0))
    odd = replace(sample_replay(), seconds=0.0, memory=moments, budget_bytes=0, started=1e300)
    tags_of(replay_page(odd))


def test_the_sample_has_every_status() -> None:
    assert {sample.status for sample in PENGUINS.values()} | {None} == set(LOOKS)
    assert "\x00" in HOSTILE
