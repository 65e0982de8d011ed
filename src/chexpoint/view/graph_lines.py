"""An experiment graph as text: as a whole, its artifacts, one of them, and what a sweep freed."""

from __future__ import annotations

from collections.abc import Sequence

from chexpoint.model import Bytes, Operation, Seconds, format_seconds, format_size
from chexpoint.view.graph_rows import (
    ARTIFACT_HEAD,
    ARTIFACT_NUMBERS,
    ArtifactRow,
    GraphSummary,
    artifact_facts,
    artifact_texts,
    cell_line,
    graph_facts,
    names_text,
)
from chexpoint.view.text import aligned, clipped, count, source_lines

MOST_ARTIFACTS = 20
"""More rows would push what matters off the screen."""

_LONGEST = 28  # columns of a cell of the table
_SOURCE_LINES = 12


def graph_text(summary: GraphSummary, *, width: int = 100) -> str:
    """Return a graph as a whole."""
    facts = [(f"{name}:", value) for name, value in graph_facts(summary)]
    return "\n".join(clipped(line, width) for line in aligned(facts))


def artifacts_text(
    rows: Sequence[ArtifactRow], *, width: int = 100, most: int = MOST_ARTIFACTS
) -> str:
    """Return artifacts in aligned columns, in the order given.

    Parameters
    ----------
    most
        How many are shown; how many more there are is told.
    """
    texts = [ARTIFACT_HEAD, *(artifact_texts(row) for row in rows[:most])]
    # Columns that say nothing are left out.
    kept = [i for i in range(len(ARTIFACT_HEAD)) if any(text[i] for text in texts[1:])]
    table = [[clipped(text[i], _LONGEST if i < 3 else width) for i in kept] for text in texts]
    right = [kept.index(i) for i in ARTIFACT_NUMBERS if i in kept]
    lines = [clipped(line, width) for line in aligned(table, right)]
    if len(rows) > most:
        lines.append(f"and {len(rows) - most:,} more; --json lists all")
    return "\n".join(lines)


def artifact_text(row: ArtifactRow, *, width: int = 100) -> str:
    """Return all that is known of one artifact, with the source of its cell."""
    lines = aligned([(f"{name}:", value) for name, value in artifact_facts(row)])
    if row.operation is not None and row.operation.source.strip():
        source = source_lines(row.operation.source)
        lines += ["", *(f"    {line}" for line in source[:_SOURCE_LINES])]
        if len(source) > _SOURCE_LINES:
            lines.append(f"    and {count(len(source) - _SOURCE_LINES, 'more line')}")
    return "\n".join(clipped(line, width) for line in lines)


def prospect_text(
    row: ArtifactRow,
    load: Sequence[ArtifactRow],
    run: Sequence[Operation],
    seconds: Seconds,
    *,
    compute_s: Seconds,
    width: int = 100,
) -> str:
    """Return what would be done to have an artifact.

    Parameters
    ----------
    load
        What would be loaded.
    run
        What would be run, in order.
    seconds
        What that takes.
    compute_s
        What it takes without loading anything.
    """
    names = names_text(row.artifact)
    saved = max(0.0, compute_s - seconds)
    took = f"{names} in about {format_seconds(seconds)}"
    lines = [f"{took}, {format_seconds(saved)} less than without the graph"]
    lines += [f"  load  {names_text(each.artifact)}" for each in load]
    lines += [f"  run   {cell_line(each.source)} ({format_seconds(each.seconds)})" for each in run]
    return "\n".join(clipped(line, width) for line in lines)


def graph_gc_text(
    *, artifacts: int, stored_bytes: Bytes, images: int, freed_bytes: Bytes, is_dry: bool = False
) -> str:
    """Return what a sweep of the graph freed.

    Parameters
    ----------
    artifacts
        How many are not stored any more.
    stored_bytes
        What they had added when they were stored.
    freed_bytes
        What the store got smaller by.
    is_dry
        Whether it is only what a sweep would do.
    """
    what = f"the contents of {count(artifacts, 'artifact')} ({format_size(stored_bytes)})"
    if is_dry:
        return f"would let go of {what}, and of {count(images, 'image')} in the store"
    return (
        f"let go of {what}: {count(images, 'image')} in the store, {format_size(freed_bytes)} "
        "freed; what is known about them stays"
    )
