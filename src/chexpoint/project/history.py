"""Reads the tree, the versions and their cells from a catalog, within one transaction."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from chexpoint.errors import CatalogError, InvalidValue, suggestion
from chexpoint.model import ExecutionTree, NodeId, PathCell, Taint, TreeNode, Version
from chexpoint.project.names import version_ref
from chexpoint.project.outputs import OutputRow
from chexpoint.project.rows import (
    UNREADABLE,
    as_int,
    as_node,
    as_parameters,
    as_real,
    as_source,
    as_status,
    as_text,
    stored,
)


class PathRow(NamedTuple):
    """One run of a cell on a path, as its row has it."""

    execution: Any
    node: Any
    parent: Any
    taint: Any
    parent_taint: Any
    seconds: Any
    execution_count: Any
    status: Any
    session: Any
    number: Any
    """Its place on the path from the root."""
    source: Any
    digest: Any
    cell_id: Any
    is_reused: Any
    version: Any
    """The version that shows it so, and the place it has there; None if it is as it ran."""
    step: Any

    def follows(self, other: PathRow) -> bool:
        """Return whether this run went on from the state that another led to."""
        return bool((self.parent, self.parent_taint) == (other.node, other.taint))

    def cell(self) -> PathCell:
        """Return the value.

        Raises
        ------
        CatalogError
            If it is damaged.
        """
        try:
            return PathCell(
                node=as_node(self.node),
                parent=as_node(self.parent),
                taint=as_text(self.taint),
                source=as_source(self.source, self.digest),
                seconds=as_real(self.seconds),
                execution_count=as_int(self.execution_count),
                status=as_status(self.status),
                execution=as_int(self.execution),
                cell_id=as_text(self.cell_id),
                is_reused=bool(as_int(self.is_reused)),
            )
        except ValueError as error:
            where = f"[{self.execution_count}] (node {self.node})"
            raise CatalogError(f"cell {where} is damaged in the catalog: {error}") from error


def path_rows(
    connection: sqlite3.Connection, query: str, values: tuple[object, ...]
) -> list[PathRow]:
    """Return the rows of a query on the view ``run_on_path`` or ``step_on_path``."""
    return [PathRow(*row) for row in connection.execute(query, values)]


def runs_after(connection: sqlite3.Connection, node: NodeId, taint: Taint) -> list[PathCell]:
    """Return the runs that went on from a state and can be shown again, newest first."""
    rows = path_rows(
        connection,
        "SELECT * FROM run_on_path WHERE id IN (SELECT max(id) FROM execution"
        " WHERE parent = ? AND parent_taint = ? AND status = 'ok' AND outputs IS NOT NULL"
        " GROUP BY node, taint, source) ORDER BY id DESC",
        (stored(node), stored(taint)),
    )
    return [row.cell() for row in rows]


def kept_outputs(connection: sqlite3.Connection, execution: int) -> OutputRow:
    """Return the outputs of a run, as the catalog has them.

    Raises
    ------
    InvalidValue
        If there is no such run.
    """
    row = connection.execute(
        "SELECT node, execution_count, outputs, output.digest, output.text FROM execution"
        " LEFT JOIN output ON output.id = execution.outputs WHERE execution.id = ?",
        (execution,),
    ).fetchone()
    if row is None:
        raise InvalidValue(f"no run has the id {execution}")
    return OutputRow(*row)


# ---------------------------------------------------------------- versions


class Listed(NamedTuple):
    """A version and its id."""

    ident: int
    version: Version


def all_versions(connection: sqlite3.Connection) -> tuple[Version, ...]:
    """Return the versions that have a cell, in the order in which they were begun."""
    rows = connection.execute(
        "SELECT id, name, number, created, origin, parameters FROM version ORDER BY id"
    )
    steps = connection.execute(
        "SELECT version, node, status FROM step LEFT JOIN execution ON id = execution"
        " ORDER BY version, number"
    )
    return tuple(listed.version for listed in _listed(rows, steps))


def find_version(connection: sqlite3.Connection, ref: str) -> Listed | None:
    """Return the version that is called ``name`` or ``name@2``, if there is one with a cell."""
    name, number = version_ref(ref)
    rows = connection.execute(
        "SELECT id, name, number, created, origin, parameters FROM version"
        " WHERE name = ? AND (? IS NULL OR number = ?)"
        " AND EXISTS (SELECT 1 FROM step WHERE step.version = version.id)"
        " ORDER BY number DESC LIMIT 1",
        (stored(name), number, number),
    ).fetchall()
    if not rows:
        return None
    steps = connection.execute(
        "SELECT version, node, status FROM step LEFT JOIN execution ON id = execution"
        " WHERE version = ? ORDER BY number",
        (rows[0][0],),
    )
    return _listed(rows, steps)[0]


def cells_of_version(connection: sqlite3.Connection, ref: str) -> tuple[PathCell, ...]:
    """Return the cells of a version, as they ran.

    Raises
    ------
    InvalidValue
        If there is no such version.
    """
    found = find_version(connection, ref)
    if found is None:
        raise no_version(connection, ref)
    return tuple(row.cell() for row in steps_of(connection, found.ident))


def steps_of(connection: sqlite3.Connection, version: int) -> list[PathRow]:
    """Return the cells of a version, by its id."""
    query = "SELECT * FROM step_on_path WHERE version = ? ORDER BY step"
    return path_rows(connection, query, (version,))


def no_version(connection: sqlite3.Connection, ref: str) -> InvalidValue:
    """Return what to raise if no version has this name."""
    rows = connection.execute(
        "SELECT name, number FROM version"
        " WHERE EXISTS (SELECT 1 FROM step WHERE step.version = version.id) ORDER BY number"
    ).fetchall()
    newest = {str(name): number for name, number in rows}
    labels = {
        name if newest[name] == number else f"{name}@{number}"
        for name, number in ((str(name), number) for name, number in rows)
    }
    if not labels:
        return InvalidValue(
            f"no version '{ref}': none is recorded yet, %chex_record NAME begins one"
        )
    return InvalidValue(f"no version '{ref}'. {suggestion(ref, labels)}")


def _listed(rows: Iterable[tuple[Any, ...]], steps: Iterable[tuple[Any, ...]]) -> list[Listed]:
    paths: dict[int, list[NodeId]] = {}
    last: dict[int, object] = {}
    for version, node, status in steps:
        paths.setdefault(version, []).append(node)
        last[version] = status
    found = []
    for ident, name, number, created, origin, parameters in rows:
        if ident not in paths:
            continue  # nothing was recorded of it yet
        try:
            version = Version(
                name=as_text(name),
                number=as_int(number),
                path=tuple(map(as_node, paths[ident])),
                created=as_real(created),
                origin=as_text(origin),
                parameters=as_parameters(parameters),
                status=as_status(last[ident]),
            )
        except UNREADABLE as error:
            label = f"{name}@{number}"
            raise CatalogError(f"version {label} is damaged in the catalog: {error}") from error
        found.append(Listed(ident, version))
    return found


# ---------------------------------------------------------------- tree


def whole_tree(connection: sqlite3.Connection) -> ExecutionTree:
    """Return all nodes and versions.

    Raises
    ------
    CatalogError
        If some are damaged.
    """
    rows = connection.execute(
        "SELECT node.id, parent, source.text, cost, size_bytes, execution_count, status, doubt,"
        " last_run FROM node LEFT JOIN source ON source.id = node.source"
    ).fetchall()
    known = {row[0] for row in rows}
    nodes = {node.id: node for node in (_node(known, row) for row in rows)}
    _refuse_circles(nodes)
    versions = all_versions(connection)
    for version in versions:
        for node in version.path:
            if node not in nodes:
                label = f"{version.name}@{version.number}"
                raise CatalogError(f"version {label} is damaged in the catalog: no node {node}")
    return ExecutionTree(nodes.values(), versions)


def _node(known: set[object], row: tuple[Any, ...]) -> TreeNode:
    ident, parent, source, cost, size, count, status, doubt, last_run = row
    try:
        return TreeNode(
            id=as_node(ident),
            parent=as_node(parent) if parent in known else None,
            cell=as_text(source),
            cost=as_real(cost),
            size=as_int(size),
            execution_count=as_int(count),
            status=as_status(status),
            doubt=as_text(doubt),
            last_run=as_real(last_run),
        )
    except ValueError as error:
        raise CatalogError(f"node {ident} is damaged in the catalog: {error}") from error


def _refuse_circles(nodes: Mapping[NodeId, TreeNode]) -> None:
    good: set[NodeId | None] = {None}
    for start in nodes:
        way: dict[NodeId, None] = {}
        at: NodeId | None = start
        while at not in good:
            if at is None or at in way:
                raise CatalogError(f"node {at} is damaged in the catalog: it is its own ancestor")
            way[at] = None
            at = nodes[at].parent
        good.update(way)
