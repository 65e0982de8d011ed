"""Writes an image: one pack with what is new in it, then the pointer that makes it exist."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chexpoint.errors import ChexError, InvalidValue, StoreDamaged, StoreError
from chexpoint.store.caches import CACHED_BYTES, CacheWriter, cached_series
from chexpoint.store.image_reader import ImageReader, packs_of
from chexpoint.store.manifests import (
    CHAIN_PIECES,
    Kind,
    Manifest,
    Part,
    Place,
    blake,
    manifest_to_bytes,
)
from chexpoint.store.on_device import is_on_device, keep_series, take_series
from chexpoint.store.packs import PackWriter, pack_file
from chexpoint.store.shelf import flat

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from chexpoint.store.dedup import Series

_RECENT_IMAGES = 32
"""How many images are looked at for contents that are in the store already."""
# Small chunks find what has changed; where nothing goes on, they only take time.  For so few large
# ones nothing has to be compiled.  They are written in the background; the sooner it is done, the
# less memory is copied because of it.
_LONE: Any = {"chunk_bytes": 16384, "engine": "plain", "threads": 4}
_NUMBER_AND_KEY = struct.Struct("<8xI28xI")
"""Of the header of a piece, see `docs/reference/piece-format.md`."""
_SERIES_BYTES = 4096
"""Smaller parts are stored whole: there is nothing to gain."""


def goes_on(part: Part, nbytes: int) -> bool:
    """Return whether new contents of a part continue its chain, rather than begin a new one.

    A chain ends when its differences together are larger than its first piece: then restoring
    reads at most about thrice the contents, and forgetting old images frees most of what they took.
    """
    first, *rest = part.chain
    is_short = len(part.chain) < CHAIN_PIECES and sum(each.nbytes for each in rest) <= first.nbytes
    return is_short and min(part.nbytes, nbytes) >= _SERIES_BYTES


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Where a manifest was written."""

    pack: str
    section: int
    digest: str
    """BLAKE2b of the manifest."""
    packs: frozenset[str]
    """All packs that the image needs."""
    nbytes: int
    """Length of the pack."""


class Past:
    """What new contents are compared with: the image that they come from, then the newest ones.

    Manifests are read as they are needed: if nothing is new, only the first is.
    """

    def __init__(
        self, manifests: Iterable[Manifest], present: frozenset[str], *, follows: bool = True
    ) -> None:
        """Take manifests, the most alike first, and the packs that are there.

        Parts go on from what an earlier image has under their key, unless ``follows`` is false.
        """
        self._unread = iter(manifests)
        self._present = present
        self.follows = follows
        self._latest: dict[tuple[str, Kind], Part] = {}
        self._known: dict[object, Part] = {}

    def latest(self, key: str, kind: Kind) -> Part | None:
        """Return the last contents of a part."""
        if not self.follows:
            return None
        while (key, kind) not in self._latest and self._read_on():
            pass
        return self._latest.get((key, kind))

    def equal(self, identity: object) -> Part | None:
        """Return a part of the same contents, whatever its key."""
        while identity not in self._known and self._read_on():
            pass
        return self._known.get(identity)

    def add(self, part: Part) -> None:
        """Remember a part that was just written."""
        self._known.setdefault(part.identity, part)

    def _read_on(self) -> bool:
        """Take in one more manifest, if there is one."""
        manifest = next(self._unread, None)
        if manifest is None:
            return False
        for key, part in manifest.parts.items():
            if packs_of([part]) <= self._present:
                self._latest.setdefault((key, part.kind), part)
                self._known.setdefault(part.identity, part)
        return True


def recent_manifests(reader: ImageReader, besides: str | None) -> Iterator[Manifest]:
    """Yield the manifests of the newest images, but one.

    Images that are damaged, or not the user's own, are left out.
    """
    entries = sorted(reader.entries(), key=lambda each: each.time, reverse=True)
    for entry in entries[:_RECENT_IMAGES]:
        name = entry.name.removesuffix(".json")
        if name == besides:
            continue
        try:
            pointer = reader.pointer(name)
            pointer.check_key(reader.key)
            yield reader.manifest(pointer)
        except ChexError:
            continue


