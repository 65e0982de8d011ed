"""What of a tree is drawn: every node, or chains and bundles where that would be too much.

A chain is a run of cells without a branch.  A bundle stands for all that hangs at one place and is
not drawn.  Nothing is left out without one of the two standing for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from chexpoint.model import ExecutionTree, NodeId, Version

ALL = 64
"""Up to so many ends of branches are drawn, those of versions before all others."""

NEWEST = 40
"""If versions end at more places than that, so many are drawn: those of the newest versions."""

LABELS = 3
"""Labels at one node; more of them are one label that counts them."""

MOST_ITEMS = 700

# Of more bundles than this, those along a run are joined; of still more, marks give way as well.
_MANY_BUNDLES, _TOO_MANY_BUNDLES = 40, 100

# Runs that are longer than this become chains: the first length that makes the picture fit.
_RUNS = (10**9, 24, 12, 8, 5, 3, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One thing that is drawn."""

    kind: Literal["root", "node", "chain", "bundle"]
    parent: int
    """The place of the item it hangs at; -1 for the root, which is the first one."""
    nodes: tuple[NodeId, ...] = ()
    """One for a node, none for the root."""
    ends: tuple[Version, ...] = ()
    """Versions that end here, newest first."""
    column: int = 0


Outline = tuple[Item, ...]
"""Items in the order in which one reads them: each before what hangs at it."""


def ends_of(tree: ExecutionTree) -> dict[NodeId | None, tuple[Version, ...]]:
    """Return the versions that end at each node, newest first; at None those without a cell."""
    found: dict[NodeId | None, list[Version]] = {}
    for version in reversed(tree.versions):
        end = next((node for node in reversed(version.path) if node in tree.nodes), None)
        found.setdefault(end, []).append(version)
    return {node: tuple(versions) for node, versions in found.items()}


def first_nodes(tree: ExecutionTree) -> tuple[NodeId, ...]:
    """Return the nodes after the fresh interpreter, and those whose parent is not in the tree."""
    lost = (
        n.id for n in tree.nodes.values() if n.parent is not None and n.parent not in tree.nodes
    )
    return (*tree.children(None), *lost)


def label_rows(ends: Sequence[Version]) -> int:
    """Return how many labels are written for some versions that end at the same place."""
    return min(len(ends), LABELS)


def outline(
    tree: ExecutionTree,
    *,
    marked: Collection[NodeId] = (),
    here: NodeId | None = None,
    most_columns: int = 40,
) -> Outline:
    """Return what to draw: as much as fits, and never more.

    Parameters
    ----------
    marked
        Nodes that are drawn one by one as long as there is room.
    here
        The node that is always drawn.
    most_columns
        How many items fit beside each other.
    """
    return _Builder(tree, frozenset(marked), here).fitting(most_columns)


class _Branch(NamedTuple):
    """Everything from a node on."""

    nodes: list[NodeId]
    ends: list[Version]


