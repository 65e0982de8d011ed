"""Lineages of arrays as programs make them: what a de-duplicating store is measured with.

Graphlet degree vectors: for each vertex of a graph, how often it touches each of the 73 orbits of
the graphlets with two to five vertices.  They are counted for real, on synthetic graphs, and grow
from checkpoint to checkpoint, as in the paper on GPU de-duplication.  Then what learning writes:
embeddings of which few rows change, models of which most is frozen, and models that change
everywhere.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tests.support.workload_graphs import GRAPHS, Graph

if TYPE_CHECKING:
    from numpy.typing import NDArray

Kind = Literal["irregular", "regular", "rows", "frozen", "dense"]

MIB = 2**20
ORBITS = 73
ROW_FLOATS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A lineage: an array that changes from checkpoint to checkpoint, the same at each run."""

    name: str
    kind: Kind
    about: str
    steps: Callable[[], Iterator[NDArray[Any]]]
    """Yield the array at each checkpoint; it is changed in place after that."""


def workloads(size_mib: float = 64, checkpoints: int = 10) -> dict[str, Workload]:
    """Return all lineages, each of an array of about this size.

    Parameters
    ----------
    size_mib
        The size of each array; a third of it is the least for which the graphs have any shape.
    checkpoints
        How many there are in each lineage.
    """
    nbytes = int(size_mib * MIB)
    vertices = nbytes // (ORBITS * 4)
    found = [
        Workload(
            name=name,
            kind="irregular" if name == "race" else "regular",
            about=make.__doc__.partition("\n")[0] if make.__doc__ else "",
            steps=_lineage(graphlets, make, vertices, checkpoints),
        )
        for name, make in GRAPHS.items()
    ]
    learning: tuple[tuple[str, Kind, Callable[[int, int], Iterator[NDArray[Any]]]], ...] = (
        ("rows", "rows", embedding),
        ("frozen", "frozen", fine_tuning),
        ("adam", "dense", adam),
        ("bf16", "dense", bfloat16),
    )
    for name, kind, steps in learning:
        about = steps.__doc__.partition("\n")[0] if steps.__doc__ else ""
        made = _lineage(steps, nbytes, checkpoints)
        found.append(Workload(name=name, kind=kind, about=about, steps=made))
    return {each.name: each for each in found}


def _lineage(
    steps: Callable[..., Iterator[NDArray[Any]]], *arguments: object
) -> Callable[[], Iterator[NDArray[Any]]]:
    return lambda: steps(*arguments)


def graphlets(
    make: Callable[[int], Graph], vertices: int, checkpoints: int
) -> Iterator[NDArray[np.int32]]:
    """Count the graphlets of a graph from vertex to vertex; int32, a row of orbits for each."""
    from tests.support.workload_graphlets import count

    graph = make(vertices)
    counts = np.zeros((graph.vertices, ORBITS), np.int32)
    ends = np.linspace(0, graph.vertices, checkpoints + 1).astype(np.int64)
    for first, last in itertools.pairwise(ends):
        count(graph, counts, int(first), int(last))
        yield counts


def embedding(nbytes: int, checkpoints: int) -> Iterator[NDArray[np.float32]]:
    """An embedding with rows of 256 B; the rows of a batch, drawn by Zipf's law, take a step."""
    rng = np.random.default_rng(1)
    rows = nbytes // (ROW_FLOATS * 4)
    table = rng.normal(0, 0.05, (rows, ROW_FLOATS)).astype(np.float32)
    # A popular row may be anywhere in the table.
    places = rng.permutation(rows)
    batch = rows // 64
    yield table
    for _ in range(checkpoints - 1):
        drawn = np.unique(places[(rng.zipf(1.2, batch) - 1) % rows])
        table[drawn] -= rng.normal(0, 0.001, (len(drawn), ROW_FLOATS)).astype(np.float32)
        yield table


def fine_tuning(nbytes: int, checkpoints: int) -> Iterator[NDArray[np.float32]]:
    """A model of which 95 % is frozen, with Adam's moments of the rest."""
    weights = int(nbytes / 4 / 1.1)
    tuned = weights // 20
    state = np.zeros(weights + 2 * tuned, np.float32)
    rng = np.random.default_rng(2)
    state[:weights] = rng.normal(0, 0.02, weights)
    parts = state[weights - tuned :].reshape(3, tuned)
    for number in range(checkpoints):
        _adam_step(parts[0], parts[1], parts[2], rng, 1e-4, number + 1)
        yield state


def adam(nbytes: int, checkpoints: int) -> Iterator[NDArray[np.float32]]:
    """Weights and both moments of Adam in fp32; all of them change at each step."""
    rng = np.random.default_rng(3)
    state = np.zeros((3, nbytes // 12), np.float32)
    state[0] = rng.normal(0, 0.02, state.shape[1])
    for number in range(checkpoints):
        _adam_step(state[0], state[1], state[2], rng, 1e-3, number + 1)
        yield state


def bfloat16(nbytes: int, checkpoints: int) -> Iterator[NDArray[np.uint16]]:
    """Weights in bf16, rounded from fp32, at a rate of 1e-5: one in ten changes at each step."""
    rng = np.random.default_rng(4)
    exact = rng.normal(0, 0.02, nbytes // 2).astype(np.float32)
    moments = np.zeros((2, len(exact)), np.float32)
    rounded = np.zeros(len(exact), np.uint16)
    for number in range(checkpoints):
        _adam_step(exact, moments[0], moments[1], rng, 1e-5, number + 1)
        # To the nearest: the upper half of the bits, after adding half of the lower.
        rounded[:] = (exact.view(np.uint32) + np.uint32(0x8000)) >> np.uint32(16)
        yield rounded


def _adam_step(
    weights: NDArray[np.float32],
    first: NDArray[np.float32],
    second: NDArray[np.float32],
    rng: np.random.Generator,
    rate: float,
    number: int,
) -> None:
    gradient = rng.standard_normal(len(weights), np.float32) * np.float32(0.01)
    first *= np.float32(0.9)
    first += np.float32(0.1) * gradient
    second *= np.float32(0.999)
    second += np.float32(0.001) * gradient * gradient
    step = np.float32(rate * (1 - 0.999**number) ** 0.5 / (1 - 0.9**number))
    weights -= step * first / (np.sqrt(second) + np.float32(1e-8))
