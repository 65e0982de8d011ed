"""The versions of a tree, as rows, as text and as HTML."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Literal

from chexpoint.model import ExecutionTree, NodeId, Seconds, format_seconds
from chexpoint.view.style import html_view
from chexpoint.view.text import aligned, clipped, printable, xml

_HEAD = ("version", "cells", "computed", "shared", "status", "when", "parameters", "origin")
_NUMBERS = (1, 2, 3)
_LONGEST_LABEL = 40  # columns


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version, and what it takes together with the others."""

    label: str
    node: NodeId | None
    """The state it led to."""
    cells: int
    seconds: Seconds
    """What its cells took when they ran last."""
    shared: int
    """How many of its cells are also those of another version."""
    created: float
    """Seconds since the epoch."""
    origin: str
    parameters: tuple[tuple[str, str], ...]
    status: Literal["ok", "error"]


def version_rows(tree: ExecutionTree) -> tuple[VersionRow, ...]:
    """Return the versions of a tree, oldest first."""
    return tuple(
        VersionRow(
            label=tree.labels[version],
            node=version.node,
            cells=len(version.path),
            seconds=sum(tree.nodes[n].cost for n in version.path if n in tree.nodes),
            shared=sum(len(tree.through[n]) > 1 for n in version.path),
            created=version.created,
            origin=version.origin,
            parameters=version.parameters,
            status=version.status,
        )
        for version in tree.versions
    )


def versions_text(tree: ExecutionTree, *, width: int = 100, zone: tzinfo | None = None) -> str:
    """Return the versions in aligned columns, oldest first.

    Parameters
    ----------
    width
        How many columns a line may take.
    zone
        Where times are told; by default, here.
    """
    if not tree.versions:
        return "no versions are recorded yet"
    rows = [_HEAD, *(_texts(row, zone) for row in version_rows(tree))]
    # Columns that say nothing are left out; what matters less stands further right, and is cut.
    kept = [i for i in range(len(_HEAD)) if any(row[i] for row in rows[1:])]
    table = [[clipped(row[0], _LONGEST_LABEL), *(row[i] for i in kept[1:])] for row in rows]
    right = [kept.index(i) for i in _NUMBERS]
    return "\n".join(clipped(line, width) for line in aligned(table, right))


def versions_html(tree: ExecutionTree, *, zone: tzinfo | None = None) -> str:
    """Return the versions as a table in HTML, which takes its colours from the page."""
    if not tree.versions:
        return html_view("<p>no versions are recorded yet</p>")
    style = ['class="number"' if i in _NUMBERS else "" for i in range(len(_HEAD))]
    head = "".join(f"<th {s}>{name}</th>" for s, name in zip(style, _HEAD, strict=True))
    body = "".join(
        "<tr>"
        + "".join(
            f"<td {s}>{xml(text)}</td>" for s, text in zip(style, _texts(row, zone), strict=True)
        )
        + "</tr>\n"
        for row in version_rows(tree)
    )
    return html_view(f'<div class="scroll"><table><tr>{head}</tr>\n{body}</table></div>')


def shown_time(seconds: float, zone: tzinfo | None = None) -> str:
    """Return a moment to the minute."""
    try:
        return f"{datetime.fromtimestamp(seconds, UTC).astimezone(zone):%Y-%m-%d %H:%M}"
    except (OverflowError, OSError, ValueError):
        return ""


def _texts(row: VersionRow, zone: tzinfo | None) -> tuple[str, ...]:
    return (
        printable(row.label),
        str(row.cells),
        format_seconds(row.seconds),
        str(row.shared),
        "failed" if row.status == "error" else "",
        shown_time(row.created, zone) if row.created else "",
        printable(", ".join(f"{name}={value}" for name, value in row.parameters)),
        printable(row.origin),
    )
