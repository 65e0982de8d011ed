"""Series of arrays on a device, kept by the process that has the device.

What a device has seen cannot be handed to another process, and CUDA does not survive a fork, so
images of such states are written by the process itself, which then goes on with the same series.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chexpoint.store.dedup import Series

_kept: dict[str, dict[str, Series]] = {}
"""By store, then by the key of a part."""


def is_on_device(given: object) -> bool:
    """Return whether the memory of an array is on a device."""
    return hasattr(given, "__cuda_array_interface__")


def take_series(url: str, key: str, root: bytes | None) -> Series | None:
    """Return the series of a part, if the last thing it saw is what the store has.

    It is handed back with `keep_series` once its next piece is in the store; if that fails, the
    next image begins a new one.
    """
    series = _kept.get(url, {}).pop(key, None)
    return series if series is not None and series.root == root else None


def keep_series(url: str, series: dict[str, Series]) -> None:
    """Go on with these at the next image, and with no others: they take memory of the device."""
    _kept[url] = series
