"""What a store tells about itself: its size, what is wrong with it, what a sweep freed."""

from __future__ import annotations

from dataclasses import dataclass

from chexpoint.model.ids import Bytes
from chexpoint.model.image import ImageInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUsage:
    """How much a store holds, and what de-duplication saved."""

    url: str
    format: int
    images: tuple[ImageInfo, ...]
    """Oldest first."""
    state_bytes: Bytes
    """What all images would take if each were stored whole."""
    pack_bytes: Bytes
    """What they take."""
    index_bytes: Bytes
    """Caches that may be deleted at any time; not part of the images."""
    waste_bytes: Bytes
    """What `gc` would free now."""
    budget_bytes: Bytes | None
    packs: int

    @property
    def ratio(self) -> float:
        """How many times smaller the store is than the states in it."""
        return self.state_bytes / self.pack_bytes if self.pack_bytes else 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Something that is wrong with a store."""

    what: str
    """A pack, an image, a file."""
    why: str
    images: tuple[str, ...] = ()
    """Images that cannot be restored because of it."""
    repaired: str = ""
    """What was done about it; empty if nothing was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FsckReport:
    """What a check of every byte of a store found."""

    packs: int
    images: int
    checked_bytes: Bytes
    damages: tuple[Damage, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GcReport:
    """What a sweep removed."""

    freed_bytes: Bytes
    packs: int
    images: int
    """Images that had to go for the budget."""
    kept_busy: int = 0
    """Packs that could go, but are in use now."""
