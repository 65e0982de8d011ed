"""Open a package of somebody else: everything is checked before anything is written.

Nothing in a package is ever unpickled or executed here.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

import xxhash

from chexpoint.errors import InvalidValue, PackageError
from chexpoint.model import Bytes, Digest, NodeId, Output, Recording, format_size
from chexpoint.package.archive import Archive, Member
from chexpoint.package.documents import (
    CRATE,
    ENVIRONMENT,
    LINEAGE,
    LOCK,
    MANIFEST,
    OUTPUTS,
    README,
    Document,
    output_member,
)
from chexpoint.package.names import digest_of_member, file_member
from chexpoint.package.reading import (
    check_format,
    check_manifest,
    check_output,
    outputs_by_node,
    read_environment,
    read_recording,
)
from chexpoint.package.shapes import parse_json
from chexpoint.package.summary import PackageSummary
from chexpoint.package.venv import pins_of

Watch = Callable[[Bytes, Bytes], None]
"""Called with how many bytes are done, and how many there are."""

_ALWAYS = (MANIFEST, LINEAGE, OUTPUTS, ENVIRONMENT, LOCK, README, CRATE)
_SMALL_PACKAGE = 256 * 2**20
_USUAL_RATIO = 100
# Documents are read as a whole, and a few letters of JSON can become a large value.
_LARGEST_DOCUMENT = 64 * 2**20
_LARGEST_OUTPUT = 256 * 2**20


def usual_limit(size: Bytes) -> Bytes:
    """Return how much a package of this size may unpack to unless the user allows more."""
    return max(_SMALL_PACKAGE, _USUAL_RATIO * size)


def watch_nothing(done: Bytes, total: Bytes) -> None:
    """Take no notice."""


class Tally:
    """Adds up the bytes that are done, and tells who watches."""

    def __init__(self, total: Bytes, watch: Watch) -> None:
        self._done, self._total, self._watch = 0, total, watch

    def add(self, chunk: bytes) -> None:
        """Count a chunk."""
        self._done += len(chunk)
        self._watch(self._done, self._total)


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What the documents of a package say, after all of it was checked."""

    manifest: Document
    recording: Recording
    needed: tuple[str, ...]
    """Packages that the versions need, by normalised name."""
    lock: str
    """A requirements file of nothing but pins."""


