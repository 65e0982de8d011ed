"""Recordings to pack, and archives to take apart."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import xxhash

from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellVariables,
    Effect,
    EnvironmentInfo,
    Event,
    ExecutionTree,
    Hint,
    Input,
    NodeId,
    Output,
    RecordedCell,
    Recording,
    TreeNode,
    VariableGroup,
    Version,
)
from chexpoint.package import Needs, write_package

DATA = b"x,y\n1,2\n"
HELPER = b"import numpy\n\ndef double(x):\n    return 2 * x\n"
EXTRA = b"seen in a list"
ROOT_NODE = NodeId("f" * 32)

NEEDS = Needs(packages=("numpy",))
"""Finding out what cells need takes longer than everything else."""

Json = dict[str, Any]


def ident(number: int) -> NodeId:
    """Return the id of a made-up node."""
    return NodeId(f"{number:032x}")


def digest(data: bytes) -> str:
    """Return the digest that lineages have of contents."""
    return xxhash.xxh3_128_hexdigest(data)


def stream(text: str) -> Output:
    """Return what a cell printed."""
    return {"output_type": "stream", "name": "stdout", "text": text}


def shown(**data: object) -> Output:
    """Return what a cell displayed."""
    return {"output_type": "display_data", "data": data, "metadata": {}}


PICTURE = shown(**{"image/png": "iVBORw0KGgo" * 1600})

NOTHING = CellAudit()
FULL = CellAudit(
    inputs=(
        Input(kind="file", name="./data.csv", digests=(digest(DATA), "absent")),
        Input(kind="file", name="./sub/helper.py", digests=(digest(HELPER),)),
        Input(kind="file", name="./gone\udce9.csv", digests=("ab" * 16,)),
        Input(kind="file", name="./huge.bin", digests=("size:99999999999:1",)),
        Input(kind="file", name="~/private.csv", digests=("cd" * 16,)),
        Input(kind="file", name="./new.csv", digests=("absent",)),
        Input(kind="folder", name="./sub", digests=("ee" * 16,)),
        Input(kind="look", name="./maybe", digests=("file:no",)),
        Input(kind="variable", name="HOME", digests=("ff" * 16,)),
        Input(kind="network", name="", digests=("aa" * 16,)),
    ),
    effects=(
        Effect(path="./日本\n\udcff", kind="written", digest="dd" * 16, size_bytes=7),
        Effect(path="$TMP/tmp*", kind="transient"),
    ),
    hints=(Hint(kind="time", what="reads the clock", line=2), Hint(kind="random", what="dice")),
    gaps=("a process could not be seen",),
    mechanism="audit hook",
    environment_reads=12,
    interrupts=3,
)
"""An audit with something in every field but the events."""


def cell(number: int, parent: int | None, audit: CellAudit = NOTHING) -> RecordedCell:
    """Return a cell of which nothing is unusual."""
    return RecordedCell(
        lineage=CellLineage(
            node=ident(number),
            parent=ROOT_NODE if parent is None else ident(parent),
            code="c0" * 16,
            strict="57" * 16,
            number=number,
            execution_count=number,
            source=f"print({number})",
            audit=audit,
            seconds=0.25,
            size_bytes=1000,
        ),
        outputs=(stream(f"{number}\n"),),
    )


def node_of(recorded: RecordedCell, **fields: object) -> TreeNode:
    """Return the node of a cell."""
    lineage = recorded.lineage
    values: Json = {
        "id": lineage.node,
        "parent": None if lineage.parent == ROOT_NODE else lineage.parent,
        "cell": lineage.source,
        "cost": lineage.seconds,
        "size": lineage.size_bytes,
        "execution_count": lineage.execution_count,
        "status": lineage.status,
        "doubt": lineage.doubt(),
        "last_run": 1_700_000_000.5,
    }
    return TreeNode(**{**values, **fields})


def small_recording() -> Recording:
    """Return two versions that share a cell, as they usually are."""
    cells = [
        cell(
            1,
            None,
            CellAudit(inputs=(Input(kind="file", name="./data.csv", digests=(digest(DATA),)),)),
        ),
        cell(2, 1),
        cell(3, 1),
    ]
    versions = [
        Version(name="base", path=(ident(1), ident(2)), created=1.0, origin="paper.ipynb"),
        Version(name="tuned", path=(ident(1), ident(3)), created=2.0, origin="paper.ipynb"),
    ]
    return Recording(
        tree=ExecutionTree([node_of(each) for each in cells], versions),
        cells={each.node: each for each in cells},
        title="paper",
        environment=EnvironmentInfo(
            python="3.11.2",
            implementation="cpython",
            machine="x86_64",
            system="Linux",
            packages=(("numpy", "1.0"),),
        ),
    )


def full_recording() -> Recording:
    """Return versions with something in every field."""
    first = cell(1, None, FULL)
    second = replace(
        cell(2, 1),
        outputs=(
            stream("caf\udce9 é in /home/somebody/paper\n"),
            PICTURE,
            shown(**{"text/plain": "<Figure>", "application/json": {"a": [1, 2.5, None, True]}}),
            {"output_type": "execute_result", "data": {}, "metadata": {}, "execution_count": 7},
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["a", "b"]},
        ),
        cell_id="a-b",
        tags=frozenset({"chex-volatile", "mine"}),
    )
    lineage = replace(
        second.lineage,
        execution_count=9,
        source="# another layout\nprint(2)",
        seconds=1.5,
        size_bytes=5,
        status="error",
    )
    second = replace(second, lineage=lineage)
    third = replace(cell(3, 2), outputs=(PICTURE,))
    fourth = replace(cell(4, None), outputs=())
    nodes = [
        node_of(first, delta=12),
        TreeNode(id=ident(2), parent=ident(1), cell="print(2)", doubt="because"),
        node_of(third, doubt="for another reason"),
        node_of(fourth, last_run=0.0),
    ]
    versions = [
        Version(
            name="Base",
            number=3,
            path=(ident(1), ident(2), ident(3)),
            created=5.5,
            origin="sub/paper.ipynb",
            parameters=(("n", "4"), ("m", "five")),
            status="error",
        ),
        Version(name="base", path=(ident(4),), created=6.0),
        Version(name="Base", number=2, path=(ident(1),), created=1.0),
        Version(name="größe", path=(ident(1), ident(2))),
    ]
    return Recording(
        tree=ExecutionTree(nodes, versions),
        cells={each.node: each for each in (first, second, third, fourth)},
        title="a title",
        folder="/home/somebody/paper",
        extra_files={"./sub/z.txt": digest(EXTRA), "./sub/large.bin": ""},
        listings={"ee" * 16: ("helper.py", "large.bin", "z\udce9.txt")},
        folders=(".", "./sub", "./sub/empty"),
        environment=EnvironmentInfo(
            python="3.12.1",
            implementation="cpython",
            machine="x86_64",
            system="Linux",
            packages=(("numpy", "2.0.1+local"), ("pandas", "2.2")),
        ),
        notes=("a note",),
    )


def files_in(folder: Path) -> Callable[[str, str], Path | None]:
    """Return where contents are found, and put some there."""
    for data in (DATA, HELPER, EXTRA):
        (folder / digest(data)).write_bytes(data)

    def find(name: str, wanted: str) -> Path | None:
        path = folder / wanted
        return path if path.is_file() else None

    return find


def notebook(version: Version) -> Json:
    """Return a notebook that tells the name of its version."""
    return {"nbformat": 4, "cells": [], "metadata": {"name": version.name}}


def packed(folder: Path, recording: Recording | None = None) -> Path:
    """Write a package, and return it."""
    contents = folder / "contents"
    contents.mkdir(exist_ok=True)
    out = folder / "paper.chex"
    write_package(out, recording or small_recording(), files_in(contents), notebook, needs=NEEDS)
    return out


def with_events(recording: Recording) -> Recording:
    """Return a recording whose first cell has events."""
    node, first = next(iter(recording.cells.items()))
    audit = replace(first.lineage.audit, events=(Event("0", "read", "./data.csv", "ab"),))
    changed = replace(first, lineage=replace(first.lineage, audit=audit))
    return replace(recording, cells={**recording.cells, node: changed})


def with_variables(recording: Recording) -> Recording:
    """Return a recording of whose first cell it is known what it did to variables."""
    node, first = next(iter(recording.cells.items()))
    variables = CellVariables(writes=(VariableGroup(names=("y",), kinds=("int",)),))
    changed = replace(first, lineage=replace(first.lineage, variables=variables))
    return replace(recording, cells={**recording.cells, node: changed})


# ---------------------------------------------------------------- taking archives apart


def members_of(package: Path) -> dict[str, bytes]:
    """Return the members of a package, in order."""
    with zipfile.ZipFile(package) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def put_together(
    package: Path,
    members: Mapping[str, bytes],
    *,
    is_honest: bool = True,
    method: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """Write members into a package, after what the manifest says of them was put right."""
    found = dict(members)
    if is_honest:
        manifest = json.loads(found["chex.json"])
        manifest["members"] = {
            name: [len(data), hashlib.sha256(data).hexdigest()]
            for name, data in found.items()
            if name != "chex.json"
        }
        found["chex.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(package, "w", method) as archive:
        for name, data in found.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return package


def edited(package: Path, member: str, edit: Callable[[Any], object]) -> Path:
    """Change the value of a JSON member in place; the manifest says the truth about it."""
    members = members_of(package)
    document = json.loads(members[member])
    edit(document)
    members[member] = json.dumps(document).encode()
    return put_together(package, members)
