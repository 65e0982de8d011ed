"""Stores to look at."""

from __future__ import annotations

from chexpoint.model import ImageInfo, ImageName, LostVariable, StoreUsage

MB = 2**20
NOON = 1_794_916_800.0  # 2026-11-17 12:00 UTC

CONNECTION = LostVariable(
    name="db", kind="sqlite3.Connection", why="a connection ends with its process"
)


def image(number: int, **fields: object) -> ImageInfo:
    """Return an image of 200 MB; the first is stored whole, the others add 40 KB."""
    values: dict[str, object] = {
        "name": ImageName(f"i{number}"),
        "time": NOON + 60 * number,
        "seconds": 0.25,
        "state_bytes": 200 * MB,
        "stored_bytes": 200 * MB if number == 0 else 40 * 1024,
    }
    return ImageInfo(**{**values, **fields})  # type: ignore[arg-type]


def usage_of(*images: ImageInfo, **fields: object) -> StoreUsage:
    """Return the usage of a store with some images."""
    values: dict[str, object] = {
        "url": "/study/.chex/store",
        "format": 1,
        "images": images,
        "state_bytes": sum(each.state_bytes for each in images),
        "pack_bytes": sum(each.stored_bytes for each in images),
        "index_bytes": 0,
        "waste_bytes": 0,
        "budget_bytes": None,
        "packs": len(images),
    }
    return StoreUsage(**{**values, **fields})  # type: ignore[arg-type]
