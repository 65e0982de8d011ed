"""What a store needs of the place that it is in: files that appear whole or not at all.

Names are relative to the store and have one folder at most: ``packs/12ab.pack``.  Everything here
raises `OSError` as the operating system does, and nothing else but `StoreError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from chexpoint.errors import StoreError

if TYPE_CHECKING:
    from typing_extensions import Buffer

FOLDERS = ("packs", "images", "index", "tmp", "damaged")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A file in a folder of the store."""

    name: str
    """Without the folder."""
    nbytes: int
    time: float
    """When it was last written, in seconds since the epoch."""


class Contents(Protocol):
    """The bytes of a file, of which ranges are read; a `memoryview` is one."""

    @property
    def nbytes(self) -> int:
        """How many there are."""

    def __getitem__(self, where: slice, /) -> Buffer:
        """Return a range of them."""


class Writer(Protocol):
    """A file in the making.  It is nowhere to be seen until it is finished."""

    def write(self, data: Buffer) -> None:
        """Add bytes; `data` is not used after the call."""

    def finish(self, name: str, *, durable: bool = True) -> None:
        """Put the file in its place, over one that may be there.

        If durable, it is still there after a power cut once this returns.
        """

    def discard(self) -> None:
        """Give up; does nothing if the file is finished."""


class Lock(Protocol):
    """A hold on the whole store: shared by those who read and write, exclusive for a sweep."""

    def release(self) -> None:
        """Let go; does nothing the second time."""


class Shelf(Protocol):
    """A place for the files of a store.  Used by one thread of one process at a time."""

    @property
    def url(self) -> str:
        """How the user names the place."""

    @property
    def grace_s(self) -> float:
        """How long to keep what seems unused, because there are no locks to tell; 0 if there are.

        Called when the store is swept.
        """

    def prepare(self) -> None:
        """Make the folders of a store, where they are missing."""

    def view(self, name: str) -> Contents:
        """Return the contents of a file; `FileNotFoundError` if there is none."""

    def read_all(self, folder: str, names: list[str]) -> dict[str, bytes]:
        """Return the contents of small files at once; those that are missing are left out."""

    def entries(self, folder: str) -> list[Entry]:
        """Return the files of a folder, or of the store if it is empty; none if it is missing."""

    def writer(self) -> Writer:
        """Begin a file."""

    def delete(self, name: str) -> None:
        """Delete a file, if it is there."""

    def move(self, name: str, to: str) -> None:
        """Give a file another name."""

    def lock(self, *, exclusive: bool, patience_s: float) -> Lock | None:
        """Return a hold on the store, or None if that took too long."""


def flat(data: Buffer) -> memoryview:
    """Return a buffer as bytes, without a copy; `TypeError` if they are not side by side."""
    view = memoryview(data)
    # Shapes with a zero in them cannot be cast.
    return view.cast("B") if view.nbytes else memoryview(b"")


def write_file(shelf: Shelf, name: str, data: Buffer) -> None:
    """Write a small file."""
    writer = shelf.writer()
    try:
        writer.write(data)
        writer.finish(name)
    finally:
        writer.discard()


@contextmanager
def telling(url: str, action: str) -> Iterator[None]:
    """Turn errors of the operating system into what the user can do about them."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error) or type(error).__name__
        advice = {
            "read": "Check that the folder is there and yours",
            "written": "Make room or get permission, or choose another folder",
        }[action]
        raise StoreError(
            f"the store '{url}' cannot be {action}, because of: {why}. {advice}."
        ) from error
