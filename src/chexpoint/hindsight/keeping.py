"""Which states of a main loop are kept, and in which images their leaves are.

A checkpoint says for every leaf that differs from the beginning of the loop in which image its
contents are; only leaves that no image has yet are written.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from chexpoint.hindsight.run_place import RunPlace
from chexpoint.hindsight.run_story import NO_IMAGE
from chexpoint.hindsight.state.survey import Leaf, Survey
from chexpoint.hindsight.writing.materialiser import (
    Materialiser,
    Part,
    Snapshot,
    open_materialiser,
)

_DIGEST_BYTES = 2**20
FIRST_BYTES = 16 * 2**20
"""What is kept of a state whatever it costs: it is little."""


class RunImages:
    """The images of a run, which are written in the background."""

    def __init__(self, place: RunPlace, run: str) -> None:
        self._place, self._run = place, run
        self._materialiser: Materialiser | None = None
        self._count = 0

    def submit(
        self, leaves: list[Leaf], parts: tuple[Part, ...], *, like: str | None, cost_s: float
    ) -> str | None:
        """Have leaves written; return the name of their image, or None if there is no room now.

        Where all states are kept, wait for room.
        """
        name = f"loop.{self._run}.{self._count}"
        about = {leaf.name: {"kind": leaf.kind, "meta": leaf.meta} for leaf in leaves}
        document = {"leaves": about}
        snapshot = Snapshot(name=name, document=document, parts=parts, like=like, cost_s=cost_s)
        if self._open().submit(snapshot, wait=self._place.keeps_all) is None:
            return None
        self._count += 1
        return name

    def failed(self) -> set[str]:
        """Return the images of which it has become known that they could not be written."""
        return {saved.name for saved in self._open().poll() if saved.failed}

    def paid_later(self) -> float:
        """Return what the program has paid for checkpoints since they were taken, in seconds."""
        return self._materialiser.paid_later() if self._materialiser is not None else 0.0

    def close(self) -> None:
        """Leave what is on its way to the writer."""
        if self._materialiser is not None:
            if self._place.wait_s:
                self._materialiser.drain(self._place.wait_s)
            self._materialiser.finish()

    def _open(self) -> Materialiser:
        if self._materialiser is None:
            make = self._place.materialiser or open_materialiser
            self._materialiser = make(self._place.store, str(self._place.folder / self._run))
            self._materialiser.start()
        return self._materialiser


@dataclass(slots=True, eq=False)
class _Stored:
    mark: object
    image: str


class KeptStates:
    """The states of one main loop that are kept."""

    def __init__(self, images: RunImages, first: Survey, event: Callable[..., None]) -> None:
        self._images, self._event = images, event
        self._base = {name: leaf.mark for name, leaf in first.leaves.items()}
        self._first: list[tuple[Leaf, bytes]] | None = _small(first)
        self._began = time.perf_counter()
        self._stored: dict[str, _Stored] = {}
        self._last: str | None = None

    @property
    def is_first_written(self) -> bool:
        """Whether the loop was found to be worth writing anything of it."""
        return self._first is None

    def write_first(self) -> dict[str, str] | None:
        """Write what is small of the state at the beginning; return where it is.

        The cells before a loop are run again to replay it.  What they draw at random may differ
        then; the states of generators and most parameters are the same all the same.
        """
        first, self._first = self._first, None
        if not first:
            return None
        found: dict[str, str] = {}
        parts = tuple(_copied(leaf, data) for leaf, data in first)
        return found if self._submit([leaf for leaf, _ in first], parts, found) else None

    def keep(self, survey: Survey, most_bytes: int | None = None) -> dict[str, str] | None:
        """Keep a state; return where its leaves are, or None if it was not kept.

        Parameters
        ----------
        most_bytes
            Keep it only if no more than this has to be written.
        """
        found, new = self._sorted(survey)
        if most_bytes is not None and sum(leaf.nbytes for leaf in new) > most_bytes:
            return None
        if new and not self._submit(new, tuple(map(_part, new)), found):
            return None
        return found

    def keep_digests(self, survey: Survey, number: int) -> dict[str, str]:
        """Keep only what tells whether a state is the same, of a loop that was over at once."""
        image, found, room = f"{NO_IMAGE}{number}", {}, FIRST_BYTES
        for leaf in self._sorted(survey)[1]:
            room -= leaf.nbytes
            digest = leaf.digest() if room >= 0 else None
            if digest is not None:
                found[leaf.name] = image
                self._event(e="digest", image=image, leaf=leaf.name, digest=digest)
        return found

    def _sorted(self, survey: Survey) -> tuple[dict[str, str], list[Leaf]]:
        """Return the leaves that are in images, and those that have to be written."""
        found, new = {}, []
        for name, leaf in survey.leaves.items():
            stored = self._stored.get(name)
            if stored is not None and stored.mark == leaf.mark:
                found[name] = stored.image
            elif stored is not None or name not in self._base or self._base[name] != leaf.mark:
                new.append(leaf)
        return found, new

    def _submit(self, new: list[Leaf], parts: tuple[Part, ...], found: dict[str, str]) -> bool:
        """Have leaves written, and add where they are; return whether there was room."""
        self._forget(self._images.failed())
        cost_s = time.perf_counter() - self._began
        image = self._images.submit(new, parts, like=self._last, cost_s=cost_s)
        if image is None:
            return False
        self._last = image
        for leaf in new:
            found[leaf.name] = image
            self._stored[leaf.name] = _Stored(leaf.mark, image)
            if leaf.kind == "stream" and leaf.nbytes <= _DIGEST_BYTES:
                digest = leaf.digest()
                if digest is not None:
                    self._event(e="digest", image=image, leaf=leaf.name, digest=digest)
        return True

    def _forget(self, failed: set[str]) -> None:
        """What could not be written must be written again."""
        for name in [name for name, at in self._stored.items() if at.image in failed]:
            # With a mark that equals no other.
            self._stored[name] = _Stored(object(), self._stored[name].image)
        if self._last in failed:
            self._last = None


def _small(survey: Survey) -> list[tuple[Leaf, bytes]]:
    """Return copies of leaves, the smallest first, as long as they are small together."""
    small, room = [], FIRST_BYTES
    known = [leaf for leaf in survey.leaves.values() if leaf.is_read]
    for leaf in sorted(known, key=lambda leaf: leaf.nbytes):
        room -= leaf.nbytes
        if room < 0:
            break
        small.append((leaf, bytes(leaf.data())))
    return small


def _copied(leaf: Leaf, data: bytes) -> Part:
    def copy_into(target: memoryview) -> None:
        target[:] = data

    return Part(key=leaf.name, kind=leaf.kind, nbytes=len(data), copy_into=copy_into)


def _part(leaf: Leaf) -> Part:
    return Part(key=leaf.name, kind=leaf.kind, nbytes=leaf.nbytes, copy_into=leaf.copy_into)


__all__ = ["FIRST_BYTES", "KeptStates", "RunImages"]
