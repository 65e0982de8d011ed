"""Synthetic graphs like those that graphlets are counted in: an event graph, meshes, roads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Graph:
    """An undirected graph: the neighbours of vertex ``v`` are between two of the starts."""

    starts: NDArray[np.int64]
    neighbours: NDArray[np.int64]

    @property
    def vertices(self) -> int:
        return len(self.starts) - 1


def graph_of(edges: NDArray[np.int64], vertices: int) -> Graph:
    """Return the graph with these pairs of vertices as edges, none twice and none to itself."""
    edges = edges[edges[:, 0] != edges[:, 1]]
    edges = np.unique(np.sort(edges, axis=1), axis=0)
    both = np.concatenate([edges, edges[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    starts = np.zeros(vertices + 1, np.int64)
    np.cumsum(np.bincount(both[:, 0], minlength=vertices), out=starts[1:])
    return Graph(starts=starts, neighbours=np.ascontiguousarray(both[:, 1]))


def race(vertices: int) -> Graph:
    """Events of 32 processes whose messages race, in the order of time.

    Each process does one thing after another: it computes, sends, or receives whatever is there
    first.  An edge is the next event of the same process, or a message.
    """
    rng = np.random.default_rng(10)
    process = rng.integers(0, 32, vertices)
    order = np.argsort(process, kind="stable")
    same = process[order[1:]] == process[order[:-1]]
    program = np.stack([order[:-1], order[1:]], axis=1)[same]
    # Half of the events take part in a message: one sends, another receives a little later.
    sends = np.sort(rng.choice(vertices, vertices // 4, replace=False))
    delay = 1 + rng.geometric(1 / 200, len(sends))
    receives = np.minimum(sends + delay, vertices - 1)
    # An event receives one message at most, and does not send one then.
    _, first = np.unique(receives, return_index=True)
    sends, receives = sends[first], receives[first]
    is_free = ~np.isin(receives, sends)
    messages = np.stack([sends, receives], axis=1)[is_free]
    return graph_of(np.concatenate([program, messages]), vertices)


def hexagons(vertices: int) -> Graph:
    """A honeycomb, as in a simulation of bubbles, in which one edge in a thousand is missing."""
    side = max(int(vertices**0.5), 2)
    at = np.arange(side * side, dtype=np.int64).reshape(side, side)
    row, column = np.indices((side, side))
    along = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    is_bridge = ((row + column) % 2 == 0)[:-1].ravel()
    across = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)[is_bridge]
    edges = np.concatenate([along, across])
    kept = np.random.default_rng(11).random(len(edges)) > 0.001
    return graph_of(edges[kept], side * side)


def roads(vertices: int) -> Graph:
    """Roads: crossings on a grid of which a third of the streets is missing, and bends between."""
    rng = np.random.default_rng(12)
    side = max(int((vertices / 15) ** 0.5), 2)
    at = np.arange(side * side, dtype=np.int64).reshape(side, side)
    along = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    across = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    streets = np.concatenate([along, across])
    streets = streets[rng.random(len(streets)) > 1 / 3]
    streets = streets[np.argsort(streets[:, 0], kind="stable")]
    bends = rng.integers(3, 18, len(streets))
    # Vertices are numbered street by street: each crossing at the first street that has it.
    first_bend = side * side + np.concatenate([[0], np.cumsum(bends)[:-1]])
    total = side * side + int(bends.sum())
    chain = np.arange(side * side, total - 1, dtype=np.int64)
    is_last = np.isin(chain, first_bend + bends - 1)
    inner = np.stack([chain, chain + 1], axis=1)[~is_last]
    heads = np.stack([streets[:, 0], first_bend], axis=1)
    tails = np.stack([first_bend + bends - 1, streets[:, 1]], axis=1)
    edges = np.concatenate([inner, heads, tails])
    rank = np.empty(total, np.int64)
    place = np.full(total, -1.0)
    place[side * side :] = np.repeat(streets[:, 0] + 0.5, bends)
    place[: side * side] = np.arange(side * side)
    rank[np.argsort(place, kind="stable")] = np.arange(total)
    return graph_of(rank[edges], total)


def mesh(vertices: int) -> Graph:
    """A mesh of triangles on a grid, without any defect."""
    side = max(int(vertices**0.5), 2)
    at = np.arange(side * side, dtype=np.int64).reshape(side, side)
    along = np.stack([at[:, :-1].ravel(), at[:, 1:].ravel()], axis=1)
    across = np.stack([at[:-1].ravel(), at[1:].ravel()], axis=1)
    oblique = np.stack([at[:-1, :-1].ravel(), at[1:, 1:].ravel()], axis=1)
    return graph_of(np.concatenate([along, across, oblique]), side * side)


GRAPHS: dict[str, Callable[[int], Graph]] = {
    "race": race,
    "hex": hexagons,
    "road": roads,
    "mesh": mesh,
}
