"""Values of the graph as rows of a database, and back.

Others write to the same database, so rows are read with distrust: `BadRow` says which one is not
what it should be.  All free text is in JSON of plain ASCII, because not every database takes every
character.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any

from chexpoint.errors import GraphError
from chexpoint.model import (
    Artifact,
    ArtifactId,
    ModelScore,
    Operation,
    OperationId,
    Read,
    RecordedOperation,
    StoredArtifact,
    VariableGroup,
    group_from_json,
    to_json,
)

Row = Mapping[Any, Any]
"""By the names of columns."""

_RECORD_BYTES = 256 * 1024 * 1024
"""A record that claims to be larger is not one."""
_BAD = (KeyError, TypeError, ValueError, AttributeError, RecursionError, zlib.error)
_INTEGER_LIMIT = 2**63 - 1


class BadRow(Exception):
    """A row is not what it should be."""


# ------------------------------------------------------------ operations


def operation_row(operation: Operation) -> dict[str, Any]:
    """Return an operation as a row."""
    document = {
        "source": operation.source,
        "reads": [[each.name, each.artifact, each.digest] for each in operation.reads],
        "writes": list(operation.writes),
        "deleted": list(operation.deleted),
        "sticky": operation.sticky,
        "doubt": operation.doubt,
        "user": operation.user,
    }
    return {
        "id": operation.id,
        "code": operation.code,
        "packages": operation.packages,
        "time": finite(operation.time),
        "seconds": finite(operation.seconds),
        "frequency": operation.frequency,
        "document": to_text(document),
    }


def operation_of(row: Row) -> Operation:
    """Return the operation of a row; raises `BadRow`."""
    try:
        data = json.loads(row["document"])
        return Operation(
            id=OperationId(_text(row["id"])),
            code=_text(row["code"]),
            packages=_text(row["packages"]),
            source=_text(data["source"]),
            seconds=finite(row["seconds"]),
            reads=tuple(
                Read(name=_text(name), artifact=ArtifactId(_text(artifact)), digest=_text(digest))
                for name, artifact, digest in data["reads"]
            ),
            writes=tuple(ArtifactId(each) for each in _texts(data["writes"])),
            deleted=_texts(data["deleted"]),
            sticky=_text(data["sticky"]),
            doubt=_text(data["doubt"]),
            frequency=whole(row["frequency"]),
            user=_text(data["user"]),
            time=finite(row["time"]),
        )
    except _BAD as error:
        raise BadRow(f"the operation {_short(row)}") from error


# ------------------------------------------------------------ artifacts


def artifact_row(artifact: Artifact, *, is_unsure: bool = False) -> dict[str, Any]:
    """Return an artifact as a row.

    Parameters
    ----------
    artifact
        Contents in its group are left out.
    is_unsure
        Whether nobody can say what it holds, because two runs gave different contents.
    """
    group = to_json(artifact.group)
    del group["contents"]
    row = {
        "id": artifact.id,
        "operation": artifact.operation,
        "frequency": artifact.frequency,
        "score": artifact.score,
        "used": finite(artifact.used),
        "is_unsure": int(is_unsure),
        "document": to_text(group),
    }
    return row | stored_row(artifact.stored)


def stored_row(stored: StoredArtifact | None) -> dict[str, Any]:
    """Return the part of an artifact's row that says where its contents are."""
    if stored is None:
        return {"image": None, "stored_bytes": 0, "load_s": 0.0}
    return {
        "image": stored.image,
        "stored_bytes": whole(stored.stored_bytes),
        "load_s": finite(stored.load_s),
    }


def artifact_of(row: Row) -> Artifact:
    """Return the artifact of a row; raises `BadRow`."""
    try:
        image = row["image"]
        stored = None
        if image is not None:
            stored = StoredArtifact(
                image=_text(image),
                stored_bytes=whole(row["stored_bytes"]),
                load_s=finite(row["load_s"]),
            )
        return Artifact(
            id=ArtifactId(_text(row["id"])),
            operation=OperationId(_text(row["operation"])),
            group=_group(json.loads(row["document"])),
            frequency=whole(row["frequency"]),
            score=score_of(row),
            stored=stored,
            used=finite(row["used"]),
        )
    except _BAD as error:
        raise BadRow(f"the artifact {_short(row)}") from error


def _group(data: dict[str, Any]) -> VariableGroup:
    group = group_from_json({**data, "contents": ""})
    _texts(data["names"], data["kinds"], data["reaches"])
    _text(group.digest)
    _text(group.why_not)
    if not group.names or len(group.names) != len(group.kinds) or type(group.size_bytes) is not int:
        raise ValueError("names and kinds do not fit")
    if not all(isinstance(each, dict) for each in (group.meta, *group.meta.values())):
        raise TypeError("not facts")
    return group


# ------------------------------------------------------------ records


def record_bytes(recorded: RecordedOperation) -> bytes:
    """Return what is kept of an operation besides the graph, compressed."""
    data = {
        "lineage": recorded.lineage,
        "outputs": list(recorded.outputs),
        "scores": to_json(recorded.scores),
    }
    return zlib.compress(to_text(data).encode("ascii"), 1)


def record_of(
    operation: Operation, artifacts: tuple[Artifact, ...], data: bytes
) -> RecordedOperation:
    """Return an operation with what `record_bytes` kept of it; raises `BadRow`."""
    try:
        unpacker = zlib.decompressobj()
        text = unpacker.decompress(data, _RECORD_BYTES)
        if not unpacker.eof:
            raise ValueError("it does not end")
        value = json.loads(text)
        if not isinstance(value["lineage"], dict):
            raise TypeError("no lineage")
        if not all(isinstance(each, dict) for each in value["outputs"]):
            raise TypeError("no outputs")
        return RecordedOperation(
            operation=operation,
            artifacts=artifacts,
            lineage=value["lineage"],
            outputs=tuple(value["outputs"]),
            scores=tuple(ModelScore(**each) for each in value["scores"]),
        )
    except _BAD as error:
        raise BadRow(f"what is kept of the operation '{operation.id[:40]}'") from error


# ------------------------------------------------------------ plain values


def finite(number: Any) -> float:
    """Return a number, or 0 for what is none: databases differ in what they make of NaN."""
    try:
        value = float(number)
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return value if math.isfinite(value) else 0.0


def whole(number: Any) -> int:
    """Return a number that is not negative and that databases can hold; 0 for what is none."""
    value = number if isinstance(number, int) else int(finite(number))
    return max(0, min(value, _INTEGER_LIMIT))


def score_of(row: Row) -> float | None:
    """Return the score of an artifact's row, if it is one."""
    score = row["score"]
    return score if isinstance(score, float) and math.isfinite(score) else None


def to_text(value: Any) -> str:
    """Return JSON in plain ASCII.

    Raises
    ------
    GraphError
        If there is something in it that is not JSON.
    """
    try:
        return json.dumps(value, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise GraphError(f"what a cell left cannot be written to the graph: {error}.") from error


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{type(value).__name__} is not text")
    return value


def _texts(*values: Any) -> tuple[str, ...]:
    """Return the items of lists of text."""
    if not all(isinstance(each, list) for each in values):
        raise TypeError("not a list")
    return tuple(_text(item) for value in values for item in value)


def _short(row: Row) -> str:
    return repr(str(row.get("id", "?"))[:40])
