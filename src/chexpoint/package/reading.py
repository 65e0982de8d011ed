"""The recording that the documents of a package describe.

They come from strangers: each is checked against its shape, and then for what shapes cannot say,
before a value is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from chexpoint.errors import PackageError
from chexpoint.model import (
    CellAudit,
    CellLineage,
    Effect,
    EffectKind,
    EnvironmentInfo,
    ExecutionTree,
    Hint,
    Input,
    InputKind,
    Mechanism,
    NodeId,
    Output,
    RecordedCell,
    Recording,
    TreeNode,
    Version,
)
from chexpoint.package.documents import ENVIRONMENT, FORMAT, LINEAGE, MANIFEST, OUTPUTS, Document
from chexpoint.package.names import (
    PROJECT,
    is_digest,
    is_entry_name,
    is_folder,
    is_member_name,
    is_project_name,
    is_version_name,
)
from chexpoint.package.shapes import (
    anything,
    list_of,
    nothing_or,
    number,
    one_of,
    record,
    row,
    table,
    text,
    where_true,
    whole,
)

_PACKAGE = re.compile("[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
_VERSION = re.compile("[A-Za-z0-9][A-Za-z0-9.!+_-]*")
_SHA256 = re.compile("[0-9a-f]{64}")


def _is_canonical(name: str) -> bool:
    """Return whether a lineage may call a path so; not every path is in the project."""
    if name.startswith(PROJECT):
        return is_project_name(name)
    return ".." not in name.split("/") and "\0" not in name


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda value: pattern.fullmatch(value) is not None


_node = where_true(is_digest, "the id of a node")
_path = where_true(_is_canonical, "the name of a file")
_inside = where_true(is_project_name, "the name of a file in the project")
_folder = where_true(lambda n: n == "." or is_project_name(n), "the name of a folder")
_entry = where_true(is_entry_name, "the name of something in a folder")
_contents = where_true(lambda d: d == "" or is_digest(d), "the digest of contents")
_member = where_true(is_member_name, "the name of a member")
_sha256 = where_true(_matches(_SHA256), "a SHA-256 digest")
_name = where_true(is_version_name, "the name of a version")
_package = where_true(_matches(_PACKAGE), "the name of a Python package")
_release = where_true(_matches(_VERSION), "the version of a package")
_python = where_true(lambda v: v == "" or _VERSION.fullmatch(v) is not None, "a version of Python")
_sentence = where_true(str.isprintable, "a text in one line")
_status = one_of("ok", "error")

_MANIFEST_SHAPE = record(
    {
        "format": whole,
        "made_by": _sentence,
        "title": _sentence,
        "folder": where_true(lambda p: p == "" or is_folder(p), "the path of a folder"),
        "versions": list_of(
            record(
                {"name": _name, "node": _node},
                {
                    "number": whole,
                    "created": number,
                    "origin": text,
                    "parameters": list_of(row(text, text)),
                    "status": _status,
                },
            ),
            at_least=1,
        ),
        "nodes": list_of(
            record(
                {"id": _node},
                {
                    "parent": _node,
                    "cell": text,
                    "cost": number,
                    "size": whole,
                    "delta": whole,
                    "execution_count": whole,
                    "status": _status,
                    "doubt": text,
                    "last_run": number,
                },
            )
        ),
        "extra_files": table(_inside, _contents),
        "listings": table(text, list_of(_entry)),
        "folders": list_of(_folder),
        "notes": list_of(_sentence),
        "left_out": list_of(_sentence),
        "notebooks": table(text, _member),
        "members": table(_member, row(whole, _sha256)),
    }
)
_LINEAGE_SHAPE = record(
    {
        "cells": list_of(
            record(
                {"node": _node, "code": text, "strict": text, "number": whole},
                {
                    "parent": _node,
                    "execution_count": whole,
                    "source": text,
                    "seconds": number,
                    "size_bytes": whole,
                    "status": _status,
                    "inputs": list_of(row(one_of(*get_args(InputKind)), text, rest=text)),
                    "effects": list_of(row(_path, one_of(*get_args(EffectKind)), text, whole)),
                    "hints": list_of(row(text, text, nothing_or(whole))),
                    "gaps": list_of(text),
                    "mechanism": one_of(*get_args(Mechanism)),
                    "environment_reads": whole,
                    "interrupts": whole,
                    "cell_id": text,
                    "tags": list_of(text),
                },
            )
        )
    }
)
_ENVIRONMENT_SHAPE = record(
    {
        "python": _python,
        "implementation": _sentence,
        "machine": _sentence,
        "system": _sentence,
        "packages": table(_package, _release),
        "needed": list_of(_package),
    }
)
_OUTPUTS_SHAPE = record({"outputs": table(_node, list_of(anything))})
_OUTPUT_FIELDS: Mapping[str, Mapping[str, Callable[[object, str], None]]] = {
    "stream": {"name": text, "text": text},
    "display_data": {"data": table(text, anything), "metadata": table(text, anything)},
    "execute_result": {"data": table(text, anything), "metadata": table(text, anything)},
    "error": {"ename": text, "evalue": text, "traceback": list_of(text)},
}
_MOST_CELLS = 2_000_000
_PATHS = {"file", "folder", "look"}


def check_format(manifest: object) -> None:
    """Refuse a manifest that only a newer CHEX can read, whatever else is in it.

    Raises
    ------
    PackageError
        Also if it is no manifest at all.
    """
    found = manifest.get("format") if isinstance(manifest, dict) else None
    whole(found, f"{MANIFEST}.format")
    if isinstance(found, int) and found > FORMAT:
        raise PackageError(
            f"it was made by a newer CHEX (format {found}, this one reads up to {FORMAT}): "
            "upgrade with pip install -U chexpoint"
        )
    if found != FORMAT:
        raise PackageError(f"there is no format {found}")


def check_manifest(manifest: object) -> Document:
    """Return a manifest that has everything in its place.

    Raises
    ------
    PackageError
        If it has not.
    """
    _MANIFEST_SHAPE(manifest, MANIFEST)
    if not isinstance(manifest, dict):
        raise PackageError(f"{MANIFEST} is not an object")
    return manifest


def read_environment(document: Any) -> tuple[EnvironmentInfo, tuple[str, ...]]:
    """Return Python and the packages, and which of these the versions need.

    Raises
    ------
    PackageError
        If the document is wrong.
    """
    _ENVIRONMENT_SHAPE(document, ENVIRONMENT)
    known = document["packages"]
    for name in document["needed"]:
        if name not in known:
            raise PackageError(f"{ENVIRONMENT} needs {name}, which it does not have")
    rest = {name: document[name] for name in ("python", "implementation", "machine", "system")}
    return EnvironmentInfo(**rest, packages=tuple(known.items())), tuple(document["needed"])


def read_recording(
    manifest: Document,
    lineage: Any,
    outputs: Mapping[NodeId, tuple[Output, ...]],
    environment: EnvironmentInfo,
) -> Recording:
    """Return the recording that the documents describe.

    Raises
    ------
    PackageError
        If they are wrong, or do not belong together.
    """
    _LINEAGE_SHAPE(lineage, LINEAGE)
    cells = lineage["cells"]
    if [each["node"] for each in cells] != [each["id"] for each in manifest["nodes"]]:
        raise PackageError(f"{LINEAGE} has other nodes than {MANIFEST}")
    nodes: dict[NodeId, TreeNode] = {}
    recorded: dict[NodeId, RecordedCell] = {}
    for entry, cell in zip(manifest["nodes"], cells, strict=True):
        _check_place(entry, cell, nodes)
        found = _lineage(entry, cell)
        doubt = entry.get("doubt", found.doubt())
        node = TreeNode(**{"parent": None, **entry, "doubt": doubt})
        nodes[node.id] = node
        recorded[node.id] = RecordedCell(
            lineage=found,
            outputs=outputs.get(node.id, ()),
            cell_id=cell.get("cell_id", ""),
            tags=frozenset(cell.get("tags", ())),
        )
    if not outputs.keys() <= nodes.keys():
        raise PackageError(f"{OUTPUTS} has outputs of a node that is not in the tree")
    return Recording(
        tree=ExecutionTree(nodes.values(), _versions(manifest["versions"], nodes)),
        cells=recorded,
        title=manifest["title"],
        folder=manifest["folder"],
        extra_files=manifest["extra_files"],
        listings={key: tuple(names) for key, names in manifest["listings"].items()},
        folders=tuple(manifest["folders"]),
        environment=environment,
        notes=tuple(manifest["notes"]),
    )


def outputs_by_node(document: Any) -> Mapping[NodeId, Sequence[Output | str]]:
    """Return the outputs of each cell; names of members stand in place of big ones.

    Raises
    ------
    PackageError
        If the document is wrong.
    """
    _OUTPUTS_SHAPE(document, OUTPUTS)
    found: Mapping[NodeId, Sequence[Output | str]] = document["outputs"]
    for node, entries in found.items():
        for at, entry in enumerate(entries):
            if not isinstance(entry, str):
                check_output(entry, f"{OUTPUTS}: output {at} of {node}")
    return found


def check_output(output: object, where: str) -> None:
    """Check one output of a cell.

    Raises
    ------
    PackageError
        If it is not as a notebook has it.
    """
    anything(output, where)
    if not isinstance(output, dict):
        raise PackageError(f"{where} is no output of a notebook")
    kind = output.get("output_type")
    if not isinstance(kind, str) or kind not in _OUTPUT_FIELDS:
        raise PackageError(f"{where} is no output of a notebook")
    for name, shape in _OUTPUT_FIELDS[kind].items():
        if name in output or name != "metadata":
            shape(output.get(name), f"{where}.{name}")


# ---------------------------------------------------------------- what shapes cannot say


def _check_place(entry: Document, cell: Document, known: Mapping[NodeId, TreeNode]) -> None:
    """Check that a node comes after its parent, so that no node is its own ancestor."""
    node, parent = entry["id"], entry.get("parent")
    if node in known:
        raise PackageError(f"node {node} is in the tree twice")
    if parent is not None and parent not in known:
        raise PackageError(f"the parent of node {node} does not come before it")
    # The state before a first cell is no node of the tree: only the lineage knows it.
    if (parent is None) != ("parent" in cell) or cell.get("parent") in known:
        raise PackageError(f"{LINEAGE} has another parent of node {node} than {MANIFEST}")


def _versions(entries: Sequence[Document], nodes: Mapping[NodeId, TreeNode]) -> list[Version]:
    depths: dict[NodeId | None, int] = {None: 0}
    for node in nodes.values():
        depths[node.id] = depths[node.parent] + 1
    for entry in entries:
        if entry["node"] not in nodes:
            raise PackageError(f"version {entry['name']} leads to a node that is not in the tree")
    # A few bytes of a package could otherwise stand for more cells than fit in memory.
    if sum(depths[entry["node"]] for entry in entries) > _MOST_CELLS:
        raise PackageError(f"its versions have more than {_MOST_CELLS:,} cells")
    found = []
    for entry in entries:
        rest = {name: value for name, value in entry.items() if name != "node"}
        rest["parameters"] = tuple((name, value) for name, value in entry.get("parameters", ()))
        found.append(Version(**rest, path=_path_to(entry["node"], nodes)))
    if len({(version.name, version.number) for version in found}) < len(found):
        raise PackageError("two versions have the same name and number")
    if {node for version in found for node in version.path} != nodes.keys():
        raise PackageError("a node of the tree is on the path of no version")
    return found


def _path_to(end: NodeId, nodes: Mapping[NodeId, TreeNode]) -> tuple[NodeId, ...]:
    found = []
    at: NodeId | None = end
    while at is not None:
        found.append(at)
        at = nodes[at].parent
    return tuple(reversed(found))


def _lineage(entry: Document, cell: Document) -> CellLineage:
    usual = {
        "parent": entry.get("parent"),
        "execution_count": entry.get("execution_count", 0),
        "source": entry.get("cell", ""),
        "seconds": entry.get("cost", 0.0),
        "size_bytes": entry.get("size", 0),
        "status": entry.get("status", "ok"),
    }
    own = {name: cell[name] for name in CellLineage.__slots__ if name in cell}
    return CellLineage(**{**usual, **own}, audit=_audit(cell))


def _audit(cell: Document) -> CellAudit:
    inputs = [
        Input(kind=kind, name=name, digests=tuple(digests))
        for kind, name, *digests in cell.get("inputs", ())
    ]
    for each in inputs:
        if each.kind in _PATHS:
            _path(each.name, f"an input of node {cell['node']}")
            if not each.digests:
                raise PackageError(f"an input of node {cell['node']} has no digest")
    return CellAudit(
        inputs=tuple(inputs),
        effects=tuple(
            Effect(path=path, kind=kind, digest=digest, size_bytes=size)
            for path, kind, digest, size in cell.get("effects", ())
        ),
        hints=tuple(
            Hint(kind=kind, what=what, line=line) for kind, what, line in cell.get("hints", ())
        ),
        gaps=tuple(cell.get("gaps", ())),
        mechanism=cell.get("mechanism", "system calls"),
        environment_reads=cell.get("environment_reads", 0),
        interrupts=cell.get("interrupts", 0),
    )
