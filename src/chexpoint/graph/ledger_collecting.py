"""Lets go of contents that nobody uses; what is known about them stays for ever."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, func, select

from chexpoint.graph.ledger_rows import finite, whole
from chexpoint.graph.ledger_tables import ARTIFACT, USE, take_turn
from chexpoint.graph.ledger_values import Dropped
from chexpoint.graph.ledger_writing import in_pieces, locked_artifacts, mark_dropped
from chexpoint.model import ArtifactId, Bytes


class StoredUse(NamedTuple):
    """What a stored artifact takes, and when anybody used it last."""

    used: float
    id: ArtifactId
    stored_bytes: Bytes


def unused(
    stored: Iterable[StoredUse], *, before: float, budget_bytes: Bytes | None
) -> list[ArtifactId]:
    """Return which contents to let go: those not used since a time, the oldest first.

    With a budget, only as many as there are too much.
    """
    ordered = sorted(stored)
    total = sum(each.stored_bytes for each in ordered)
    gone = []
    for each in ordered:
        if each.used >= before or (budget_bytes is not None and total <= budget_bytes):
            break
        gone.append(each.id)
        total -= each.stored_bytes
    return gone


def collect(connection: Connection, *, before: float, budget_bytes: Bytes | None) -> Dropped:
    """Let go of what was not used since a time; raises nothing of what others do meanwhile."""
    take_turn(connection)
    candidates = unused(_stored(connection), before=before, budget_bytes=budget_bytes)
    locked_artifacts(connection, candidates)
    # Somebody may have used one before it was locked; nobody can any more.
    now = [each for some in in_pieces(candidates) for each in _stored(connection, some)]
    return _drop(connection, unused(now, before=before, budget_bytes=None))


def drop(connection: Connection, ids: Iterable[ArtifactId], *, image: str | None) -> Dropped:
    """Let go of some artifacts, or only of those that are in a certain image."""
    take_turn(connection)
    rows = locked_artifacts(connection, ids)
    return _drop(
        connection,
        [
            key
            for key, row in rows.items()
            if row["image"] is not None and image in (None, row["image"])
        ],
    )


def _drop(connection: Connection, ids: list[ArtifactId]) -> Dropped:
    rows = locked_artifacts(connection, ids)
    mark_dropped(connection, ids)
    images = {str(row["image"]) for row in rows.values() if row["image"]}
    query = select(ARTIFACT.c.image).where(ARTIFACT.c.image.in_(sorted(images))).distinct()
    # An image may hold several artifacts.
    left = set(connection.execute(query).scalars()) if images else set()
    return Dropped(
        artifacts=tuple(rows),
        images=tuple(sorted(images - left)),
        stored_bytes=sum(whole(row["stored_bytes"]) for row in rows.values()),
    )


def _stored(connection: Connection, ids: Iterable[ArtifactId] | None = None) -> list[StoredUse]:
    """Return the artifacts that are stored, or those of some that are."""
    last = func.coalesce(func.max(USE.c.time), 0.0)
    query = (
        select(last, ARTIFACT.c.id, ARTIFACT.c.stored_bytes)
        .outerjoin(USE, USE.c.artifact == ARTIFACT.c.id)
        .where(ARTIFACT.c.image.is_not(None))
        .group_by(ARTIFACT.c.id, ARTIFACT.c.stored_bytes)
    )
    if ids is not None:
        query = query.where(ARTIFACT.c.id.in_(list(ids)))
    return [
        StoredUse(finite(used), key, whole(size)) for used, key, size in connection.execute(query)
    ]
