"""What `Store.put` is asked for, and what becomes of it."""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chexpoint.errors import InvalidValue, StoreDamaged
from chexpoint.model import ImageInfo, ImageName, LostVariable
from chexpoint.store.image_reader import packs_of
from chexpoint.store.image_writer import ImageWriter, Written
from chexpoint.store.manifests import Manifest, Pointer

if TYPE_CHECKING:
    from typing_extensions import Buffer


@dataclass(frozen=True, slots=True, kw_only=True)
class PutRequest:
    """What `put` was asked to store."""

    name: ImageName
    document: dict[str, Any]
    streams: Mapping[str, Buffer]
    arrays: Mapping[str, Buffer]
    same: Collection[str]
    like: str | None
    follows: bool
    cost_s: float

    @property
    def lost(self) -> tuple[LostVariable, ...]:
        """What `images` shows as lost."""
        return tuple(LostVariable(**each) for each in self.document.get("lost", ()))

    @property
    def line(self) -> tuple[str, ...]:
        """What `images` shows as line."""
        return tuple(str(each) for each in self.document.get("line", ()))

    def check(self) -> None:
        """Raise `InvalidValue` for what cannot be stored, before anything is written."""
        if not (math.isfinite(self.cost_s) and self.cost_s >= 0):
            raise InvalidValue(f"a cost of {self.cost_s} seconds cannot be.")
        try:
            _ = self.lost, self.line
        except TypeError as error:
            raise InvalidValue(f"the document of an image is not well-formed: {error}.") from None


def add_same(
    writer: ImageWriter, request: PutRequest, like: Manifest | None, present: Collection[str]
) -> None:
    """Take over the parts that were not given again."""
    for key in sorted(request.same):
        part = None if like is None else like.parts.get(key)
        if part is None:
            raise InvalidValue(f"part '{key}' cannot be the same: image '{request.like}' has none.")
        if not packs_of([part]).issubset(present):
            raise StoreDamaged(
                f"part '{key}' of image '{request.like}' is lost: a pack is missing. Give it again."
            )
        writer.keep(key, part)


def new_pointer(
    request: PutRequest, manifest: Manifest, written: Written, started: float
) -> Pointer:
    """Return the pointer of an image whose pack is written."""
    info = ImageInfo(
        name=request.name,
        time=time.time(),
        seconds=time.perf_counter() - started,
        state_bytes=manifest.state_bytes,
        stored_bytes=written.nbytes,
        cost_s=request.cost_s,
        lost=request.lost,
        line=request.line,
    )
    return Pointer(
        info=info,
        pack=written.pack,
        section=written.section,
        digest=written.digest,
        packs=written.packs,
    )
