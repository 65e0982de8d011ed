"""Trees to try planners on: the synthetic sets of the CHEX paper, and shapes that are hard.

Everything follows from the seed, so a tree can be named by its kind, its numbers and its seed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from chexpoint.errors import InvalidValue, suggestion
from chexpoint.model import Bytes, ExecutionTree, NodeId, Seconds, TreeNode

_GB = 1024**3
_COSTS = (100.0, 600.0)
_SIZES = (0.1 * _GB, 0.6 * _GB)
_HALF = _GB // 2

_DRAWS = 8
"""So often a level of a random tree is drawn if it has too few branches."""

_STEEPEST = 1.8
"""Levels of a random tree grow by this at most; each branch at even odds gives a little more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How large a tree is wanted."""

    versions: int
    length: int
    branching: int
    nodes: int | None


Parents = list[int]
"""The place of the parent of each node, which is before its own; -1 for the first one."""


# ---------------------------------------------------------------- shapes


def _random(rng: Random, wanted: _Shape) -> Parents:
    """Return a tree in which each branch is there at even odds.

    That would be far too many versions long before the last cell.  So branches are left out, as
    many on each level as keep the growth even from the first cell to the last.
    """
    versions, length = _fitting(wanted)
    most = math.inf if wanted.nodes is None else wanted.nodes
    parents, level = [-1], [0]
    for depth in range(1, length):
        room = max(round(versions ** (depth / (length - 1))) - len(level), 0)
        for _ in range(_DRAWS):
            more = [
                node
                for node in level
                for _ in range(sum(rng.random() < 0.5 for _ in range(wanted.branching)) - 1)
            ]
            if len(more) >= room:
                break
        born = sorted(level + rng.sample(more, min(len(more), room)))
        start = len(parents)
        parents += born[: int(min(len(born), most - start))]
        level = list(range(start, len(parents)))
    return parents


def _fitting(wanted: _Shape) -> tuple[float, int]:
    """Return the number of versions and the length that give about the nodes wanted."""
    if wanted.nodes is None:
        return wanted.versions, wanted.length
    length = min(wanted.length, max(2, wanted.nodes // 2))
    while _sum_of_levels(_STEEPEST, length) < wanted.nodes:
        length += 1
    low, high = 1.0, _STEEPEST
    for _ in range(50):
        growth = (low + high) / 2
        low, high = (
            (growth, high) if _sum_of_levels(growth, length) < wanted.nodes else (low, growth)
        )
    return low ** (length - 1), length


def _sum_of_levels(growth: float, length: int) -> float:
    return math.fsum(growth**depth for depth in range(length))


def _chain(rng: Random, wanted: _Shape) -> Parents:
    """Return a long row of cells with a few branches near its end."""
    total = wanted.nodes or wanted.versions * wanted.length
    branches = min(3, max(total - 2, 0))
    long = total - branches
    row = list(range(-1, long - 1))
    near_the_end = range(max(0, long - 2 - long // 10), max(1, long - 1))
    return row + sorted(rng.choice(near_the_end) for _ in range(branches))


def _star(_rng: Random, wanted: _Shape) -> Parents:
    return [-1] + [0] * ((wanted.nodes or wanted.versions + 1) - 1)


def _caterpillar(_rng: Random, wanted: _Shape) -> Parents:
    """Return a row of cells each of which has, besides the next one, a leaf."""
    total = wanted.nodes or 2 * wanted.versions
    row = (total + 1) // 2
    return list(range(-1, row - 1)) + list(range(total - row))


def _binary(_rng: Random, wanted: _Shape) -> Parents:
    total = wanted.nodes or 2 * wanted.versions - 1
    # An even number would leave a cell with one child.
    return [-1] + [(node - 1) // 2 for node in range(1, total - (total + 1) % 2)]


# ---------------------------------------------------------------- numbers


class _Numbers(NamedTuple):
    cost: Seconds
    size: Bytes


def _between(ends: tuple[float, float], place: float) -> float:
    return ends[0] + (ends[1] - ends[0]) * place


def _compute_intensive(rng: Random, _place: float) -> _Numbers:
    return _Numbers(_between(_COSTS, rng.random()), _HALF)


def _data_intensive(rng: Random, _place: float) -> _Numbers:
    return _Numbers(_COSTS[0], int(_between(_SIZES, rng.random())))


def _analytic(_rng: Random, place: float) -> _Numbers:
    return _Numbers(_between(_COSTS, place), int(_between(_SIZES, place)))


def _mixed(rng: Random, _place: float) -> _Numbers:
    return _Numbers(_between(_COSTS, rng.random()), int(_between(_SIZES, rng.random())))


def _equal(_rng: Random, _place: float) -> _Numbers:
    return _Numbers(_COSTS[0], _HALF)


def _mostly_free(rng: Random, place: float) -> _Numbers:
    numbers = _mixed(rng, place)
    return numbers if rng.random() < 0.3 else numbers._replace(cost=0.0)


class _Kind(NamedTuple):
    shape: Callable[[Random, _Shape], Parents]
    numbers: Callable[[Random, float], _Numbers]


_KINDS: Mapping[str, _Kind] = {
    "ci": _Kind(_random, _compute_intensive),
    "di": _Kind(_random, _data_intensive),
    "an": _Kind(_random, _analytic),
    "chain": _Kind(_chain, _mixed),
    "star": _Kind(_star, _mixed),
    "caterpillar": _Kind(_caterpillar, _mixed),
    "equal": _Kind(_random, _equal),
    "zero": _Kind(_random, _mostly_free),
    "binary": _Kind(_binary, _mixed),
}

KINDS: tuple[str, ...] = tuple(_KINDS)
"""The paper's sets first: compute-intensive, data-intensive, analytic."""


