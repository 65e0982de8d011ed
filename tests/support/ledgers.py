"""Runs of operations as a kernel would record them, for tests of the ledger."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chexpoint.model import (
    Artifact,
    ArtifactId,
    ModelScore,
    Operation,
    OperationId,
    Read,
    RecordedOperation,
    VariableGroup,
)

KEY = bytes(range(32))


def artifact(name: str, **facts: Any) -> Artifact:
    """Return an artifact of one variable; facts are those of its group."""
    group = VariableGroup(**{"names": ("x",), "kinds": ("int",), "digest": "d", **facts})
    return Artifact(id=ArtifactId(name), operation=OperationId(""), group=group)


def run(
    name: str,
    artifacts: Iterable[Artifact] = (),
    *,
    scores: Iterable[ModelScore] = (),
    output: str = "",
    **facts: Any,
) -> RecordedOperation:
    """Return a run of an operation; facts are those of the operation."""
    made = tuple(artifacts)
    given = {"code": "code", "packages": "packages", "seconds": 1.0, "time": 100.0, **facts}
    operation = Operation(id=OperationId(name), writes=tuple(each.id for each in made), **given)
    return RecordedOperation(
        operation=operation,
        artifacts=made,
        lineage={"node": name},
        outputs=({"output_type": "stream", "text": output},) if output else (),
        scores=tuple(scores),
    )


def read(name: str, of: str, digest: str = "") -> Read:
    """Return that a variable is read."""
    return Read(name=name, artifact=ArtifactId(of), digest=digest)
