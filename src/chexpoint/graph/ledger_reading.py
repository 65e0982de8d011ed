"""What is read from a ledger.  Rows that are not what they should be are told and left out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from sqlalchemy import Connection, Select, func, select

from chexpoint.graph.contents import is_marked
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.ledger_merging import sorted_ids
from chexpoint.graph.ledger_rows import (
    BadRow,
    Row,
    artifact_of,
    finite,
    operation_of,
    record_of,
    whole,
)
from chexpoint.graph.ledger_tables import ARTIFACT, CONTENTS, LOAD, OPERATION, PROJECT, RECORD, USE
from chexpoint.graph.ledger_values import LedgerProject, MeasuredLoad
from chexpoint.graph.ledger_writing import in_pieces
from chexpoint.model import (
    Artifact,
    ArtifactId,
    Digest,
    Operation,
    OperationId,
    RecordedOperation,
)

Tell = Callable[[str], None]
"""Is told what is wrong."""
Value = TypeVar("Value")

# The same for all of them, so that it is told once.
_ANOTHER_KEY = (
    "was written with another key, or changed by somebody without one: it is computed again. "
    "The key of your team belongs into CHEX_STORE_KEY."
)


def operations_like(
    connection: Connection, code: Digest, packages: Digest, limit: int, tell: Tell
) -> list[Operation]:
    """Return the operations of the same code and packages, newest first."""
    query = (
        select(OPERATION)
        .where(OPERATION.c.code == code, OPERATION.c.packages == packages)
        .order_by(OPERATION.c.time.desc(), OPERATION.c.id)
        .limit(limit)
    )
    return _values(connection, query, operation_of, tell)


def recorded(
    connection: Connection, operation: OperationId, key: bytes, tell: Tell
) -> RecordedOperation | None:
    """Return an operation with all that is kept of it."""
    query = (
        select(OPERATION, RECORD.c.data, RECORD.c.mark)
        .join(RECORD, RECORD.c.operation == OPERATION.c.id)
        .where(OPERATION.c.id == operation)
    )
    row = connection.execute(query).mappings().one_or_none()
    if row is None:
        return None
    try:
        value = operation_of(row)
        data = row["data"]
        if not isinstance(data, bytes) or not is_marked(
            key, f"record {value.id}", data, row["mark"]
        ):
            tell(f"what is kept of a cell {_ANOTHER_KEY}")
            return None
        known = artifacts(connection, value.writes, tell)
        return record_of(value, tuple(known[i] for i in value.writes if i in known), data)
    except BadRow as error:
        tell(_bad(error))
        return None


def artifacts(
    connection: Connection, ids: Iterable[ArtifactId], tell: Tell
) -> dict[ArtifactId, Artifact]:
    """Return the artifacts that are known of some."""
    found: list[Artifact] = []
    for some in in_pieces(sorted_ids(ids)):
        found += _values(
            connection, select(ARTIFACT).where(ARTIFACT.c.id.in_(some)), artifact_of, tell
        )
    return {each.id: each for each in found}


def graph(connection: Connection, tell: Tell) -> ExperimentGraph:
    """Return all operations and artifacts."""
    # In this order: artifacts are written with or after their operation.
    operations = _values(connection, select(OPERATION), operation_of, tell)
    return ExperimentGraph.of(operations, _values(connection, select(ARTIFACT), artifact_of, tell))


def contents(
    connection: Connection, ids: Iterable[ArtifactId], key: bytes, tell: Tell
) -> dict[ArtifactId, str]:
    """Return the contents that are in the ledger itself and that the owner of the key wrote."""
    found: dict[ArtifactId, str] = {}
    for some in in_pieces(sorted_ids(ids)):
        query = select(CONTENTS).where(CONTENTS.c.artifact.in_(some))
        for artifact, data, mark in connection.execute(query):
            is_good = isinstance(data, str) and is_marked(
                key, f"contents {artifact}", data.encode("utf-8", "surrogatepass"), mark
            )
            if is_good:
                found[ArtifactId(artifact)] = data
            else:
                tell(f"what is kept of a variable {_ANOTHER_KEY}")
    return found


def images(connection: Connection) -> set[str]:
    """Return all images that artifacts are in."""
    query = select(ARTIFACT.c.image).where(ARTIFACT.c.image > "").distinct()
    return {str(each) for each in connection.execute(query).scalars()}


def loads(connection: Connection) -> list[MeasuredLoad]:
    """Return how long loads took, the oldest first."""
    query = select(LOAD.c.backend, LOAD.c.kind, LOAD.c.size_bytes, LOAD.c.seconds)
    return [
        MeasuredLoad(backend=str(backend), kind=str(kind), size_bytes=size, seconds=seconds)
        for backend, kind, size, seconds in connection.execute(query.order_by(LOAD.c.id))
        if isinstance(size, int) and isinstance(seconds, float)
    ]


def projects(connection: Connection) -> list[LedgerProject]:
    """Return the projects, and how much of what they used is stored."""
    stored = (
        select(
            USE.c.project,
            func.count().label("artifacts"),
            func.sum(ARTIFACT.c.stored_bytes).label("stored_bytes"),
        )
        .join(ARTIFACT, ARTIFACT.c.id == USE.c.artifact)
        .where(ARTIFACT.c.image.is_not(None))
        .group_by(USE.c.project)
        .subquery()
    )
    query = select(PROJECT, stored.c.artifacts, stored.c.stored_bytes)
    joined = query.outerjoin(stored, stored.c.project == PROJECT.c.id).order_by(PROJECT.c.id)
    return [
        LedgerProject(
            id=str(row["id"]),
            folder=str(row["folder"]),
            seen=finite(row["seen"]),
            artifacts=whole(row["artifacts"]),
            stored_bytes=whole(row["stored_bytes"]),
        )
        for row in connection.execute(joined).mappings()
    ]


def _values(
    connection: Connection,
    query: Select[Any],
    read: Callable[[Row], Value],
    tell: Tell,
) -> list[Value]:
    found = []
    for row in connection.execute(query).mappings():
        try:
            found.append(read(row))
        except BadRow as error:
            tell(_bad(error))
    return found


def _bad(error: BadRow) -> str:
    return f"{error} is damaged in the graph; it counts as unknown."
