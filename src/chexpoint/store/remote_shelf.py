"""A store behind a URL, through fsspec; the only module that imports it.

Object stores have neither renames nor locks: each file is written as one object under its final
name, and what is young is never deleted, because somebody may be about to need it.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store.shelf import FOLDERS, Entry, flat

if TYPE_CHECKING:
    from typing_extensions import Buffer

_GRACE_S = 86_400.0
_SMALL_BYTES = 8 * 1024 * 1024


class RemoteShelf:
    """The `Shelf` of a file system that fsspec knows."""

    def __init__(self, url: str, *, grace_s: float = _GRACE_S) -> None:
        self.url = url
        self.grace_s = grace_s
        try:
            import fsspec  # type: ignore[import-untyped]
        except ImportError:
            raise StoreError(
                f"the store '{url}' needs fsspec. Install it with 'pip install fsspec'."
            ) from None
        try:
            # What others have written meanwhile must be seen.
            self._fs, path = fsspec.core.url_to_fs(url, use_listings_cache=False)
        except (ImportError, ValueError) as error:
            raise InvalidValue(f"the store '{url}' cannot be reached: {error}.") from None
        self._path = path.rstrip("/")

    def prepare(self) -> None:
        """Make the folders, where folders are something."""
        with _as_os_errors():
            for name in FOLDERS:
                self._fs.makedirs(f"{self._path}/{name}", exist_ok=True)

    def view(self, name: str) -> RemoteContents:
        """Return the contents of an object, of which ranges are fetched when they are looked at."""
        path = f"{self._path}/{name}"
        with _as_os_errors():
            return RemoteContents(self._fs, path, int(self._fs.info(path)["size"]))

    def read_all(self, folder: str, names: list[str]) -> dict[str, bytes]:
        """Return the contents of small objects, fetched at once."""
        if not names:
            return {}
        paths = {f"{self._path}/{folder}/{name}": name for name in names}
        with _as_os_errors():
            # A list even for one: then it is a dictionary that comes back.
            found = self._fs.cat(list(paths), on_error="return")
        result = {}
        for path, name in paths.items():
            data = found.get(path)
            if isinstance(data, FileNotFoundError) or data is None:
                continue
            if not isinstance(data, bytes):
                raise OSError(f"{name}: {data}")
            result[name] = data
        return result

    def entries(self, folder: str) -> list[Entry]:
        """Return the objects of a folder."""
        path = f"{self._path}/{folder}".rstrip("/")
        with _as_os_errors():
            # Some file systems remember listings; other processes write, too.
            self._fs.invalidate_cache(path)
            try:
                found = self._fs.ls(path, detail=True)
            except FileNotFoundError:
                return []
        return [
            Entry(
                name=each["name"].rstrip("/").rsplit("/", 1)[-1],
                nbytes=int(each.get("size") or 0),
                time=_time(each),
            )
            for each in found
            if each.get("type") == "file" or not folder
        ]

    def writer(self) -> RemoteWriter:
        """Begin an object."""
        return RemoteWriter(self._fs, self._path)

    def delete(self, name: str) -> None:
        """Delete an object."""
        with _as_os_errors():
            try:
                self._fs.rm_file(f"{self._path}/{name}")
            except FileNotFoundError:
                return

    def move(self, name: str, to: str) -> None:
        """Copy an object, then delete it."""
        with _as_os_errors():
            self._fs.mv(f"{self._path}/{name}", f"{self._path}/{to}")

    def lock(self, *, exclusive: bool, patience_s: float) -> NoLock:
        """Return a hold that holds nothing."""
        return NoLock()


class NoLock:
    """Stands for a lock where there are none."""

    def release(self) -> None:
        """Do nothing."""


class RemoteContents:
    """An object, of which ranges are read."""

    def __init__(self, fs: Any, path: str, nbytes: int) -> None:
        self._fs = fs
        self._path = path
        self.nbytes = nbytes

    def __getitem__(self, where: slice) -> bytes:
        start, stop, _ = where.indices(self.nbytes)
        if start >= stop:
            return b""
        with _as_os_errors():
            data = self._fs.cat_file(self._path, start=start, end=stop)
        return bytes(data)


class RemoteWriter:
    """Collects an object on the local disk, and sends it when it is finished."""

    def __init__(self, fs: Any, path: str) -> None:
        self._fs = fs
        self._path = path
        self._file = tempfile.NamedTemporaryFile(prefix="chex-store-")  # noqa: SIM115

    def write(self, data: Buffer) -> None:
        """Add bytes."""
        self._file.write(flat(data))

    def finish(self, name: str, *, durable: bool = True) -> None:
        """Send the object whole: a sender that dies leaves nothing."""
        target = f"{self._path}/{name}"
        size = self._file.tell()
        self._file.flush()
        with _as_os_errors():
            if size <= _SMALL_BYTES:
                self._file.seek(0)
                self._fs.pipe_file(target, self._file.read())
            else:
                self._fs.put_file(self._file.name, target)

    def discard(self) -> None:
        """Delete the local copy."""
        self._file.close()


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Let every file system fail in the same way; each library has errors of its own."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{type(error).__name__}: {error}") from error


def _time(info: dict[str, Any]) -> float:
    """Return when an object was written; now if nobody knows, so that it counts as young."""
    for field in ("mtime", "LastModified", "last_modified", "updated", "created"):
        value = info.get(field)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return time.time()
