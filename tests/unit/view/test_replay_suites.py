"""JUnit files parse, keep to the schema of Jenkins, and say what the replay says."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.model import CellError, Replay
from chexpoint.view import replay_junit
from tests.support.replays import (
    Sample,
    build,
    good_replay,
    hostile_replay,
    interrupted_replay,
    many_replay,
    sample_replay,
)

ALL = [sample_replay, good_replay, interrupted_replay, hostile_replay]

# Of junit-10.xsd: the children and attributes that an element may have.
SCHEMA: dict[str, tuple[set[str], set[str]]] = {
    "testsuites": ({"testsuite"}, {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"properties", "testcase"},
        {"name", "tests", "failures", "errors", "time", "skipped", "timestamp"},
    ),
    "properties": ({"property"}, set()),
    "property": (set(), {"name", "value"}),
    "testcase": ({"skipped", "error", "failure", "system-out"}, {"name", "time", "classname"}),
    "skipped": (set(), {"type", "message"}),
    "error": (set(), {"type", "message"}),
    "failure": (set(), {"type", "message"}),
    "system-out": (set(), set()),
}
REQUIRED = {
    "testsuite": {"name", "tests", "failures", "errors"},
    "property": {"name", "value"},
    "testcase": {"name"},
}
TIME = re.compile(r"(([0-9]{0,3},)*[0-9]{3}|[0-9]{0,3})*(\.[0-9]*)?")


def parsed(replay: Replay) -> ElementTree.Element:
    text = replay_junit(replay)
    return ElementTree.fromstring(text.encode())  # noqa: S314 - our own text


def suite_of(replay: Replay, label: str) -> ElementTree.Element:
    (found,) = (suite for suite in parsed(replay) if suite.attrib["name"] == label)
    return found


def verdicts(suite: ElementTree.Element) -> list[str]:
    """Return what became of each case: the name of the element in it, or nothing."""
    kinds = {"failure", "error", "skipped"}
    return ["".join(e.tag for e in case if e.tag in kinds) for case in suite.iter("testcase")]


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_files_keep_to_the_schema(make: Callable[[], Replay]) -> None:
    for element in parsed(make()).iter():
        children, attributes = SCHEMA[element.tag]
        assert {child.tag for child in element} <= children
        assert set(element.attrib) <= attributes
        assert REQUIRED.get(element.tag, set()) <= set(element.attrib)
        assert TIME.fullmatch(element.attrib.get("time", ""))


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_counts_match(make: Callable[[], Replay]) -> None:
    root = parsed(make())
    for suite in root:
        found = verdicts(suite)
        assert int(suite.attrib["tests"]) == len(found)
        assert int(suite.attrib["failures"]) == found.count("failure")
        assert int(suite.attrib["errors"]) == found.count("error")
        assert int(suite.attrib["skipped"]) == found.count("skipped")
    for name in ("tests", "failures", "errors"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)


@pytest.mark.parametrize("make", ALL, ids=lambda make: make.__name__)
def test_a_version_is_green_if_it_is_reproduced_or_left_out(make: Callable[[], Replay]) -> None:
    replay = make()
    suites = list(parsed(replay))
    for (label, version), suite in zip(replay.recording.labels.items(), suites, strict=True):
        is_green = not {"failure", "error"} & set(verdicts(suite))
        is_good = replay.version_status(version) in {"same", "close"}
        assert is_green == (is_good or label in replay.left_out)


def test_different_is_a_failure_failed_an_error_and_the_rest_is_skipped() -> None:
    replay = sample_replay()
    assert verdicts(suite_of(replay, "deeper")) == ["", "", "", "failure", "failure"]
    assert verdicts(suite_of(replay, "scaled")) == ["", "", "error", "skipped"]
    assert verdicts(suite_of(replay, "stamped")) == [""] * 6


def test_messages_and_tracebacks_are_there_without_colours() -> None:
    (error,) = suite_of(sample_replay(), "scaled").iter("error")
    assert error.attrib == {"message": "KeyError: 'flipper_length'", "type": "failed"}
    assert error.text is not None
    assert "----> 2 scaled['x'] = frame['flipper_length']" in error.text
    case = next(suite_of(sample_replay(), "base").iter("testcase"))
    assert case.attrib["name"] == "cell 1: import numpy as np"
    assert case.attrib["classname"] == "chex.base"


def test_what_a_replay_did_not_get_to_is_an_error_but_not_what_was_left_out() -> None:
    replay = interrupted_replay()
    assert verdicts(suite_of(replay, "deeper")) == ["", "", "", "failure", "error"]
    assert verdicts(suite_of(replay, "scaled")) == ["", "", "skipped", "skipped"]
    (left_out, _) = suite_of(replay, "scaled").iter("skipped")
    assert left_out.attrib["message"] == "there was no time for it"


def test_a_version_that_could_not_begin_is_an_error_once() -> None:
    gone = ("./data.csv is gone",)
    samples = {
        "a": Sample(source="a", status="skipped", reasons=gone),
        "b": Sample(source="b", after="a", status="skipped", reasons=gone),
    }
    (suite,) = parsed(build(samples, {"v": "b"}))
    assert verdicts(suite) == ["error", "skipped"]


@settings(deadline=None, max_examples=60)
@given(st.text(), st.text())
def test_any_text_makes_a_file_that_can_be_read(one: str, other: str) -> None:
    error = CellError(ename=one, evalue=other, traceback=(other, one))
    sample = Sample(source=other, status="failed", reasons=(one,), error=error)
    (suite,) = parsed(build({"a": sample}, {one: "a"}, title=other))
    assert verdicts(suite) == ["error"]


@pytest.mark.slow
def test_five_hundred_versions_are_five_hundred_suites() -> None:
    root = parsed(many_replay(500, 2))
    assert len(root) == 500
    assert root.attrib["tests"] == "1000"
