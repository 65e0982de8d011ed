"""Compression of columns, frames and patches; the only module of de-duplication that needs zstd."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import zstandard

from chexpoint.errors import StoreDamaged

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

Data = bytes | memoryview

MOST_DENSE = 50_000
"""No zstd frame gives more bytes than this for each of its own, and a few to begin with."""

_WINDOW_BITS = 27

_LOCAL = threading.local()
"""Readers take long to make, and serve one thread at a time."""


def compressor(level: int) -> Callable[[Data], bytes]:
    """Return a function that compresses one buffer after another."""
    return zstandard.ZstdCompressor(level=level).compress


def compress_parts(parts: Sequence[Data], level: int) -> bytes:
    """Return one frame of several parts, each of which gets codes of its own.

    Level 0 hardly looks for repetitions: where there are none but by chance, as in the exponents
    of floating point numbers, to use them is slower and makes the frame larger.
    """
    options = (
        zstandard.ZstdCompressionParameters.from_level(level)
        if level
        else zstandard.ZstdCompressionParameters.from_level(
            1, strategy=zstandard.STRATEGY_FAST, min_match=7, hash_log=6
        )
    )
    maker = zstandard.ZstdCompressor(compression_params=options).compressobj(
        size=sum(map(len, parts))
    )
    made = [maker.compress(part) + maker.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for part in parts]
    return b"".join([*made, maker.flush()])


def decompress(data: Data, nbytes: int) -> bytes:
    """Return what a frame gives, which must be so long.

    Raises
    ------
    StoreDamaged
        If it is no frame, or another length; nothing is allocated then.
    """
    if not hasattr(_LOCAL, "reader"):
        _LOCAL.reader = zstandard.ZstdDecompressor(max_window_size=1 << _WINDOW_BITS)
    return _decompress(_LOCAL.reader, data, nbytes)


def make_patch(data: Data, before: Data) -> bytes:
    """Return a frame that gives ``data`` to whoever has ``before``."""
    sizes = len(before), len(data)
    # The table has to be large enough for the whole dictionary, or most of it is not found.
    bits = min(max(sizes[0].bit_length(), 10), 24)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        3,
        window_log=min(max(sum(sizes).bit_length(), 10), _WINDOW_BITS),
        hash_log=bits,
        chain_log=bits,
    )
    maker = zstandard.ZstdCompressor(dict_data=_raw(before), compression_params=parameters)
    return maker.compress(data)


def apply_patch(patch: Data, before: Data, nbytes: int) -> bytes:
    """Return what `make_patch` was given."""
    if not nbytes:
        return b""
    reader = zstandard.ZstdDecompressor(dict_data=_raw(before), max_window_size=1 << _WINDOW_BITS)
    return _decompress(reader, patch, nbytes)


def _raw(before: Data) -> zstandard.ZstdCompressionDict:
    return zstandard.ZstdCompressionDict(bytes(before), dict_type=zstandard.DICT_TYPE_RAWCONTENT)


def _decompress(reader: zstandard.ZstdDecompressor, data: Data, nbytes: int) -> bytes:
    try:
        if zstandard.frame_content_size(data) != nbytes:
            raise StoreDamaged("a piece is damaged: a frame has another length than it should.")
        return reader.decompress(data, max_output_size=nbytes, allow_extra_data=False)
    except (zstandard.ZstdError, ValueError, MemoryError) as error:
        raise StoreDamaged(f"a piece is damaged: {error}.") from error
