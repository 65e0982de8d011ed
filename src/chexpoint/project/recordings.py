"""What a replay needs of versions that were recorded in a project."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from chexpoint.errors import InvalidValue
from chexpoint.lineage import Places, listing_digest, path_of
from chexpoint.model import (
    SKIP_TAG,
    VOLATILE_TAG,
    CellLineage,
    Digest,
    ExecutionTree,
    NodeId,
    PathCell,
    RecordedCell,
    Recording,
    Version,
)
from chexpoint.project.contents import digest_of
from chexpoint.project.project import Project
from chexpoint.project.sources import NOTEBOOK

# What is in a file that was only seen in a list hardly matters; a large one is replayed empty.
_LARGEST_EXTRA = 32 * 2**20
_HEX = re.compile("[0-9a-f]{32}")
_SKIPPED = {".chex", ".ipynb_checkpoints", "__pycache__"}
_TAG_LINE = re.compile(rf"^[ \t]*#[ \t]*({VOLATILE_TAG}|{SKIP_TAG})\b", re.MULTILINE)


class ProjectFiles:
    """Finds the contents of files that cells of a project have read."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._places = Places(str(project.folder))

    def find(self, name: str, digest: Digest) -> Path | None:
        """Return a file with these contents: what was kept of it, or the file itself.

        Parameters
        ----------
        name
            Canonical: ``./data.csv``.
        """
        kept = self._project.kept_file(digest)
        if kept is not None:
            return kept
        path = path_of(name, self._places)
        return Path(path) if path and digest_of(Path(path)) == digest else None


def recording_of(project: Project, labels: Sequence[str] | None = None) -> Recording:
    """Return versions of a project with all that was recorded of them.

    Parameters
    ----------
    labels
        Which versions; None is all, except for those that a newer one of the same name has run
        again.

    Raises
    ------
    InvalidValue
        If there is no such version, or none at all.
    CatalogError
        If the catalog cannot be read.
    """
    whole = project.tree()
    chosen = (
        whole.current().versions
        if labels is None
        else tuple(dict.fromkeys(project.version(label) for label in labels))
    )
    notes: list[str] = []
    paths: dict[Version, tuple[PathCell, ...]] = {}
    for version in chosen:
        cells = project.cells(version)
        if _is_whole(cells):
            paths[version] = cells
        else:
            notes.append(
                f"version {whole.labels[version]} is left out: its way from the first cell is not "
                "recorded completely"
            )
    if not paths:
        nothing = f"no version is recorded in {project.folder}: chex record FILE records one"
        raise InvalidValue("; ".join(notes) or nothing)
    on_path = {cell.node for cells in paths.values() for cell in cells}
    recorded = _recorded_cells(project, paths)
    listed = _listed(project, (cell.lineage for cell in recorded.values()))
    return Recording(
        tree=ExecutionTree((node for node in whole.nodes.values() if node.id in on_path), paths),
        cells=recorded,
        title=project.folder.name,
        folder=str(project.folder),
        extra_files=listed.files,
        listings=listed.names,
        folders=tuple(dict.fromkeys(listed.folders)),
        notes=(*notes, *listed.notes),
    )


def _is_whole(cells: Sequence[PathCell]) -> bool:
    """Return whether each cell goes on from the state that the one before it led to."""
    return bool(cells) and all(after.parent == before.node for before, after in pairwise(cells))


def _recorded_cells(
    project: Project, paths: Mapping[Version, Sequence[PathCell]]
) -> dict[NodeId, RecordedCell]:
    """Return what was recorded of each node, in its newest run on one of the paths."""
    newest: dict[NodeId, PathCell] = {}
    tags: dict[NodeId, frozenset[str]] = {}
    notebooks: dict[str, Mapping[str, frozenset[str]]] = {}
    for version, cells in paths.items():
        if version.origin not in notebooks:
            notebooks[version.origin] = _notebook_tags(project.folder / version.origin)
        for cell in cells:
            if cell.node not in newest or newest[cell.node].execution < cell.execution:
                newest[cell.node] = cell
            found = notebooks[version.origin].get(cell.cell_id, frozenset())
            found |= frozenset(_TAG_LINE.findall(cell.source))
            tags[cell.node] = tags.get(cell.node, frozenset()) | found
    return {
        node: RecordedCell(
            lineage=project.lineage(cell.execution),
            outputs=project.outputs(cell.execution),
            cell_id=cell.cell_id,
            tags=tags[node],
        )
        for node, cell in newest.items()
    }


def _notebook_tags(path: Path) -> Mapping[str, frozenset[str]]:
    """Return the tags that cells of a notebook have now, by their ids.

    Tags are what the user thinks of a cell, and are often given after the cell has run.
    """
    if path.suffix != NOTEBOOK:
        return {}
    try:
        notebook = json.loads(path.read_bytes())
        return {
            str(cell.get("id", "")): frozenset(map(str, _tags(cell)))
            for cell in notebook["cells"]
            if cell.get("id")
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}  # it may be gone, or being written


def _tags(cell: Mapping[str, Any]) -> list[Any]:
    tags = cell.get("metadata", {}).get("tags", [])
    return tags if isinstance(tags, list) else []


# ---------------------------------------------------------------- folders that were listed


@dataclass(slots=True)
class _Listed:
    """What folders had in them that cells have listed."""

    files: dict[str, Digest] = field(default_factory=dict)
    names: dict[Digest, tuple[str, ...]] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def _listed(project: Project, lineages: Iterable[CellLineage]) -> _Listed:
    """Return what was in the folders of the project that cells have listed, if it can be known."""
    found = _Listed()
    places = Places(str(project.folder))
    seen: dict[str, set[Digest]] = {}
    written: set[str] = set()
    for lineage in lineages:
        written.update(effect.path for effect in lineage.audit.effects)
        for each in lineage.audit.inputs:
            if each.kind == "folder" and (each.name == "." or each.name.startswith("./")):
                seen.setdefault(each.name, set()).update(each.digests[:1])
    for name, digests in sorted(seen.items()):
        path = places.project if name == "." else path_of(name, places)
        entries = _entries(path)
        # What cells have written may be in the list, or have come later.
        early = [entry for entry in entries if f"{name}/{entry.name}" not in written]
        for these in (entries, early):
            digest = listing_digest(os.fsencode(entry.name) for entry in these)
            if digest in digests:
                _add_entries(found, project, name, these)
                found.names[digest] = tuple(sorted(entry.name for entry in these))
        if any(_HEX.fullmatch(digest) and digest not in found.names for digest in digests):
            found.notes.append(
                f"the folder {name} is not as it was when a cell listed it: cells that list it may "
                "find other names"
            )
    return found


def _entries(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path or os.devnull) as entries:
            return [entry for entry in entries if entry.name not in _SKIPPED]
    except OSError:
        return []


def _add_entries(
    found: _Listed, project: Project, name: str, entries: Iterable[os.DirEntry[str]]
) -> None:
    found.folders.append(name)
    for entry in entries:
        inner = f"{name}/{entry.name}"
        if entry.is_dir():
            found.folders.append(inner)
        elif entry.is_file() and inner not in found.files:
            found.files[inner] = _kept_digest(project, Path(entry.path))


def _kept_digest(project: Project, path: Path) -> Digest:
    """Return the digest of a file whose contents can be had later; empty if they need not."""
    if path.stat().st_size > _LARGEST_EXTRA:
        return ""
    digest = digest_of(path) or ""
    return digest if digest and project.keep_file(path, digest) else ""
