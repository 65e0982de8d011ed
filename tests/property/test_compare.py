"""Comparing generated outputs: nothing is unlike itself, and it does not matter who is asked."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from chexpoint.compare.logs import missing_from_log
from chexpoint.compare.markup import compare_html
from chexpoint.compare.outputs import Comparison, compare_outputs
from chexpoint.compare.screen import shown_lines
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance
from chexpoint.compare.values import compare_values
from chexpoint.model import Output

pytestmark = pytest.mark.slow

TOLERANCE = Tolerance()
STATUSES = {"same", "close", "different"}

# Pieces of which texts are made that have something to do with each other.
PIECES = st.one_of(
    st.sampled_from(["a", "b ", " ", "\n", "\r", "\b", "\x1b[A", "\x1b[31m", "\x1b[K", "\x1b]"]),
    st.sampled_from(
        ["1", "0.5", "0.500001", "-", "1e-3", ",000", "2j", "nan", "3 s", "2026-11-17"]
    ),
    st.sampled_from(["10:00:01", "/tmp/x/y", "0x7f8b1c0d5e50", "CHEX: x\n", "Wall time: 3 s\n"]),
    st.sampled_from(["<b>", "<table>", "<td>", "<style>", "</style>", "&lt;", " id='a1'", "#a1"]),
    st.sampled_from(["[00:01<00:00, 9it/s]", "\ud800"]),
)
TEXTS = st.one_of(st.text(max_size=20), st.lists(PIECES, max_size=12).map("".join))
NAMES = st.sampled_from(["stdout", "stderr"])
STREAMS = st.builds(
    lambda name, text: {"output_type": "stream", "name": name, "text": text}, NAMES, TEXTS
)
KINDS = st.one_of(
    st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml", "text/latex", ""]),
    st.sampled_from(["application/json", "application/vnd.x+json"]),
    st.just("application/vnd.jupyter.widget-view+json"),
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=6,
)
OUTPUTS: st.SearchStrategy[Any] = st.one_of(
    STREAMS,
    st.builds(
        lambda kind, data: {"output_type": kind, "data": data, "metadata": {}},
        st.sampled_from(["display_data", "execute_result"]),
        st.one_of(st.dictionaries(KINDS, st.one_of(TEXTS, VALUES), max_size=3), VALUES),
    ),
    st.fixed_dictionaries({"output_type": st.just("error"), "ename": TEXTS, "evalue": VALUES}),
    st.fixed_dictionaries({"output_type": VALUES, "name": VALUES, "text": VALUES}),
    VALUES,
)
ALL_OUTPUTS = st.lists(OUTPUTS, max_size=5)


def compare(recorded: list[Any], replayed: list[Any]) -> Comparison:
    return compare_outputs(recorded, replayed, TOLERANCE)


@given(ALL_OUTPUTS)
def test_outputs_are_the_same_as_themselves(outputs: list[Any]) -> None:
    assert compare(outputs, outputs) == Comparison(status="same")
    assert missing_from_log(outputs, outputs, TOLERANCE) is None


@given(ALL_OUTPUTS, ALL_OUTPUTS)
def test_it_does_not_matter_which_of_two_was_recorded(left: list[Any], right: list[Any]) -> None:
    there, back = compare(left, right), compare(right, left)
    assert there.status == back.status
    assert (there.status == "same") == (not there.differences)


@given(ALL_OUTPUTS, ALL_OUTPUTS)
def test_differences_name_outputs_that_are_there(left: list[Any], right: list[Any]) -> None:
    for difference in compare(left, right).differences:
        assert difference.what.isprintable()
        assert difference.what
        assert difference.recorded is None or difference.recorded < len(left)
        assert difference.replayed is None or difference.replayed < len(right)
        assert (difference.recorded, difference.replayed) != (None, None)


@given(ALL_OUTPUTS, st.integers(0, 5))
def test_an_output_that_is_left_out_is_missing(outputs: list[Any], place: int) -> None:
    shown: Output = {"output_type": "display_data", "data": {"text/markdown": "shown once"}}
    whole = [*outputs[:place], shown, *outputs[place:]]
    found = compare(whole, [*outputs[:place], {**shown, "data": {}}, *outputs[place:]])
    assert found.status == "different"
    assert compare(whole, whole).status == "same"


@given(st.lists(st.tuples(NAMES, TEXTS), max_size=6), st.data())
def test_how_streams_are_cut_into_pieces_does_not_count(
    texts: list[tuple[str, str]], data: st.DataObject
) -> None:
    whole: list[Output] = []
    cut: list[Output] = []
    for name, text in texts:
        at = data.draw(st.integers(0, len(text)))
        whole.append({"output_type": "stream", "name": name, "text": text})
        cut += [
            {"output_type": "stream", "name": name, "text": text[:at]},
            {"output_type": "stream", "name": name, "text": [text[at:]]},
        ]
    # Each stream keeps its order, and all of one may come before the other.
    apart = sorted(cut, key=lambda output: str(output["name"]))
    assert compare(whole, cut) == Comparison(status="same")
    assert compare(whole, apart) == Comparison(status="same")


@given(st.floats(1e-3, 1e6), st.sampled_from(["loss {}", "a {} b 1.5", "[{}, 2.0]", "x={}"]))
def test_only_numbers_within_the_tolerance_are_close(value: float, text: str) -> None:
    recorded = text.format(value)
    near, far = text.format(value * (1 + 1e-8)), text.format(value * (1 + 1e-4))
    assert compare_texts(recorded, near, TOLERANCE).status in {"same", "close"}
    assert compare_texts(recorded, far, TOLERANCE).status == "different"


@given(st.integers(), st.integers(), st.sampled_from(["{} rows", "n={}", "[{}]", "<td>{}</td>"]))
def test_whole_numbers_are_the_same_or_different(left: int, right: int, text: str) -> None:
    assume(not 90_000_000_000_000 < abs(left) < 150_000_000_000_000)  # may be an id of an object
    assume(not 90_000_000_000_000 < abs(right) < 150_000_000_000_000)
    found = compare_texts(text.format(left), text.format(right), TOLERANCE)
    assert found.status == ("same" if left == right else "different")


@given(st.text("0123456789", min_size=1, max_size=6), st.data())
def test_a_digit_that_changes_is_seen(digits: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(digits) - 1))
    other = data.draw(st.sampled_from("0123456789").filter(lambda digit: digit != digits[at]))
    changed = digits[:at] + other + digits[at + 1 :]
    for text in ("accuracy 0.{}", "<td>0.{}</td>", "v0.{}.1", "{} items"):
        recorded, replayed = text.format(digits), text.format(changed)
        assert compare_texts(recorded, replayed, TOLERANCE).status == "different"
        assert compare_html(recorded, replayed, TOLERANCE).status == "different"


@given(TEXTS, TEXTS)
def test_texts_are_close_in_both_directions(left: str, right: str) -> None:
    found = compare_texts(left, right, TOLERANCE).status
    assert compare_texts(right, left, TOLERANCE).status == found
    assert (
        compare_html(left, right, TOLERANCE).status == compare_html(right, left, TOLERANCE).status
    )
    assert found in STATUSES


@given(TEXTS)
def test_what_is_seen_in_the_end_is_seen_again(text: str) -> None:
    seen = "\n".join(shown_lines(text))
    assert "\r" not in seen
    assert "\x1b" not in seen
    assert list(shown_lines(seen)) == seen.rstrip().split("\n") or not seen.strip()


@given(VALUES, VALUES)
def test_values_are_close_in_both_directions(left: Any, right: Any) -> None:
    assert compare_values(left, left, TOLERANCE).status == "same"
    found = compare_values(left, right, TOLERANCE).status
    assert compare_values(right, left, TOLERANCE).status == found


@given(st.floats(allow_nan=False), st.floats(allow_nan=False))
def test_values_are_close_as_numbers_are(left: float, right: float) -> None:
    is_near = math.isclose(left, right, rel_tol=TOLERANCE.rtol, abs_tol=TOLERANCE.atol)
    found = compare_values([left], [right], TOLERANCE).status
    assert (found != "different") == is_near


@given(st.lists(TEXTS, max_size=6), st.lists(TEXTS, max_size=3), st.data())
def test_a_log_with_lines_added_lacks_none(
    lines: list[str], added: list[str], data: st.DataObject
) -> None:
    lines = [line.replace("\x1b[A", "") for line in lines]  # which goes back to earlier lines
    more = list(lines)
    for line in added:
        more.insert(data.draw(st.integers(0, len(more))), line.replace("\x1b[A", ""))
    recorded, replayed = (
        {"output_type": "stream", "name": "stdout", "text": "\n".join(log)} for log in (lines, more)
    )
    assert missing_from_log([recorded], [replayed], TOLERANCE) is None
