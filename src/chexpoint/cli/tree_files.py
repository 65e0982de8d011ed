"""Trees that the user names: files to read, and versions to keep."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from chexpoint.cli.picture_files import STANDARD_OUTPUT
from chexpoint.errors import InvalidValue, suggestion
from chexpoint.model import ExecutionTree, NodeId, Version, tree_from_json

_LEAST_DIGITS = 4


def read_tree_file(name: str) -> tuple[ExecutionTree, Mapping[NodeId, Any]]:
    """Return the tree of a file, and its ids as they are written there.

    Parameters
    ----------
    name
        ``-`` is standard input.

    Raises
    ------
    InvalidValue
        If it cannot be read or is no tree, with what is wrong.
    """
    shown = "standard input" if name == STANDARD_OUTPUT else name
    try:
        content = sys.stdin.buffer.read() if name == STANDARD_OUTPUT else Path(name).read_bytes()
    except OSError as error:
        raise InvalidValue(f"cannot read {shown}: {error.strerror or error}") from error
    try:
        data = json.loads(content)
        tree = tree_from_json(data)
    except InvalidValue as error:
        raise InvalidValue(f"{shown}: {error}") from error
    except RecursionError as error:
        raise InvalidValue(f"{shown} is not a tree file: it is nested too deeply") from error
    except UnicodeDecodeError as error:
        raise InvalidValue(f"{shown} is not a tree file: it is not text in UTF-8") from error
    except ValueError as error:
        raise InvalidValue(f"{shown} is not a tree file: {error}") from error
    return tree, {NodeId(str(entry["id"])): entry["id"] for entry in data["nodes"]}


def to_versions(tree: ExecutionTree) -> ExecutionTree:
    """Return a tree without nodes that lead to no version.

    Raises
    ------
    InvalidValue
        If there is no version.
    """
    ends = [version.node for version in tree.versions if version.node is not None]
    if not ends:
        raise InvalidValue("no version is recorded yet: %chex_record NAME begins one")
    return _part(tree, ends, tree.versions)


def only_to(tree: ExecutionTree, refs: Sequence[str]) -> ExecutionTree:
    """Return the part of a tree that leads to what the user named: versions, or nodes.

    Raises
    ------
    InvalidValue
        If nothing, or several things, may be meant.
    """
    by_label: dict[str, Version] = {}
    for version in tree.versions:
        by_label[tree.labels[version]] = version
        by_label.setdefault(f"{version.name}@{version.number}", version)
    versions = [by_label[ref] for ref in refs if ref in by_label]
    nodes = [_node(tree, ref) for ref in refs if ref not in by_label]
    ends = [version.node for version in versions if version.node is not None]
    if not ends and not nodes:
        raise InvalidValue(f"version '{refs[0]}' has no cells: there is nothing to replay")
    return _part(tree, [*ends, *nodes], versions)


def _node(tree: ExecutionTree, ref: str) -> NodeId:
    if ref in tree.nodes:
        return NodeId(ref)
    found = [node for node in tree.nodes if node.startswith(ref)]
    if len(ref) < _LEAST_DIGITS or not found:
        known = tree.labels.values() or tree.nodes
        raise InvalidValue(f"no version '{ref}'. {suggestion(ref, known)}")
    if len(found) > 1:
        raise InvalidValue(f"several nodes begin with '{ref}': give more of it")
    return found[0]


def _part(
    tree: ExecutionTree, ends: Iterable[NodeId], versions: Iterable[Version]
) -> ExecutionTree:
    """Return the nodes that lead to some ends."""
    kept: dict[NodeId, None] = {}
    for end in ends:
        at: NodeId | None = end
        while at is not None and at in tree.nodes and at not in kept:
            kept[at] = None
            at = tree.nodes[at].parent
    return ExecutionTree((tree.nodes[node] for node in kept), versions)
