"""Questions to the experiment graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from chexpoint.errors import InvalidValue
from chexpoint.graph.ancestry import Ancestry
from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.utility import LoadRates
from chexpoint.model import (
    Artifact,
    ArtifactId,
    Bytes,
    Digest,
    Operation,
    OperationId,
    Seconds,
    StoredArtifact,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeSaved:
    """What an artifact saves if it is loaded."""

    artifact: Artifact
    recreation_s: Seconds
    """What computing it takes if nothing is there."""
    load_s: Seconds
    """What loading it takes, or would take if it were stored."""

    @property
    def per_load_s(self) -> Seconds:
        """What one load saves; 0 if computing takes less."""
        return max(0.0, self.recreation_s - self.load_s)

    @property
    def total_s(self) -> Seconds:
        """What loading it as often as it occurred saves."""
        return self.per_load_s * max(self.artifact.frequency, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What the graph knows about an artifact."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    size_bytes: Bytes
    frequency: int
    score: float | None
    potential: float | None
    """The best score of a model that was computed from it, or its own."""
    stored: StoredArtifact | None
    why_not: str
    meta: Mapping[str, Mapping[str, Any]] = field(repr=False)
    source: str
    """The cell that made it; empty if it is not known."""
    seconds: Seconds
    """What that cell took."""
    user: str
    time: float
    """When it ran last, in seconds since the epoch."""
    doubt: str
    recreation_s: Seconds
    """What computing it takes if nothing is there, with all before it."""
    again_s: Seconds
    """What computing it takes if what is stored is loaded."""
    load_s: Seconds
    operations: int
    """How many cells are behind it, its own included."""
    reads: tuple[ArtifactId, ...]
    """What its cell read, as far as it is known."""
    readers: tuple[OperationId, ...]
    """Operations that read it."""


def best_models(
    graph: ExperimentGraph,
    *,
    on: ArtifactId | None = None,
    column: str | None = None,
    kind: str | None = None,
) -> list[Artifact]:
    """Return models, the best first and those without a score last.

    Parameters
    ----------
    on
        Only models that were computed from this artifact, directly or not.
    column
        Only models that were computed from data that has, or had, a column of this name.
    kind
        Only models of this class: ``Ridge``, or ``sklearn.linear_model.Ridge``.

    Raises
    ------
    InvalidValue
        If there is no such artifact.
    """
    found = {each.id for each in graph.artifacts.values() if is_model(each)}
    if on is not None:
        _known(graph, on)
        found &= graph.derived_from([on])
    if column is not None:
        having = [each.id for each in graph.artifacts.values() if column in columns_of(each)]
        found &= graph.derived_from(having) | set(having)
    models = (graph.artifacts[each] for each in found)
    return _best_first(each for each in models if kind is None or is_of_class(each, kind))


def top(graph: ExperimentGraph, rates: LoadRates | None = None) -> list[TimeSaved]:
    """Return artifacts by the time that loading them saves, most first; none that saves nothing.

    The time is against computing all that is behind an artifact; two that stand one behind the
    other do not save the sum.
    """
    rates = rates or LoadRates()
    ancestry = Ancestry(graph)
    rows = [
        TimeSaved(
            artifact=each,
            recreation_s=ancestry.recreation(number),
            load_s=rates.load_s(each),
        )
        for number, each in enumerate(ancestry.artifacts)
        if not _is_state(each)
    ]
    return sorted(
        (row for row in rows if row.total_s > 0), key=lambda row: (-row.total_s, row.artifact.id)
    )


def warm_start_candidates(
    graph: ExperimentGraph, reads: Iterable[ArtifactId | Digest], kind: str
) -> list[Artifact]:
    """Return stored models that the training of another one can begin with, the best first.

    A model qualifies if the operation that wrote it read one of the training artifacts, or one of
    equal contents, and if it is of the same class.

    Parameters
    ----------
    reads
        Ids, or digests of the contents, of the data that the model is to be trained on.  Give no
        others: a model qualifies if one of these is the same.
    kind
        The class of the model.
    """
    wanted = {each for each in reads if each}
    found = []
    for artifact in graph.artifacts.values():
        operation = graph.maker(artifact.id)
        if operation is None or not artifact.stored or not is_model(artifact):
            continue
        if is_of_class(artifact, kind) and wanted & set(_trained_on(graph, operation)):
            found.append(artifact)
    return _best_first(found)


def describe(
    graph: ExperimentGraph, artifact: ArtifactId, rates: LoadRates | None = None
) -> Description:
    """Return what the graph knows about an artifact.

    Raises
    ------
    InvalidValue
        If there is no such artifact.
    """
    known = _known(graph, artifact)
    rates = rates or LoadRates()
    ancestry = Ancestry(graph)
    maker = ancestry.maker[ancestry.number[artifact]]
    nobody = Operation(id=known.operation, code="", packages="")
    operation = graph.maker(artifact) or nobody
    loads = {
        each.id: rates.load_s(each)
        for each in graph.artifacts.values()
        if each.stored and each.id != artifact
    }
    return Description(
        names=known.group.names,
        kinds=known.group.kinds,
        size_bytes=known.group.size_bytes,
        frequency=known.frequency,
        score=known.score,
        potential=ancestry.potential(artifact),
        stored=known.stored,
        why_not=known.group.why_not,
        meta=known.group.meta,
        source=operation.source,
        seconds=operation.seconds,
        user=operation.user,
        time=operation.time,
        doubt=operation.doubt,
        recreation_s=ancestry.recreation_s(artifact),
        again_s=ancestry.marginal_s(artifact, loads),
        load_s=rates.load_s(known),
        operations=ancestry.needs[maker].bit_count() if maker >= 0 else 0,
        reads=tuple(dict.fromkeys(read.artifact for read in operation.reads)),
        readers=tuple(graph.readers().get(artifact, ())),
    )


def is_model(artifact: Artifact) -> bool:
    """Return whether an artifact holds a model."""
    return artifact.score is not None or any(
        facts.get("role") == "model" for facts in _facts(artifact)
    )


def is_of_class(artifact: Artifact, kind: str) -> bool:
    """Return whether an artifact holds something of a class, with or without its module."""
    classes = (*artifact.group.kinds, *(str(facts.get("class", "")) for facts in _facts(artifact)))
    return any(each == kind or each.endswith(f".{kind}") for each in classes)


def columns_of(artifact: Artifact) -> set[str]:
    """Return the names of the columns of the frames in an artifact."""
    found: set[str] = set()
    for facts in _facts(artifact):
        columns = facts.get("columns")
        if isinstance(columns, Mapping):
            found.update(map(str, columns))
        elif isinstance(columns, list | tuple):
            found.update(_name(each) for each in columns)
    return found


def _name(column: object) -> str:
    """Return the name of a column, of which the type may be said too."""
    if isinstance(column, Mapping):
        return str(column.get("name", ""))
    if isinstance(column, list | tuple):
        return str(column[0]) if column else ""
    return str(column)


def _facts(artifact: Artifact) -> list[Mapping[str, Any]]:
    # They come from a database that others write, so they may be anything.
    found: Iterable[Any] = artifact.group.meta.values()
    return [each for each in found if isinstance(each, Mapping)]


def _trained_on(graph: ExperimentGraph, operation: Operation) -> Iterable[str]:
    """Return ids and digests of what an operation read; states of the process do not count."""
    for read in operation.reads:
        if read.name.startswith(":"):
            continue
        yield read.artifact
        known = graph.artifacts.get(read.artifact)
        digest = read.digest or (known.group.digest if known else "")
        if digest:
            yield digest


def _best_first(models: Iterable[Artifact]) -> list[Artifact]:
    def key(model: Artifact) -> tuple[float, float, str]:
        score = model.score
        worse = math.inf if score is None or math.isnan(score) else -score
        return worse, -model.used, model.id

    return sorted(models, key=key)


def _is_state(artifact: Artifact) -> bool:
    return any(name.startswith(":") for name in artifact.group.names)


def _known(graph: ExperimentGraph, artifact: ArtifactId) -> Artifact:
    try:
        return graph.artifacts[artifact]
    except KeyError:
        raise InvalidValue(
            f"The graph has no artifact '{artifact}'. See `chex graph top` for those it has."
        ) from None
