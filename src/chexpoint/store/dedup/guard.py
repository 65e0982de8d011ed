"""The guard: what to do where de-duplication of chunks cannot win.

A change is dense if most of the array is new.  Then a piece is coded as exclusive or with the last
contents, if a sample says that this pays, or else stored whole.  After two dense changes in a row
chunks are not hashed any more; a sample of them tells when the changes become sparse again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from chexpoint.store.dedup.analysis import BLOCK_BYTES
from chexpoint.store.dedup.engines import hash_rows
from chexpoint.store.dedup.frames import best_form, sample_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.dedup.analysis import Analysis

DENSE = 0.5
"""Share of new bytes from which on a change is dense."""

PATIENCE = 2
"""After so many dense changes in a row, chunks are not hashed."""

XOR_WORTH = 1.5
"""How many times smaller exclusive or must be: it is slow."""

XOR_GAIN = 1.3
"""How many times smaller it must be than what is compressed by itself."""

PAUSE = 16
"""For so many pieces nothing is tried again that was not worth it."""

MOST_DEPENDENT = 8
"""So many pieces may need the whole contents before them, until one stands for itself."""

PATCH_BYTES = 16 * 10**6
"""Contents below this size may be patched: their bytes shift, as those of pickles do."""

PATCH_GAIN = 1.25
"""How many times smaller a patch must be than the new chunks."""

_PATCH_LEAST = 4096
_PATCH_SHARE = 0.1

SLOW_SHARE, SLOW_LEAST = 0.125, 1 << 20
"""Share of the contents, and bytes in any case, that may be compressed though it saves little."""

_SAMPLED = 64
"""One of so many blocks is in the sample."""


def is_dense(new_bytes: int, nbytes: int) -> bool:
    """Return whether most of the contents are new."""
    return nbytes >= BLOCK_BYTES and new_bytes > DENSE * nbytes


def is_shifted(found: Analysis) -> bool:
    """Return whether contents may have shifted: then a patch is smaller than all new chunks."""
    return len(found.payload) >= max(_PATCH_LEAST, _PATCH_SHARE * found.nbytes)


def sample_digests(
    contents: NDArray[np.uint8], chunk_bytes: int, engine: str
) -> NDArray[np.uint64]:
    """Return digests of chunks all over the contents."""
    parts = [
        hash_rows(contents[start : start + BLOCK_BYTES], chunk_bytes, engine)
        for start in range(0, len(contents), _SAMPLED * BLOCK_BYTES)
    ]
    return np.concatenate(parts) if parts else np.empty((0, 2), np.uint64)


def is_sparse_again(before: NDArray[np.uint64], now: NDArray[np.uint64]) -> bool:
    """Return whether most chunks of the sample are what they were."""
    both = min(len(before), len(now))
    if not both:
        return True
    same = (before[:both] == now[:both]).all(axis=1).sum()
    return bool(same > (1 - DENSE) * len(now))


def xor_form(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> int:
    """Return the form of elements with which exclusive or pays; 0 if it does not."""
    both = min(len(before), len(now))
    if not both:
        return 0
    form, gain = best_form(sample_of(before[:both]) ^ sample_of(now[:both]))
    plain = best_form(sample_of(now))[1]
    return form if gain >= XOR_WORTH and gain > XOR_GAIN * plain else 0


def combined(before: NDArray[np.uint8], now: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return the exclusive or of contents with those before, taken as 0 after their end."""
    made = now.copy()
    both = min(len(before), len(now))
    made[:both] ^= before[:both]
    return made
