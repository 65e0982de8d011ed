"""Deletes what no image needs, beside those who read and write."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from chexpoint.errors import StoreDamaged
from chexpoint.model import GcReport
from chexpoint.store.caches import pack_of_cache
from chexpoint.store.compaction import Relocation, mostly_dead, put_in_place, relocate
from chexpoint.store.eviction import choose_evictions
from chexpoint.store.image_reader import ImageReader
from chexpoint.store.manifests import Pointer, is_digest, pointer_file
from chexpoint.store.packs import pack_file
from chexpoint.store.shelf import Entry, Lock

PATIENCE_S = 2.0
"""How long a sweep waits for readers and writers to end; it can come back later."""

Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPlan:
    """What a sweep is to do."""

    wanted: Collection[str] | None = None
    """Images to keep; None for all."""
    budget_bytes: int | None = None
    is_compacting: bool = True
    progress: Progress | None = None


def sweep(reader: ImageReader, plan: SweepPlan, shared: Callable[[], Lock]) -> GcReport:
    """Forget what is not wanted, then delete what nobody needs.

    First, beside all others, images are forgotten and what is left of mostly dead packs is copied.
    Then, alone and for a short time, packs are deleted.

    Raises
    ------
    StoreDamaged
        If a pointer cannot be read: nobody knows what it needs.
    """
    lock = shared()
    try:
        kept, gone = _forgotten(reader, plan)
        relocations = _compacted(reader, kept) if plan.is_compacting else []
    finally:
        lock.release()
    alone = reader.shelf.lock(exclusive=True, patience_s=PATIENCE_S)
    if alone is None:
        unused = _unused(reader, readable(reader))
        return GcReport(freed_bytes=0, packs=0, images=gone, kept_busy=len(unused))
    try:
        freed, packs = _swept(reader, relocations, plan.progress)
    finally:
        alone.release()
    return GcReport(freed_bytes=freed, packs=packs, images=gone)


def readable(reader: ImageReader) -> list[Pointer]:
    """Return all pointers, if none is damaged."""
    pointers, damaged = reader.pointers()
    for error in damaged.values():
        raise StoreDamaged(f"nothing was deleted, because {error}") from error
    return pointers


def pack_sizes(reader: ImageReader) -> dict[str, int]:
    """Return the sizes of all packs."""
    return {digest: entry.nbytes for digest, entry in _packs(reader).items()}


def unused_bytes(reader: ImageReader, pointers: Sequence[Pointer]) -> int:
    """Return the size of the packs that no image needs."""
    return sum(each.nbytes for each in _unused(reader, pointers).values())


def _forgotten(reader: ImageReader, plan: SweepPlan) -> tuple[list[Pointer], int]:
    """Forget images that are not wanted or too much; return the others, and how many went."""
    pointers = readable(reader)
    gone: set[str] = set()
    if plan.wanted is not None:
        wanted = set(plan.wanted)
        gone = {each.info.name for each in pointers if each.info.name not in wanted}
    if plan.budget_bytes is not None:
        rest = [each for each in pointers if each.info.name not in gone]
        over = choose_evictions(
            rest, pack_sizes(reader), budget_bytes=plan.budget_bytes, now=time.time()
        )
        gone |= set(over or ())
    for name in sorted(gone):
        reader.shelf.delete(pointer_file(name))
    return [each for each in pointers if each.info.name not in gone], len(gone)


def _compacted(reader: ImageReader, pointers: list[Pointer]) -> list[Relocation]:
    dead = mostly_dead(reader, pointers, pack_sizes(reader))
    found: list[Relocation] = []
    for pack in sorted(dead):
        # Those that were moved before may need this pack, too.
        now = {each.old.info.name: each.new for each in found}
        current = [now.get(each.info.name, each) for each in pointers]
        try:
            found += relocate(reader, current, frozenset([pack]))
        except (StoreDamaged, OSError):
            # It is damaged, or the disk is full: then there is all the more to delete.
            continue
    return found


def _swept(
    reader: ImageReader, relocations: Sequence[Relocation], progress: Progress | None
) -> tuple[int, int]:
    """Delete, while nobody reads or writes; return the bytes and packs that went."""
    shelf = reader.shelf
    now = {each.info.name: each for each in readable(reader)}
    present = _packs(reader).keys()
    doubtful: list[Pointer] = []
    for each in relocations:
        name = each.old.info.name
        # It may have been forgotten, or moved by another sweep, which may also have deleted this
        # one's packs as unused.
        if now.get(name) == each.old and each.new.packs <= present:
            doubtful.append(each.new)
            with contextlib.suppress(OSError):
                put_in_place(shelf, reader.key, each)
                now[name] = each.new
    # A pointer may be in its place although there was an error after that.
    unused = _unused(reader, [*now.values(), *doubtful])
    freed = 0
    for number, (digest, entry) in enumerate(sorted(unused.items())):
        if progress is not None:
            progress(number, len(unused))
        shelf.delete(pack_file(digest))
        freed += entry.nbytes
    if progress is not None:
        progress(len(unused), len(unused))
    left = _packs(reader).keys()
    for entry in shelf.entries("index"):
        if pack_of_cache(entry.name) not in left:
            shelf.delete(f"index/{entry.name}")
    for entry in shelf.entries("tmp"):
        shelf.delete(f"tmp/{entry.name}")
        freed += entry.nbytes
    return freed, len(unused)


def _packs(reader: ImageReader) -> dict[str, Entry]:
    found = {}
    for entry in reader.shelf.entries("packs"):
        digest = entry.name.removesuffix(".pack")
        if is_digest(digest) and entry.name.endswith(".pack"):
            found[digest] = entry
    return found


def _unused(reader: ImageReader, pointers: Sequence[Pointer]) -> dict[str, Entry]:
    """Return the packs that no image needs, and that nobody can be about to need."""
    used = frozenset().union(*(each.packs for each in pointers))
    young = time.time() - reader.shelf.grace_s
    return {
        digest: entry
        for digest, entry in _packs(reader).items()
        if digest not in used and entry.time <= young
    }
