"""A replay as a JUnit file, which CI systems read: a suite for each version, a case for each cell.

The elements and attributes are those that the schema of Jenkins allows (``junit-10.xsd``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from chexpoint.model import NodeId, Replay, ReplayedCell, ReplayStatus
from chexpoint.view.outputs import plain_text
from chexpoint.view.plan_lines import budget_text
from chexpoint.view.replay_facts import (
    VersionResult,
    head_line,
    sentences,
    version_results,
    why,
    word_of,
)
from chexpoint.view.text import clipped, printable

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

Verdict = Literal["failure", "error", "skipped"]

_VERDICTS: dict[ReplayStatus, Verdict] = {
    "different": "failure",
    "failed": "error",
    "skipped": "skipped",
}
_LONGEST_NAME = 80  # columns of source
_LONGEST_TEXT = 20_000


def replay_junit(replay: Replay) -> str:
    """Return a JUnit file in which every version that is not reproduced has a failure or an error.

    What differs is a failure, what failed an error.  A cell that was not run is skipped; but the
    first one of a version that nothing else is wrong with is an error, unless it was left out.
    """
    from xml.etree.ElementTree import Element, indent, tostring

    suites = [_suite(replay, result) for result in version_results(replay)]
    root = Element("testsuites", name=_line(f"chex replay {replay.recording.title}".rstrip()))
    for name in ("tests", "failures", "errors"):
        root.set(name, str(sum(int(suite.attrib[name]) for suite in suites)))
    root.set("time", _seconds(replay.seconds))
    root.extend(suites)
    indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, encoding="unicode")}\n'


def _suite(replay: Replay, result: VersionResult) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    found = Element("testsuite", name=_line(result.label))
    properties = SubElement(found, "properties")
    for name, value in _properties(replay, result):
        SubElement(properties, "property", name=name, value=_line(value))
    verdicts: Counter[str] = Counter()
    for place, node in enumerate(result.version.path, start=1):
        verdict = _verdict(replay, result, place, node)
        verdicts[verdict or ""] += 1
        found.append(_case(replay, result, place, verdict))
    found.set("tests", str(len(result.version.path)))
    found.set("failures", str(verdicts["failure"]))
    found.set("errors", str(verdicts["error"]))
    found.set("skipped", str(verdicts["skipped"]))
    found.set("time", _seconds(result.seconds))
    if moment := _moment(replay.started):
        found.set("timestamp", moment)
    return found


def _properties(replay: Replay, result: VersionResult) -> Iterator[tuple[str, str]]:
    yield "status", result.word
    yield "planner", replay.planner
    yield "workers", str(replay.workers)
    yield "budget", budget_text(replay.budget_bytes)
    yield "recorded_seconds", _seconds(result.recorded_seconds)


def _verdict(replay: Replay, result: VersionResult, place: int, node: NodeId) -> Verdict | None:
    cell = replay.cells.get(node)
    is_culprit = place == result.place and not result.is_left_out
    if is_culprit and result.status in {"skipped", None}:
        return "error"
    if cell is None:
        return "skipped"
    if cell.is_excused and cell.status != "skipped":
        return None
    return _VERDICTS.get(cell.status)


def _case(replay: Replay, result: VersionResult, place: int, verdict: Verdict | None) -> Element:
    from xml.etree.ElementTree import Element, SubElement

    node = result.version.path[place - 1]
    cell = replay.cells.get(node)
    source = head_line(replay.recording.cells[node].source)
    case = Element(
        "testcase",
        name=_line(f"cell {place}: {clipped(source, _LONGEST_NAME)}"),
        classname=_line(f"chex.{result.label}"),
        time=_seconds(cell.seconds if cell else 0.0),
    )
    if verdict:
        message = (why(cell) if cell else _not_done(result)) or word_of(cell)
        found = SubElement(case, verdict, message=_line(message), type=word_of(cell))
        found.text = _details(cell)
    elif cell and cell.reasons:
        SubElement(case, "system-out").text = _details(cell)
    return case


def _not_done(result: VersionResult) -> str:
    return "there was no time for it" if result.is_left_out else "the replay did not get to it"


def _details(cell: ReplayedCell | None) -> str:
    if cell is None:
        return ""
    lines = list(sentences(cell))
    if cell.error:
        lines += ["", *plain_text("\n".join(cell.error.traceback)[:_LONGEST_TEXT]).split("\n")]
    return "\n".join(_line(line) for line in lines)


def _line(text: str) -> str:
    """Return a line without anything that XML forbids; ElementTree escapes the rest."""
    return printable(plain_text(text[:_LONGEST_TEXT]))


def _seconds(value: float) -> str:
    return f"{value:.3f}"


def _moment(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}" if seconds else ""
    except (OverflowError, OSError, ValueError):
        return ""
