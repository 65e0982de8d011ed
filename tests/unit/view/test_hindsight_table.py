"""What replays in hindsight found, as text, HTML and JSON."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chexpoint.view import (
    hindsight_html,
    hindsight_json,
    hindsight_records,
    hindsight_text,
    row_from_json,
    wanted_rows,
)
from chexpoint.view.hindsight_rows import hindsight_summary, labels_of, row_json
from tests.unit.view.hindsights import FINDING, result, row


def test_values_stand_in_columns_with_the_loops_before_them() -> None:
    text = hindsight_text([result(row(0, 1.25), row(1, 0.5, step=12))])
    head, first, second, _, summary = text.split("\n")
    assert head.split() == ["version", "epoch", "step", "name", "value", "standing"]
    assert first.split() == ["base", "0", "norm", "1.25", "exact"]
    assert second.split() == ["base", "1", "12", "norm", "0.5", "exact"]
    assert summary == "CHEX: 2 values in 2.1 s (training took 80.3 s), all exact"


def test_values_of_the_training_itself_are_shown_only_by_their_name() -> None:
    found = [result(row(0, 1.0), row(0, 0.3, name="loss", is_added=False))]
    assert "loss" not in hindsight_text(found)
    assert "1 value " in hindsight_text(found)
    asked = hindsight_text(found, names=["loss"])
    assert "loss" in asked
    assert "norm" not in asked


def test_what_diverged_or_failed_is_told_below_the_table() -> None:
    found = result(
        row(0, 1.0, standing="diverged"),
        row(1, 2.0, standing="unverified"),
        findings=(FINDING,),
        notes=("torch was 2.1 in the record",),
        failed="line 3 raised ValueError: no",
    )
    lines = hindsight_text([found]).split("\n")
    assert "failed: line 3 raised ValueError: no" in lines
    assert (
        "diverged: before epoch 4, model:w differs"
        " (the analysis of side effects did not know of model)"
    ) in lines
    assert "note: torch was 2.1 in the record" in lines
    assert lines[-1].endswith(", 1 unverified, 1 diverged")


def test_several_versions_are_told_apart() -> None:
    found = [
        result(row(0, 1.0), notes=("slow",)),
        result(row(0, 2.0, version="tuned"), version="tuned", failed="no"),
    ]
    lines = hindsight_text(found, left_out={"old": "no loop of it was recorded"}).split("\n")
    assert "note: base: slow" in lines
    assert "failed: tuned: no" in lines
    assert "left out: old: no loop of it was recorded" in lines
    assert (
        lines[-1].startswith("CHEX: 2 values in 4.2 s (training took 161 s)") or "min" in lines[-1]
    )


def test_of_a_long_table_the_ends_are_shown() -> None:
    found = [result(*(row(epoch, float(epoch)) for epoch in range(1000)))]
    lines = hindsight_text(found, most=10).split("\n")
    assert [line.split()[1] for line in lines[1:6]] == ["0", "1", "2", "3", "4"]
    assert lines[6].startswith("... 990 more rows")
    assert [line.split()[1] for line in lines[7:12]] == ["995", "996", "997", "998", "999"]
    assert "990 more rows" in hindsight_html(found, most=10)


def test_a_replay_without_values_says_so() -> None:
    assert hindsight_text([result()]).endswith("nothing was logged")
    assert hindsight_summary([]).startswith("CHEX: 0 values in 0 ms")


def test_nothing_that_was_logged_can_command_a_terminal_or_a_page() -> None:
    found = [result(row(0, "\x1b[2J<script>", name="<b>"))]
    assert "\x1b" not in hindsight_text(found)
    assert "<script>" not in hindsight_html(found)
    assert "<b>" not in hindsight_html(found)


def test_main_loops_of_one_version_are_told_apart() -> None:
    rows = [row(0, 1.0), row(0, 2.0, loop=1)]
    assert [record["loop"] for record in hindsight_records(rows)] == [0, 1]
    assert "loop" not in hindsight_records(rows[:1])[0]


def test_iterations_of_the_same_name_get_names_of_their_own() -> None:
    from chexpoint.model import LoggedValue

    same = LoggedValue(loop=0, at=(1, 2), labels=(("i", 1), ("i", 2)))
    assert labels_of(same) == {"i": 1, "i.2": 2}
    bare = LoggedValue(loop=0, at=(1, 2))
    assert labels_of(bare) == {"iteration": 1, "step": 2}


def test_json_has_everything() -> None:
    found = result(row(0, 1.0), row(0, 3, name="loss", is_added=False), findings=(FINDING,))
    data = json.loads(json.dumps(hindsight_json([found], {"old": "gone"}), allow_nan=False))
    (version,) = data["versions"]
    assert version["rows"][0] == {
        "version": "base",
        "loop": 0,
        "at": [0],
        "labels": {"epoch": 0},
        "name": "norm",
        "value": 1.0,
        "standing": "exact",
        "line": 7,
        "via": "print",
        "added": True,
    }
    assert version["rows"][1]["added"] is False
    assert version["findings"][0]["missed"] == ["model"]
    assert data["left_out"] == [{"version": "old", "reason": "gone"}]
    assert data["totals"]["values"] == 1
    assert data["totals"]["by_standing"] == {"exact": 1, "unverified": 0, "diverged": 0}


VALUES = st.one_of(
    st.floats(),
    st.integers(),
    st.booleans(),
    st.none(),
    st.text().filter(lambda text: text not in {"nan", "inf", "-inf"}),
    st.lists(st.floats(allow_nan=False, allow_infinity=False)),
)


@given(VALUES, st.sampled_from(["exact", "unverified", "diverged"]))
def test_rows_come_back_from_json_as_they_were(value: object, standing: str) -> None:
    before = row(3, value, step=4, standing=standing)  # type: ignore[arg-type]
    after = row_from_json(json.loads(json.dumps(row_json(before), allow_nan=False)))
    if isinstance(value, float) and math.isnan(value):
        assert math.isnan(after.value.value)
    else:
        assert after == before


@pytest.mark.parametrize("names", [(), ("norm",)])
def test_text_html_and_rows_agree_on_how_many_there_are(names: tuple[str, ...]) -> None:
    found = [result(*(row(epoch, epoch) for epoch in range(5)))]
    assert len(wanted_rows(found, names)) == 5
    assert hindsight_html(found, names=names).count("<tr>") == 6
