"""What is to be replayed: versions of a project, or those of a package."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from chexpoint.cli.picture_files import project_in
from chexpoint.errors import ChexError, InvalidValue, suggestion

if TYPE_CHECKING:
    from chexpoint.model import Recording
    from chexpoint.replay import FileSource

PACKAGE_SUFFIX = ".chex"
LOGS = "replays"
"""The folder for what replays have found out."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Versions, the files that their cells read, and where to keep what a replay finds out."""

    recording: Recording
    files: FileSource
    logs: Path
    """The folder for it."""
    scratch: Path
    """The folder that cells run below."""


def is_package(word: str) -> bool:
    """Return whether a word on the command line means a package, and not a version."""
    if word.endswith(PACKAGE_SUFFIX) or os.sep in word:
        return True
    if not os.path.isfile(word):
        return False
    import zipfile

    return zipfile.is_zipfile(word)


def project_source(folder: str, names: Sequence[str], scratch: Path) -> Source:
    """Return versions of the project that a folder lies in; without names, all.

    Raises
    ------
    ChexError
        If there is no such project or version.
    """
    from chexpoint.project import ProjectFiles, recording_of

    project = project_in(folder)
    return Source(
        recording=recording_of(project, names or None),
        files=ProjectFiles(project),
        logs=project.path.parent / LOGS,
        scratch=scratch,
    )


def chosen(recording: Recording, names: Sequence[str]) -> Recording:
    """Return the part of a recording that some of its versions need; without names, all of it.

    Raises
    ------
    InvalidValue
        If there is no such version.
    """
    from dataclasses import replace

    from chexpoint.model import ExecutionTree

    if not names:
        return recording
    tree, known = recording.tree, dict(recording.labels)
    for version in tree.versions:
        known.setdefault(f"{version.name}@{version.number}", version)
    for name in names:
        if name not in known:
            raise InvalidValue(f"no version '{name}'. {suggestion(name, recording.labels)}")
    wanted = {known[name] for name in names}
    versions = [version for version in tree.versions if version in wanted]
    nodes = dict.fromkeys(node for version in versions for node in version.path)
    return replace(
        recording,
        tree=ExecutionTree((tree.nodes[node] for node in nodes), versions),
        cells={node: recording.cells[node] for node in nodes},
    )


@contextlib.contextmanager
def replay_log(source: Source) -> Iterator[Path | None]:
    """Yield the file for what a replay finds out, which nobody else uses; None if there is none.

    Raises
    ------
    ChexError
        If the same versions are being replayed by another process.
    """
    from chexpoint.replay import recording_digest

    log = source.logs / f"{recording_digest(source.recording)}.jsonl"
    lock = log.with_suffix(".lock")
    try:
        source.logs.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = _locked(lock)
    except BlockingIOError as error:
        raise ChexError("these versions are being replayed by another process") from error
    except OSError as error:
        why = f"cannot write {lock}: {error.strerror or error}"
        print(f"chex: {why}. An interrupted replay will begin again", file=sys.stderr)
        yield None
        return
    try:
        yield log
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(path: Path) -> int:
    """Return a descriptor of a file that is locked as long as it is open."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever had it before may have removed it meanwhile.
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(descriptor), path.stat()):
                    return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
