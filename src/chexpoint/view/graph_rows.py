"""What is told of an experiment graph in every form: facts, and a row for each artifact."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chexpoint.model import (
    Artifact,
    ArtifactId,
    Bytes,
    Operation,
    OperationId,
    Seconds,
    format_seconds,
    format_size,
    to_json,
)
from chexpoint.view.text import clipped, count, first_line, printable

ARTIFACT_HEAD = ("artifact", "variables", "what", "size", "cell", "saves", "score", "contents")
ARTIFACT_NUMBERS = (3, 4, 5, 6)
"""Columns of `ARTIFACT_HEAD` that hold numbers."""

DIGITS = 8
_SHOWN = 6  # columns or parameters in a line
_PLAIN = (str, int, float, bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class GraphSummary:
    """A graph as a whole."""

    where: str
    """The ledger: a file, or a URL."""
    store: str
    projects: int
    operations: int
    runs: int
    artifacts: int
    stored: int
    """Artifacts in the store."""
    inline: int
    """Artifacts that are in the ledger itself."""
    stored_bytes: Bytes
    budget_bytes: Bytes
    compute_s: Seconds
    """What it takes to compute everything again."""
    saved_s: Seconds
    """What is saved of it by what is stored."""
    possible_s: Seconds
    """What could be saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArtifactRow:
    """An artifact, and what is known of how it is had."""

    artifact: Artifact
    operation: Operation | None = None
    """That made it."""
    compute_s: Seconds = 0.0
    """What computing it takes if nothing is there."""
    saves_s: Seconds = 0.0
    """What loading it saves, as often as it occurred."""
    load_s: Seconds | None = None
    """What loading it takes, or would take."""


def graph_summary(
    operations: Iterable[Operation],
    artifacts: Iterable[Artifact],
    *,
    where: str,
    store: str,
    budget_bytes: Bytes,
    projects: int = 1,
    seconds: tuple[Seconds, Seconds, Seconds] = (0.0, 0.0, 0.0),
) -> GraphSummary:
    """Return a graph as a whole.

    Parameters
    ----------
    seconds
        What computing everything takes, what is saved of it, and what could be.
    """
    compute_s, saved_s, possible_s = seconds
    runs = [max(each.frequency, 0) for each in operations]
    places = [each.stored for each in artifacts]
    images = [each for each in places if each is not None and each.image]
    return GraphSummary(
        where=where,
        store=store,
        projects=projects,
        operations=len(runs),
        runs=sum(runs),
        artifacts=len(places),
        stored=len(images),
        inline=sum(each is not None and not each.image for each in places),
        stored_bytes=sum(each.stored_bytes for each in images),
        budget_bytes=budget_bytes,
        compute_s=compute_s,
        saved_s=saved_s,
        possible_s=possible_s,
    )


def graph_facts(summary: GraphSummary) -> list[tuple[str, str]]:
    """Return what is known of a graph as a whole: names, and values in words."""
    share = summary.stored_bytes / max(summary.budget_bytes, 1)
    stored, budget = format_size(summary.stored_bytes), format_size(summary.budget_bytes)
    artifacts = (
        f"{summary.artifacts:,}: {summary.stored:,} in the store, {summary.inline:,} little ones "
        "in the graph itself"
    )
    projects = count(summary.projects, "project")
    facts = [
        ("graph", f"{without_password(summary.where)}, used by {projects}"),
        ("operations", f"{summary.operations:,} in {count(summary.runs, 'run')}"),
        ("artifacts", artifacts),
        ("stored", f"{stored} of {budget}, {share:.0%} taken"),
    ]
    if summary.store:
        facts.append(("store", without_password(summary.store)))
    saved = (
        f"{format_seconds(summary.saved_s)} of {format_seconds(summary.compute_s)} that computing "
        f"all again takes; {format_seconds(summary.possible_s)} if all were stored"
    )
    return [*facts, ("time saved", saved)]


def without_password(place: str) -> str:
    """Return a place fit to be shown: a URL may hold a password."""
    scheme, mark, rest = place.partition("://")
    if not mark or "@" not in rest:
        return printable(place)
    who, _, host = rest.rpartition("@")
    return printable(f"{scheme}://{who.partition(':')[0]}@{host}")


def artifact_texts(row: ArtifactRow) -> tuple[str, ...]:
    """Return a row as texts, one for each column of `ARTIFACT_HEAD`."""
    artifact = row.artifact
    return (
        printable(artifact.id[:DIGITS]),
        names_text(artifact),
        what_text(artifact),
        format_size(artifact.group.size_bytes),
        format_seconds(row.operation.seconds) if row.operation is not None else "",
        format_seconds(row.saves_s) if row.saves_s > 0 else "",
        "" if artifact.score is None else f"{artifact.score:.4g}",
        contents_text(row),
    )


def cell_line(source: str) -> str:
    """Return the first line of a cell that is no comment, if there is one."""
    lines = source[:4000].splitlines()
    code = (line for line in lines if line.strip() and not line.lstrip().startswith("#"))
    return first_line(next(code, source))


