"""What a cell read and wrote, as rows, as text and as HTML."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from chexpoint.model import (
    CellLineage,
    Digest,
    Effect,
    EffectKind,
    Input,
    InputKind,
    format_seconds,
    format_size,
)

SHORT = 12
"""Digits of a digest or a node that are shown."""

_ROLES: dict[InputKind, str] = {
    "file": "reads",
    "folder": "lists",
    "look": "looks at",
    "variable": "variable",
    "network": "network",
    "packages": "packages",
}
_EFFECTS: dict[EffectKind, str] = {
    "written": "wrote",
    "held": "wrote",
    "deleted": "deleted",
    "folder": "created folder",
    "transient": "temporary",
}
_WORDS = {
    "absent": "absent",
    "volatile": "changed while it was read",
    "unreadable": "could not be read",
    "fifo": "a pipe",
    "socket": "a socket",
    "device": "a device",
    "set": "set by a cell",
}
_NAMELESS = {"packages": "installed packages", "network": "any peer"}


class LineageRow(NamedTuple):
    """One input or effect of a cell, ready to be shown."""

    role: str
    name: str
    contents: str
    note: str = ""


def lineage_rows(
    lineage: CellLineage, path: Sequence[CellLineage] = (), *, transient: bool = False
) -> list[LineageRow]:
    """Return what a cell read, and then what it wrote.

    Parameters
    ----------
    path
        The cells that led here, by which earlier ones are named.
    transient
        Whether to include files that the cell created and deleted again.
    """
    counts = {cell.number: cell.execution_count for cell in path}
    rows = [_input_row(found, counts) for found in lineage.audit.inputs]
    rows += [
        _effect_row(effect)
        for effect in lineage.audit.effects
        if transient or effect.kind != "transient"
    ]
    return rows


def lineage_notes(lineage: CellLineage) -> list[str]:
    """Return what else there is to say about a cell, one sentence each."""
    audit = lineage.audit
    notes = []
    if lineage.status == "error":
        notes.append("the cell ended with an error")
    for hint in audit.hints:
        where = "" if hint.line is None else f", line {hint.line}"
        notes.append(f"hint{where}: {hint.what}")
    notes += [f"inputs may be missing: {gap}" for gap in audit.gaps]
    if audit.mechanism == "off" and not audit.gaps:
        notes.append("inputs may be missing: the cell was not audited")
    if audit.environment_reads:
        notes.append(f"files of Python and of the system: {audit.environment_reads}, not listed")
    processes = len({event.process for event in audit.events})
    if processes > 1:
        notes.append(f"processes: {processes}")
    return [printable(note) for note in notes]


def lineage_head(lineage: CellLineage) -> str:
    """Return the line that says which cell this is."""
    return (
        f"cell [{lineage.execution_count}]  node {lineage.node[:SHORT]}"
        f"  parent {lineage.parent[:SHORT]}"
        f"  {format_seconds(lineage.seconds)}  {format_size(lineage.size_bytes)}"
    )


def lineage_text(
    lineage: CellLineage, path: Sequence[CellLineage] = (), *, transient: bool = False
) -> str:
    """Return a cell with all it read and wrote, in aligned columns."""
    rows = lineage_rows(lineage, path, transient=transient)
    widths = [max((columns(row[i]) for row in rows), default=0) for i in range(4)]
    table = [
        "  ".join(
            text + " " * (width - columns(text)) for text, width in zip(row, widths, strict=True)
        ).rstrip()
        for row in rows
    ]
    source = [f"    {line}".rstrip() for line in _source_lines(lineage)]
    nothing = [] if rows else ["no inputs, no files written"]
    return "\n".join([lineage_head(lineage), *source, *table, *nothing, *lineage_notes(lineage)])


def lineage_html(
    lineage: CellLineage, path: Sequence[CellLineage] = (), *, transient: bool = False
) -> str:
    """Return a cell with all it read and wrote, as HTML that takes its colours from the page."""
    cell = "text-align:left;background:none;color:inherit;padding:1px 12px 1px 0"
    body = "".join(
        "<tr style='background:none'>"
        + "".join(f"<td style='{cell}'>{escape(text)}</td>" for text in row)
        + "</tr>"
        for row in lineage_rows(lineage, path, transient=transient)
    )
    table = f"<table style='border:none;color:inherit'>{body}</table>" if body else ""
    source = escape("\n".join(_source_lines(lineage)))
    notes = "".join(f"<div>{escape(note)}</div>" for note in lineage_notes(lineage))
    return (
        "<div style='color:inherit'>"
        f"<div><strong>{escape(lineage_head(lineage))}</strong></div>"
        "<pre style='margin:2px 0 6px 0;padding-left:8px;border-left:2px solid currentColor;"
        f"background:none;color:inherit'>{source}</pre>"
        f"{table or '<div>no inputs, no files written</div>'}{notes}</div>"
    )


def printable(text: str) -> str:
    """Return a text in which whatever cannot be shown on one line is a backslash escape.

    Names of files may hold line breaks, terminal commands, and bytes that are not UTF-8.
    """
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() else c.encode("unicode_escape", "surrogatepass").decode("ascii")
        for c in text
    )


def shown_digest(digest: Digest, counts: dict[int, int] | None = None) -> str:
    """Return a digest in few letters, or what stands for it in words.

    Parameters
    ----------
    counts
        The execution count of each cell of the path, by its place.
    """
    word, _, rest = digest.partition(":")
    if word == "cell" and rest.isdecimal():
        number = int(rest)
        count = (counts or {}).get(number)
        return f"as cell {number} left it" if count is None else f"as cell [{count}] left it"
    if word == "size" and rest:
        return "known by size and time"
    if word == "link":
        return "a link"
    return _WORDS.get(digest, printable(digest[:SHORT]))


def _input_row(found: Input, counts: dict[int, int]) -> LineageRow:
    name = printable(found.name) or _NAMELESS.get(found.kind, "")
    if found.kind == "network":
        return LineageRow(_ROLES[found.kind], name, "may answer differently")
    contents = ", then ".join(shown_digest(digest, counts) for digest in found.digests)
    return LineageRow(_ROLES[found.kind], name, contents)


def _effect_row(effect: Effect) -> LineageRow:
    notes = []
    if effect.kind in {"written", "held"} and effect.digest:
        notes.append(format_size(effect.size_bytes))
    if effect.kind == "held":
        notes.append("still open")
    return LineageRow(
        _EFFECTS[effect.kind],
        printable(effect.path),
        shown_digest(effect.digest),
        ", ".join(notes),
    )


def _source_lines(lineage: CellLineage) -> list[str]:
    lines = lineage.source.expandtabs(4).strip("\n").split("\n")
    return [printable(line.rstrip("\r")) for line in lines]


def columns(text: str) -> int:
    """Return how many columns a text takes in a terminal."""
    return len(text) + sum(unicodedata.east_asian_width(c) in "WF" for c in text)