def sample_tree(
    kind: str,
    *,
    seed: int = 0,
    versions: int = 20,
    length: int = 6,
    branching: int = 4,
    nodes: int | None = None,
    delta: bool = False,
) -> ExecutionTree:
    """Return a tree of a kind, always the same one for the same arguments.

    The sets of Table 2 of the paper: ``ci`` has costs of 100 to 600 s and states of half a GB,
    ``di`` costs of 100 s and states of 0.1 to 0.6 GB, and in ``an`` both grow from the first cell
    to the last.  Of the others, ``equal`` and ``zero`` are random trees with equal costs and sizes,
    or mostly without costs; ``chain``, ``star``, ``caterpillar`` and ``binary`` are what they are
    called, with costs and sizes in the same ranges.

    Parameters
    ----------
    kind
        One of `KINDS`.
    versions
        Leaves of a random tree, at most.
    length
        Cells of a version of a random tree.
    branching
        Children of a node of a random tree, at most; each is there at even odds, and one always.
    nodes
        Make about so many nodes, and never more, whatever ``versions`` says; versions are longer
        than ``length`` where there must be more of them than branches allow.
    delta
        Also say how much of each state changed since its parent; all else stays the same.

    Raises
    ------
    InvalidValue
        If there is no such kind, or a number is less than 1.
    """
    if kind not in _KINDS:
        raise InvalidValue(f"there is no kind of sample '{kind}'. {suggestion(kind, KINDS)}")
    given = {"versions": versions, "length": length, "branching": branching, "nodes": nodes}
    for name, value in given.items():
        if value is not None and value < 1:
            raise InvalidValue(f"a sample cannot have {value} {name}: give at least 1")
    rng = Random(seed)  # noqa: S311 - it must be possible to draw the same tree again
    shape, numbers = _KINDS[kind]
    wanted = _Shape(versions=versions, length=length, branching=branching, nodes=nodes)
    parents = _in_preorder(shape(rng, wanted))
    depths: list[int] = []
    for parent in parents:
        depths.append(0 if parent < 0 else depths[parent] + 1)
    levels = max(depths) + 1
    digits = len(str(len(parents) - 1))
    found: list[TreeNode] = []
    for place, parent in enumerate(parents):
        cost, size = numbers(rng, (depths[place] + rng.random()) / levels)
        found.append(
            TreeNode(
                id=NodeId(f"n{place:0{digits}d}"),
                parent=None if parent < 0 else found[parent].id,
                cost=round(cost, 1),
                size=size,
            )
        )
    return ExecutionTree(_with_deltas(rng, found, parents) if delta else found)


def _in_preorder(parents: Parents) -> Parents:
    """Return the same tree with each node before all that is below it, as one reads it."""
    children: list[list[int]] = [[] for _ in parents]
    for node, parent in enumerate(parents[1:], start=1):
        children[parent].append(node)
    renumbered: Parents = []
    waiting = [(0, -1)]
    while waiting:
        node, parent = waiting.pop()
        renumbered.append(parent)
        place = len(renumbered) - 1
        waiting += [(child, place) for child in reversed(children[node])]
    return renumbered


def _with_deltas(rng: Random, nodes: list[TreeNode], parents: Parents) -> list[TreeNode]:
    """Return nodes that also say what changed: what was added, and a little of the rest."""
    found = []
    for node, parent in zip(nodes, parents, strict=True):
        before = 0 if parent < 0 else nodes[parent].size
        rewritten = int(node.size * rng.uniform(0.01, 0.2))
        grown = max(node.size - before, 0) + rewritten
        found.append(replace(node, delta=min(node.size, grown)))
    return found


# ---------------------------------------------------------------- the gadget


class BinPacking(NamedTuple):
    """Bin packing as a replay problem."""

    tree: ExecutionTree
    budget: Bytes
    target: Seconds
    """There is a plan that costs no more just if the items fit into the bins."""


def bin_packing_tree(items: Sequence[int], bin_size: int, bins: int) -> BinPacking:
    """Return the gadget that proves Theorem 1 of the paper: replaying at least cost is NP-hard.

    Names of nodes are those of the proof: below ``a`` there is ``b``, with two ``c`` of two ``d``
    each, for each item, and ``e``, with two ``f``, for each bin.

    Raises
    ------
    InvalidValue
        If an item does not fit into a bin, or there is no bin.
    """
    if bins < 1 or any(not 0 < item <= bin_size for item in items):
        raise InvalidValue(f"items must be of size 1 to {bin_size}, and bins at least 1")
    nodes: list[TreeNode] = []

    def add(name: str, parent: NodeId | None, cost: Seconds, size: Bytes) -> NodeId:
        nodes.append(TreeNode(id=NodeId(name), parent=parent, cost=cost, size=size))
        return nodes[-1].id

    def add_leaves(name: str, parent: NodeId) -> None:
        for number in (1, 2):
            # Too large to be held, and free to compute.
            add(f"{name}{number}", parent, 0.0, 4 * bin_size)

    a = add("a", None, 1 / (2 * bins), 2 * bin_size)
    for i, item in enumerate(items, start=1):
        b = add(f"b{i}", a, 1.0, item)
        for number in (1, 2):
            add_leaves(f"d{i}.{number}.", add(f"c{i}.{number}", b, 1.0, 2 * bin_size))
    for j in range(1, bins + 1):
        add_leaves(f"f{j}.", add(f"e{j}", a, 1.0, 2 * bin_size))
    return BinPacking(
        tree=ExecutionTree(nodes), budget=3 * bin_size, target=3 * len(items) + bins + 0.5
    )