class Package:
    """A package that was checked; `open_package` makes it.

    It finds the contents of files by their digest, once they are extracted.
    """

    def __init__(self, archive: Archive, file: BinaryIO, documents: Documents) -> None:
        self._archive = archive
        self._file = file
        self._documents = documents
        self._folder: Path | None = None
        found = (digest_of_member(name) for name in archive.members)
        self.digests: frozenset[Digest] = frozenset(digest for digest in found if digest)
        """Of the contents of files that are in it."""
        self.recording = documents.recording
        self.needed = documents.needed
        self.lock = documents.lock

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file; what was extracted stays."""
        self._file.close()

    @property
    def summary(self) -> PackageSummary:
        """What is in it."""
        manifest, members = self._documents.manifest, self._archive.members
        files = [member for name, member in members.items() if digest_of_member(name) is not None]
        return PackageSummary(
            title=self.recording.title,
            made_by=manifest["made_by"],
            versions=tuple(self.recording.labels),
            cells=len(self.recording.tree),
            files=len(files),
            files_bytes=sum(member.size_bytes for member in files),
            size_bytes=self._archive.size_bytes,
            unpacked_bytes=sum(member.size_bytes for member in members.values()),
            lineage_bytes=members[MANIFEST].packed_bytes + members[LINEAGE].packed_bytes,
            left_out=tuple(manifest["left_out"]),
            notes=self.recording.notes,
        )

    @property
    def notebooks(self) -> Mapping[str, str]:
        """The members that hold versions as notebooks, by their labels."""
        found: Mapping[str, str] = self._documents.manifest["notebooks"]
        return found

    def size_of(self, member: str) -> Bytes:
        """Return how large the contents of a member are."""
        return self._archive.members[member].size_bytes

    def copy(
        self, member: str, target: Path, mode: int = 0o600, *, tally: Tally | None = None
    ) -> None:
        """Write the contents of a member into a new file.

        Parameters
        ----------
        tally
            Counts what is written.

        Raises
        ------
        PackageError
            If they are not what they were when the package was opened.
        OSError
            If the file cannot be written, or is there already.
        """
        size, sha256 = self._documents.manifest["members"][member]
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(target, flags, mode), "wb") as file:
            checked = _Checked(size, sha256, member)
            for chunk in self._archive.chunks(self._archive.members[member]):
                checked.add(chunk)
                file.write(chunk)
                if tally is not None:
                    tally.add(chunk)
            checked.finish()

    def extract_files(self, folder: Path, *, watch: Watch = watch_nothing) -> None:
        """Write the contents of all files into a folder, each named by its digest.

        Parameters
        ----------
        folder
            Is made, for this user alone; if it is there, it must be empty.
        watch
            Told how far it is.

        Raises
        ------
        InvalidValue
            If there is something in the folder.
        OSError
            If they cannot be written.
        """
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        if any(folder.iterdir()):
            raise InvalidValue(f"{folder} is not empty")
        members = [file_member(digest) for digest in sorted(self.digests)]
        tally = Tally(sum(map(self.size_of, members)), watch)
        for digest, member in zip(sorted(self.digests), members, strict=True):
            target = folder / digest[:2] / digest
            with contextlib.suppress(FileExistsError):
                target.parent.mkdir(mode=0o700)
            self.copy(member, target, tally=tally)
        self._folder = folder

    def find(self, name: str, digest: Digest) -> Path | None:
        """Return a file with these contents; None if there is none, or nothing is extracted yet.

        Parameters
        ----------
        name
            Canonical; it does not matter here.
        """
        if self._folder is None or digest not in self.digests:
            return None
        return self._folder / digest[:2] / digest


def open_package(
    path: Path, *, limit_bytes: Bytes | None = None, watch: Watch = watch_nothing
) -> Package:
    """Open a package and check all of it; nothing is written.

    Parameters
    ----------
    limit_bytes
        How much it may unpack to; by default, a hundred times its own size, and always 256 MB.
    watch
        Told how much of it is checked.

    Raises
    ------
    PackageError
        If it is damaged, not safe, or made by a newer CHEX; in one line that says what to do.
    """
    try:
        with contextlib.ExitStack() as stack:
            # Without a buffer, nothing is read from it that was not looked at just now.
            file = stack.enter_context(open(path, "rb", buffering=0))
            archive = Archive(file)
            package = Package(archive, file, _checked_documents(archive, limit_bytes, watch))
            stack.pop_all()
            return package
    except PackageError as error:
        raise PackageError(f"{path}: {error}") from error
    except OSError as error:
        raise PackageError(f"{path} cannot be read: {error.strerror or error}") from error


def check_documents(members: Mapping[str, bytes]) -> Documents:
    """Return what the documents of a package say, given all members that are no input files.

    Raises
    ------
    PackageError
        If something in them is wrong.
    """
    manifest = check_manifest(parse_json(members[MANIFEST], MANIFEST))
    environment, needed = read_environment(parse_json(members[ENVIRONMENT], ENVIRONMENT))
    recording = read_recording(
        manifest,
        parse_json(members[LINEAGE], LINEAGE),
        dict(_all_outputs(members)),
        environment,
    )
    for label, member in manifest["notebooks"].items():
        if label not in recording.labels or not member.startswith("notebooks/"):
            raise PackageError(f"the notebook {member} is of no version")
        if member not in manifest["members"]:
            raise PackageError(f"the notebook {member} is not there")
    try:
        lock = members[LOCK].decode("utf-8")
    except UnicodeDecodeError as error:
        raise PackageError(f"{LOCK} is no text") from error
    pins_of(lock)
    return Documents(manifest=manifest, recording=recording, needed=needed, lock=lock)


def _all_outputs(members: Mapping[str, bytes]) -> Iterator[tuple[NodeId, tuple[Output, ...]]]:
    big: dict[str, Output] = {}
    for node, entries in outputs_by_node(parse_json(members[OUTPUTS], OUTPUTS)).items():
        found: list[Output] = []
        for entry in entries:
            if not isinstance(entry, str):
                found.append(entry)
                continue
            if entry not in big:
                if entry not in members or not entry.startswith("outputs/"):
                    raise PackageError(f"the output {entry[:80]!a} is not there")
                big[entry] = parse_json(members[entry], entry)
                check_output(big[entry], entry)
            found.append(big[entry])
        yield node, tuple(found)


# ---------------------------------------------------------------- members and the manifest


def _checked_documents(archive: Archive, limit_bytes: Bytes | None, watch: Watch) -> Documents:
    """Check every member, and return what the documents say."""
    members = archive.members
    if next(iter(members), None) != MANIFEST:
        raise PackageError("it is no package of CHEX")
    _check_size(archive, limit_bytes)
    first = _small(archive, members[MANIFEST])
    manifest = parse_json(first, MANIFEST)
    check_format(manifest)
    listed = check_manifest(manifest)["members"]
    _check_names(members, listed)
    _check_kinds(manifest)
    documents = {MANIFEST: first}
    tally = Tally(sum(each.size_bytes for each in members.values()) - len(first), watch)
    for name, member in members.items():
        if name == MANIFEST:
            continue
        size, sha256 = listed[name]
        if member.size_bytes != size:
            raise PackageError(f"the manifest lies about the size of {name}")
        checked = _Checked(size, sha256, name)
        is_kept = name in _ALWAYS or name.startswith("outputs/")
        kept: list[bytes] | None = [] if is_kept else None
        _refuse_large(member, is_document=is_kept)
        for chunk in archive.chunks(member):
            checked.add(chunk)
            tally.add(chunk)
            if kept is not None:
                kept.append(chunk)
        checked.finish()
        if kept is not None:
            documents[name] = b"".join(kept)
    return check_documents(documents)


def _check_size(archive: Archive, limit_bytes: Bytes | None) -> None:
    size = sum(member.size_bytes for member in archive.members.values())
    limit = usual_limit(archive.size_bytes) if limit_bytes is None else limit_bytes
    if size > limit:
        raise PackageError(
            f"it would unpack to {format_size(size)}, and {format_size(limit)} is allowed: "
            f"if you trust it, allow more with --limit {size}"
        )


def _check_names(members: Mapping[str, Member], listed: Mapping[str, object]) -> None:
    for name in members:
        if name != MANIFEST and name not in listed:
            raise PackageError(f"the member {name} is not in its manifest")
    for name in (*_ALWAYS, *listed):
        if name not in members:
            raise PackageError(f"the member {name} is missing")
    if MANIFEST in listed:
        raise PackageError(f"{MANIFEST} cannot say what is in itself")


def _check_kinds(manifest: Document) -> None:
    """Refuse members that are none of the kinds that there are."""
    notebooks = set(manifest["notebooks"].values())
    for name, (_, sha256) in manifest["members"].items():
        is_known = (
            name in _ALWAYS
            or name in notebooks
            or name == output_member(sha256)
            or digest_of_member(name) is not None
        )
        if not is_known:
            raise PackageError(f"the member {name} is of no kind that there is")


def _small(archive: Archive, member: Member) -> bytes:
    _refuse_large(member, is_document=True)
    return b"".join(archive.chunks(member))


def _refuse_large(member: Member, *, is_document: bool) -> None:
    largest = _LARGEST_OUTPUT if member.name.startswith("outputs/") else _LARGEST_DOCUMENT
    if is_document and member.size_bytes > largest:
        raise PackageError(
            f"the member {member.name} is too large: {format_size(member.size_bytes)}"
        )


class _Checked:
    """Checks the contents of a member while they pass by."""

    def __init__(self, size: Bytes, sha256: str, name: str) -> None:
        self._left, self._sha256, self._name = size, sha256, name
        self._hasher = hashlib.sha256()
        self._digest = digest_of_member(name)
        self._fingerprint = xxhash.xxh3_128() if self._digest is not None else None

    def add(self, chunk: bytes) -> None:
        self._left -= len(chunk)
        self._hasher.update(chunk)
        if self._fingerprint is not None:
            self._fingerprint.update(chunk)

    def finish(self) -> None:
        """Refuse contents that are not what their name and the manifest say."""
        if self._left or self._hasher.hexdigest() != self._sha256:
            raise PackageError(f"the manifest lies about the contents of {self._name}")
        if self._fingerprint is not None and self._fingerprint.hexdigest() != self._digest:
            raise PackageError(f"the contents of {self._name} are not those of its digest")
