"""Trees, sides and recorded projects to look at."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from chexpoint.model import (
    CellAudit,
    CellLineage,
    CellRecord,
    ExecutionTree,
    Input,
    NodeId,
    Output,
    PathCell,
    TreeNode,
    Version,
)
from chexpoint.project import Project
from chexpoint.view import Side, SideCell


def ident(number: int) -> NodeId:
    """Return the id of a made-up node."""
    return NodeId(f"{number:08x}".ljust(32, "0"))


def node(number: int, parent: int | None = None, **fields: object) -> TreeNode:
    """Return a node; by default it is cheap and small."""
    values: dict[str, object] = {
        "id": ident(number),
        "parent": None if parent is None else ident(parent),
        "cell": f"cell_{number}()",
        "cost": 0.5,
        "size": 2**20,
        "execution_count": number,
        "last_run": float(number),
    }
    return TreeNode(**{**values, **fields})  # type: ignore[arg-type]


def tree_of(nodes: Sequence[TreeNode], *ends: int, names: Sequence[str] = ()) -> ExecutionTree:
    """Return the tree of some nodes, with versions that lead to the given ones, oldest first."""
    tree = ExecutionTree(nodes)
    versions = [
        Version(
            name=names[index] if names else f"v{index}",
            path=tuple(n.id for n in tree.path(ident(end))),
            created=float(index + 1),
        )
        for index, end in enumerate(ends)
    ]
    return ExecutionTree(nodes, versions)


def random_tree(seed: int, versions: int, cells: int) -> ExecutionTree:
    """Return a tree of versions that branch off one another, and now and then end early."""
    rng = random.Random(seed)
    nodes: list[TreeNode] = []
    paths: list[list[int]] = []
    for _ in range(versions):
        base = rng.choice(paths[-8:]) if paths and rng.random() < 0.95 else []
        path = base[: int(len(base) * rng.random() ** 0.6)]
        for _ in range(len(path), max(1, int(cells * rng.uniform(0.6, 1.0)))):
            number = len(nodes) + 1
            nodes.append(
                node(
                    number,
                    path[-1] if path else None,
                    cost=10 ** rng.uniform(-3, 3),
                    size=int(10 ** rng.uniform(5, 10)),
                    status="error" if rng.random() < 0.03 else "ok",
                )
            )
            path.append(number)
        paths.append(path)
    ends = [rng.choice(path[-3:]) for path in paths]
    return tree_of(nodes, *ends, names=[f"version-{index}" for index in range(versions)])


def side_cell(
    source: str,
    number: int = 0,
    *,
    cell_id: str = "",
    inputs: tuple[Input, ...] | None = (),
    outputs: tuple[Output, ...] = (),
    **fields: object,
) -> SideCell:
    """Return a cell of a side; its inputs are unknown if they are None."""
    found = ident(number) if number else NodeId(f"{abs(hash(source)):032x}"[:32])
    values: dict[str, object] = {
        "node": found,
        "parent": ident(0),
        "taint": "",
        "source": source,
        "seconds": 1.5,
        "execution_count": number,
        "cell_id": cell_id,
    }
    cell = PathCell(**{**values, **fields})  # type: ignore[arg-type]
    lineage = None if inputs is None else lineage_of(cell, number, inputs)
    return SideCell(cell=cell, lineage=lineage, outputs=outputs)


def lineage_of(cell: PathCell, number: int, inputs: tuple[Input, ...] = ()) -> CellLineage:
    """Return the lineage of a cell; its code hash does not count comments."""
    code = "\n".join(line.partition("#")[0].rstrip() for line in cell.source.splitlines())
    return CellLineage(
        node=cell.node,
        parent=cell.parent,
        code=code,
        strict="57",
        number=number,
        execution_count=cell.execution_count,
        source=cell.source,
        audit=CellAudit(inputs=inputs),
        seconds=cell.seconds,
        size_bytes=2**20,
        status=cell.status,
    )


def side(label: str, *cells: SideCell) -> Side:
    """Return a side."""
    return Side(label=label, cells=cells)


def printed(text: str) -> Output:
    """Return what a cell printed, as an output."""
    return {"output_type": "stream", "name": "stdout", "text": text}


def reading(name: str, digest: str) -> Input:
    """Return a file that was read."""
    return Input(kind="file", name=name, digests=(digest,))


def record_version(project: Project, name: str, sources: Sequence[str], **fields: object) -> None:
    """Record a version whose nodes follow from the sources, so that equal beginnings are shared."""
    session = f"{name}-{len(project.versions())}"
    version = project.new_version(name, session=session, origin="paper.ipynb")
    parent = "0" * 32
    for number, source in enumerate(sources, start=1):
        found = random.Random(parent + source).randbytes(16).hex()
        lineage = CellLineage(
            node=NodeId(found),
            parent=NodeId(parent),
            code=source,
            strict="57",
            number=number,
            execution_count=number,
            source=source,
            audit=CellAudit(inputs=(reading("./data.csv", f"{len(source):032x}"),)),
            seconds=2.5,
            size_bytes=2**20 * number,
            status="ok",
        )
        record = CellRecord(
            lineage=lineage, outputs=(printed(f"{source} gave {number}.5\n"),), cell_id=f"c{number}"
        )
        project.record(record, session=session, version=version)
        parent = found


BASE = ("import numpy as np", "x = np.arange(10)", "x.mean()")
TUNED = ("import numpy as np", "x = np.arange(20)", "x.mean()", "x.std()")


def recorded(folder: Path) -> Project:
    """Return a project with three versions, of which two are the same."""
    project = Project.at(folder)
    record_version(project, "base", BASE)
    record_version(project, "tuned", TUNED)
    record_version(project, "base", BASE)
    return project
