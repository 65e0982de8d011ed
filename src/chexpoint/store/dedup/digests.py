"""Digests of chunks and blocks without a compiler, and the root of contents.

A digest is a pair of u64: the high and the low half of XXH3-128.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xxhash

from chexpoint.store.dedup.analysis import BLOCK_BYTES
from chexpoint.store.dedup.chunks import as_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray


def digests_of(data: NDArray[np.uint8], size: int) -> NDArray[np.uint64]:
    """Return the digest of each piece of ``size`` bytes; the last may be short."""
    view, digest = data.data, xxhash.xxh3_128_digest
    found = [digest(view[start : start + size]) for start in range(0, len(data), size)]
    return from_canonical(b"".join(found))


def from_canonical(digests: bytes) -> NDArray[np.uint64]:
    """Return digests as pairs of numbers."""
    return np.frombuffer(digests, ">u8").astype(np.uint64).reshape(-1, 2)


def root_of(blocks: NDArray[np.uint64], nbytes: int) -> bytes:
    """Return the root of contents from the digests of their blocks."""
    whole = blocks.astype(">u8").tobytes() + nbytes.to_bytes(8, "little")
    return xxhash.xxh3_128_digest(whole)


def content_root(data: Any) -> bytes:
    """Return the root of contents: it is equal only if they are."""
    contents = as_bytes(data)
    return root_of(digests_of(contents, BLOCK_BYTES), len(contents))


def check_of(*parts: bytes | memoryview) -> int:
    """Return the check of bytes that lie one after another."""
    state = xxhash.xxh3_64()
    for part in parts:
        state.update(part)
    return state.intdigest()
