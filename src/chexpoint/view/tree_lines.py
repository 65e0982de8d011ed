"""A tree as text, one line for each run of cells without a branch.

Of the branches at a node, the one with the most ends goes on straight down, below the others.  So
the text is never deeper than the logarithm of the number of branches, however long the tree is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from chexpoint.model import ExecutionTree, NodeId, Version, format_seconds, format_size
from chexpoint.palette import CHECKPOINT, FAILED, HERE
from chexpoint.view.outline import ends_of, first_nodes
from chexpoint.view.text import (
    clipped,
    columns,
    count,
    first_line,
    listed,
    padded,
    printable,
    short,
)

_MARKS = {look.word: look.sign for look in (HERE, FAILED, CHECKPOINT)} | {"": "●"}
_ROOT = "○"
_LEAST_LABELS = 12  # columns


def tree_text(
    tree: ExecutionTree,
    *,
    checkpoints: Mapping[NodeId, str] | None = None,
    here: NodeId | None = None,
    width: int = 100,
) -> str:
    """Return a tree for terminals, from the fresh interpreter down.

    Parameters
    ----------
    checkpoints
        The nodes that a checkpoint is held of, and what to call it.
    here
        The node of the live state.
    width
        How many columns a line may take; less than 40 are not enough.
    """
    if not tree.nodes and not tree.versions:
        return "no cells are recorded yet"
    return _Drawing(tree, dict(checkpoints or {}), here).text(max(width, 40))


@dataclass(slots=True)
class _Run:
    """Cells without a branch in between; the last one has marks, ends, or branches."""

    nodes: list[NodeId]
    number: int
    """The place of the first one on its path."""
    below: list[_Run] = field(default_factory=list)
    leaves: int = 1


@dataclass(frozen=True, slots=True)
class _Row:
    """One line before its columns are aligned."""

    graph: str
    texts: tuple[str, str, str, str]
    """Node, places of its cells, cost, size."""
    labels: tuple[str, ...] = ()
    source: str = ""


class _Drawing:
    def __init__(
        self, tree: ExecutionTree, checkpoints: Mapping[NodeId, str], here: NodeId | None
    ) -> None:
        self._tree = tree
        self._checkpoints = checkpoints
        self._here = here
        self._ends = ends_of(tree)
        self._used: set[str] = set()

    def text(self, width: int) -> str:
        root = _Run([], 0)
        self._grow(root)
        rows = self._rows(root)
        lines = _aligned(rows, width)
        known = [f"{_MARKS[mark]} {mark}" for mark in _MARKS if mark and mark in self._used]
        size = f"{count(len(self._tree), 'cell')}, {count(len(self._tree.versions), 'version')}"
        return "\n".join([*lines, "", clipped("   ".join([size, *known]), width)])

    def _grow(self, root: _Run) -> None:
        """Add all runs below the first one, and count their ends."""
        order = [root]
        for run in order:  # which grows meanwhile
            last = run.nodes[-1] if run.nodes else None
            following = first_nodes(self._tree) if last is None else self._tree.children(last)
            run.below = [self._run(node, run.number + len(run.nodes)) for node in following]
            order += run.below
        for run in reversed(order):
            run.leaves = max(1, sum(below.leaves for below in run.below))
            # The heaviest last: it goes on straight down.
            run.below.sort(key=lambda below: below.leaves)

    def _run(self, node: NodeId, number: int) -> _Run:
        run = [node]
        while not self._is_last(run[-1]):
            run.extend(self._tree.children(run[-1]))
        return _Run(run, max(number, 1))

    def _is_last(self, node: NodeId) -> bool:
        return (
            len(self._tree.children(node)) != 1
            or node in self._ends
            or node in self._checkpoints
            or node == self._here
            or self._tree.nodes[node].status == "error"
        )

    def _rows(self, root: _Run) -> list[_Row]:
        rows = [_Row(_ROOT, ("", "", "", ""), self._labels(None), "fresh interpreter")]
        waiting = self._branches(root, "")
        while waiting:
            run, prefix, is_branch = waiting.pop()
            rows.append(self._row(run, prefix + ("├─" if is_branch else "")))
            waiting += self._branches(run, prefix + ("│ " if is_branch else ""))
        return rows

    @staticmethod
    def _branches(run: _Run, prefix: str) -> list[tuple[_Run, str, bool]]:
        """Return what comes below a run, the last first, with what stands left of it."""
        if not run.below:
            return []
        *aside, straight = run.below
        return [(straight, prefix, False), *((below, prefix, True) for below in reversed(aside))]

    def _row(self, run: _Run, graph: str) -> _Row:
        last = self._tree.nodes[run.nodes[-1]]
        first = self._tree.nodes[run.nodes[0]]
        cost = sum(self._tree.nodes[node].cost for node in run.nodes)
        end = run.number + len(run.nodes) - 1
        places = str(end) if len(run.nodes) == 1 else f"{run.number}-{end}"
        texts = (short(last.id), places, format_seconds(cost), format_size(last.size))
        more = " …" if len(run.nodes) > 1 else ""
        source = first_line(first.cell) + more
        return _Row(graph + self._mark(last.id), texts, self._labels(last.id), source)

    def _mark(self, node: NodeId) -> str:
        found = [
            name
            for name, is_there in (
                ("here", node == self._here),
                ("failed", self._tree.nodes[node].status == "error"),
                ("checkpoint", node in self._checkpoints),
            )
            if is_there
        ]
        self._used.update(found)
        return "".join(_MARKS[name] for name in found) or _MARKS[""]

    def _labels(self, node: NodeId | None) -> tuple[str, ...]:
        ends: tuple[Version, ...] = self._ends.get(node, ())
        return tuple(printable(self._tree.labels[version]) for version in ends)


def _aligned(rows: list[_Row], width: int) -> list[str]:
    graph = max(columns(row.graph) for row in rows)
    widths = [max(columns(row.texts[i]) for row in rows) for i in range(4)]
    lines = []
    for row in rows:
        node, places, cost, size = (
            padded(text, room) if index == 0 else " " * (room - columns(text)) + text
            for index, (text, room) in enumerate(zip(row.texts, widths, strict=True))
        )
        start = f"{padded(row.graph, graph)}  {node}  {places}  {cost}  {size}  "
        if not row.texts[0]:
            start = f"{padded(row.graph, graph)}  "
        room = width - columns(start)
        if row.labels:
            wide = max(room * 2 // 3, min(_LEAST_LABELS, room))
            start += f"({listed(row.labels, wide - 3)}) "
        # A deep tree in a narrow window: the graph matters more than what is right of it.
        lines.append(clipped(f"{start}{clipped(row.source, width - columns(start))}", width))
    return [line.rstrip() for line in lines]
