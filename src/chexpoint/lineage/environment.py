"""The fingerprint of Python and its packages: the lineage of a state before any cell.

It stands for every file that Python and the packages themselves read.  The same
packages installed elsewhere have the same fingerprint; a changed package has
another one, even if its version is the same.
"""

from __future__ import annotations

import os
import platform
import re
import site
import stat
import sys
import sysconfig
import time
import uuid
from collections.abc import Iterable
from pathlib import Path

from chexpoint.lineage.digest import digest
from chexpoint.model import Digest

HASH_SEED_VARIABLE = "PYTHONHASHSEED"
HASH_SEED = "0"
"""What workers are given, so that the order of sets is the same each time."""

RecordCache = dict[str, list[int | str]]
"""Size, times and digest of each RECORD file by its path; survives JSON."""

_METADATA = re.compile(r"([^-~][^-]*)(?:-(.*?))?(?:-py[0-9.]+)?\.(?:dist|egg)-info")
# How a package was installed, not what it is; .pth files are looked at themselves.
_NOT_CONTENTS = (
    b".pyc",
    b".pth",
    b".dist-info/INSTALLER",
    b".dist-info/RECORD",
    b".dist-info/REQUESTED",
    b".dist-info/direct_url.json",
    b".dist-info/uv_cache.json",
)
# A file that changes twice within the grain of its file system's clock shows a single time.
_GRAIN_NS = 50_000_000


def environment_fingerprint(
    folders: Iterable[str] | None = None, startup: Iterable[str] = ()
) -> Digest:
    """Return the fingerprint of this Python and the packages in some folders.

    Parameters
    ----------
    folders
        Where packages are installed, in the order of ``sys.path``; None means those of this
        Python.
    startup
        Files that run before the first cell; their contents count.
    """
    return Environment(folders, startup).fingerprint()


def package_folders() -> list[str]:
    """Return the folders in which this Python looks for installed packages."""
    found = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    found += site.getsitepackages()
    found += [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    return list({os.path.realpath(folder): None for folder in found})


class Environment:
    """Keeps the fingerprint, and takes it again only when packages have changed.

    Installing and removing packages changes the time of their folder, so asking
    again costs a few calls to stat.

    Parameters
    ----------
    hash_seed
        What orders sets of strings in the process that runs the cells; ``random`` if nobody knows.
    """

    def __init__(
        self,
        folders: Iterable[str] | None = None,
        startup: Iterable[str] = (),
        records: RecordCache | None = None,
        hash_seed: str | None = None,
    ) -> None:
        self.folders = tuple(package_folders() if folders is None else folders)
        self.startup = tuple(sorted(startup, key=os.path.basename))
        self.records: RecordCache = dict(records or {})
        """What is known of RECORD files: give it to the next `Environment` to save time."""
        seed = hash_seed or os.environ.get(HASH_SEED_VARIABLE) or HASH_SEED
        # Sets of strings then have another order in each process.
        self._hash_seed = uuid.uuid4().hex if seed == "random" else seed
        self._fingerprint: Digest = ""
        self._watched: dict[str, list[int]] = {}

    def fingerprint(self) -> Digest:
        """Return the fingerprint as it is now."""
        if not self._fingerprint or any(_signature(p) != s for p, s in self._watched.items()):
            self._fingerprint = self._taken()
        return self._fingerprint

    def _taken(self) -> Digest:
        watched = {path: _signature(path) for path in (*self.folders, *self.startup)}
        records: RecordCache = {}
        packages: dict[str, list[Digest]] = {}
        paths: list[Digest] = []
        for folder in self.folders:
            found: dict[str, list[Digest]] = {}
            for name in _names(folder):
                path = os.path.join(folder, name)
                if name.endswith(".pth"):
                    watched[path] = _signature(path)
                    paths.append(digest("pth", name, _portable(_contents(path), folder)))
                elif match := _METADATA.fullmatch(name):
                    package = re.sub(r"[-_.]+", "-", match[1]).lower()
                    record = self._record(os.path.join(path, "RECORD"), records)
                    found.setdefault(package, []).append(
                        digest("package", package, match[2] or "", record)
                    )
            # Python imports what it finds first.
            packages = found | packages
        self.records = records
        self._watched = watched
        return digest(
            "environment",
            digest("python", sys.implementation.name, platform.python_version()),
            digest("machine", platform.machine()),
            digest("hash seed", self._hash_seed),
            digest("packages", *sorted(each for found in packages.values() for each in found)),
            digest("paths", *paths),
            digest("startup", *(digest("file", _contents(path)) for path in self.startup)),
        )

    def _record(self, path: str, records: RecordCache) -> Digest:
        """Return the digest of a RECORD file, and note it."""
        signature = _signature(path)
        known = self.records.get(path)
        if known is None or known[:-1] != signature:
            known = [*signature, _record_digest(_contents(path))]
        records[path] = known
        return str(known[-1])


def _record_digest(contents: bytes) -> Digest:
    """Return the digest of the lines of a RECORD file that say what the package is."""
    kept = []
    for line in contents.splitlines():
        path = line.rsplit(b",", 2)[0].strip(b'"')
        # Scripts carry the path of their Python.
        if not path.startswith((b"../", b"/")) and not path.endswith(_NOT_CONTENTS):
            kept.append(line)
    return digest("record", *sorted(kept))


def _portable(contents: bytes, folder: str) -> bytes:
    """Replace the places that differ from one installation to the next."""
    for place, token in ((folder, b"$PACKAGES"), (sys.prefix, b"$PREFIX")):
        contents = contents.replace(os.fsencode(place), token)
    return contents


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _contents(path: str) -> bytes:
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            return Path(path).read_bytes()
    except OSError as err:
        return b"no contents: " + type(err).__name__.encode()
    return b"no contents: not a file"


def _signature(path: str) -> list[int]:
    """Return what changes when a file or folder does; empty if there is none."""
    try:
        info = os.stat(path)
    except OSError:
        return []
    times = [info.st_mtime_ns, info.st_ctime_ns]
    size = info.st_size if stat.S_ISREG(info.st_mode) else 0
    now = time.time_ns()
    # It may change once more without showing it: return what will never be found again.
    is_fresh = any(abs(now - each) < _GRAIN_NS for each in times)
    return [size, *times, *([now] if is_fresh else [])]
