"""One buffer for everything that a look brings to the host, so that it comes in one copy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.cuda.device import Device, DeviceArray

_ALIGN = 16
"""So that kernels can write everything 16 bytes at a time."""


class Consolidated:
    """Columns of u32, a root, and a payload behind them, in memory of the device."""

    def __init__(self, device: Device, columns: dict[str, int], payload_bytes: int) -> None:
        self._device = device
        self._spans: dict[str, tuple[int, int]] = {}
        at = 0
        sizes = {name: 4 * length for name, length in columns.items()}
        for name, size in {**sizes, "root": 16, "payload": payload_bytes}.items():
            self._spans[name] = at, at + size
            at += -(-size // _ALIGN) * _ALIGN
        self._buffer = device.empty(at, "u1")

    def __getitem__(self, name: str) -> DeviceArray:
        start, stop = self._spans[name]
        part = self._buffer[start:stop]
        if name == "payload":
            return part
        return part.view("u8" if name == "root" else "u4")

    def to_host(self) -> Arrived:
        """Bring everything to the host, in one copy."""
        return Arrived(spans=self._spans, buffer=self._device.to_host(self._buffer))


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """The same on the host."""

    spans: dict[str, tuple[int, int]]
    buffer: NDArray[np.uint8]

    def column(self, name: str) -> NDArray[np.uint32]:
        """Return a column."""
        start, stop = self.spans[name]
        return self.buffer[start:stop].view(np.uint32)

    @property
    def root(self) -> bytes:
        """The root of the contents."""
        start, stop = self.spans["root"]
        return self.buffer[start:stop].tobytes()

    def payload(self, nbytes: int) -> NDArray[np.uint8]:
        """Return the first bytes of the payload."""
        start, _ = self.spans["payload"]
        return self.buffer[start : start + nbytes]