class _Builder:
    """Knows what is drawn of a tree, and joins runs until it fits."""

    def __init__(self, tree: ExecutionTree, marked: frozenset[NodeId], here: NodeId | None) -> None:
        self._tree = tree
        self._ends = ends_of(tree)
        self._first = first_nodes(tree)
        self._here = here
        failed = {node.id for node in tree.nodes.values() if node.status == "error"}
        self._marked = marked | failed | {here}
        drawn = self._drawn()
        self._branches: dict[NodeId, _Branch] = {}
        self._kept: dict[NodeId | None, tuple[NodeId, ...]] = {}
        self._dropped: dict[NodeId | None, tuple[NodeId, ...]] = {}
        for node in (None, *drawn):
            below = self._below(node)
            self._kept[node] = tuple(n for n in below if n in drawn)
            if len(self._kept[node]) < len(below):
                self._dropped[node] = tuple(n for n in below if n not in drawn)

    def fitting(self, most_columns: int) -> Outline:
        items: Outline = ()
        for is_joined, bearable in ((False, _MANY_BUNDLES), (True, _TOO_MANY_BUNDLES)):
            for longest in _RUNS:
                items = self._items(longest, self._marked, is_joined)
                if _is_few(items, _MANY_BUNDLES) and _is_narrow(items, most_columns):
                    return items
            if _is_few(items, bearable):
                return items  # all is joined that can be, so it is as wide as it must be
        return self._items(1, frozenset({self._here}), True)

    def _below(self, node: NodeId | None) -> tuple[NodeId, ...]:
        return self._first if node is None else self._tree.children(node)

    def _drawn(self) -> set[NodeId]:
        """Return the nodes on the way to the ends of branches that are drawn."""
        nodes = self._tree.nodes
        named = sorted(
            (node for node in self._ends if node is not None),
            key=lambda node: (self._ends[node][0].created, node),
        )
        others = sorted(
            (n for n in nodes if n not in self._ends and not self._tree.children(n)),
            key=lambda node: (nodes[node].last_run, node),
        )
        if len(named) > ALL:
            wanted = named[-NEWEST:]
        else:
            wanted = named + others[max(len(named) + len(others) - ALL, 0) :]
        if self._here is not None and self._here in nodes:
            wanted.append(self._here)
        drawn: set[NodeId] = set()
        for end in wanted:
            at: NodeId | None = end
            while at is not None and at in nodes and at not in drawn:
                drawn.add(at)
                at = nodes[at].parent
        return drawn

    def _items(self, longest: int, marked: Collection[NodeId | None], is_joined: bool) -> Outline:
        """Return the items if runs that are longer than a length become chains.

        Parameters
        ----------
        is_joined
            Whether cells at which bundles hang may be in chains.
        """
        items = [Item(kind="root", parent=-1, ends=self._ends.get(None, ()))]
        waiting = self._hanging((), 0)
        single: set[NodeId] = set()
        while waiting:
            parent, node = waiting.pop()
            if node is None:
                items.append(self._bundle(parent, items))
                continue
            group = (node,) if node in single else self._run(node, marked, is_joined)
            if len(group) <= longest:
                single.update(group)
                group = (node,)
            items.append(
                Item(
                    kind="chain" if len(group) > 1 else "node",
                    parent=parent,
                    nodes=group,
                    ends=self._ends.get(group[-1], ()),
                    column=items[parent].column + 1,
                )
            )
            waiting += self._hanging(group, len(items) - 1)
        return tuple(items)

    def _hanging(self, group: tuple[NodeId, ...], parent: int) -> list[tuple[int, NodeId | None]]:
        """Return what comes after a group, the last first; None for a bundle."""
        last = group[-1] if group else None
        dropped = any(node in self._dropped for node in (group or (None,)))
        hanging: list[tuple[int, NodeId | None]] = [(parent, None)] if dropped else []
        return hanging + [(parent, node) for node in reversed(self._kept[last])]

    def _run(
        self, node: NodeId, marked: Collection[NodeId | None], is_joined: bool
    ) -> tuple[NodeId, ...]:
        """Return a node with those after it, as long as they may all be in one chain."""
        run = [node]
        if self._is_plain(node, marked, is_joined):
            (after,) = self._kept[node]
            while self._is_plain(after, marked, is_joined):
                run.append(after)
                (after,) = self._kept[after]
        return tuple(run)

    def _is_plain(self, node: NodeId, marked: Collection[NodeId | None], is_joined: bool) -> bool:
        return (
            len(self._kept[node]) == 1
            and node not in marked
            and node not in self._ends
            and (is_joined or node not in self._dropped)
        )

    def _whole(self, top: NodeId) -> _Branch:
        """Return a branch that is not drawn; found once, since bundles are made several times."""
        if top not in self._branches:
            nodes = [top]
            for node in nodes:  # which grows meanwhile
                nodes += self._tree.children(node)
            ends = [version for node in nodes for version in self._ends.get(node, ())]
            self._branches[top] = _Branch(nodes, ends)
        return self._branches[top]

    def _bundle(self, parent: int, items: list[Item]) -> Item:
        """Return the item of all that is not drawn at another one."""
        nodes: list[NodeId] = []
        ends: list[Version] = []
        for at in items[parent].nodes or (None,):
            for node in self._dropped.get(at, ()):
                below = self._whole(node)
                nodes += below.nodes
                ends += below.ends
        ends.sort(key=lambda version: version.created, reverse=True)
        return Item(
            kind="bundle",
            parent=parent,
            nodes=tuple(nodes),
            ends=tuple(ends),
            column=items[parent].column + 1,
        )


def _is_few(items: Outline, most_bundles: int) -> bool:
    bundles = sum(item.kind == "bundle" for item in items)
    return len(items) <= MOST_ITEMS and bundles <= most_bundles


def _is_narrow(items: Outline, most_columns: int) -> bool:
    return max(item.column for item in items) <= most_columns
