"""The experiment graph as a value: who computed what from what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from chexpoint.model import Artifact, ArtifactId, Operation, OperationId


@dataclass(frozen=True, slots=True)
class ExperimentGraph:
    """Operations and artifacts; what an operation reads need not be known here."""

    operations: dict[OperationId, Operation] = field(default_factory=dict)
    artifacts: dict[ArtifactId, Artifact] = field(default_factory=dict)

    @classmethod
    def of(cls, operations: Iterable[Operation], artifacts: Iterable[Artifact]) -> ExperimentGraph:
        """Return the graph of some operations and artifacts."""
        return cls({each.id: each for each in operations}, {each.id: each for each in artifacts})

    def maker(self, artifact: ArtifactId) -> Operation | None:
        """Return the operation that made an artifact, if both are known here."""
        known = self.artifacts.get(artifact)
        return self.operations.get(known.operation) if known else None

    def before(self, operation: OperationId) -> Iterator[OperationId]:
        """Return the known operations whose artifacts an operation reads."""
        for read in self.operations[operation].reads:
            known = self.artifacts.get(read.artifact)
            if known and known.operation in self.operations:
                yield known.operation

    def in_order(self) -> list[OperationId]:
        """Return all operations, each after those whose artifacts it reads.

        No operation can depend on itself; if a damaged database says so, the read that closes the
        circle does not count.
        """
        order: list[OperationId] = []
        seen: set[OperationId] = set()
        for start in self.operations:
            if start in seen:
                continue
            seen.add(start)
            # Not by recursion: a notebook can be a chain of thousands of cells.
            path = [(start, self.before(start))]
            while path:
                current, rest = path[-1]
                following = next((each for each in rest if each not in seen), None)
                if following is None:
                    order.append(current)
                    path.pop()
                else:
                    seen.add(following)
                    path.append((following, self.before(following)))
        return order

    def made_by(self) -> dict[OperationId, list[ArtifactId]]:
        """Return the artifacts of each operation."""
        made: dict[OperationId, list[ArtifactId]] = {}
        for artifact in self.artifacts.values():
            made.setdefault(artifact.operation, []).append(artifact.id)
        return made

    def readers(self) -> dict[ArtifactId, list[OperationId]]:
        """Return the operations that read each artifact."""
        found: dict[ArtifactId, list[OperationId]] = {}
        for operation in self.operations.values():
            for artifact in dict.fromkeys(read.artifact for read in operation.reads):
                found.setdefault(artifact, []).append(operation.id)
        return found

    def derived_from(self, start: Iterable[ArtifactId]) -> set[ArtifactId]:
        """Return what was computed from some artifacts, directly or not; without them."""
        readers, made = self.readers(), self.made_by()
        found: set[ArtifactId] = set()
        waiting = list(start)
        given = set(waiting)
        visited: set[OperationId] = set()
        while waiting:
            for operation in readers.get(waiting.pop(), ()):
                if operation not in visited:
                    visited.add(operation)
                    found.update(made.get(operation, ()))
                    waiting.extend(made.get(operation, ()))
        return found - given
