"""The files that cells of a replay may need on another host: they travel by their contents.

What is small is sent through Dask with the recording; more goes through a store that all hosts see,
from which each host fetches what its own cells need.
"""

from __future__ import annotations

import os
import re
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash

from chexpoint.errors import ClusterError, StoreError
from chexpoint.model import Bytes, Digest, Recording, format_size
from chexpoint.replay.files import FileSource, is_in_project, needed_files

if TYPE_CHECKING:
    from chexpoint.store import Depot

MOST_THROUGH_DASK: Bytes = 64 * 2**20
"""Files of a replay may have so many bytes in all without a store."""

_INPUTS = "replay-inputs"
_TRIAL_BYTES: Bytes = 2**20
_HEX = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cargo:
    """What a host is told about files."""

    digests: frozenset[Digest]
    """Of all contents that there are."""
    contents: Mapping[Digest, bytes] = field(default_factory=dict)
    """The contents themselves, if they are few."""
    store: str = ""
    """Where they are otherwise."""
    trial: Digest = ""
    """Of something in the store by which a host finds out how fast it can be reached."""


def wanted_files(recording: Recording) -> Iterator[tuple[str, Digest]]:
    """Yield all files of the project that a replay may look for: inputs, and results to compare."""
    for cell in recording.cells.values():
        for needed in needed_files(cell.lineage):
            if _HEX.fullmatch(needed.digest):
                yield needed.name, needed.digest
        for effect in cell.lineage.audit.effects:
            if effect.kind == "written" and _HEX.fullmatch(effect.digest or ""):
                yield effect.path, effect.digest
    for name, digest in recording.extra_files.items():
        if digest:
            yield name, digest


def load_cargo(recording: Recording, files: FileSource, store: str | None) -> Cargo:
    """Return the files of a recording, ready to travel.

    Raises
    ------
    ClusterError
        If they are too large to travel without a store.
    StoreError
        If the store cannot be written.
    """
    found: dict[Digest, Path] = {}
    for name, digest in wanted_files(recording):
        if digest not in found and is_in_project(name):
            path = files.find(name, digest)
            if path is not None:
                found[digest] = path
    return cargo_of(found, store)


def cargo_of(found: Mapping[Digest, Path], store: str | None) -> Cargo:
    """Return files, ready to travel.

    Raises
    ------
    ClusterError
        If they are too large to travel without a store.
    StoreError
        If the store cannot be written.
    """
    if store is not None:
        from chexpoint.store import Depot

        depot = Depot(_place(store))
        for digest, path in found.items():
            depot.put(digest, path)
        trial = _put_trial(depot)
        return Cargo(digests=frozenset((*found, trial)), store=store, trial=trial)
    size = sum(path.stat().st_size for path in found.values())
    if size > MOST_THROUGH_DASK:
        raise ClusterError(
            f"the files that the cells read take {format_size(size)}, too much to send through "
            "Dask: name a folder or a URL that all hosts see with --store"
        )
    contents = {digest: path.read_bytes() for digest, path in found.items()}
    for digest, data in contents.items():
        if xxhash.xxh3_128(data).hexdigest() != digest:
            raise ClusterError(f"{found[digest]} changed while it was read: try again")
    return Cargo(digests=frozenset(contents), contents=contents)


def stow(cargo: Cargo, files: Mapping[Digest, Path]) -> Cargo:
    """Return a cargo with more files in it; where it is not too much, nobody asks here.

    Raises
    ------
    StoreError
        If the store cannot be written.
    """
    digests = cargo.digests | files.keys()
    if cargo.store:
        from chexpoint.store import Depot

        depot = Depot(_place(cargo.store))
        for digest, path in files.items():
            depot.put(digest, path)
        return replace(cargo, digests=digests)
    contents = {digest: path.read_bytes() for digest, path in files.items()}
    return replace(cargo, digests=digests, contents={**cargo.contents, **contents})


class HostFiles:
    """Finds files on a host, where they are laid down when they are first asked for.

    Parameters
    ----------
    folder
        Where they are kept; is made.
    """

    def __init__(self, cargo: Cargo, folder: Path) -> None:
        self._cargo = cargo
        self._folder = folder
        self._lock = threading.Lock()
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def find(self, name: str, digest: Digest) -> Path | None:
        """Return a file with these contents; None if there is none.

        Raises
        ------
        OSError
            If they cannot be had now.
        """
        del name
        if digest not in self._cargo.digests:
            return None
        path = self._folder / digest
        with self._lock:
            if not path.exists():
                self._lay_down(digest, path)
        return path

    def try_out(self) -> float:
        """Find out whether the store can be read; return how many bytes a second, 0 without one.

        Raises
        ------
        StoreError
            If it cannot.
        """
        if not self._cargo.store:
            return 0.0
        try:
            depot_at(self._cargo.store)  # what has to be imported for it says nothing about it
            before = time.perf_counter()
            self.find("", self._cargo.trial)
            return _TRIAL_BYTES / max(time.perf_counter() - before, 1e-6)
        except OSError as error:
            raise StoreError(str(error)) from error

    def _lay_down(self, digest: Digest, path: Path) -> None:
        if not self._cargo.store:
            part = path.with_name(f"{digest}.{os.getpid()}")
            part.write_bytes(self._cargo.contents[digest])
            os.replace(part, path)
            return
        from chexpoint.store import Depot

        try:
            Depot(_place(self._cargo.store)).fetch(digest, path)
        except StoreError as error:
            raise OSError(str(error)) from error


def depot_at(store: str) -> Depot:
    """Return where files lie in a store."""
    from chexpoint.store import Depot

    return Depot(_place(store))


def _put_trial(depot: Depot) -> Digest:
    """Put something into the store that is always the same; return its digest."""
    data = bytes(_TRIAL_BYTES)
    digest = xxhash.xxh3_128(data).hexdigest()
    with tempfile.NamedTemporaryFile(prefix="chex-trial-") as file:
        file.write(data)
        file.flush()
        depot.put(digest, Path(file.name))
    return digest


def _place(store: str) -> str:
    return f"{store.rstrip('/')}/{_INPUTS}"
