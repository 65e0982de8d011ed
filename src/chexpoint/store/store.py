"""The store: images by name, in a folder or behind a URL."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from chexpoint.errors import InvalidValue, StoreError, UnknownImage
from chexpoint.model import (
    FsckReport,
    GcReport,
    ImageInfo,
    StoreUsage,
    to_json,
)
from chexpoint.store.checking import check_store, repair_store
from chexpoint.store.eviction import choose_evictions
from chexpoint.store.image_reader import ImageReader
from chexpoint.store.image_writer import ImageWriter, Past, recent_manifests
from chexpoint.store.keys import checked_key
from chexpoint.store.manifests import (
    Manifest,
    Pointer,
    checked_name,
    pointer_file,
    pointer_to_bytes,
)
from chexpoint.store.opening import open_shelf
from chexpoint.store.packs import FORMAT, pack_file
from chexpoint.store.put_request import PutRequest, add_same, new_pointer
from chexpoint.store.shelf import Lock, Shelf, telling, write_file
from chexpoint.store.stored_image import StoredImage
from chexpoint.store.sweeping import SweepPlan, pack_sizes, readable, sweep, unused_bytes

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

_PATIENCE_S = 60.0


class Store:
    """Images by name.  An image is whole or not there at all, whatever happens to its writer.

    Several processes may use a store at once; a `Store` is used by one thread.
    """

    def __init__(self, shelf: Shelf, key: bytes | None, budget_bytes: int | None) -> None:
        self._shelf = shelf
        self._key = key
        self._budget_bytes = budget_bytes

    @classmethod
    def open(
        cls,
        where: str | Path,
        *,
        key: bytes | None = None,
        budget_bytes: int | None = None,
        create: bool = True,
    ) -> Store:
        """Open a store.

        Parameters
        ----------
        where
            A folder, or the fsspec URL of one, such as ``s3://bucket/store``.
        key
            Signs images; those that were signed with another are refused.  None for `store_key`.
        budget_bytes
            What packs may take together; None for no limit.
        create
            Whether to make a store where there is none.

        Raises
        ------
        StoreTooNew, StoreDamaged, StoreError
        """
        if budget_bytes is not None and budget_bytes <= 0:
            raise InvalidValue(f"a budget of {budget_bytes} bytes holds nothing.")
        shelf = open_shelf(where, create=create)
        return cls(shelf, None if key is None else checked_key(key), budget_bytes)

    @property
    def url(self) -> str:
        """Where the store is."""
        return self._shelf.url

    def put(
        self,
        name: str,
        document: Mapping[str, Any],
        *,
        streams: Mapping[str, Buffer],
        arrays: Mapping[str, Buffer],
        same: Collection[str] = (),
        like: str | None = None,
        follows: bool = True,
        cost_s: float = 0.0,
    ) -> ImageInfo:
        """Store an image; only what no recent image has is written.

        Parameters
        ----------
        document
            JSON about the image.  Its ``line`` and ``lost``, if any, are shown by `images`.
        streams, arrays
            The parts, by key.
        same
            Keys of parts that are as they are in `like`; they are not given again.
        like
            The image that the state comes from.
        follows
            Whether parts are likely to be similar to what recent images have under the same key:
            then differences are looked for.
        cost_s
            How long the state would take to compute again: what an image is worth.

        Raises
        ------
        StoreError
            If there is no room, an image of that name, or a budget that is too small.  What is in
            the store stays as it is.
        """
        started = time.perf_counter()
        request = PutRequest(
            name=checked_name(name),
            document=to_json(dict(document)),
            streams=streams,
            arrays=arrays,
            same=same,
            like=like,
            follows=follows,
            cost_s=cost_s,
        )
        request.check()
        with telling(self.url, "written"):
            lock = self._shared()
            try:
                pointer, is_full = self._put(request, started)
            finally:
                lock.release()
            if is_full:
                plan = SweepPlan(is_compacting=False)
                sweep(self._reader(), plan, self._shared)
        return pointer.info

    def read(self, name: str) -> StoredImage:
        """Return an image, of which parts are decoded as they are asked for.

        Raises
        ------
        UnknownImage, StoreDamaged
        ImageRefused
            If somebody with another key wrote it.
        """
        with telling(self.url, "read"):
            lock = self._shared()
            try:
                reader = self._reader()
                pointer = reader.pointer(name)
                pointer.check_key(reader.key)
                return StoredImage(reader, pointer, reader.manifest(pointer), lock)
            except BaseException:
                lock.release()
                raise

    def images(self) -> tuple[ImageInfo, ...]:
        """Return all images, oldest first; `fsck` names those that are damaged."""
        with telling(self.url, "read"):
            pointers, _ = self._reader().pointers()
        return tuple(each.info for each in pointers)

    def info(self, name: str) -> ImageInfo:
        """Return what is known about an image; `UnknownImage` if there is none."""
        with telling(self.url, "read"):
            return self._reader().pointer(name).info

    def forget(self, *names: str) -> None:
        """Give up images; `gc` frees what they took.

        Raises
        ------
        UnknownImage
            If there is no such image; then none is forgotten.
        """
        with telling(self.url, "written"):
            lock = self._shared()
            try:
                for name in names:
                    if not self._has(checked_name(name)):
                        raise UnknownImage(f"the store has no image '{name}'.")
                for name in names:
                    self._shelf.delete(pointer_file(name))
            finally:
                lock.release()

    def usage(self) -> StoreUsage:
        """Return how much the store holds; no pack is opened."""
        with telling(self.url, "read"):
            reader = self._reader()
            pointers, _ = reader.pointers()
            sizes = pack_sizes(reader)
            waste = unused_bytes(reader, pointers)
            waste += sum(each.nbytes for each in self._shelf.entries("tmp"))
            index = sum(each.nbytes for each in self._shelf.entries("index"))
        return StoreUsage(
            url=self.url,
            format=FORMAT,
            images=tuple(each.info for each in pointers),
            state_bytes=sum(each.info.state_bytes for each in pointers),
            pack_bytes=sum(sizes.values()),
            index_bytes=index,
            waste_bytes=waste,
            budget_bytes=self._budget_bytes,
            packs=len(sizes),
        )

    def gc(
        self,
        *,
        wanted: Collection[str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> GcReport:
        """Free what no image needs; safe while others read and write.

        Parameters
        ----------
        wanted
            Forget all other images first.  Whoever decides lists the images before: one that was
            put meanwhile would be gone.  None to keep all.
        progress
            Called with the number of packs that were deleted, and of all that will be.

        Raises
        ------
        StoreDamaged
            If a pointer cannot be read: then nothing is deleted.
        """
        plan = SweepPlan(wanted=wanted, budget_bytes=self._budget_bytes, progress=progress)
        with telling(self.url, "written"):
            return sweep(self._reader(), plan, self._shared)

    def fsck(
        self, *, repair: bool = False, progress: Callable[[int, int], None] | None = None
    ) -> FsckReport:
        """Read every byte of the store, and say what is damaged.

        Parameters
        ----------
        repair
            Move damaged packs, and images that cannot be restored, to the folder ``damaged``.
        progress
            Called with the number of files that were read, and of all.

        Raises
        ------
        StoreError
            If it is to be repaired while others use it.
        """
        with telling(self.url, "written" if repair else "read"):
            reader = self._reader()
            lock = self._alone() if repair else self._shared()
            try:
                report, found = check_store(reader, progress)
                return repair_store(reader, report, found) if repair else report
            finally:
                lock.release()

    def close(self) -> None:
        """End the use of the store.  It holds nothing open between calls; images do."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _reader(self) -> ImageReader:
        """Return a reader for one call: what it opens is closed with it."""
        return ImageReader(self._shelf, self._key)

    def _shared(self) -> Lock:
        lock = self._shelf.lock(exclusive=False, patience_s=_PATIENCE_S)
        if lock is None:
            raise StoreError(f"the store '{self.url}' is being swept. Try again later.")
        return lock

    def _alone(self) -> Lock:
        lock = self._shelf.lock(exclusive=True, patience_s=_PATIENCE_S / 6)
        if lock is None:
            raise StoreError(
                f"the store '{self.url}' is in use. Repair it when no kernel reads or writes it."
            )
        return lock

    def _has(self, name: str) -> bool:
        try:
            self._shelf.view(pointer_file(name))
        except FileNotFoundError:
            return False
        return True

    def _put(self, request: PutRequest, started: float) -> tuple[Pointer, bool]:
        """Write an image; return its pointer, and whether others were forgotten for it."""
        reader = self._reader()
        if self._has(request.name):
            raise StoreError(f"image '{request.name}' is in the store. Forget it or name another.")
        like = None if request.like is None else _own_manifest(reader, request.like)
        recent = recent_manifests(reader, besides=request.like)
        sizes = pack_sizes(reader)
        manifests = recent if like is None else chain([like], recent)
        past = Past(manifests, frozenset(sizes), follows=request.follows)
        writer = ImageWriter(reader, past)
        try:
            add_same(writer, request, like, sizes)
            for key, data in request.streams.items():
                writer.add(key, "stream", data)
            for key, data in request.arrays.items():
                writer.add(key, "array", data)
            manifest, written = writer.finish(request.name, request.document)
        finally:
            writer.discard()
        pointer = new_pointer(request, manifest, written, started)
        evicted = self._too_much(pointer, sizes, written.nbytes)
        data = pointer_to_bytes(pointer, reader.key)
        write_file(self._shelf, pointer_file(request.name), data)
        self._check_packs(pointer)
        # Not before: if the new image fails, no other has to go.
        for name in evicted or ():
            self._shelf.delete(pointer_file(name))
        return pointer, evicted is not None

    def _too_much(
        self, pointer: Pointer, before: Mapping[str, int], nbytes: int
    ) -> tuple[str, ...] | None:
        """Return the images to forget for a new one; None if there is room without a sweep."""
        sizes = {**before, pointer.pack: nbytes}
        if self._budget_bytes is None or sum(sizes.values()) <= self._budget_bytes:
            return None
        evicted = choose_evictions(
            readable(self._reader()),
            sizes,
            budget_bytes=self._budget_bytes,
            now=time.time(),
            needed=pointer.packs,
        )
        if evicted is None:
            if pointer.pack not in before:
                self._shelf.delete(pack_file(pointer.pack))
            raise StoreError(
                f"image '{pointer.info.name}' alone is larger than the budget of the store,"
                f" {self._budget_bytes} bytes. Raise the budget."
            )
        return evicted

    def _check_packs(self, pointer: Pointer) -> None:
        """Take an image back if a sweep that no lock stopped has deleted what it needs."""
        if self._shelf.grace_s and not pointer.packs <= pack_sizes(self._reader()).keys():
            self._shelf.delete(pointer_file(pointer.info.name))
            raise StoreError(
                f"image '{pointer.info.name}' was not stored, because the store was swept"
                " meanwhile. Store it again."
            )


def _own_manifest(reader: ImageReader, name: str) -> Manifest:
    pointer = reader.pointer(name)
    pointer.check_key(reader.key)
    return reader.manifest(pointer)
