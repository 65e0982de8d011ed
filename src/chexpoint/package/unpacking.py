"""Put the files and notebooks of a package where people can work with them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from chexpoint.errors import InvalidValue
from chexpoint.model import Digest, Recording
from chexpoint.package.documents import LOCK
from chexpoint.package.names import PROJECT, file_member, is_digest, plain
from chexpoint.package.opening import Package, Tally, Watch, watch_nothing

_MODE = 0o666  # less what the user's mask takes away
# Two versions may have had a file and a folder of the same name, and names have a longest length.
_NOT_HERE = {errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """What was put where."""

    files: tuple[Path, ...]
    """Input files, in their places."""
    notebooks: Mapping[str, Path]
    """Versions with their recorded outputs, by their labels."""
    lock: Path
    """The lock file."""
    notes: tuple[str, ...] = ()
    """What is not as it was, in sentences."""


def unpack(package: Package, folder: Path, *, watch: Watch = watch_nothing) -> Unpacked:
    """Put input files and notebooks of a package into a folder; nothing is executed.

    Where versions have read different contents of the same file, the newest version has its way.

    Parameters
    ----------
    folder
        Is made; if it is there, it must be empty.
    watch
        Told how many bytes of the input files are written.

    Raises
    ------
    InvalidValue
        If there is something in the folder.
    PackageError
        If the package has changed since it was opened.
    OSError
        If something cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise InvalidValue(f"{folder} is not empty: name a new folder")
    notes: list[str] = []
    files = []
    places = list(_places(package.recording))
    notes += [note for _, _, note in places if note]
    found = [(name, digest) for name, digest, _ in places if digest in package.digests]
    tally = Tally(sum(package.size_of(file_member(digest)) for _, digest in found), watch)
    for name, digest in found:
        target = folder / name.removeprefix(PROJECT)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            package.copy(file_member(digest), target, _MODE, tally=tally)
        except OSError as error:
            if error.errno not in _NOT_HERE:
                raise
            notes.append(plain(f"{name} has no place: {error.strerror}"))
        else:
            files.append(target)
    for name in package.recording.folders:
        _make_folder(folder / name)
    notebooks = {}
    for label, member in package.notebooks.items():
        notebooks[label] = _free(folder / member.rpartition("/")[2])
        package.copy(member, notebooks[label], _MODE)
    lock = _free(folder / LOCK)
    package.copy(LOCK, lock, _MODE)
    return Unpacked(
        files=tuple(files),
        notebooks=notebooks,
        lock=lock,
        notes=(*notes, *package.summary.left_out),
    )


def _places(recording: Recording) -> Iterator[tuple[str, Digest, str]]:
    """Yield each file with what to put in it, and a sentence if there were other contents."""
    found: dict[str, list[Digest]] = {
        name: [digest] for name, digest in recording.extra_files.items() if digest
    }
    for version in recording.tree.versions:
        for node in version.path:
            for each in recording.cells[node].lineage.audit.inputs:
                is_inside = each.kind == "file" and each.name.startswith(PROJECT)
                if is_inside and is_digest(each.digests[0]):
                    found.setdefault(each.name, []).append(each.digests[0])
    for name, digests in sorted(found.items()):
        others = len(set(digests)) - 1
        times = "once" if others == 1 else f"{others} times"
        note = f"{name} had other contents {times}: here is what the newest version read"
        yield name, digests[-1], plain(note) if others else ""


def _make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        if error.errno not in _NOT_HERE:
            raise


def _free(path: Path) -> Path:
    """Return a path that is not taken: an input file may have the name of a notebook."""
    found, number = path, 1
    while found.exists() or found.is_symlink():
        number += 1
        found = path.with_name(f"{path.stem}-{number}{path.suffix}")
    return found
