"""Reads every byte of a store, says what is lost, and moves that out of the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from chexpoint.errors import ChexError, StoreDamaged, StoreError
from chexpoint.model import Damage, FsckReport
from chexpoint.store.compaction import put_in_place, relocate
from chexpoint.store.image_reader import ImageReader
from chexpoint.store.manifests import Part, Place, Pointer, is_digest, pointer_file
from chexpoint.store.packs import ADVICE, Pack, pack_file
from chexpoint.store.shelf import Shelf

if TYPE_CHECKING:
    from chexpoint.store.dedup import PieceInfo

Progress = Callable[[int, int], None]
_Pieces = dict[Place, "PieceInfo"]


@dataclass(slots=True)
class _Findings:
    """What is known so far."""

    whole: dict[str, set[int]] = field(default_factory=dict)
    """Numbers of the sections that are in order, by pack."""
    why: dict[str, str] = field(default_factory=dict)
    """What is wrong with a pack."""
    losses: dict[str, set[str]] = field(default_factory=dict)
    """Images that are lost because of a pack."""
    images: dict[str, str] = field(default_factory=dict)
    """What is wrong with an image, its packs apart."""
    caches: dict[str, str] = field(default_factory=dict)
    nbytes: int = 0

    def lost(self) -> set[str]:
        """Return the images that cannot be restored."""
        return set(self.images).union(*self.losses.values())


def check_store(reader: ImageReader, progress: Progress | None) -> tuple[FsckReport, _Findings]:
    """Look at everything; change nothing."""
    found = _Findings()
    packs = sorted(
        entry.name.removesuffix(".pack")
        for entry in reader.shelf.entries("packs")
        if is_digest(entry.name.removesuffix(".pack"))
    )
    pointers, damaged = reader.pointers()
    caches = sorted(entry.name for entry in reader.shelf.entries("index"))
    steps = len(packs) + len(pointers) + len(caches)
    done = 0

    def step() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, steps)

    for digest in packs:
        _check_pack(reader, digest, found)
        step()
    found.images = {name: str(error) for name, error in damaged.items()}
    pieces: _Pieces = {}
    for pointer in pointers:
        _check_image(reader, pointer, found, pieces)
        step()
    for name in caches:
        _check_cache(reader.shelf, name, found)
        step()
    report = FsckReport(
        packs=len(packs),
        images=len(pointers) + len(damaged),
        checked_bytes=found.nbytes,
        damages=_damages(found),
    )
    return report, found


def repair_store(reader: ImageReader, report: FsckReport, found: _Findings) -> FsckReport:
    """Move what is lost to ``damaged``, so that everything that is left is in order.

    Called when nobody else uses the store.
    """
    done: dict[str, str] = {}
    shelf = reader.shelf
    for name in sorted(found.lost()):
        _quarantine(shelf, pointer_file(name), f"damaged/{name}.json")
        done[_image(name)] = "the image was given up; its pointer is in 'damaged'"
    kept: dict[str, str] = {}
    for digest in sorted(found.why):
        try:
            done[_pack(digest)] = _repair_pack(reader, digest)
        except ChexError as error:
            kept[_pack(digest)] = f"; it stays: what is needed of it cannot be copied ({error})"
    for name in found.caches:
        shelf.delete(f"index/{name}")
        done[_cache(name)] = "deleted; nothing is lost"
    damages = tuple(
        replace(each, why=each.why + kept.get(each.what, ""), repaired=done.get(each.what, ""))
        for each in report.damages
    )
    return replace(report, damages=damages)


def _check_pack(reader: ImageReader, digest: str, found: _Findings) -> None:
    good = found.whole.setdefault(digest, set())
    try:
        pack = reader.packs.pack(digest)
    except (StoreDamaged, OSError) as error:
        found.why[digest] = _reason(error)
        return
    for number in range(len(pack)):
        try:
            found.nbytes += pack.section(number).nbytes
        except (StoreDamaged, OSError) as error:
            found.why.setdefault(digest, _reason(error))
        else:
            good.add(number)


def _check_image(reader: ImageReader, pointer: Pointer, found: _Findings, pieces: _Pieces) -> None:
    name = pointer.info.name
    wanted = {(pointer.pack, pointer.section)}
    if not _is_whole(wanted, name, found):
        return
    try:
        manifest = reader.manifest(pointer)
    except (StoreDamaged, OSError) as error:
        found.images[name] = _reason(error)
        return
    parts = manifest.parts.values()
    if not _is_whole({(p.pack, p.section) for part in parts for p in part.chain}, name, found):
        return
    for key, part in manifest.parts.items():
        if (why := _chain_problem(reader, part, pieces)) is not None:
            found.images[name] = f"part '{key}': {why}"
            return


def _is_whole(wanted: set[tuple[str, int]], name: str, found: _Findings) -> bool:
    """Return whether sections are in order; take down what is lost if they are not."""
    is_whole = True
    for pack, section in wanted:
        if section in found.whole.get(pack, ()):
            continue
        is_whole = False
        if pack not in found.whole:
            found.why[pack] = "it is missing"
        elif pack not in found.why:
            found.images[name] = f"pack {pack} has no section {section}"
            continue
        found.losses.setdefault(pack, set()).add(name)
    return is_whole


def _chain_problem(reader: ImageReader, part: Part, pieces: _Pieces) -> str | None:
    """Return why a chain cannot be decoded, as far as can be told without doing so."""
    from chexpoint.store.dedup import read_info

    for place in part.chain:
        if place not in pieces:
            try:
                pieces[place] = read_info(reader.packs.section(place.pack, place.section))
            except (StoreError, OSError) as error:
                return _reason(error)
    last = pieces[part.chain[-1]]
    numbers = [pieces[place].number for place in part.chain]
    if numbers != list(range(last.key, last.number + 1)):
        return "its chain is out of order"
    if (last.nbytes, last.root) != (part.nbytes, part.root):
        return "its chain is that of another"
    return None


def _check_cache(shelf: Shelf, name: str, found: _Findings) -> None:
    try:
        cache = Pack(shelf.view(f"index/{name}"), f"cache {name}")
        for number in range(len(cache)):
            found.nbytes += cache.section(number).nbytes
    except FileNotFoundError:
        # Another process has trimmed the caches meanwhile.
        return
    except (StoreDamaged, OSError) as error:
        found.caches[name] = _reason(error)


def _damages(found: _Findings) -> tuple[Damage, ...]:
    packs = [
        Damage(what=_pack(each), why=why, images=tuple(sorted(found.losses.get(each, ()))))
        for each, why in sorted(found.why.items())
    ]
    images = [
        Damage(what=_image(name), why=why, images=(name,))
        for name, why in sorted(found.images.items())
    ]
    # An image that is lost with a pack is moved as well, and so has a line of its own.
    others = [
        Damage(what=_image(name), why="it needs a pack that is damaged", images=(name,))
        for name in sorted(found.lost() - set(found.images))
    ]
    caches = [Damage(what=_cache(name), why=why) for name, why in sorted(found.caches.items())]
    return (*packs, *images, *others, *caches)


def _repair_pack(reader: ImageReader, digest: str) -> str:
    """Move a damaged pack away, after what other images need of it was copied."""
    others, _ = reader.pointers()
    users = [each for each in others if digest in each.packs]
    for each in relocate(reader, users, frozenset([digest])):
        put_in_place(reader.shelf, reader.key, each)
    copied = f"what {len(users)} other images need of it was copied, and " if users else ""
    _quarantine(reader.shelf, pack_file(digest), f"damaged/{digest}.pack")
    return f"{copied}it was moved to 'damaged'"


def _quarantine(shelf: Shelf, name: str, to: str) -> None:
    try:
        shelf.move(name, to)
    except FileNotFoundError:
        # A pack that is missing, or an image that was forgotten meanwhile.
        return


def _reason(error: Exception) -> str:
    text = str(error).removesuffix(ADVICE).strip()
    # What it is about is said beside it.
    return text.partition(" is damaged: ")[2] or text or type(error).__name__


def _pack(digest: str) -> str:
    return f"pack {digest}"


def _image(name: str) -> str:
    return f"image {name}"


def _cache(name: str) -> str:
    return f"cache {name}"
