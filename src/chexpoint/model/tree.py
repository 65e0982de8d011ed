"""The execution tree: all versions merged by lineage (CHEX paper, sections 2 and 4).

A node is the state after a cell and is named by its lineage, so equal states are one node whichever
version led there.  A version is a path from the fresh interpreter to a node, with a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from typing import Any, Literal

from chexpoint.errors import InvalidValue
from chexpoint.model.ids import Bytes, NodeId, Seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeNode:
    """The state after a cell, as it was when the cell ran last."""

    id: NodeId
    parent: NodeId | None
    """None after the first cell: its parent is the fresh interpreter."""
    cell: str = ""
    """The source of the cell that led here."""
    cost: Seconds = 0.0
    """Time the cell took."""
    size: Bytes = 0
    """Memory of the state."""
    delta: Bytes | None = None
    """Bytes that changed since the parent, if that is known."""
    execution_count: int = 0
    status: Literal["ok", "error"] = "ok"
    doubt: str = ""
    """Why running the cell again may give something else, or what it read is not known for sure."""
    last_run: float = 0.0
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A path from the fresh interpreter to a node, with a name."""

    name: str
    number: int = 1
    """Tells versions of the same name apart, in the order in which they were begun."""
    path: tuple[NodeId, ...] = ()
    created: float = 0.0
    """Seconds since the epoch."""
    origin: str = ""
    """The notebook or script, if that is known."""
    parameters: tuple[tuple[str, str], ...] = ()
    """Names and values that were set for this version."""
    status: Literal["ok", "error"] = "ok"
    """Whether its last cell failed."""

    @property
    def node(self) -> NodeId | None:
        """The state it led to; None if it has no cell yet."""
        return self.path[-1] if self.path else None


class ExecutionTree:
    """Nodes by their id, and the versions that lead through them; never changed.

    Merging is associative, commutative and idempotent: of a node that is in both trees, the newer
    run is kept; a parent that only one of them knows is known.
    """

    def __init__(self, nodes: Iterable[TreeNode] = (), versions: Iterable[Version] = ()) -> None:
        found: dict[NodeId, TreeNode] = {}
        for node in nodes:
            known = found.get(node.id)
            found[node.id] = node if known is None else _joined(known, node)
        self.nodes: Mapping[NodeId, TreeNode] = dict(sorted(found.items()))
        self.versions: tuple[Version, ...] = tuple(sorted(set(versions), key=_age))
        """Oldest first."""

    def merge(self, other: ExecutionTree) -> ExecutionTree:
        """Return a tree with all nodes and versions of both."""
        return ExecutionTree(
            (*self.nodes.values(), *other.nodes.values()), (*self.versions, *other.versions)
        )

    def current(self) -> ExecutionTree:
        """Return the tree without versions that a newer one of the same name has run again.

        A newer version has run an older one again if it went the same way, and perhaps on.
        """
        names: dict[str, list[Version]] = {}
        for version in self.versions:
            names.setdefault(version.name, []).append(version)
        kept = []
        for versions in names.values():
            newest_first = sorted(versions, key=lambda version: version.number, reverse=True)
            for at, version in enumerate(newest_first):
                length = len(version.path)
                if not any(v.path[:length] == version.path for v in newest_first[:at]):
                    kept.append(version)
        return ExecutionTree(self.nodes.values(), kept)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ExecutionTree):
            return NotImplemented
        return self.nodes == other.nodes and self.versions == other.versions

    def __hash__(self) -> int:
        return hash((tuple(self.nodes), self.versions))

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        return f"<ExecutionTree of {len(self.nodes)} nodes and {len(self.versions)} versions>"

    @cached_property
    def _children(self) -> Mapping[NodeId | None, tuple[NodeId, ...]]:
        found: dict[NodeId | None, list[NodeId]] = {}
        for node in self.nodes.values():
            found.setdefault(node.parent, []).append(node.id)
        return {
            parent: tuple(sorted(ids, key=lambda i: (self.nodes[i].last_run, i)))
            for parent, ids in found.items()
        }

    def children(self, node: NodeId | None) -> tuple[NodeId, ...]:
        """Return the nodes after one, oldest first; None is the fresh interpreter."""
        return self._children.get(node, ())

    def path(self, node: NodeId) -> tuple[TreeNode, ...]:
        """Return the nodes that lead to one, from the first cell on, itself included."""
        found = []
        at: NodeId | None = node
        while at is not None and at in self.nodes:
            found.append(self.nodes[at])
            at = self.nodes[at].parent
            if len(found) > len(self.nodes):
                raise InvalidValue(f"node {node} is its own ancestor")
        return tuple(reversed(found))

    @cached_property
    def labels(self) -> Mapping[Version, str]:
        """What to call each version: its name if it is the newest of that name, or name@number."""
        newest: dict[str, Version] = {}
        for version in self.versions:
            known = newest.get(version.name)
            if known is None or version.number >= known.number:
                newest[version.name] = version
        return {
            version: version.name
            if newest[version.name] == version
            else f"{version.name}@{version.number}"
            for version in self.versions
        }

    @cached_property
    def through(self) -> Mapping[NodeId, tuple[Version, ...]]:
        """The versions that lead through each node, oldest first."""
        found: dict[NodeId, list[Version]] = {}
        for version in self.versions:
            for node in dict.fromkeys(version.path):
                found.setdefault(node, []).append(version)
        return {node: tuple(versions) for node, versions in found.items()}

    def to_json(self, checkpoints: Mapping[NodeId, str] | None = None) -> dict[str, Any]:
        """Return a tree file; see the reference of formats.

        Parameters
        ----------
        checkpoints
            The nodes that a checkpoint is held of, and what to call it.
        """
        held = checkpoints or {}
        return {
            "nodes": [
                {
                    "id": node.id,
                    "parent": node.parent,
                    "cost": node.cost,
                    "size": node.size,
                    **({} if node.delta is None else {"delta": node.delta}),
                    "cell": node.cell,
                    "execution_count": node.execution_count,
                    "status": node.status,
                    "doubt": node.doubt,
                    "last_run": node.last_run,
                    "versions": [self.labels[v] for v in self.through.get(node.id, ())],
                    "checkpoint": held.get(node.id),
                }
                for node in self.nodes.values()
            ],
            "versions": [
                {
                    "label": self.labels[version],
                    "name": version.name,
                    "number": version.number,
                    "path": list(version.path),
                    "created": version.created,
                    "origin": version.origin,
                    "parameters": dict(version.parameters),
                    "status": version.status,
                }
                for version in self.versions
            ],
        }