def names_text(artifact: Artifact) -> str:
    """Return the variables of an artifact."""
    return printable(", ".join(artifact.group.names))


def what_text(artifact: Artifact) -> str:
    """Return what an artifact is, in a few words: ``DataFrame 1,000 x 21``."""
    kinds = list(dict.fromkeys(kind.rpartition(".")[2] for kind in artifact.group.kinds))
    extent = ""
    if len(artifact.group.names) == 1:
        extent = _extent(artifact.group.meta.get(artifact.group.names[0], {}))
    return printable(" ".join(filter(None, [", ".join(kinds), extent])))


def contents_text(row: ArtifactRow) -> str:
    """Return where the contents of an artifact are, and what loading them takes."""
    artifact = row.artifact
    if artifact.stored is None:
        why = printable(artifact.group.why_not)
        return f"not stored: {why}" if why else "not stored"
    if not artifact.stored.image:
        return "in graph"
    took = f", loads in {format_seconds(row.load_s)}" if row.load_s is not None else ""
    return f"stored, {format_size(artifact.stored.stored_bytes)}{took}"


def artifact_facts(row: ArtifactRow) -> list[tuple[str, str]]:
    """Return all that is known of an artifact: names, and values in words."""
    artifact, operation = row.artifact, row.operation
    group = artifact.group
    facts = [
        ("artifact", printable(artifact.id)),
        ("variables", names_text(artifact)),
        ("what", what_text(artifact)),
        ("size", format_size(group.size_bytes)),
        ("contents", contents_text(row)),
        ("occurred", f"{artifact.frequency:,} times"),
    ]
    if artifact.score is not None:
        facts.append(("score", f"{artifact.score:.6g}"))
    if operation is not None:
        facts.append(("cell", cell_line(operation.source)))
        took = f"{format_seconds(operation.seconds)}, {format_seconds(row.compute_s)} with all"
        facts.append(("computing", f"{took} that it needs"))
        reads = dict.fromkeys(r.name for r in operation.reads if not r.name.startswith(":"))
        facts.append(("reads", printable(", ".join(reads)) or "no variables"))
        if operation.user:
            facts.append(("by", printable(operation.user)))
        if operation.doubt:
            facts.append(("never reused", printable(operation.doubt)))
        if operation.sticky:
            facts.append(("always run", printable(operation.sticky)))
    facts += list(meta_facts(group.meta))
    return facts


def meta_facts(meta: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield what is known of variables: columns, shape, hyperparameters."""
    for name, facts in meta.items():
        if not isinstance(facts, Mapping):
            continue
        for key, value in facts.items():
            yield printable(f"{name}.{key}"), clipped(printable(_value(value)), 400)


def graph_json(summary: GraphSummary) -> dict[str, Any]:
    """Return a graph as a whole as JSON."""
    data = to_json(summary)
    return {
        **data,
        "where": without_password(summary.where),
        "store": without_password(summary.store),
    }


def row_json(row: ArtifactRow) -> dict[str, Any]:
    """Return an artifact as JSON."""
    operation = row.operation
    return {
        **to_json(row.artifact),
        "compute_s": finite(row.compute_s),
        "saves_s": finite(row.saves_s),
        "load_s": finite(row.load_s),
        "made_by": None if operation is None else operation_json(operation),
    }


def operation_json(operation: Operation) -> dict[str, Any]:
    """Return an operation as JSON."""
    data: dict[str, Any] = to_json(operation)
    return data


def finite(seconds: Seconds | None) -> Seconds | None:
    """Return seconds as JSON can hold them."""
    return seconds if seconds is not None and math.isfinite(seconds) else None


def parts_json(
    operations: Mapping[OperationId, Operation], artifacts: Mapping[ArtifactId, Artifact]
) -> dict[str, Any]:
    """Return all operations and artifacts as JSON."""
    return {
        "operations": [operation_json(each) for each in operations.values()],
        "artifacts": [to_json(each) for each in artifacts.values()],
    }


def _extent(meta: Mapping[str, Any]) -> str:
    """Return how large something is: rows and columns, or a shape."""
    columns, rows, shape = meta.get("columns"), meta.get("rows"), meta.get("shape")
    if isinstance(rows, int) and isinstance(columns, list | dict):
        return f"{rows:,} x {len(columns):,}"
    if isinstance(shape, list | tuple):
        return " x ".join(f"{each:,}" if isinstance(each, int) else "?" for each in shape)
    length = meta.get("len", meta.get("length"))
    return f"of {length:,}" if isinstance(length, int) else ""


def _value(value: object) -> str:
    """Return a value of the metadata in words."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key}={_value(each)}" for key, each in value.items())
    if isinstance(value, list | tuple):
        shown = [_value(each) for each in value[: 5 * _SHOWN]]
        more = [f"+{len(value) - len(shown)}"] if len(value) > len(shown) else []
        return ", ".join([*shown, *more])
    return str(value) if isinstance(value, _PLAIN) or value is None else type(value).__name__
