"""Moves what is still needed of a pack into a new one, so that the rest of it can go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chexpoint.errors import ChexError
from chexpoint.store.image_reader import ImageReader, packs_of
from chexpoint.store.manifests import (
    Manifest,
    Part,
    Place,
    Pointer,
    blake,
    manifest_to_bytes,
    pointer_file,
    pointer_to_bytes,
)
from chexpoint.store.packs import PackWriter, pack_file
from chexpoint.store.shelf import Shelf, write_file

_MANIFEST_COST = 4096
"""About what it takes to write the manifest of an image again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocation:
    """An image whose manifest was written again, and names other packs; not yet in place."""

    old: Pointer
    new: Pointer


def mostly_dead(
    reader: ImageReader, pointers: Sequence[Pointer], sizes: Mapping[str, int]
) -> frozenset[str]:
    """Return packs of which images need less than half, and that are worth to be moved.

    The image that a pack was written for needs all of it: only packs that have lost theirs are
    looked at.
    """
    orphans = frozenset().union(*(each.packs for each in pointers)) - {p.pack for p in pointers}
    users: Counter[str] = Counter()
    live: set[Place] = set()
    stuck: set[str] = set()
    for pointer in pointers:
        used = pointer.packs & orphans
        if not used:
            continue
        users.update(used)
        try:
            pointer.check_key(reader.key)
            manifest = reader.manifest(pointer)
        except ChexError:
            # It cannot be written again, so its packs stay where they are.
            stuck |= used
        else:
            live |= {place for part in manifest.parts.values() for place in part.chain}
    needed: Counter[str] = Counter()
    for place in live:
        needed[place.pack] += place.nbytes
    found = set()
    for pack in orphans - stuck:
        dead = sizes.get(pack, 0) - needed[pack]
        if dead > needed[pack] and dead > _MANIFEST_COST * users[pack]:
            found.add(pack)
    return frozenset(found)


def relocate(
    reader: ImageReader, pointers: Sequence[Pointer], packs: frozenset[str]
) -> list[Relocation]:
    """Copy what images need of packs; return their new pointers.

    Pieces go into one new pack, and each manifest into one of its own.

    Raises
    ------
    StoreDamaged, ImageRefused
        If that cannot be done; then only packs were written that nobody needs.
    """
    affected = [each for each in pointers if each.packs & packs]
    if not affected:
        return []
    for pointer in affected:
        pointer.check_key(reader.key)
    manifests = {each.info.name: reader.manifest(each) for each in affected}
    places = dict.fromkeys(
        place
        for manifest in manifests.values()
        for part in manifest.parts.values()
        for place in part.chain
        if place.pack in packs
    )
    moved = _copied(reader, list(places))
    return [
        Relocation(old=each, new=_rewritten(reader, each, manifests[each.info.name], moved))
        for each in affected
    ]


def put_in_place(shelf: Shelf, key: bytes, each: Relocation) -> None:
    """Let an image be where it was moved to."""
    write_file(shelf, pointer_file(each.new.info.name), pointer_to_bytes(each.new, key))


def _copied(reader: ImageReader, places: list[Place]) -> dict[Place, Place]:
    """Write pieces into a new pack; return where each of them is."""
    if not places:
        return {}
    file = reader.shelf.writer()
    try:
        pack = PackWriter(file)
        numbers = [pack.add([reader.packs.section(p.pack, p.section)])[0] for p in places]
        digest = pack.end()
        file.finish(pack_file(digest))
    finally:
        file.discard()
    return {
        place: replace(place, pack=digest, section=number)
        for place, number in zip(places, numbers, strict=True)
    }


def _rewritten(
    reader: ImageReader, pointer: Pointer, manifest: Manifest, moved: Mapping[Place, Place]
) -> Pointer:
    parts = {key: _moved(part, moved) for key, part in manifest.parts.items()}
    # Pieces beside the manifest stay where they are; no place is in the pack that is written.
    data = manifest_to_bytes(replace(manifest, parts=parts))
    file = reader.shelf.writer()
    try:
        pack = PackWriter(file)
        section, _ = pack.add([data])
        digest = pack.end()
        file.finish(pack_file(digest))
    finally:
        file.discard()
    return replace(
        pointer,
        pack=digest,
        section=section,
        digest=blake(data),
        packs=packs_of(parts.values()) | {digest},
    )


def _moved(part: Part, moved: Mapping[Place, Place]) -> Part:
    return replace(part, chain=tuple(moved.get(place, place) for place in part.chain))
