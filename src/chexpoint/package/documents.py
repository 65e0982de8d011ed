"""A recording as the JSON documents of a package.

What is as usual, or the same as elsewhere in the package, is left out: a cell takes a few hundred
bytes.  Events are left out altogether: there may be very many, and a replay does not compare them.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from chexpoint.errors import PackageError
from chexpoint.model import (
    CellAudit,
    EnvironmentInfo,
    ExecutionTree,
    Output,
    RecordedCell,
    Recording,
    TreeNode,
    Version,
)
from chexpoint.package.names import is_folder, plain
from chexpoint.package.shapes import anything

FORMAT = 1
"""The number of the format that is written, and the newest that is read."""

MANIFEST = "chex.json"
LINEAGE = "lineage.json"
OUTPUTS = "outputs.json"
ENVIRONMENT = "environment.json"
LOCK = "requirements.lock"
README = "README.md"
CRATE = "ro-crate-metadata.json"

BIG_OUTPUT = 16 * 1024
"""Outputs of more letters than this are members of their own, each kept once."""

Document = dict[str, Any]


def encoded(document: object) -> bytes:
    """Return the bytes of a document: the same for the same values."""
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def portable(recording: Recording) -> Recording:
    """Return what a package holds of a recording: no events, and no path of this machine.

    Outputs are as they were: if they show where the project was, the package says it too.

    Sentences that will be shown to strangers have nothing in them that confuses a terminal.

    Raises
    ------
    PackageError
        If its parts do not belong together.
    """
    tree = recording.tree
    for version in tree.versions:
        if version.node is None or tuple(n.id for n in tree.path(version.node)) != version.path:
            raise PackageError(
                f"the path of version {tree.labels[version]} is not whole: record it again"
            )
    nodes = list(nodes_in_order(tree))
    lost = [node.id for node in nodes if node.id not in recording.cells]
    if lost:
        raise PackageError(f"nothing is recorded of node {lost[0]}: record the version again")
    versions = (replace(each, origin=_portable_origin(each.origin)) for each in tree.versions)
    return replace(
        recording,
        tree=ExecutionTree(nodes, versions),
        cells={node.id: _without_events(recording.cells[node.id]) for node in nodes},
        title=plain(recording.title),
        folder=recording.folder if _is_shown(recording) else "",
        notes=tuple(map(plain, recording.notes)),
    )


def _is_shown(recording: Recording) -> bool:
    """Return whether outputs tell where the project was, so that nothing is given away by it."""
    folder = encoded(recording.folder)[1:-1]
    return is_folder(recording.folder) and any(
        folder in encoded(output) for cell in recording.cells.values() for output in cell.outputs
    )


def _portable_origin(origin: str) -> str:
    is_elsewhere = os.path.isabs(origin) or ".." in origin.split("/")
    return os.path.basename(origin) if is_elsewhere else origin


def _without_events(cell: RecordedCell) -> RecordedCell:
    # Nor what the author's graph says of variables: a replay computes them itself.
    audit = replace(cell.lineage.audit, events=())
    return replace(cell, lineage=replace(cell.lineage, audit=audit, variables=None))


def nodes_in_order(tree: ExecutionTree) -> Iterator[TreeNode]:
    """Yield the nodes of all versions, each after its parent."""
    for node in dict.fromkeys(node for version in tree.versions for node in version.path):
        yield tree.nodes[node]


# ---------------------------------------------------------------- the documents


def tree_document(recording: Recording) -> Document:
    """Return the part of the manifest that is about the tree."""
    return {
        "folder": recording.folder,
        "versions": [_version(version) for version in recording.tree.versions],
        "nodes": [
            _unusual(node, {"parent": None, "doubt": recording.cells[node.id].lineage.doubt()})
            for node in nodes_in_order(recording.tree)
        ],
        "extra_files": dict(sorted(recording.extra_files.items())),
        "listings": {digest: list(names) for digest, names in sorted(recording.listings.items())},
        "folders": list(recording.folders),
        "notes": list(recording.notes),
    }


def lineage_document(recording: Recording) -> Document:
    """Return the document with what each cell took in and left behind, in the tree's order."""
    return {
        "cells": [_cell(recording.cells[node.id], node) for node in nodes_in_order(recording.tree)]
    }


def outputs_document(recording: Recording) -> tuple[Document, dict[str, bytes]]:
    """Return the document with the outputs of each cell, and big outputs as members.

    In the document the name of the member stands in place of a big output.

    Raises
    ------
    PackageError
        If an output is nested too deep to be read again.
    """
    found: Document = {}
    members: dict[str, bytes] = {}
    for node in nodes_in_order(recording.tree):
        entries: list[Output | str] = []
        for output in recording.cells[node.id].outputs:
            anything(output, f"an output of node {node.id}")
            data = encoded(output)
            if len(data) > BIG_OUTPUT:
                member = output_member(hashlib.sha256(data).hexdigest())
                members[member] = data
                entries.append(member)
            else:
                entries.append(output)
        if entries:
            found[node.id] = entries
    return {"outputs": found}, members


def output_member(sha256: str) -> str:
    """Return the member that holds a big output."""
    return f"outputs/{sha256}.json"


def environment_document(environment: EnvironmentInfo, needed: tuple[str, ...]) -> Document:
    """Return the document with Python and the packages, and which of them the versions need."""
    return {
        "python": environment.python,
        "implementation": environment.implementation,
        "machine": environment.machine,
        "system": environment.system,
        "packages": dict(environment.packages),
        "needed": list(needed),
    }


def _version(version: Version) -> Document:
    found = _unusual(version, {}, {"path"})
    return {**found, "node": version.node}


def _cell(cell: RecordedCell, node: TreeNode) -> Document:
    lineage = cell.lineage
    usual = {
        "source": node.cell,
        "parent": node.parent,
        "seconds": node.cost,
        "size_bytes": node.size,
        "execution_count": node.execution_count,
        "status": node.status,
    }
    rest = {"cell_id": cell.cell_id, "tags": sorted(cell.tags)}
    return {
        **_unusual(lineage, usual, {"audit"}),
        **_audit(lineage.audit),
        **{name: value for name, value in rest.items() if value},
    }


def _audit(audit: CellAudit) -> Document:
    rows = {
        "inputs": [[each.kind, each.name, *each.digests] for each in audit.inputs],
        "effects": [[each.path, each.kind, each.digest, each.size_bytes] for each in audit.effects],
        "hints": [[each.kind, each.what, each.line] for each in audit.hints],
        "gaps": list(audit.gaps),
    }
    return {
        **{name: values for name, values in rows.items() if values},
        **_unusual(audit, {}, {"events", *rows}),
    }


def _unusual(
    value: TreeNode | Version | CellAudit | Any,
    usual: Mapping[str, object],
    left_out: set[str] | frozenset[str] = frozenset(),
) -> Document:
    """Return the fields of a value that are not what they usually are."""
    found = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if field.name not in left_out and item != usual.get(field.name, field.default):
            found[field.name] = item
    return found
