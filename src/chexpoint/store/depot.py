"""Files by their digest, in a folder or behind a URL that several hosts see.

Whoever fetches one knows what must be in it; so nothing has to be signed, and one that is there
already need not be brought again.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import xxhash

from chexpoint.errors import StoreDamaged
from chexpoint.model import Bytes, Digest
from chexpoint.store.opening import shelf_at
from chexpoint.store.shelf import telling

_CHUNK: Bytes = 8 * 2**20
_FOLDER = "packs"


class Depot:
    """The files in one place; used by one thread.

    Parameters
    ----------
    where
        A folder, or the fsspec URL of one.  It need not be there.
    """

    def __init__(self, where: str) -> None:
        self._shelf = shelf_at(where)
        self._known: set[Digest] | None = None

    def put(self, digest: Digest, path: Path) -> Bytes:
        """Bring a file, unless it is there; return how many bytes were written.

        Raises
        ------
        StoreDamaged
            If the file has other contents by now.
        StoreError
            If it cannot be written.
        """
        with telling(self._shelf.url, "written"):
            if self._known is None:
                self._known = {entry.name for entry in self._shelf.entries(_FOLDER)}
            if digest in self._known:
                return 0
            writer = self._shelf.writer()
            try:
                hasher, size = xxhash.xxh3_128(), 0
                for chunk in _chunks(path):
                    hasher.update(chunk)
                    writer.write(chunk)
                    size += len(chunk)
                if hasher.hexdigest() != digest:
                    raise StoreDamaged(f"{path} has changed while it was read. Try again.")
                writer.finish(f"{_FOLDER}/{digest}")
            finally:
                writer.discard()
            self._known.add(digest)
            return size

    def fetch(self, digest: Digest, target: Path) -> Bytes:
        """Write the contents with a digest to a file; return how many bytes they are.

        Raises
        ------
        StoreDamaged
            If what is there is something else.
        StoreError
            If it cannot be read.
        """
        part = target.with_name(f"{target.name}.{os.getpid()}-{os.urandom(4).hex()}")
        try:
            with telling(self._shelf.url, "read"), part.open("xb") as file:
                contents = self._shelf.view(f"{_FOLDER}/{digest}")
                hasher = xxhash.xxh3_128()
                for start in range(0, contents.nbytes, _CHUNK):
                    chunk = contents[start : start + _CHUNK]
                    hasher.update(chunk)
                    file.write(chunk)
            if hasher.hexdigest() != digest:
                raise StoreDamaged(f"{digest} in the store '{self._shelf.url}' is damaged.")
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        return contents.nbytes


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            yield chunk
