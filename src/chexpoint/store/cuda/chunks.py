"""One array on the device: what its chunks were, what they are, and how they are told apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from chexpoint.errors import StoreError
from chexpoint.store.cuda.table import MOST, Table, grown
from chexpoint.store.dedup.analysis import BLOCK_BYTES
from chexpoint.store.dedup.chunks import count_of

if TYPE_CHECKING:
    from chexpoint.store.cuda.device import Device, DeviceArray

# Labels, and the size of a tile, as the kernels have them.
CHANGED, NEW, MOVED, ANY = 1, 2, 3, 255
_TILE = 1024

_SMALL = 128
"""Chunks up to this size are digested by one thread each; larger ones by eight."""

# Where kernels leave their counts, each a u64.
_COUNT_AT = {CHANGED: 0, NEW: 1, MOVED: 2}
_FAILED_AT = 3


class Chunks:
    """The chunks of an array, and with ``nodes`` the tree above them; looked at again and again."""

    def __init__(self, device: Device, chunk_bytes: int) -> None:
        self.device = device
        self.chunk_bytes = chunk_bytes
        self.table = Table(device)
        self.nbytes = 0
        self.count = 0
        self.counts = device.empty(4, "u8")
        self.digests = device.empty(0, "u8")
        self.blocks = device.empty(1, "u8")
        self.release()

    def release(self) -> None:
        """Let go the array of the user's, and what is of no use after a look."""
        self.data = self.labels = self.device.empty(0, "u1")
        self.slot_of = self.device.empty(0, "u4")

    @property
    def size_bytes(self) -> int:
        """What is kept from one look to the next."""
        kept = self.digests, self.blocks, self.table.known, self.table.slots
        return sum(array.nbytes for array in kept)

    def look(self, data: DeviceArray, nodes: int) -> int:
        """Digest all chunks; return how many are not what was there before.

        Parameters
        ----------
        data
            The bytes.
        nodes
            For how many nodes there must be room: the chunks, and what lies above them.
        """
        before, nbytes_before = self.count, self.nbytes
        self.data, self.nbytes = data, len(data)
        self.count = count_of(self.nbytes, self.chunk_bytes)
        if nodes > MOST:
            raise StoreError("the array has too many chunks; use larger chunks.")
        if 2 * nodes > len(self.digests):
            kept = 2 * min(before, nodes)
            self.digests = grown(self.device, self.digests, 2 * nodes, kept=kept)
        self.labels = self.device.empty(nodes, "u1")
        self.device.fill(self.counts, 0)
        small = self.chunk_bytes <= _SMALL
        self.device.launch(
            "digest_small_chunks" if small else "digest_chunks",
            self.count if small else 8 * self.count,
            *(self.data, self.nbytes, self.chunk_bytes, self.count, before),
            *(self.digests, self.labels),
            # Staged chunks lie an odd number of 16 bytes apart.
            bytes_per_thread=self.chunk_bytes + 16 if small else 8,
        )
        self._digest_blocks(nbytes_before)
        self.select(self.labels[: self.count], CHANGED)
        return self.read_counts()[CHANGED]

    def _digest_blocks(self, nbytes_before: int) -> None:
        count = count_of(self.nbytes, BLOCK_BYTES)
        if 2 * count + 1 > len(self.blocks):
            kept = 2 * count_of(nbytes_before, BLOCK_BYTES)
            self.blocks = grown(self.device, self.blocks, 2 * count + 1, kept=kept)
        self.device.launch(
            "digest_blocks",
            8 * count,
            *(self.data, self.nbytes, nbytes_before, self.chunk_bytes, count),
            *(self.labels, self.blocks),
        )

    def look_at_blocks(self, data: DeviceArray) -> None:
        """Digest all blocks, and no chunks."""
        self.data, self.nbytes = data, len(data)
        self._digest_blocks(0)

    def write_root(self, root: DeviceArray) -> None:
        """Write the digest of the contents."""
        count = count_of(self.nbytes, BLOCK_BYTES)
        self.device.launch_block("digest_root", self.blocks, count, self.nbytes, root)

    def resolve(self, changed: int, *, room: int = 0) -> None:
        """Tell which changed chunks are new and which moved; leave room for more digests."""
        self.table.make_room(changed + room, self._failures)
        self.slot_of = self.device.empty(len(self.labels), "u4")
        self.insert(CHANGED, 0, self.count)
        self.device.launch(
            "resolve", self.count, self.table.slots, self.slot_of, self.count, self.labels
        )

    def insert(self, label: int, first: int, last: int) -> None:
        """Put nodes of a label into the table."""
        self.device.launch(
            "insert",
            last - first,
            *(*self.table.arguments, self.digests, self.labels, label, first, last),
            *(self.slot_of, self._failures),
        )

    def select(self, labels: DeviceArray, label: int) -> Selection:
        """Count the nodes with a label, so that `read_counts` tells how many there are."""
        tiles = count_of(len(labels), _TILE)
        offsets = self.device.empty(tiles, "u4")
        at = _COUNT_AT[label]
        self.device.launch("count_tiles", tiles * _TILE, labels, len(labels), label, tiles, offsets)
        self.device.launch_block("add_up", offsets, tiles, self.counts[at : at + 1])
        return Selection(device=self.device, labels=labels, label=label, offsets=offsets)

    def read_counts(self) -> dict[int, int]:
        """Bring the counts of labels to the host: 32 bytes, twice in a look."""
        counts = self.device.to_host(self.counts).view(np.uint64).tolist()
        if counts[_FAILED_AT]:
            raise StoreError("the table on the device overflowed; start a new series.")
        return {label: counts[at] for label, at in _COUNT_AT.items()}

    @property
    def _failures(self) -> DeviceArray:
        return self.counts[_FAILED_AT : _FAILED_AT + 1]

    def look_up(self, nodes: DeviceArray, numbers: DeviceArray) -> None:
        """Write the number of the digest that each node equals."""
        self.device.launch(
            "look_up", len(nodes), nodes, len(nodes), self.table.slots, self.slot_of, numbers
        )

    def gather(self, nodes: DeviceArray, payload: DeviceArray) -> None:
        """Write chunks one after another."""
        self.device.launch(
            "gather",
            32 * len(nodes),
            *(self.data, self.nbytes, self.chunk_bytes, nodes, len(nodes), payload),
        )

    def gathered_bytes(self, nodes: np.ndarray[tuple[int, ...], np.dtype[np.uint32]]) -> int:
        """Return the size of chunks that were gathered; the last of all may be short."""
        short = self.count * self.chunk_bytes - self.nbytes
        has_last = len(nodes) > 0 and int(nodes[-1]) == self.count - 1
        return len(nodes) * self.chunk_bytes - (short if has_last else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Nodes of one label, in order."""

    device: Device
    labels: DeviceArray
    label: int
    offsets: DeviceArray
    """Where the nodes of each tile begin in the list."""

    def write(self, nodes: DeviceArray) -> None:
        """Write their numbers."""
        tiles = len(self.offsets)
        self.device.launch(
            "pack",
            tiles * _TILE,
            *(self.labels, len(self.labels), self.label, tiles, self.offsets, nodes),
        )
