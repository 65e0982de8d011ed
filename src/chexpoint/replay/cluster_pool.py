"""What is still to be given to the hosts of a cluster, and what was lost on them.  Pure decisions.

A part is lost with its host.  Its leaves are given to others; a cell that was being computed when
that happened may be what has ended the host, so after the second time it is computed alone, once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from chexpoint.model import ExecutionTree, NodeId

_MOST_LOSSES = 2


@dataclass(slots=True)
class Pool:
    """The leaves that nobody has been given."""

    tree: ExecutionTree
    loose: set[NodeId] = field(default_factory=set)
    """Those that may be planned for."""
    alone: dict[NodeId, set[NodeId]] = field(default_factory=dict)
    """By the cell that has ended engines: the leaves below it, for an idle host."""
    tried_alone: set[NodeId] = field(default_factory=set)
    _losses: dict[NodeId, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.loose and not self.alone

    def lost(self, leaves: Iterable[NodeId], running: NodeId | None) -> NodeId | None:
        """Take back the leaves of a part that was lost with its host.

        Parameters
        ----------
        running
            The cell that was being computed, if one was.

        Returns
        -------
        NodeId | None
            A cell that has now failed for good: it was being computed alone.
        """
        self.loose.update(leaves)
        if running is None:
            return None
        self._losses[running] = self._losses.get(running, 0) + 1
        if running in self.tried_alone:
            self._take_out(running)
            return running
        if self._losses[running] >= _MOST_LOSSES:
            self.fatal(running)
        return None

    def fatal(self, node: NodeId, leaves: Collection[NodeId] = ()) -> None:
        """Put a cell that has ended its engine aside, with all leaves below it."""
        self.loose.update(leaves)
        below = self._take_out(node)
        if below:
            self.alone[node] = below

    def next_alone(self) -> tuple[NodeId, frozenset[NodeId]] | None:
        """Return a cell that is to be computed alone now, with its leaves; None if there is none.

        The cells above it are not computed alone first: what is nearest to the root comes first.
        """
        if not self.alone:
            return None
        node = min(self.alone, key=lambda each: (len(self.tree.path(each)), each))
        self.tried_alone.add(node)
        return node, frozenset(self.alone.pop(node))

    def _take_out(self, node: NodeId) -> set[NodeId]:
        """Take the leaves below a node out of everything; return them."""
        below = {leaf for leaf in self.loose if self.is_on_way(node, leaf)}
        self.loose -= below
        for other, leaves in list(self.alone.items()):
            more = {leaf for leaf in leaves if self.is_on_way(node, leaf)}
            below |= more
            self.alone[other] = leaves - more
            if not self.alone[other]:
                del self.alone[other]
        return below

    def is_on_way(self, node: NodeId, leaf: NodeId) -> bool:
        """Return whether a node leads to a leaf."""
        return any(each.id == node for each in self.tree.path(leaf))
