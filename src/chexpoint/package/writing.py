"""Write a package: the same bytes for the same recording and files."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import xxhash

from chexpoint import __version__
from chexpoint.errors import PackageError
from chexpoint.model import Bytes, Digest, Recording, Version, format_size
from chexpoint.package.crate import CrateFile, crate_document
from chexpoint.package.documents import (
    CRATE,
    ENVIRONMENT,
    FORMAT,
    LINEAGE,
    LOCK,
    MANIFEST,
    OUTPUTS,
    README,
    encoded,
    environment_document,
    lineage_document,
    outputs_document,
    portable,
    tree_document,
)
from chexpoint.package.names import PROJECT, file_member, is_digest, notebook_members, plain
from chexpoint.package.needs import Needs, lock_text, needs_of
from chexpoint.package.opening import Tally, Watch, check_documents, usual_limit, watch_nothing
from chexpoint.package.readme import readme_text
from chexpoint.package.summary import PackageSummary

Files = Callable[[str, Digest], Path | None]
Notebooks = Callable[[Version], Mapping[str, Any]]

UNFINISHED = ".unfinished-"
"""What the name of a package begins with that is being written."""

MADE_BY = f"chexpoint {__version__}"

# The first day that a zip file knows.
_TIME = (1980, 1, 1, 0, 0, 0)
_MODE = (stat.S_IFREG | 0o644) << 16
_UNIX = 3
_CHUNK = 2**20
_LEVEL = 6


@dataclass(frozen=True, slots=True)
class _InputFile:
    """A file of the project that goes into the package."""

    path: Path
    names: tuple[str, ...]
    size_bytes: Bytes
    sha256: str


def write_package(
    out: Path,
    recording: Recording,
    files: Files,
    notebooks: Notebooks | None = None,
    watch: Watch = watch_nothing,
    *,
    needs: Needs | None = None,
) -> PackageSummary:
    """Write versions, their lineage, outputs and input files into one file.

    It appears under its name only when it is complete, in place of what had that name.

    Parameters
    ----------
    files
        Returns a file with the contents that a file of the project had, by its canonical name and
        the digest; None if nobody has them any more.
    notebooks
        Returns a version as a notebook (nbformat 4).
    needs
        What the versions need of their environment; by default, what the cells import tells it.

    Raises
    ------
    PackageError
        If the recording is not whole, or a file changes while it is being packed.
    OSError
        If the package cannot be written.
    """
    pages = _notebooks(recording, notebooks)
    recording = portable(recording)
    inputs, left_out = _input_files(recording, files)
    if needs is None:
        needs = needs_of(_sources(recording, inputs), recording.environment)
    members = _documents(recording, inputs, pages, left_out, needs)
    with _new_file(out) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED, compresslevel=_LEVEL) as archive:
            for name, data in members.items():
                with archive.open(_info(name, len(data)), "w") as target:
                    target.write(data)
            _pack_files(archive, inputs, watch)
        packed = {info.filename: info.compress_size for info in archive.infolist()}
        size = file.tell()
    files_bytes = sum(each.size_bytes for each in inputs.values())
    unpacked = files_bytes + sum(map(len, members.values()))
    return PackageSummary(
        title=recording.title,
        made_by=MADE_BY,
        versions=tuple(recording.labels),
        cells=len(recording.tree),
        files=len(inputs),
        files_bytes=files_bytes,
        size_bytes=size,
        unpacked_bytes=unpacked,
        lineage_bytes=packed[MANIFEST] + packed[LINEAGE],
        left_out=left_out,
        notes=(*recording.notes, *_about_size(unpacked, size)),
    )


def _about_size(unpacked: Bytes, size: Bytes) -> Iterator[str]:
    if unpacked > usual_limit(size):
        yield (
            f"it unpacks to {format_size(unpacked)}, which is so much more than its own size that "
            f"who opens it must allow it with --limit {unpacked}"
        )


# ---------------------------------------------------------------- the members


def _notebooks(recording: Recording, notebooks: Notebooks | None) -> dict[str, bytes]:
    """Return versions as notebooks, by their labels."""
    if notebooks is None:
        return {}
    return {
        label: encoded(notebooks(version)) + b"\n" for label, version in recording.labels.items()
    }


def _documents(
    recording: Recording,
    inputs: Mapping[Digest, _InputFile],
    pages: Mapping[str, bytes],
    left_out: tuple[str, ...],
    needs: Needs,
) -> dict[str, bytes]:
    """Return all members but the input files, the manifest first."""
    environment = recording.environment
    outputs, big_outputs = outputs_document(recording)
    labels = notebook_members(pages)
    members = {
        LINEAGE: encoded(lineage_document(recording)),
        OUTPUTS: encoded(outputs),
        ENVIRONMENT: encoded(environment_document(environment, needs.packages)),
        LOCK: lock_text(environment, needs).encode(),
        README: readme_text(recording, labels, left_out, MADE_BY).encode(),
        **dict(sorted(big_outputs.items())),
        **{name: pages[label] for label, name in labels.items()},
    }
    listed = {
        **{
            name: CrateFile(len(data), hashlib.sha256(data).hexdigest())
            for name, data in members.items()
        },
        **{
            file_member(digest): CrateFile(
                each.size_bytes,
                each.sha256,
                tuple(plain(name.removeprefix(PROJECT)) for name in each.names),
            )
            for digest, each in inputs.items()
        },
    }
    crate = encoded(crate_document(recording, listed, labels, MADE_BY, needs.packages))
    listed[CRATE] = CrateFile(len(crate), hashlib.sha256(crate).hexdigest())
    manifest = {
        "format": FORMAT,
        "made_by": MADE_BY,
        "title": recording.title,
        **tree_document(recording),
        "left_out": list(left_out),
        "notebooks": labels,
        "members": {name: [file.size_bytes, file.sha256] for name, file in sorted(listed.items())},
    }
    members = {MANIFEST: encoded(manifest), **members, CRATE: crate}
    # What cannot be read again is better refused here than at the other end.
    if _texts(check_documents(members).recording) != _texts(recording):
        raise PackageError("the recording cannot be written as it is: this is a bug in CHEX")
    return members


def _texts(recording: Recording) -> tuple[object, ...]:
    """Return all that a package holds of a recording; texts, because NaN is not equal to itself."""
    documents = (
        tree_document(recording),
        lineage_document(recording),
        outputs_document(recording)[0],
    )
    return (recording.title, recording.environment, *map(encoded, documents))


def _sources(recording: Recording, inputs: Mapping[Digest, _InputFile]) -> Iterator[str]:
    """Yield the code of all cells and of the modules of the project that they use."""
    for cell in recording.cells.values():
        yield cell.source
    for each in inputs.values():
        if any(name.endswith(".py") for name in each.names):
            with contextlib.suppress(OSError):
                yield each.path.read_text(encoding="utf-8", errors="replace")


# ---------------------------------------------------------------- input files


def _input_files(
    recording: Recording, files: Files
) -> tuple[dict[Digest, _InputFile], tuple[str, ...]]:
    """Return the contents that cells found when they read files, and what cannot be packed."""
    names: dict[Digest, set[str]] = {}
    left_out: dict[str, str] = {}
    for name, digest in _wanted(recording):
        if not is_digest(digest):
            left_out[name] = "it was too large or too far away to be known by its contents"
        elif not name.startswith(PROJECT):
            left_out[name] = "it is outside of the project"
        else:
            names.setdefault(digest, set()).add(name)
    for name, digest in recording.extra_files.items():
        if digest:
            names.setdefault(digest, set()).add(name)
        else:
            left_out[name] = "no cell has read it, and it is large; a replay has an empty one"
    found: dict[Digest, _InputFile] = {}
    for digest in sorted(names):
        here = sorted(names[digest])
        path = next((path for name in here if (path := files(name, digest)) is not None), None)
        each = None if path is None else _examined(path, digest, tuple(here))
        if each is None:
            why = "its contents were not kept, and it has changed since"
            left_out.update(dict.fromkeys(here, why))
        else:
            found[digest] = each
    return found, tuple(plain(f"{name}: {why}") for name, why in sorted(left_out.items()))


def _wanted(recording: Recording) -> Iterator[tuple[str, Digest]]:
    """Yield the files that cells read before any cell had written them, with what was in them."""
    for cell in recording.cells.values():
        for each in cell.lineage.audit.inputs:
            if each.kind == "file" and (
                is_digest(each.digests[0]) or each.digests[0].startswith("size:")
            ):
                yield each.name, each.digests[0]


def _examined(path: Path, digest: Digest, names: tuple[str, ...]) -> _InputFile | None:
    """Return a file with its digests; None if it has other contents, or cannot be read."""
    fingerprint, sha256, size = xxhash.xxh3_128(), hashlib.sha256(), 0
    try:
        with _opened(path) as file:
            for chunk in _chunks(file):
                fingerprint.update(chunk)
                sha256.update(chunk)
                size += len(chunk)
    except OSError:
        return None
    if fingerprint.hexdigest() != digest:
        return None
    return _InputFile(path, names, size, sha256.hexdigest())


def _pack_files(
    archive: zipfile.ZipFile, inputs: Mapping[Digest, _InputFile], watch: Watch
) -> None:
    tally = Tally(sum(each.size_bytes for each in inputs.values()), watch)
    for digest, each in inputs.items():
        sha256 = hashlib.sha256()
        with (
            _opened(each.path) as file,
            archive.open(_info(file_member(digest), each.size_bytes), "w") as target,
        ):
            for chunk in _chunks(file):
                sha256.update(chunk)
                target.write(chunk)
                tally.add(chunk)
        if sha256.hexdigest() != each.sha256:
            raise PackageError(f"{each.names[0]} changed while it was being packed: try again")


def _opened(path: Path) -> BinaryIO:
    """Open a file; a pipe could keep one waiting for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise OSError(f"{path} is not a file")
    return open(fd, "rb")


def _chunks(file: BinaryIO) -> Iterable[bytes]:
    return iter(lambda: file.read(_CHUNK), b"")


# ---------------------------------------------------------------- the file


def _info(name: str, size: Bytes) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, _TIME)
    info.compress_type = zipfile.ZIP_DEFLATED
    info.create_system = _UNIX
    info.external_attr = _MODE
    info.file_size = size
    return info


@contextlib.contextmanager
def _new_file(out: Path) -> Iterator[BinaryIO]:
    """Open a file that gets its name if the block succeeds, and vanishes if not."""
    unfinished = out.with_name(f"{UNFINISHED}{os.getpid()}.chex")
    try:
        with open(unfinished, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, out)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
