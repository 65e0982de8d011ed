"""A replay as text, for terminals."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from chexpoint.model import Replay, format_seconds, format_size
from chexpoint.palette import LOOKS
from chexpoint.view.plan_lines import budget_text
from chexpoint.view.replay_facts import (
    VersionResult,
    hosts_line,
    tally,
    verdict,
    version_results,
    work,
)
from chexpoint.view.text import aligned, clipped, count, listed, printable

MOST_VERSIONS = 40
"""So many are listed; of more, only those that are not reproduced."""

_LONGEST_LABEL = 28  # columns
_LEAST_WIDTH = 40


def replay_text(replay: Replay, width: int = 100) -> str:
    """Return the verdict, a line for each version, and the totals.

    Parameters
    ----------
    width
        How many columns a line may take.
    """
    room = max(width, _LEAST_WIDTH)
    results = version_results(replay)
    parts = [_rows(results), list(_notes(replay, room)), list(_totals(replay, results))]
    return "\n\n".join(
        "\n".join(clipped(line, room).rstrip() for line in lines) for lines in parts if lines
    )


def listed_results(results: Sequence[VersionResult]) -> list[VersionResult]:
    """Return those that are listed one by one: of very many, only those that are not reproduced."""
    if len(results) <= MOST_VERSIONS:
        return list(results)
    return [result for result in results if not result.is_good][:MOST_VERSIONS]


def rest_line(results: Sequence[VersionResult], shown: Sequence[VersionResult]) -> str:
    """Return what is said of the versions that are not listed; nothing if all are."""
    names = {result.label for result in shown}
    rest = [result for result in results if result.label not in names]
    if not rest:
        return ""
    return f"and {count(len(rest), 'more version')}: {tally(result.word for result in rest)}"


def _rows(results: Sequence[VersionResult]) -> list[str]:
    shown = listed_results(results)
    rows = [
        (
            LOOKS[result.status].sign,
            clipped(printable(result.label), _LONGEST_LABEL),
            result.word,
            count(len(result.version.path), "cell"),
            format_seconds(result.seconds),
            result.why,
        )
        for result in shown
    ]
    rest = rest_line(results, shown)
    return [*aligned(rows, right=(3, 4)), *([f"  {rest}"] if rest else [])]


def _notes(replay: Replay, room: int) -> Iterator[str]:
    for note in replay.notes:
        yield from textwrap.wrap(
            f"note: {printable(note)}", room, subsequent_indent="  ", break_on_hyphens=False
        )
    if replay.left_out:
        names = [printable(label) for label in replay.left_out]
        yield f"no time for {listed(names, room - 12)}"


def _totals(replay: Replay, results: Sequence[VersionResult]) -> Iterator[str]:
    yield work(replay)
    peak, budget = format_size(replay.peak_checkpoint_bytes), budget_text(replay.budget_bytes)
    yield f"checkpoints held {peak} at most; the budget is {budget}"
    if replay.hosts:
        yield hosts_line(replay)
    if replay.is_interrupted:
        yield "the replay was interrupted; --resume goes on where it ended"
    # Last, since that is what one sees first.
    yield f"{verdict(results)}: {tally(result.word for result in results)}"
