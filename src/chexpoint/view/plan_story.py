"""A plan as people tell it: version by version, with names for nodes and versions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from chexpoint.model import ExecutionTree, Explanation, NodeId, PlanStep, Seconds, Version
from chexpoint.view.outline import ends_of
from chexpoint.view.text import clipped, count, first_line, listed, printable, short

_LONGEST_ID, _LONGEST_LINE = 24, 32  # columns
_LINEAGE = 32  # digits of a node that was recorded
_LISTED = 60  # columns for some names


End = Version | NodeId
"""A version, or the leaf of one that has no name."""


class Names:
    """What to call the nodes and versions of a tree."""

    def __init__(self, tree: ExecutionTree) -> None:
        self._tree = tree
        self._ends = ends_of(tree)

    def node(self, node: NodeId | None) -> str:
        """Return the first line of the cell that leads to a node, or its id."""
        if node is None:
            return "the fresh interpreter"
        ident = short(node) if len(node) == _LINEAGE else clipped(printable(node), _LONGEST_ID)
        cell = self._tree.nodes[node].cell if node in self._tree.nodes else ""
        if not cell.strip():
            return ident
        line = first_line(cell)
        said = f"'{clipped(line, _LONGEST_LINE)}'"
        return f"{said} ({ident})" if self._lines[line] > 1 else said

    def nodes(self, nodes: Iterable[NodeId | None]) -> str:
        """Return the names of some nodes."""
        return listed([self.node(node) for node in nodes], _LISTED)

    def label(self, end: End) -> str:
        """Return what to call a version."""
        return printable(self._tree.labels[end]) if isinstance(end, Version) else self.node(end)

    def ends(self, nodes: Iterable[NodeId], leaf: NodeId) -> list[End]:
        """Return the versions that end at some nodes; the leaf itself if none ends there."""
        found: list[End] = [end for node in nodes for end in reversed(self._ends.get(node, ()))]
        return found if leaf in self._ends else [*found, leaf]

    def left_out(self, leaf: NodeId, done: Collection[NodeId]) -> list[End]:
        """Return the versions on the way to a leaf that is left out, except for what is done."""
        path = (node.id for node in self._tree.path(leaf))
        return self.ends((node for node in path if node not in done), leaf)

    @cached_property
    def _lines(self) -> Counter[str]:
        """How many nodes each first line leads to."""
        return Counter(first_line(node.cell) for node in self._tree.nodes.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """The steps of a plan up to the end of a version that was not replayed before."""

    leaf: NodeId
    nodes: tuple[NodeId, ...]
    """What is computed for the first time, the leaf included."""
    steps: tuple[PlanStep, ...]
    start: Seconds
    end: Seconds


def stretches(explanation: Explanation) -> tuple[Stretch, ...]:
    """Return a plan version by version; what comes after the last one belongs to it."""
    moments = explanation.moments
    leaves, done = set(explanation.plan.versions), set[NodeId]()
    to_come = len(leaves)
    found: list[Stretch] = []
    nodes: list[NodeId] = []
    first = 0
    for number, (action, node) in enumerate(moment.step for moment in moments):
        if action != "compute" or node is None or node in done:
            continue
        done.add(node)
        nodes.append(node)
        if node in leaves:
            to_come -= 1
            last = number + 1 if to_come else len(moments)
            found.append(
                Stretch(
                    leaf=node,
                    nodes=tuple(nodes),
                    steps=tuple(moment.step for moment in moments[first:last]),
                    start=moments[first - 1].time if first else 0.0,
                    end=moments[number].time,
                )
            )
            first, nodes = last, []
    return tuple(found)


@dataclass(slots=True)
class _Leg:
    """What is done from one place on: where that is, and what comes of it."""

    start: str = ""
    cells: int = 0
    checkpoints: list[NodeId | None] = field(default_factory=list)
    evicted: list[NodeId | None] = field(default_factory=list)


def told(steps: Sequence[PlanStep], names: Names) -> str:
    """Return what some steps do, in a sentence."""
    return "; ".join(text for leg in _legs(steps, names) if (text := _leg_text(leg, names)))


def _legs(steps: Sequence[PlanStep], names: Names) -> Iterator[_Leg]:
    leg = _Leg()
    for action, node in steps:
        if action == "compute":
            leg.cells += 1
        elif action == "checkpoint":
            leg.checkpoints.append(node)
        elif action == "evict":
            leg.evicted.append(node)
        else:
            yield leg
            last = " for the last time" if action == "take" else ""
            leg = _Leg("begin afresh" if node is None else f"go back to {names.node(node)}{last}")
    yield leg


def _leg_text(leg: _Leg, names: Names) -> str:
    parts = [
        leg.start,
        f"compute {count(leg.cells, 'cell')}" if leg.cells else "",
        f"checkpoint {names.nodes(leg.checkpoints)}" if leg.checkpoints else "",
        f"evict {names.nodes(leg.evicted)}" if leg.evicted else "",
    ]
    return ", ".join(part for part in parts if part)
