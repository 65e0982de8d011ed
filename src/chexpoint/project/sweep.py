"""How the versions of a sweep are put in order and shared out, so that little is computed twice.

Versions that begin with the same cells are recorded one after the other: the state where they part
is kept until the last of them has gone on from it.  With parameters that are set in several places
this means that those set last vary fastest.

    for group in divide(tasks, hosts=4):        # each group on a host of its own
        with Batch() as batch:
            for turn in in_turns(group):
                batch.record(turn.task, keep=turn.keep)
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from chexpoint.errors import InvalidValue
from chexpoint.model import ExecutionTree, NodeId, Seconds, TreeNode
from chexpoint.plan import plan
from chexpoint.project.batch_plan import VersionTask

_ROOT = NodeId("root")


@dataclass(frozen=True, slots=True)
class Turn:
    """A version, when its turn comes."""

    task: VersionTask
    keep: tuple[int, ...] = ()
    """After how many cells later versions part from it, of those that are run for it: the states
    there are kept."""


def in_turns(tasks: Sequence[VersionTask]) -> tuple[Turn, ...]:
    """Return versions in an order in which those that begin alike follow each other.

    Otherwise it is the order that they are given in.
    """
    ways = _ways(tasks)
    order = sorted(range(len(tasks)), key=ways.__getitem__)
    keeps: list[set[int]] = [set() for _ in order]
    # Who runs the cells after so many: the last one that began with no more.
    runners = [(-1, 0)]
    for turn, (one, other) in enumerate(pairwise(order), start=1):
        shared = _common(ways[one], ways[other])
        if shared:
            runner = bisect_left(runners, (shared, 0)) - 1
            keeps[runners[runner][1]].add(shared)
        while runners[-1][0] >= shared:
            runners.pop()
        runners.append((shared, turn))
    return tuple(
        Turn(tasks[number], tuple(sorted(keep))) for number, keep in zip(order, keeps, strict=True)
    )


def computed_cells(tasks: Sequence[VersionTask]) -> int:
    """Return how many cells are computed if what versions share is computed once."""
    return len({place for way in _ways(tasks) for place in way[1:]})


def divide(
    tasks: Sequence[VersionTask],
    hosts: int,
    *,
    cost: Callable[[VersionTask, int], Seconds] | None = None,
) -> tuple[tuple[VersionTask, ...], ...]:
    """Return the versions of each host: at most so many groups, done as early as was found.

    What the versions of a host share is computed there once, so versions that part late stay
    together as far as all hosts have about as much to do.

    Parameters
    ----------
    cost
        What the cell of a version with a number, from 0, takes; all the same if it is not known.

    Raises
    ------
    InvalidValue
        If there are no hosts.
    """
    if hosts < 1:
        raise InvalidValue(f"{hosts} hosts can record nothing: give 1 or more")
    ways = _ways(tasks)
    nodes = {_ROOT: TreeNode(id=_ROOT, parent=None, cost=0.0, size=0)}
    for task, way in zip(tasks, ways, strict=True):
        parent = _ROOT
        for at, place in enumerate(way, start=-1):
            name = NodeId(str(place))
            if name not in nodes:
                takes = 0.0 if at < 0 else 1.0 if cost is None else cost(task, at)
                nodes[name] = TreeNode(id=name, parent=parent, cost=takes, size=0)
            parent = name
    tree = ExecutionTree(nodes.values())
    lane_of = {
        leaf: number
        for number, lane in enumerate(plan(tree, math.inf, workers=hosts).lanes)
        for leaf in lane.versions
    }
    groups: dict[int, list[VersionTask]] = {}
    for task, way in zip(tasks, ways, strict=True):
        leaf = NodeId(str(way[-1]))
        while below := tree.children(leaf):  # the beginning of another version ends with it
            leaf = below[0]
        groups.setdefault(lane_of[leaf], []).append(task)
    return tuple(tuple(turn.task for turn in in_turns(groups[number])) for number in sorted(groups))


def _ways(tasks: Sequence[VersionTask]) -> list[tuple[int, ...]]:
    """Return a number for the file and each cell of each version, the same where all before are.

    Numbers are given in the order in which such beginnings come.  A file that is given twice is to
    be run twice.
    """
    numbers: dict[tuple[int, str], int] = {}
    found = []
    for task in tasks:
        at = numbers.setdefault((-1, f"{id(task.file)}"), len(numbers))
        way = [at]
        for cell in task.cells():
            at = numbers.setdefault((at, cell.source), len(numbers))
            way.append(at)
        found.append(tuple(way))
    return found


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many cells two versions begin with together."""
    return max(sum(mine == its for mine, its in zip(one, other, strict=False)) - 1, 0)