class ImageWriter:
    """One image in the making.  Nothing is in the store before `finish`."""

    def __init__(self, reader: ImageReader, past: Past) -> None:
        self._reader = reader
        self._past = past
        self._file = reader.shelf.writer()
        self._pack = PackWriter(self._file)
        self._caches = CacheWriter(reader.shelf)
        self._parts: dict[str, Part] = {}
        self._on_device: dict[str, Series] = {}

    def add(self, key: str, kind: Kind, given: Buffer) -> None:
        """Write a part, or find that its contents are in the store."""
        from chexpoint.store.dedup import content_root

        if is_on_device(given):
            self._add_from_device(key, given)
            return
        data = _checked(key, given)
        root = content_root(data)
        digest = blake(data) if kind == "stream" else ""
        part = self._past.equal((kind, data.nbytes, root, digest))
        if part is None:
            before, series, piece = self._encoded(key, kind, data)
            section, length = self._pack.add(piece)
            if series.root != root:
                raise StoreError(f"{kind} '{key}' changed while it was stored. Store it again.")
            if self._past.follows and data.nbytes >= CACHED_BYTES:
                self._caches.add(section, series)
            chain = (*before, Place(pack="", section=section, nbytes=length))
            part = Part(
                kind=kind,
                nbytes=data.nbytes,
                root=root,
                digest=digest,
                chain=chain[-_pieces_needed(piece) :],
            )
            self._past.add(part)
        self.keep(key, part)

    def _add_from_device(self, key: str, given: object) -> None:
        """Write an array that is on a device; only what is new in it comes to the host."""
        from chexpoint.store.dedup import Series

        part = self._past.latest(key, "array")
        series = take_series(self._reader.shelf.url, key, None if part is None else part.root)
        before: tuple[Place, ...] = ()
        if series is not None and part is not None and goes_on(part, part.nbytes):
            before = part.chain
        else:
            series = Series(engine="cuda")
        piece = series.encode(given)
        section, length = self._pack.add(piece)
        chain = (*before, Place(pack="", section=section, nbytes=length))
        self._on_device[key] = series
        self.keep(
            key,
            Part(
                kind="array",
                nbytes=series.nbytes,
                root=series.root,
                digest="",
                chain=chain[-_pieces_needed(piece) :],
            ),
        )

    def keep(self, key: str, part: Part) -> None:
        """Take over a part that is in the store."""
        if key in self._parts:
            raise InvalidValue(f"part '{key}' is given twice.")
        self._parts[key] = part

    def finish(self, name: str, document: dict[str, Any]) -> tuple[Manifest, Written]:
        """Put the pack in its place; return what a pointer has to say."""
        manifest = Manifest(name=name, document=document, parts=self._parts)
        data = manifest_to_bytes(manifest)
        section, _ = self._pack.add([data])
        digest = self._pack.end()
        self._file.finish(pack_file(digest))
        self._caches.finish(digest)
        keep_series(self._reader.shelf.url, self._on_device)
        packs = packs_of(self._parts.values()) - {""} | {digest}
        written = Written(
            pack=digest,
            section=section,
            digest=blake(data),
            packs=packs,
            nbytes=self._pack.nbytes,
        )
        return manifest, written

    def discard(self) -> None:
        """Give up what is not finished."""
        self._caches.discard()
        self._file.discard()

    def _encoded(
        self, key: str, kind: Kind, data: memoryview
    ) -> tuple[tuple[Place, ...], Series, list[bytes | memoryview]]:
        """Return the chain to go on with, or none, its series, and the next piece."""
        from chexpoint.store.dedup import Series

        part = self._past.latest(key, kind)
        if part is not None and goes_on(part, data.nbytes):
            try:
                series = cached_series(self._reader.shelf, part)
                if series is not None:
                    self._caches.supersede(part.chain[-1])
                else:
                    series = Series.rebuild(self._reader.pieces(part))
                piece = series.encode(data, previous=lambda: self._reader.contents(part))
            except StoreDamaged:
                # What is lost is lost; the new contents need not be.
                pass
            else:
                return part.chain, series, piece
        series = Series() if self._past.follows else Series(**_LONE)
        return (), series, series.encode(data)


def _pieces_needed(piece: list[bytes | memoryview]) -> int:
    """Return how many pieces of its chain a piece needs, itself included: up to the last key."""
    number, key = _NUMBER_AND_KEY.unpack_from(piece[0])
    return int(number - key + 1)


def _checked(key: str, given: Buffer) -> memoryview:
    try:
        return flat(given)
    except (TypeError, ValueError, BufferError) as error:
        raise InvalidValue(f"part '{key}' is no plain run of bytes: {error}.") from None
