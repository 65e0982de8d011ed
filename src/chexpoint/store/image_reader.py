"""Finds images in a store and decodes their parts.  Nothing is returned that was not checked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from chexpoint.errors import StoreDamaged, UnknownImage, suggestion
from chexpoint.store.keys import store_key
from chexpoint.store.manifests import (
    Manifest,
    Part,
    Pointer,
    blake,
    checked_name,
    manifest_from_bytes,
    pointer_file,
    pointer_from_bytes,
)
from chexpoint.store.packs import ADVICE, PackReader
from chexpoint.store.shelf import Entry, Shelf

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_SUFFIX = ".json"


class ImageReader:
    """Reads images of one store, for one owner of a key.

    Parameters
    ----------
    key
        None for `store_key`, which is looked for when it is needed: listing images needs none.
    """

    def __init__(self, shelf: Shelf, key: bytes | None) -> None:
        self.shelf = shelf
        self._key = key
        self.packs = PackReader(shelf)

    @property
    def key(self) -> bytes:
        """What images are signed with."""
        if self._key is None:
            self._key = store_key()
        return self._key

    def entries(self) -> list[Entry]:
        """Return the files that may be pointers."""
        found = self.shelf.entries("images")
        return [each for each in found if each.name.endswith(_SUFFIX)]

    def pointer(self, name: str) -> Pointer:
        """Return the pointer of an image.

        Raises
        ------
        UnknownImage, StoreDamaged
        """
        try:
            data = bytes(self.shelf.view(pointer_file(checked_name(name)))[:])
        except FileNotFoundError:
            known = [each.name.removesuffix(_SUFFIX) for each in self.entries()]
            hint = suggestion(name, known) if known else "It holds none."
            raise UnknownImage(f"the store has no image '{name}'. {hint}") from None
        return pointer_from_bytes(data, name)

    def pointers(self) -> tuple[list[Pointer], dict[str, StoreDamaged]]:
        """Return all pointers, oldest first, and what is wrong with those that are damaged."""
        found, damaged = [], {}
        names = [each.name for each in self.entries()]
        for file, data in self.shelf.read_all("images", names).items():
            name = file.removesuffix(_SUFFIX)
            try:
                found.append(pointer_from_bytes(data, name))
            except StoreDamaged as error:
                damaged[name] = error
        found.sort(key=lambda each: (each.info.time, each.info.name))
        return found, damaged

    def manifest(self, pointer: Pointer) -> Manifest:
        """Return the manifest of an image; the key is not checked.

        Raises
        ------
        StoreDamaged
            If it is missing or not what the pointer says.
        """
        data = self.packs.section(pointer.pack, pointer.section)
        name = pointer.info.name
        if blake(data) != pointer.digest:
            raise StoreDamaged(f"image '{name}' is damaged: its manifest is another one. {ADVICE}")
        manifest = manifest_from_bytes(data, pointer.pack)
        if manifest.name != name or not packs_of(manifest.parts.values()) <= pointer.packs:
            raise StoreDamaged(f"image '{name}' is damaged: its manifest does not fit. {ADVICE}")
        return manifest

    def pieces(self, part: Part) -> list[memoryview]:
        """Return the chain of a part, each piece checked; `StoreDamaged` if one is not there."""
        return [self.packs.section(place.pack, place.section) for place in part.chain]

    def contents(self, part: Part) -> NDArray[np.uint8]:
        """Return the contents of a part, in memory of their own; `StoreDamaged` if lost."""
        from chexpoint.store.dedup import decode

        pieces = self.pieces(part)
        check_piece(pieces[-1], part)
        found = decode(pieces)
        if part.digest and blake(found.data) != part.digest:
            raise StoreDamaged(f"a stream has changed since it was written. {ADVICE}")
        return found


def check_piece(piece: memoryview, part: Part) -> None:
    """Raise `StoreDamaged` if the last piece of a chain does not lead to a part.

    Looked at before decoding, which allocates what the piece says.
    """
    from chexpoint.store.dedup import read_info

    told = read_info(piece)
    found = told.number - told.key + 1, told.nbytes, told.root
    if found != (len(part.chain), part.nbytes, part.root):
        raise StoreDamaged(f"a piece is that of another part. {ADVICE}")


def packs_of(parts: Iterable[Part]) -> frozenset[str]:
    """Return the packs that parts need."""
    return frozenset(place.pack for part in parts for place in part.chain)
