"""Which artifact each variable is, at each place on a path of cells.

An operation is named by its code, the packages, the artifacts that it reads and what it takes from
outside; an artifact by the operation that made it.  So two paths that share only some cells give
the same names to what these compute.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import xxhash

from chexpoint.model import (
    Artifact,
    ArtifactId,
    CellLineage,
    CellVariables,
    Digest,
    Input,
    NodeId,
    Operation,
    OperationId,
    Read,
    VariableGroup,
)

FILE = "file:"
"""Begins the name of a file that a cell of the path has written, among what operations read."""

ANY = "*"
"""Stands, among the names that functions use, for all there are."""

_ASKED = ":files"
"""Among what cells read: all files that cells of the path have written."""

_BY_CELL = "cell:"


@dataclass(frozen=True, slots=True)
class Bindings:
    """What the variables are at a place."""

    root: NodeId
    """The fresh interpreter, and so the packages."""
    variables: Mapping[str, ArtifactId] = field(default_factory=dict)
    groups: Mapping[ArtifactId, VariableGroup] = field(default_factory=dict)
    """Without contents."""
    operations: tuple[OperationId, ...] = ()
    """Of the cells that led here."""
    files: Mapping[str, int] = field(default_factory=dict)
    """Which cell of the path, counted from 1, has written a file last."""

    def digest(self, name: str) -> Digest:
        """Return what tells the contents of a variable; empty if they are not known.

        Who shares objects with it counts: a cell that changes it changes the others, too.
        """
        group = self.groups.get(self.variables.get(name, ArtifactId("")))
        if group is None or not group.digest:
            return ""
        return _hash("contents", group.digest, *group.names)

    def closure(self, names: Iterable[str]) -> frozenset[str]:
        """Return variables, with those that functions in them use, as far as they are bound."""
        found: set[str] = set()
        waiting = [name for name in names if name in self.variables]
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                group = self.groups[self.variables[name]]
                if ANY in group.reaches:
                    return frozenset(self.variables)
                # Of all functions in the group: what shares objects may be called through it.
                waiting += [each for each in group.reaches if each in self.variables]
        return frozenset(found)


@dataclass(frozen=True, slots=True)
class Deed:
    """A cell on a path, as the graph sees it."""

    operation: Operation
    artifacts: tuple[Artifact, ...]
    variables: CellVariables
    after: Bindings


def follow(before: Bindings, lineage: CellLineage, *, run: str) -> Deed | None:
    """Return what a cell is in the graph; None if it is not known what it did to variables.

    Parameters
    ----------
    run
        Names this run of the cell, if it may give something else when it runs again.
    """
    variables = lineage.variables
    if variables is None:
        return None
    doubt = lineage.doubt()
    reads = tuple(_reads(before, lineage.audit.inputs, variables))
    ident = variables.operation
    if ident is None:
        parts = [run] if doubt else [json.dumps(_outside(lineage.audit.inputs))]
        parts += [f"{read.name}={read.artifact}" for read in reads]
        ident = OperationId(_hash("operation", lineage.code, before.root, *parts, *variables.warm))
    groups = [replace(group, contents="") for group in variables.writes]
    artifacts = tuple(
        Artifact(id=artifact_id(ident, group.names), operation=ident, group=group)
        for group in groups
    )
    operation = Operation(
        id=ident,
        code=lineage.code,
        packages=before.root,
        source=lineage.source,
        seconds=lineage.seconds,
        reads=reads,
        writes=tuple(each.id for each in artifacts),
        deleted=variables.deleted,
        sticky=variables.sticky,
        doubt=doubt,
    )
    return Deed(operation, artifacts, variables, _after(before, operation, artifacts, lineage))


def artifact_id(operation: OperationId, names: Iterable[str]) -> ArtifactId:
    """Return how a group of variables is called that an operation leaves."""
    return ArtifactId(_hash("artifact", operation, *names))


def matches(before: Bindings, operation: Operation, names: Iterable[str]) -> str:
    """Return why an operation that ran elsewhere cannot stand for a cell here; or nothing.

    Parameters
    ----------
    names
        All variables that the cell may use here.
    """
    known = {read.name for read in operation.reads}
    for name in sorted(set(names) - known):
        return f"'{name}' was not there when it ran before"
    for read in operation.reads:
        mine = before.variables.get(read.name)
        if read.name.startswith(FILE):
            path = read.name.removeprefix(FILE)
            mine = _every_file(before) if path == _ASKED else _file(before, path)
            if mine != read.artifact:
                what = "a file that it may ask about" if path == _ASKED else path
                return f"{what} was made by other code"
        elif mine is None:
            return f"there is no '{read.name}'"
        elif mine != read.artifact and not _is_equal(before.digest(read.name), read.digest):
            return f"'{read.name}' was computed in another way"
    return ""


def renumbered(before: Bindings, inputs: Iterable[Input]) -> tuple[Input, ...] | None:
    """Return the inputs of a cell that ran elsewhere as they would be here.

    What a cell of its path had left is called by the number of that cell.  None if a file is, here,
    what a cell has left, and was not there; or the other way round.
    """
    found = []
    for each in inputs:
        here = before.files.get(each.name)
        is_left = any(word.startswith(_BY_CELL) for word in each.digests)
        if is_left != (here is not None) or (is_left and len(each.digests) > 1):
            return None
        found.append(replace(each, digests=(f"{_BY_CELL}{here}",)) if is_left else each)
    return tuple(found)


def _is_equal(one: Digest, other: Digest) -> bool:
    return bool(one) and one == other


def _reads(before: Bindings, inputs: Iterable[Input], variables: CellVariables) -> Iterator[Read]:
    for name in sorted(set(variables.reads)):
        artifact = before.variables.get(name)
        if artifact is not None:
            yield Read(name=name, artifact=artifact, digest=before.digest(name))
    if _ASKED in variables.reads:
        yield Read(name=FILE + _ASKED, artifact=_every_file(before))
    for each in inputs:
        for word in each.digests:
            if word.startswith(_BY_CELL):
                number = int(word.removeprefix(_BY_CELL))
                writer = before.operations[number - 1 : number] or (OperationId("?"),)
                yield Read(name=FILE + each.name, artifact=_file_id(writer[0], each.name))


def _file(before: Bindings, path: str) -> ArtifactId | None:
    number = before.files.get(path)
    return None if number is None else _file_id(before.operations[number - 1], path)


def _every_file(before: Bindings) -> ArtifactId:
    made = [f"{path}={before.operations[at - 1]}" for path, at in sorted(before.files.items())]
    return ArtifactId(_hash("files", *made))


def _file_id(operation: OperationId, path: str) -> ArtifactId:
    return artifact_id(operation, [FILE + path])


def _outside(inputs: Iterable[Input]) -> Sequence[object]:
    """Return the inputs that are not what another cell of the path has left."""
    return sorted(
        [each.kind, each.name, list(each.digests)]
        for each in inputs
        if not any(word.startswith(_BY_CELL) for word in each.digests)
    )


def _after(
    before: Bindings,
    operation: Operation,
    artifacts: Iterable[Artifact],
    lineage: CellLineage,
) -> Bindings:
    variables = {k: v for k, v in before.variables.items() if k not in operation.deleted}
    groups = dict(before.groups)
    for artifact in artifacts:
        groups[artifact.id] = artifact.group
        variables |= dict.fromkeys(artifact.group.names, artifact.id)
    used = set(variables.values())
    number = len(before.operations) + 1
    left = {"written", "held", "deleted", "folder"}
    touched = {each.path: number for each in lineage.audit.effects if each.kind in left}
    return Bindings(
        root=before.root,
        variables=variables,
        groups={ident: group for ident, group in groups.items() if ident in used},
        operations=(*before.operations, operation.id),
        files={**before.files, **touched},
    )


def _hash(tag: str, *parts: str) -> str:
    hasher = xxhash.xxh3_128()
    for part in (tag, *parts):
        data = part.encode("utf-8", "surrogatepass")
        hasher.update(b"%d:" % len(data))
        hasher.update(data)
    return hasher.hexdigest()
