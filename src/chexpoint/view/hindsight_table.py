"""What replays in hindsight found, as text and as HTML."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from chexpoint.model import HindsightResult
from chexpoint.view.hindsight_rows import (
    hindsight_records,
    hindsight_summary,
    wanted_rows,
)
from chexpoint.view.style import html_view
from chexpoint.view.text import aligned, clipped, printable, xml

MOST_ROWS = 60
"""Rows that are shown of a long table: the first and the last ones."""

_LONGEST_VALUE = 48  # columns
_LEFT = ("version", "name", "standing")


def hindsight_text(
    results: Sequence[HindsightResult],
    *,
    left_out: Mapping[str, str] | None = None,
    names: Collection[str] = (),
    width: int = 100,
    most: int = MOST_ROWS,
) -> str:
    """Return the values in aligned columns, and below it what a user should know of them.

    Parameters
    ----------
    left_out
        Versions that were not replayed, and why.
    names
        Values to show; by default, what was added to the program.
    width
        How many columns a line may take.
    most
        How many rows to show.
    """
    head, rows, more = _table(results, names, most)
    lines: list[str] = []
    if rows:
        numbers = [at for at, name in enumerate(head) if name not in _LEFT]
        lines += [clipped(line, width) for line in aligned([head, *rows], numbers)]
        if more:
            at = 1 + most // 2
            lines.insert(at, f"... {more:,} more rows: --csv FILE or --json gives all of them")
        lines.append("")
    lines += _told(results, left_out or {})
    return "\n".join([*lines, hindsight_summary(results, names)])


def hindsight_html(
    results: Sequence[HindsightResult],
    *,
    left_out: Mapping[str, str] | None = None,
    names: Collection[str] = (),
    most: int = MOST_ROWS,
) -> str:
    """Return the same as HTML, which takes its colours from the page."""
    head, rows, more = _table(results, names, most)
    style = ["" if name in _LEFT else ' class="number"' for name in head]
    table = "".join(
        "<tr>"
        + "".join(f"<{tag}{s}>{xml(text)}</{tag}>" for s, text in zip(style, row, strict=True))
        + "</tr>\n"
        for tag, row in [("th", head), *(("td", row) for row in rows)]
    )
    parts = [f'<div class="scroll"><table>{table}</table></div>'] if rows else []
    if more:
        parts.append(f'<p class="faint">{more:,} more rows are not shown</p>')
    parts += [f"<p>{xml(line)}</p>" for line in _told(results, left_out or {})]
    return html_view("\n".join([*parts, f"<p>{xml(hindsight_summary(results, names))}</p>"]))


def _table(
    results: Sequence[HindsightResult], names: Collection[str], most: int
) -> tuple[list[str], list[list[str]], int]:
    """Return the head, the rows that are shown, and how many are not."""
    records = hindsight_records(wanted_rows(results, names))
    more = max(len(records) - most, 0)
    if more:
        half = most // 2
        records = [*records[:half], *records[len(records) - (most - half) :]]
    head = list(records[0]) if records else []
    return head, [[_shown(each[name]) for name in head] for each in records], more


def _shown(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value)
        case float():
            return f"{value:.6g}"
    return clipped(printable(str(value)), _LONGEST_VALUE)


def _told(results: Sequence[HindsightResult], left_out: Mapping[str, str]) -> Iterator[str]:
    """Yield what went otherwise than it should have, and what a user should know."""
    for result in results:
        of = f"{result.version}: " if len(results) + len(left_out) > 1 else ""
        if result.failed:
            yield printable(f"failed: {of}{result.failed}")
        for finding in result.findings:
            missed = ", ".join(finding.missed)
            why = f" (the analysis of side effects did not know of {missed})" if missed else ""
            yield printable(f"diverged: {of}{finding.what}{why}")
        yield from (printable(f"note: {of}{note}") for note in result.notes)
    for version, reason in left_out.items():
        yield printable(f"left out: {version}: {reason}")
