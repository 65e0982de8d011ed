"""Which files a cell must find, and how it gets them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from chexpoint.model import CellLineage, Digest, Recording
from chexpoint.replay.scratch import Scratch

ABSENT = "absent"
_PROJECT = "./"
_HEX = re.compile("[0-9a-f]{32}")


class FileSource(Protocol):
    """Where the contents of files are."""

    def find(self, name: str, digest: Digest) -> Path | None:
        """Return a file with these contents; None if there is none.

        Parameters
        ----------
        name
            Canonical: ``./data.csv``.
        """


class NeededFile(NamedTuple):
    """A file that a cell has to find as it was."""

    name: str
    """Canonical."""
    digest: Digest
    """Of its contents, or ``absent``."""


def needed_files(lineage: CellLineage) -> Iterator[NeededFile]:
    """Yield the files of the project that a cell read, and that no cell before it had written."""
    for each in lineage.audit.inputs:
        if each.kind == "file" and is_in_project(each.name):
            first = each.digests[0]
            if first == ABSENT or _HEX.fullmatch(first):
                yield NeededFile(each.name, first)


def missing_file(lineage: CellLineage, files: FileSource) -> str | None:
    """Return the first file that a cell read and that nobody has any more."""
    for needed in needed_files(lineage):
        if needed.digest != ABSENT and files.find(needed.name, needed.digest) is None:
            return needed.name
    return None


def lay_out(recording: Recording, files: FileSource, scratch: Scratch) -> None:
    """Put what no cell has read, but some may list, into a folder that is empty."""
    scratch.make_folder(".chex")  # it is beside every notebook that is recorded
    for folder in recording.folders:
        if is_in_project(folder):
            scratch.make_folder(_relative(folder))
    for name, digest in recording.extra_files.items():
        if is_in_project(name):
            scratch.place(_relative(name), files.find(name, digest) if digest else None)


def make_ready(
    lineage: CellLineage,
    recording: Recording,
    files: FileSource,
    scratch: Scratch,
    written: Collection[str],
) -> None:
    """Let a cell find what it found when it was recorded.

    Parameters
    ----------
    written
        Canonical names of what cells before it have changed: those are as they should be.
    """
    for each in lineage.audit.inputs:
        names = recording.listings.get(each.digests[0]) if each.kind == "folder" else None
        if names is not None:
            _show_only(each.name, names, recording.extra_files, files, scratch, written)
    for name, digest in needed_files(lineage):
        if name in written:
            continue
        if digest == ABSENT:
            scratch.remove(_relative(name))
        else:
            scratch.place(_relative(name), files.find(name, digest))


def _show_only(
    folder: str,
    names: Collection[str],
    extras: Mapping[str, Digest],
    files: FileSource,
    scratch: Scratch,
    written: Collection[str],
) -> None:
    """Let a folder have just these names in it, apart from what cells have written."""
    for name in names:
        path = f"{folder}/{name}"
        if path in extras and path not in written and not scratch.has(_relative(path)):
            digest = extras[path]
            scratch.place(_relative(path), files.find(path, digest) if digest else None)
    for path in extras:
        parent, _, name = path.rpartition("/")
        if parent == folder and name not in names and path not in written:
            scratch.remove(_relative(path))


def is_in_project(name: str) -> bool:
    """Return whether a canonical name is that of something in the project folder."""
    return name.startswith(_PROJECT) and ".." not in name.split("/") and "\0" not in name


def _relative(name: str) -> str:
    return name.removeprefix(_PROJECT)
