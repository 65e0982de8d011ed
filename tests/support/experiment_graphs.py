"""Small experiment graphs, and what is true of them by trying everything."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from chexpoint.graph.experiment import ExperimentGraph
from chexpoint.graph.utility import LoadRates
from chexpoint.model import (
    Artifact,
    ArtifactId,
    Operation,
    OperationId,
    Read,
    StoredArtifact,
    VariableGroup,
)

MB = 10**6

Cell = tuple[Operation, tuple[Artifact, ...]]


def variable(
    name: str,
    *,
    size: int = MB,
    parts: Iterable[tuple[str, int]] = (),
    load_s: float = 0.0,
    stored: bool = False,
    **more: Any,
) -> Artifact:
    """Return an artifact whose id is its name; its cell takes it over."""
    group = {key: more.pop(key) for key in ("meta", "why_not", "digest") if key in more}
    kinds = (more.pop("kind", "pandas.DataFrame"),)
    return Artifact(
        id=ArtifactId(name),
        operation=OperationId(""),
        group=VariableGroup(
            names=(name,), kinds=kinds, size_bytes=size, parts=tuple(parts), **group
        ),
        stored=StoredArtifact(image=f"image of {name}", load_s=load_s) if stored else None,
        **more,
    )


def cell(seconds: float, *makes: Artifact | str, reads: Iterable[str] = (), **more: Any) -> Cell:
    """Return a cell that makes variables from others."""
    made = [variable(each) if isinstance(each, str) else each for each in makes]
    identity = OperationId("makes " + " ".join(each.id for each in made))
    operation = Operation(
        id=identity,
        code="",
        packages="",
        seconds=seconds,
        reads=tuple(Read(name=each, artifact=ArtifactId(each)) for each in reads),
        writes=tuple(each.id for each in made),
        **more,
    )
    return operation, tuple(replace(each, operation=identity) for each in made)


def graph_of(*cells: Cell) -> ExperimentGraph:
    return ExperimentGraph.of(
        (operation for operation, _ in cells),
        (artifact for _, artifacts in cells for artifact in artifacts),
    )


def with_stored(
    graph: ExperimentGraph,
    stored: Collection[ArtifactId],
    inline: Collection[ArtifactId] | None = None,
) -> ExperimentGraph:
    """Return the graph with these in the store of images, and no others.

    ``inline`` are those in the graph's own table; without it, those that are there stay there.
    """
    if inline is None:
        inline = inline_in(graph)
    artifacts = []
    for each in graph.artifacts.values():
        where = "" if each.id in inline else "image" if each.id in stored else None
        found = None if where is None else StoredArtifact(image=where)
        artifacts.append(replace(each, stored=found))
    return ExperimentGraph.of(graph.operations.values(), artifacts)


def inline_in(graph: ExperimentGraph) -> frozenset[ArtifactId]:
    """Return the artifacts that are in the graph's own table."""
    return frozenset(
        each.id for each in graph.artifacts.values() if each.stored and not each.stored.image
    )


class PerMegabyte(LoadRates):
    """One second for each megabyte."""

    def load_s(self, artifact: Artifact) -> float:
        return artifact.group.size_bytes / MB


@st.composite
def graphs(draw: st.DrawFn, cells: int = 6) -> ExperimentGraph:
    """Return a graph of cells with one or two variables, some of which share arrays."""
    numbers = st.integers(0, 12)
    made: list[str] = []
    found: list[Cell] = []
    for number in range(draw(st.integers(1, cells))):
        reads = draw(st.lists(st.sampled_from(made), max_size=3, unique=True)) if made else []
        makes = []
        for letter in "ab"[: draw(st.integers(1, 2))]:
            arrays = draw(st.lists(st.sampled_from("pqrs"), max_size=2, unique=True))
            parts = [(array, (1 + "pqrs".index(array)) * MB) for array in arrays]
            rest = draw(st.integers(0, 6)) * MB
            size = rest + sum(size for _, size in parts)
            score = draw(st.sampled_from((None, 0.5, 0.9)))
            frequency = draw(st.integers(1, 3))
            makes.append(
                variable(
                    f"{letter}{number}", size=size, parts=parts, frequency=frequency, score=score
                )
            )
        found.append(cell(draw(numbers), *makes, reads=reads))
        made += [each.id for each in makes]
    return graph_of(*found)


def least_s(graph: ExperimentGraph, wanted: ArtifactId, loads: Mapping[ArtifactId, float]) -> float:
    """Return the cost of the best plan for an artifact, by trying all sets of cells."""
    best = math.inf
    operations = list(graph.operations.values())
    for flags in itertools.product((False, True), repeat=len(operations)):
        run = [each for each, flag in zip(operations, flags, strict=True) if flag]
        needed = {wanted, *(read.artifact for each in run for read in each.reads)}
        made = {artifact for each in run for artifact in each.writes}
        cost = sum(each.seconds for each in run)
        cost += sum(loads.get(each, math.inf) for each in needed - made)
        best = min(best, cost)
    return best


def all_seconds(graph: ExperimentGraph, loads: Mapping[ArtifactId, float]) -> float:
    """Return what it takes to get every artifact by itself, as often as it occurred."""
    return math.fsum(
        each.frequency * least_s(graph, each.id, loads) for each in graph.artifacts.values()
    )


def bytes_of(graph: ExperimentGraph, stored: Iterable[ArtifactId]) -> int:
    """Return what artifacts take in a store that holds each array once."""
    arrays: dict[str, int] = {}
    rest = 0
    for each in stored:
        group = graph.artifacts[each].group
        arrays.update(group.parts)
        rest += group.size_bytes - sum(size for _, size in group.parts)
    return rest + sum(arrays.values())