def tree_from_json(data: object) -> ExecutionTree:
    """Return the tree of a tree file; only id, parent, cost and size of its nodes are needed.

    Ids that are whole numbers become text.

    Raises
    ------
    InvalidValue
        If it is none, with what is wrong.
    """
    if not isinstance(data, dict) or not isinstance(data.get("nodes"), list):
        raise InvalidValue('a tree file is {"nodes": [...]}')
    nodes = [_node_from_json(entry) for entry in data["nodes"]]
    known: set[NodeId] = set()
    for node in nodes:
        if node.id in known:
            raise InvalidValue(f"two nodes of the tree file have the same id '{node.id}'")
        known.add(node.id)
    for node in nodes:
        if node.parent is not None and node.parent not in known:
            raise InvalidValue(f"the parent '{node.parent}' of node '{node.id}' is not in the file")
    versions = _versions_from_json(data, known)
    tree = ExecutionTree(nodes, versions)
    _refuse_cycles(tree)
    return tree


def _versions_from_json(data: Mapping[str, Any], known: set[NodeId]) -> list[Version]:
    try:
        versions = [
            Version(
                name=str(entry["name"]),
                number=int(_number(entry, "number")),
                path=tuple(NodeId(str(n)) for n in entry["path"]),
                created=float(_number(entry, "created")),
                origin=str(entry["origin"]),
                parameters=tuple((str(k), str(v)) for k, v in entry["parameters"].items()),
                status="error" if entry["status"] == "error" else "ok",
            )
            for entry in data.get("versions", ())
        ]
    except InvalidValue:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise InvalidValue(f"a version of the tree file cannot be read: {error!r}") from error
    for version in versions:
        for node in version.path:
            if node not in known:
                raise InvalidValue(f"node '{node}' of version '{version.name}' is not in the file")
    return versions


def _refuse_cycles(tree: ExecutionTree) -> None:
    seen: set[NodeId] = set()
    waiting = list(tree.children(None))
    while waiting:
        at = waiting.pop()
        seen.add(at)
        waiting.extend(tree.children(at))
    if len(seen) < len(tree):
        lost = next(node for node in tree.nodes if node not in seen)
        raise InvalidValue(f"node '{lost}' of the tree file is its own ancestor")


def _node_from_json(entry: object) -> TreeNode:
    if not isinstance(entry, dict) or (ident := _id_from_json(entry.get("id"))) is None:
        raise InvalidValue(f"a node of the tree file has no id: {entry!r:.60}")
    parent = _id_from_json(entry.get("parent"))
    if parent is None and entry.get("parent") is not None:
        raise InvalidValue(f"the parent of node '{ident}' is neither an id nor null")
    delta = entry.get("delta")
    return TreeNode(
        id=ident,
        parent=parent,
        cell=str(entry.get("cell", "")),
        cost=float(_number(entry, "cost")),
        size=int(_number(entry, "size")),
        delta=None if delta is None else int(_number(entry, "delta")),
        execution_count=int(_number(entry, "execution_count", 0)),
        status="error" if entry.get("status") == "error" else "ok",
        doubt=str(entry.get("doubt", "")),
        last_run=float(_number(entry, "last_run", 0)),
    )


def _id_from_json(value: object) -> NodeId | None:
    """Return an id, which may be a whole number; None if it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63:
        return NodeId(str(value))
    return NodeId(value) if isinstance(value, str) else None


def _number(entry: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = entry.get(name, default)
    # A comparison that is also false for "not a number".
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 2**63:
        of = f"node '{entry['id']}'" if "id" in entry else f"version '{entry.get('name')}'"
        raise InvalidValue(f"{name} of {of} is not a number >= 0: {value!r:.40}")
    return value


def _joined(one: TreeNode, other: TreeNode) -> TreeNode:
    """Return what is known of a node that two trees have."""
    if one == other:
        return one
    newer = max(one, other, key=_rank)
    parent = max(one.parent or "", other.parent or "")
    return newer if parent == (newer.parent or "") else replace(newer, parent=NodeId(parent))


def _rank(node: TreeNode) -> tuple[Any, ...]:
    """Return what orders runs of the same node: the newest last, then anything that is fixed."""
    rest = (v for name, v in zip(node.__slots__, astuple(node), strict=True) if name != "parent")
    return (node.last_run, *(("", "") if v is None else ("v", v) for v in rest))


def _age(version: Version) -> tuple[Any, ...]:
    """Return what orders versions: the oldest first, then anything that is fixed."""
    v = version
    return (v.created, v.name, v.number, v.path, v.origin, v.parameters, v.status)
