"""The differ that works on a device: same answers as on the CPU, and only they leave the device."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from chexpoint.errors import InvalidValue, StoreError
from chexpoint.store.cuda.buffer import Consolidated
from chexpoint.store.cuda.chunks import MOVED, NEW, Chunks
from chexpoint.store.cuda.cupy_device import CupyDevice
from chexpoint.store.cuda.published import Published
from chexpoint.store.dedup.analysis import Analysis, Method, Regions
from chexpoint.store.dedup.chunks import check_chunk_bytes, count_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chexpoint.store.cuda.device import Device, DeviceArray


class CudaDiffer:
    """Looks at one array on a device again and again, and remembers there what it saw.

    Parameters
    ----------
    method
        ``ours`` for `analyse`, the others for `regions`.
    chunk_bytes
        Size of a chunk: a power of two.
    device
        Where to work; the current CUDA device if it is not given.
    """

    def __init__(
        self, *, method: Method = "ours", chunk_bytes: int = 256, device: Device | None = None
    ) -> None:
        check_chunk_bytes(chunk_bytes)
        self._device = device or CupyDevice()
        self._chunks = Chunks(self._device, chunk_bytes)
        self._published = None if method == "ours" else Published(self._chunks, method)
        self._lost = False
        self.root = b""
        """Digest of the last contents, whatever the method."""

    def analyse(self, data: object) -> Analysis:
        """Return what has changed since the last look."""
        if self._published is not None:
            raise InvalidValue("this differ was made for a published method; call regions.")
        contents = self._device.contents(data)
        with self._looking():
            found = _analyse(self._chunks, contents)
        self.root = found.root
        return found

    def regions(self, data: object) -> Regions:
        """Return the same as the published methods describe it."""
        if self._published is None:
            raise InvalidValue("this differ was made for method 'ours'; call analyse.")
        contents = self._device.contents(data)
        with self._looking():
            self.root, found = self._published.regions(contents)
        return found

    @property
    def size_bytes(self) -> int:
        """What it takes on the device, between two looks."""
        return self._chunks.size_bytes

    @contextlib.contextmanager
    def _looking(self) -> Iterator[None]:
        """Refuse to go on after a look that failed half-way: what is remembered may be wrong."""
        if self._lost:
            raise StoreError("an earlier look at this array failed; start a new series.")
        self._lost = True
        try:
            yield
            self._lost = False
        finally:
            self._chunks.release()


def _analyse(chunks: Chunks, data: DeviceArray) -> Analysis:
    changed = chunks.look(data, count_of(len(data), chunks.chunk_bytes))
    chunks.resolve(changed)
    new = chunks.select(chunks.labels, NEW)
    moved = chunks.select(chunks.labels, MOVED)
    counts = chunks.read_counts()
    news, moves = counts[NEW], counts[MOVED]
    buffer = Consolidated(
        chunks.device,
        {"new": news, "moved": moves, "sources": moves},
        news * chunks.chunk_bytes,
    )
    new.write(buffer["new"])
    moved.write(buffer["moved"])
    chunks.table.publish(buffer["new"], chunks.digests, chunks.slot_of)
    chunks.look_up(buffer["moved"], buffer["sources"])
    chunks.write_root(buffer["root"])
    chunks.gather(buffer["new"], buffer["payload"])
    arrived = buffer.to_host()
    positions = arrived.column("new")
    return Analysis(
        nbytes=chunks.nbytes,
        chunk_bytes=chunks.chunk_bytes,
        new=positions,
        moved=arrived.column("moved"),
        sources=arrived.column("sources"),
        payload=arrived.payload(chunks.gathered_bytes(positions)),
        root=arrived.root,
    )
