"""What is written to a ledger, each within one transaction of the caller.

Rows are locked in the order of tables operation, artifact, the others, and within a table in that
of ids, so that two writers never wait for each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, Insert, Table, Update, bindparam, delete, select, update
from sqlalchemy.dialects import postgresql, sqlite

from chexpoint.graph.contents import mark_of
from chexpoint.graph.ledger_merging import (
    MergedArtifact,
    best_score,
    doubted,
    first_run,
    is_score,
    merged_artifact,
    merged_operation,
    scored,
    sorted_ids,
)
from chexpoint.graph.ledger_rows import (
    BadRow,
    Row,
    artifact_of,
    artifact_row,
    finite,
    operation_of,
    operation_row,
    record_bytes,
    score_of,
    stored_row,
    whole,
)
from chexpoint.graph.ledger_tables import ARTIFACT, CONTENTS, LOAD, OPERATION, PROJECT, RECORD, USE
from chexpoint.graph.ledger_values import MeasuredLoad
from chexpoint.model import Artifact, ArtifactId, Operation, RecordedOperation, StoredArtifact

LOADS_KEPT = 64
"""Of each back end and kind: the newest tell how fast it is now."""
IDS_AT_ONCE = 500
"""Databases take only so many values in one statement."""


@dataclass(frozen=True, slots=True)
class PreparedRun:
    """A run of an operation as it goes to the database; made before the transaction begins."""

    operation: Operation
    artifacts: tuple[Artifact, ...]
    scores: Mapping[ArtifactId, float]
    record: Mapping[str, Any]
    contents: Mapping[ArtifactId, Mapping[str, Any]]
    notes: tuple[str, ...]
    """What was refused."""


def prepared(recorded: RecordedOperation, key: bytes) -> PreparedRun:
    """Return a run as it goes to the database."""
    operation, artifacts = first_run(recorded)
    scores, notes = scored(recorded)
    good = tuple(each for each in recorded.scores if is_score(each.value))
    data = record_bytes(replace(recorded, scores=good))
    contents = {
        each.id: {
            "artifact": each.id,
            "data": each.group.contents,
            "mark": mark_of(key, f"contents {each.id}", each.group.contents.encode()),
        }
        for each in artifacts
        if each.group.contents
    }
    record = {
        "operation": operation.id,
        "data": data,
        "mark": mark_of(key, f"record {operation.id}", data),
    }
    return PreparedRun(operation, artifacts, scores, record, contents, tuple(notes))


# ------------------------------------------------------------ merging a run


def merge(connection: Connection, run: PreparedRun, project: str, now: float) -> None:
    """Add a run of an operation to the graph."""
    known = _known_operation(connection, run.operation)
    if known is None or run.operation.time >= known.time:
        _upsert(connection, RECORD, [run.record])
    artifacts = _merged_artifacts(connection, run)
    operation = run.operation if known is None else merged_operation(known, run.operation)
    if any(each.is_unsure for each in artifacts):
        operation = doubted(operation)
    if operation is not run.operation:
        _update(connection, OPERATION, [operation_row(operation)])
    _put_contents(connection, run, artifacts)
    _note_uses(connection, [each.id for each in run.artifacts], project, now)


def _known_operation(connection: Connection, new: Operation) -> Operation | None:
    """Return an operation as it is known, with its row locked; insert it if it is new."""
    insert = _inserting(connection.dialect.name, OPERATION).returning(OPERATION.c.id)
    if connection.execute(insert, operation_row(new)).first() is not None:
        return None
    query = select(OPERATION).where(OPERATION.c.id == new.id).with_for_update()
    known = connection.execute(query).mappings().one()
    try:
        return operation_of(known)
    except BadRow:  # it is put right by what is known now
        return replace(new, frequency=max(1, whole(known["frequency"])))


def _merged_artifacts(connection: Connection, run: PreparedRun) -> list[MergedArtifact]:
    """Write the artifacts of a run and the scores it found; return those of the run."""
    given = {each.id: each for each in run.artifacts}
    rows = locked_artifacts(connection, [*given, *run.scores])
    new: list[dict[str, Any]] = []
    changed: list[dict[str, Any]] = []
    merged: list[MergedArtifact] = []
    for each in given.values():
        row = rows.get(each.id)
        after = MergedArtifact(each, False) if row is None else _merged(row, each)
        after = after._replace(artifact=_scored(after.artifact, run.scores.get(each.id)))
        merged.append(after)
        (new if row is None else changed).append(
            artifact_row(after.artifact, is_unsure=after.is_unsure)
        )
    if new:
        connection.execute(_inserting(connection.dialect.name, ARTIFACT), new)
    _update(connection, ARTIFACT, changed)
    # A model may get its score in a later cell than the one that made it.
    elsewhere = {key: value for key, value in run.scores.items() if key in rows.keys() - given}
    _write_scores(connection, rows, elsewhere)
    return merged


def _merged(row: Row, new: Artifact) -> MergedArtifact:
    try:
        old = artifact_of(row)
    except BadRow:
        return MergedArtifact(new, bool(row["is_unsure"]))
    return merged_artifact(MergedArtifact(old, bool(row["is_unsure"])), new)


def _scored(artifact: Artifact, score: float | None) -> Artifact:
    return replace(artifact, score=best_score(artifact.score, score))


def _put_contents(
    connection: Connection, run: PreparedRun, artifacts: Iterable[MergedArtifact]
) -> None:
    """Keep the contents of artifacts that are in the ledger itself, and only those."""
    unsure, inline = [], []
    for each, is_unsure in artifacts:
        if is_unsure:
            unsure.append(each.id)
        elif each.id in run.contents and each.stored is not None and not each.stored.image:
            inline.append(run.contents[each.id])
    forget_contents(connection, unsure)
    _upsert(connection, CONTENTS, inline)


# ------------------------------------------------------------ one fact at a time


def write_scores(connection: Connection, scores: Mapping[ArtifactId, float]) -> set[ArtifactId]:
    """Keep the scores of artifacts where they are better; return which artifacts are known."""
    rows = locked_artifacts(connection, scores)
    _write_scores(connection, rows, {key: scores[key] for key in rows})
    return set(rows)


def _write_scores(
    connection: Connection, rows: Mapping[ArtifactId, Any], scores: Mapping[ArtifactId, float]
) -> None:
    changes = [
        {"id": key, "score": best_score(value, score_of(rows[key]))}
        for key, value in scores.items()
    ]
    _update(connection, ARTIFACT, changes)


def set_stored(connection: Connection, artifact: ArtifactId, stored: StoredArtifact) -> bool:
    """Say where an artifact is; return whether it may be there at all."""
    row = locked_artifacts(connection, [artifact]).get(artifact)
    if row is None or row["is_unsure"]:
        return False
    _update(connection, ARTIFACT, [{"id": artifact, **stored_row(stored)}])
    if stored.image:
        forget_contents(connection, [artifact])
    return True


def used(connection: Connection, ids: Iterable[ArtifactId], project: str, now: float) -> None:
    """Say that artifacts are used now."""
    rows = locked_artifacts(connection, ids)
    changes = [{"id": key, "used": now} for key, row in rows.items() if finite(row["used"]) < now]
    _update(connection, ARTIFACT, changes)
    _note_uses(connection, list(rows), project, now)


def note_load(connection: Connection, load: MeasuredLoad) -> None:
    """Keep how long a load took, and forget those long ago."""
    connection.execute(
        LOAD.insert(),
        {
            "backend": load.backend,
            "kind": load.kind,
            "size_bytes": load.size_bytes,
            "seconds": load.seconds,
        },
    )
    same = (LOAD.c.backend == load.backend) & (LOAD.c.kind == load.kind)
    oldest = select(LOAD.c.id).where(same).order_by(LOAD.c.id.desc()).offset(LOADS_KEPT).limit(1)
    connection.execute(delete(LOAD).where(same, LOAD.c.id <= oldest.scalar_subquery()))


def register(connection: Connection, project: str, folder: str, now: float) -> None:
    """Say that there is a project."""
    _upsert(connection, PROJECT, [{"id": project, "folder": folder, "seen": now}])


def unregister(connection: Connection, project: str) -> None:
    """Say that a project is no more: what it used is kept for its sake no longer."""
    connection.execute(delete(USE).where(USE.c.project == project))
    connection.execute(delete(PROJECT).where(PROJECT.c.id == project))


def _note_uses(connection: Connection, ids: Sequence[ArtifactId], project: str, now: float) -> None:
    _upsert(
        connection,
        USE,
        [{"artifact": each, "project": project, "time": now} for each in sorted_ids(ids)],
    )


# ------------------------------------------------------------ rows


def locked_artifacts(connection: Connection, ids: Iterable[ArtifactId]) -> dict[ArtifactId, Row]:
    """Return the rows of artifacts that exist; nobody else can change them now."""
    found: dict[ArtifactId, Row] = {}
    for some in in_pieces(sorted_ids(ids)):
        query = select(ARTIFACT).where(ARTIFACT.c.id.in_(some)).order_by(ARTIFACT.c.id)
        for row in connection.execute(query.with_for_update()).mappings():
            found[row["id"]] = row
    return found


def forget_contents(connection: Connection, ids: Sequence[ArtifactId]) -> None:
    """Delete contents that are in the ledger itself."""
    for some in in_pieces(sorted_ids(ids)):
        connection.execute(delete(CONTENTS).where(CONTENTS.c.artifact.in_(some)))


def mark_dropped(connection: Connection, ids: Sequence[ArtifactId]) -> None:
    """Say that artifacts are not stored any more; their rows are locked already."""
    for some in in_pieces(sorted_ids(ids)):
        connection.execute(
            update(ARTIFACT).where(ARTIFACT.c.id.in_(some)).values(**stored_row(None))
        )
    forget_contents(connection, ids)


def in_pieces(ids: Sequence[ArtifactId]) -> list[Sequence[ArtifactId]]:
    """Return ids in as many pieces as databases need."""
    return [ids[start : start + IDS_AT_ONCE] for start in range(0, len(ids), IDS_AT_ONCE)]


def _update(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Change the rows of these ids; all rows have the same columns."""
    if rows:
        values = [{f"this_{name}": value for name, value in row.items()} for row in rows]
        connection.execute(_updating(table, tuple(rows[0])), values)


def _upsert(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, or replace those of the same key."""
    if rows:
        statement = _upserting(connection.dialect.name, table)
        connection.execute(statement, [dict(row) for row in rows])


# Making a statement takes longer than running it, so each is made once.


@functools.cache
def _updating(table: Table, names: tuple[str, ...]) -> Update:
    changed: dict[str, Any] = {name: bindparam(f"this_{name}") for name in names if name != "id"}
    return update(table).where(table.c.id == bindparam("this_id")).values(changed)


@functools.cache
def _upserting(dialect: str, table: Table) -> Insert:
    insert = _insert(dialect, table)
    keys = [column.name for column in table.primary_key]
    changed = {each.name: insert.excluded[each.name] for each in table.columns}
    for key in keys:
        del changed[key]
    made: Insert = insert.on_conflict_do_update(index_elements=keys, set_=changed)
    return made


@functools.cache
def _inserting(dialect: str, table: Table) -> Insert:
    """Return an insert that leaves a row alone that is there."""
    made: Insert = _insert(dialect, table).on_conflict_do_nothing()
    return made


def _insert(dialect: str, table: Table) -> Any:
    """Return an insert that can say what to do with a row that is there."""
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)
