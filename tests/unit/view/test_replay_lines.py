"""A replay as text, and as a small piece of HTML."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.view import replay_html, replay_text
from chexpoint.view.text import columns
from tests.support.replay_html import named, tags_of
from tests.support.replays import (
    Sample,
    build,
    good_replay,
    hostile_replay,
    interrupted_replay,
    many_replay,
    sample_replay,
)


def test_the_text_has_a_line_for_each_version_and_ends_with_the_verdict() -> None:
    assert replay_text(sample_replay()).split("\n") == [
        "✓  base     same       5 cells  13.0 s",
        "≠  deeper   different  5 cells  15.2 s  cell 4: stdout differs in lines 1 and 2",
        "✗  scaled   failed     4 cells   4.3 s  cell 3: KeyError: 'flipper_length'",
        "✓  stamped  same       6 cells  13.4 s",
        "≈  timed    close      4 cells  10.4 s  cell 4: only a time differs",
        "✓  shallow  same       5 cells  13.0 s",
        "",
        "note: pandas is 2.3.0 here, and was 2.2.3 when the versions were recorded",
        "",
        "computed 11 cells instead of 28: 28.7 s instead of 69.3 s",
        "checkpoints held 96.0 MB at most; the budget is 128 MB",
        "4 of 6 versions reproduced: 3 same, 1 close, 1 different, 1 failed",
    ]


def test_an_interrupted_replay_says_how_to_go_on() -> None:
    text = replay_text(interrupted_replay())
    assert "…  scaled   left out" in text
    assert "no time for scaled" in text
    assert "the replay was interrupted; --resume goes on where it ended" in text
    assert "the budget is unlimited" in text


def test_of_very_many_versions_only_those_are_listed_that_are_not_reproduced() -> None:
    lines = replay_text(many_replay(60, 3)).split("\n")
    assert [line.split()[1] for line in lines[:6]] == [
        f"version-{at:03}" for at in (0, 7, 21, 28, 42, 49)
    ]
    assert lines[6] == "  and 54 more versions: 51 same, 3 close"
    assert lines[-1] == "54 of 60 versions reproduced: 51 same, 3 close, 3 different, 3 failed"


def test_of_very_many_bad_versions_some_are_counted() -> None:
    lines = replay_text(many_replay(60, 2, bad=1)).split("\n")
    assert lines[40] == "  and 20 more versions: 20 close"


@pytest.mark.parametrize("width", [20, 60, 100])
def test_lines_fit_whatever_is_in_them(width: int) -> None:
    for replay in (hostile_replay(), sample_replay(), interrupted_replay()):
        for line in replay_text(replay, width).split("\n"):
            assert columns(line) <= max(width, 40)
            assert line.isprintable()


@settings(deadline=None, max_examples=30)
@given(st.text(max_size=60), st.text(max_size=60))
def test_any_label_and_reason_can_be_shown(label: str, reason: str) -> None:
    sample = Sample(source=reason, status="different", reasons=(reason,))
    replay = build({"a": sample}, {label: "a"}, title=reason)
    assert all(line.isprintable() for line in replay_text(replay).split("\n"))
    (table,) = named(tags_of(replay_html(replay)), "table")
    assert "different" in table.words


def test_the_table_of_a_notebook_names_signs_and_words() -> None:
    tags = tags_of(replay_html(sample_replay()))
    rows = [row.words for row in named(tags, "tr")]
    assert rows[0] == "version status cells time why"
    assert rows[3] == "scaled ✗ failed 4 4.3 s cell 3: KeyError: 'flipper_length'"
    (view,) = named(tags, "div", "chex-view")
    assert "4 of 6 versions reproduced" in view.words
    assert "computed 11 cells instead of 28" in view.words
    assert "pandas is 2.3.0 here" in view.words


def test_the_table_of_a_notebook_is_small_and_safe() -> None:
    for replay in (hostile_replay(), many_replay(60, 3), good_replay()):
        html = replay_html(replace(replay, is_interrupted=True, left_out=("<b>",)))
        tags = tags_of(html)
        assert {tag.name for tag in tags}.isdisjoint({"script", "img", "iframe", "link"})
        assert "no time for &lt;b&gt;" in html
        assert len(html) < 20_000
