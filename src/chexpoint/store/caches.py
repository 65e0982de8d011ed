"""Caches of series, so that another process goes on with one without reading its chain.

They may be wrong, old or missing: nothing but time is lost.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from chexpoint.errors import StoreDamaged
from chexpoint.store.manifests import Part, Place
from chexpoint.store.packs import Pack, PackWriter
from chexpoint.store.shelf import Shelf, Writer

if TYPE_CHECKING:
    from chexpoint.store.dedup import Series

CACHED_BYTES = 1024 * 1024
"""Parts from this size on have caches; for smaller ones the chain is read as quickly."""
INDEX_BYTES = 256 * 1024**2
"""All caches of a store together; the oldest go first."""


class CacheWriter:
    """Writes the caches of the pieces of one pack, while the pack is being written."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._written: list[tuple[int, Writer]] = []
        self._used: set[Place] = set()

    def add(self, section: int, series: Series) -> None:
        """Write the cache of the series that a section of the pack belongs to."""
        try:
            writer = self._shelf.writer()
        except OSError:
            return
        try:
            cache = PackWriter(writer)
            cache.add(series.dump())
            cache.end()
            self._written.append((section, writer))
        except OSError:
            # No room for a cache is no reason to lose the image.
            _discard(writer)

    def supersede(self, place: Place) -> None:
        """Note that the cache of another piece was used, and is worth little from now on."""
        self._used.add(place)

    def finish(self, digest: str) -> None:
        """Put the files in place, once the pack is named, instead of those that were used."""
        written, self._written = self._written, []
        for section, writer in written:
            try:
                writer.finish(cache_file(digest, section), durable=False)
            except OSError:
                _discard(writer)
        with contextlib.suppress(OSError):
            for place in self._used:
                self._shelf.delete(cache_file(place.pack, place.section))
            trim(self._shelf, keep=digest)

    def discard(self) -> None:
        """Give up."""
        written, self._written = self._written, []
        for _, writer in written:
            _discard(writer)


def _discard(writer: Writer) -> None:
    with contextlib.suppress(OSError):
        writer.discard()


def cache_file(digest: str, section: int) -> str:
    """Return the name of the cache of a piece."""
    return f"index/{digest}.{section}.cache"


def pack_of_cache(name: str) -> str:
    """Return the digest of the pack that a cache belongs to, from the name of its file."""
    return name.partition(".")[0]


def cached_series(shelf: Shelf, part: Part) -> Series | None:
    """Return the series of a part, ready to go on, if it is cached and fits."""
    from chexpoint.store.dedup import Series

    last = part.chain[-1]
    name = cache_file(last.pack, last.section)
    try:
        series = Series.load(Pack(shelf.view(name), name).section(0))
    except (OSError, StoreDamaged, KeyError, TypeError, ValueError):
        return None
    return series if series.root == part.root else None


def trim(shelf: Shelf, *, keep: str = "", limit: int = INDEX_BYTES) -> None:
    """Delete the oldest caches until the rest fits."""
    entries = sorted(shelf.entries("index"), key=lambda each: each.time)
    total = sum(each.nbytes for each in entries)
    for entry in entries:
        if total <= limit:
            return
        if pack_of_cache(entry.name) != keep:
            shelf.delete(f"index/{entry.name}")
            total -= entry.nbytes
