"""Counting graphlets: how often a vertex is at each place of each small connected subgraph.

All connected induced subgraphs of two to five vertices are enumerated, each once (Wernicke's ESU):
from each vertex as the root, by adding neighbours with higher numbers.
"""

from __future__ import annotations

import functools
import itertools
from typing import TYPE_CHECKING, Any, NamedTuple

import numba
import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tests.support.workload_graphs import Graph

LARGEST = 5
MOST_NEIGHBOURS = 4096


class Walk(NamedTuple):
    """The arrays that an enumeration works on."""

    starts: Any
    neighbours: Any
    orbits: Any
    counts: Any
    chosen: Any
    """The vertices of the subgraph so far."""
    pending: Any
    """For each size of it, vertices that may be added."""
    seen: Any
    """Whether a vertex is in it, or beside it."""


def count(graph: Graph, counts: NDArray[np.int32], first: int, last: int) -> None:
    """Add all subgraphs whose lowest vertex is in a range to the counts."""
    walk = Walk(
        starts=graph.starts,
        neighbours=graph.neighbours,
        orbits=orbit_table(),
        counts=counts,
        chosen=np.zeros(LARGEST + 1, np.int64),
        pending=np.zeros((LARGEST + 2, MOST_NEIGHBOURS), np.int64),
        seen=np.zeros(graph.vertices, np.bool_),
    )
    _count(walk, first, last)


@numba.njit
def _count(walk: Walk, first: int, last: int) -> None:
    for root in range(first, last):
        walk.seen[root] = True
        walk.chosen[0] = root
        found = _look_around(walk, root, root, 1, 0)
        _extend(walk, root, 1, 0, found)
        walk.seen[root] = False
        _unsee(walk, 1, 0, found)


@numba.njit
def _extend(walk: Walk, root: int, size: int, edges: int, left: int) -> None:
    """Count the subgraph that is chosen, and all that grow from it by what is pending."""
    if size > 1:
        for at in range(size):
            walk.counts[walk.chosen[at], walk.orbits[size, edges, at]] += 1
    if size == LARGEST:
        return
    while left:
        left -= 1
        vertex = walk.pending[size, left]
        for at in range(left):
            walk.pending[size + 1, at] = walk.pending[size, at]
        found = _look_around(walk, root, vertex, size + 1, left)
        more = _edges(walk, vertex, size) << (size * (size - 1) // 2)
        walk.chosen[size] = vertex
        _extend(walk, root, size + 1, edges | more, found)
        _unsee(walk, size + 1, left, found)


@numba.njit
def _look_around(walk: Walk, root: int, vertex: int, size: int, found: int) -> int:
    """Add the neighbours of a vertex that were not seen to what is pending; return its end."""
    for at in range(walk.starts[vertex], walk.starts[vertex + 1]):
        other = walk.neighbours[at]
        if other > root and not walk.seen[other]:
            walk.seen[other] = True
            walk.pending[size, found] = other
            found += 1
    return found


@numba.njit
def _unsee(walk: Walk, size: int, first: int, last: int) -> None:
    for at in range(first, last):
        walk.seen[walk.pending[size, at]] = False


@numba.njit
def _edges(walk: Walk, vertex: int, size: int) -> int:
    """Return which of the chosen vertices a vertex is a neighbour of, as bits."""
    bits = 0
    for at in range(walk.starts[vertex], walk.starts[vertex + 1]):
        for place in range(size):
            if walk.chosen[place] == walk.neighbours[at]:
                bits |= 1 << place
    return bits


@functools.cache
def orbit_table() -> NDArray[np.int16]:
    """Return the orbit of each vertex of each small graph; -1 if the graph is not connected.

    A graph of ``k`` vertices is a row ``(k, edges)``: edge ``(i, j)``, ``i < j``, is bit
    ``j * (j - 1) / 2 + i``.  Orbits are numbered as they come, smaller graphs first.
    """
    table = np.full((LARGEST + 1, 1 << (LARGEST * (LARGEST - 1) // 2), LARGEST), -1, np.int16)
    orbits: dict[tuple[int, int, int], int] = {}
    for size in range(2, LARGEST + 1):
        orders = np.array(list(itertools.permutations(range(size))))
        for edges in range(1 << (size * (size - 1) // 2)):
            matrix = _adjacency(edges, size)
            if not _is_connected(matrix):
                continue
            # The same graph in all orders of its vertices: the least code names the graph, and
            # a vertex by the first place that it can have in that order.
            codes = _codes(matrix, orders)
            least = int(codes.min())
            places = orders[codes == least]
            for vertex in range(size):
                key = (size, least, int(np.nonzero(places == vertex)[1].min()))
                table[size, edges, vertex] = orbits.setdefault(key, len(orbits))
    return table


def _adjacency(edges: int, size: int) -> NDArray[np.bool_]:
    matrix = np.zeros((size, size), bool)
    for j in range(size):
        for i in range(j):
            matrix[i, j] = matrix[j, i] = edges >> (j * (j - 1) // 2 + i) & 1
    return matrix


def _is_connected(matrix: NDArray[np.bool_]) -> bool:
    reach = matrix | np.eye(len(matrix), dtype=bool)
    for _ in range(3):
        reach = reach @ reach
    return bool(reach.all())


def _codes(matrix: NDArray[np.bool_], orders: NDArray[np.int64]) -> NDArray[np.int64]:
    codes = np.zeros(len(orders), np.int64)
    for j in range(len(matrix)):
        for i in range(j):
            bit = j * (j - 1) // 2 + i
            codes |= matrix[orders[:, i], orders[:, j]].astype(np.int64) << bit
    return codes
