"""What kernels must do, wherever they run: each check raises if they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import xxhash

from chexpoint.errors import StoreError
from chexpoint.store.cuda import CudaDiffer, Device, DeviceArray
from chexpoint.store.cuda.chunks import Chunks
from tests.support.cuda.oracle import BLOCK_BYTES, Oracle, RegionOracle

if TYPE_CHECKING:
    from numpy.typing import NDArray

MakeDevice: TypeAlias = Callable[[int], Device]
"""Makes a device; a number decides in which order threads run, if that can be decided."""

# Around every border between two ways of digesting: 3, 8, 16, 128, 240, stripes, kilobytes.
LENGTHS = (
    *range(1, 320),
    *(n + by for n in (512, 1024, 2048, 3072, 4096) for by in (-65, -64, -1, 0, 1, 63, 64, 65)),
)


def check_digests(make: MakeDevice, lengths: Sequence[int] = LENGTHS) -> None:
    """Digests are those of XXH3-128, for these lengths and all alignments."""
    device = make(1)
    noise = np.random.default_rng(7).integers(0, 256, 4200, dtype=np.uint8)
    whole = device.contents(noise)
    for shift in (0, 1, 4):
        for length in lengths[:: 1 if shift == 0 else 7]:
            expected = xxhash.xxh3_128_intdigest(noise[shift : shift + length].tobytes())
            data = whole[shift : shift + length]
            found = digest_one(device, data, "digest_chunks")
            assert found == expected, f"digest of {length} bytes, shifted by {shift}"
            # More do not fit into the shared memory of a block.
            if length <= 176:
                found = digest_one(device, data, "digest_small_chunks", (length // 16 | 1) * 16)
                assert found == expected, f"digest of a small chunk, {length} bytes"


def digest_one(device: Device, data: DeviceArray, kernel: str, bytes_per_thread: int = 8) -> int:
    """Return the digest of one chunk."""
    digest, label = device.empty(2, "u8"), device.empty(1, "u1")
    arguments = data, len(data), len(data), 1, 0, digest, label
    device.launch(kernel, 8, *arguments, bytes_per_thread=bytes_per_thread)
    low, high = device.to_host(digest).view(np.uint64).tolist()
    return int(high) << 64 | int(low)


def contents(seed: int, chunk_bytes: int, chunks: int) -> Iterator[NDArray[np.uint8]]:
    """Yield contents that repeat themselves, are edited here and there, grow and shrink."""
    random = np.random.default_rng(seed)
    tail = int(random.integers(0, chunk_bytes))
    few = random.integers(0, 256, (max(chunks // 6, 1), chunk_bytes), dtype=np.uint8)
    data = few[random.integers(0, len(few), chunks + 1)].reshape(-1)
    data = data[: chunks * chunk_bytes + tail].copy()
    yield data
    for step in range(3):
        data = data.copy()
        rows = data[: chunks * chunk_bytes].reshape(chunks, chunk_bytes)
        edited = random.integers(0, chunks, max(chunks // 5, 1))
        rows[edited] = rows[random.integers(0, chunks, len(edited))]
        rows[edited[::3], 0] = random.integers(0, 256, len(edited[::3]))
        if chunks > 8:  # a region moves
            rows[chunks // 2 : chunks // 2 + 3] = rows[1:4].copy()
        if step == 1:
            data = np.concatenate([data, data[: 2 * chunk_bytes + 1]])
        yield data
    # The end moves to the border of a chunk; nothing else changes.
    yield data[: chunks * chunk_bytes].copy()
    yield data[: max(chunks - 1, 1) * chunk_bytes].copy()
    yield data
    data = data.copy()
    data[min(BLOCK_BYTES, len(data)) - 1] ^= 1  # and nothing else of its block
    yield data


def check_looks(make: MakeDevice, seed: int, chunk_bytes: int, chunks: int) -> None:
    """Every look finds what a dictionary finds."""
    differ, oracle = CudaDiffer(chunk_bytes=chunk_bytes, device=make(seed)), Oracle(chunk_bytes)
    for step, data in enumerate(contents(seed, chunk_bytes, chunks)):
        found, expected = differ.analyse(data), oracle.analyse(data.tobytes())
        where = f"look {step}, seed {seed}, {chunks} chunks of {chunk_bytes}"
        assert found.new.tolist() == expected.new, where
        assert found.moved.tolist() == expected.moved, where
        assert found.sources.tolist() == expected.sources, where
        assert found.payload.tobytes() == expected.payload, where
        assert found.root == expected.root, where


def check_regions(make: MakeDevice, seed: int, chunk_bytes: int, chunks: int) -> None:
    """Every look finds the regions that a dictionary finds."""
    differ = CudaDiffer(method="tree", chunk_bytes=chunk_bytes, device=make(seed))
    oracle = RegionOracle(chunk_bytes)
    for step, data in enumerate(contents(seed, chunk_bytes, chunks)):
        found, expected = differ.regions(data), oracle.regions(data.tobytes())
        where = f"look {step}, seed {seed}, {chunks} chunks of {chunk_bytes}"
        assert found.first.tolist() == expected.first, where
        assert found.shifted.tolist() == expected.shifted, where
        sources = zip(found.source_checkpoints.tolist(), found.source_nodes.tolist(), strict=True)
        assert list(sources) == expected.sources, where
        assert found.payload.tobytes() == expected.payload, where


def check_odd_trees(make: MakeDevice) -> None:
    """New chunks whose number is odd make no region with one that does not exist."""
    for seed in range(8):
        data = np.random.default_rng(seed).integers(0, 256, (3 + 2 * seed) * 16, dtype=np.uint8)
        found = CudaDiffer(method="tree", chunk_bytes=16, device=make(seed)).regions(data)
        assert found.first.tolist() == RegionOracle(16).regions(data.tobytes()).first


def check_contention(make: MakeDevice, seed: int) -> None:
    """Where all chunks are one of two, the first of each wins, whoever comes first."""
    data = np.tile(np.repeat(np.array([1, 2], np.uint8), 16), 300)
    found = CudaDiffer(chunk_bytes=16, device=make(seed)).analyse(data)
    assert found.new.tolist() == [0, 1]
    assert found.sources.tolist() == [0, 1] * 299


def check_order(make: MakeDevice, seed: int) -> None:
    """Positions ascend over many tiles, more than are added up at once."""
    random = np.random.default_rng(seed)
    device = make(seed)
    chunks = Chunks(device, 16)
    labels = (random.random(150_000) < 0.01).astype(np.uint8) * 2
    chunks.labels = device.contents(labels)
    device.fill(chunks.counts, 0)
    selection = chunks.select(chunks.labels, 2)
    nodes = device.empty(chunks.read_counts()[2], "u4")
    selection.write(nodes)
    expected = np.flatnonzero(labels == 2).tolist()
    assert device.to_host(nodes).view(np.uint32).tolist() == expected


def check_overflow(make: MakeDevice) -> None:
    """A table that is too small says so, and is not written outside of itself."""
    device = make(3)
    chunks = Chunks(device, 16)
    changed = chunks.look(device.contents(np.arange(1600, dtype=np.uint16).view(np.uint8)), 200)
    chunks.table.make_room(changed, chunks.counts[3:4])
    chunks.table.slots = chunks.table.slots[:50]
    device.fill(chunks.table.slots, 0xFF)
    chunks.slot_of = device.empty(200, "u4")
    chunks.insert(1, 0, 200)
    try:
        chunks.read_counts()
    except StoreError:
        return
    raise AssertionError("a table that overflowed did not say so")


def check_all(make: MakeDevice) -> None:
    """Everything, on as little data as shows it; what is quick comes first."""
    check_digests(make)
    check_overflow(make)
    check_contention(make, 0)
    check_contention(make, 2)
    check_odd_trees(make)
    for seed in range(4):
        check_looks(make, seed, 64, 301)
        check_regions(make, seed, 32, 77 + seed)
    check_looks(make, 4, 256, 613)
    check_looks(make, 5, 4096, 37)
    for seed in (0, 2, 4):
        check_order(make, seed)
