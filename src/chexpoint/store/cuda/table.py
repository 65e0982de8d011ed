"""What a differ has ever seen: digests, numbered, and a table on the device that finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chexpoint.errors import StoreError

if TYPE_CHECKING:
    from chexpoint.store.cuda.device import Device, DeviceArray

MOST = 2**32 - 2
"""Numbers of nodes, of slots and of digests are u32."""

_LOAD = 0.75
_GROWTH = 1.25


class Table:
    """Digests that are known, in the order of their numbers, and slots that lead to them."""

    __slots__ = ("_device", "count", "known", "slots")

    def __init__(self, device: Device) -> None:
        self._device = device
        self.count = 0
        self.known = device.empty(0, "u8")
        self.slots = device.empty(0, "u8")

    def make_room(self, more: int, failures: DeviceArray) -> None:
        """Grow if need be, so that this many digests can be added."""
        wanted = self.count + more
        slots = int(wanted / _LOAD) + 1
        if slots > MOST:
            raise StoreError("too many different chunks for one series; use larger chunks.")
        if 2 * wanted > len(self.known):
            size = max(wanted, int(len(self.known) // 2 * _GROWTH))
            self.known = grown(self._device, self.known, 2 * size, kept=2 * self.count)
        if slots > len(self.slots):
            size = min(max(slots, int(len(self.slots) * _GROWTH)), MOST)
            self.slots = self._device.empty(0, "u8")  # the old ones go before the new ones come
            self.slots = self._device.empty(size, "u8")
            self._device.fill(self.slots, 0xFF)
            self._device.launch("refill", self.count, *self.arguments, self.count, failures)

    @property
    def arguments(self) -> tuple[DeviceArray, int, DeviceArray]:
        """What kernels take that look something up."""
        return self.slots, len(self.slots), self.known

    def publish(self, nodes: DeviceArray, digests: DeviceArray, slot_of: DeviceArray) -> None:
        """Number the digests of nodes that were inserted."""
        base, self.count = self.count, self.count + len(nodes)
        self._device.launch(
            "publish", len(nodes), nodes, len(nodes), base, digests, slot_of, self.known, self.slots
        )


def grown(
    device: Device, array: DeviceArray, size: int, *, kept: int, dtype: str = "u8"
) -> DeviceArray:
    """Return a larger array that begins like this one."""
    larger = device.empty(size, dtype)
    if kept:
        device.copy(larger[:kept], array[:kept])
    return larger
