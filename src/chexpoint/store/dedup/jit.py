"""Loops over chunks at the speed of memory: numba, calling the XXH3 that the xxhash wheel exports.

The only module that imports numba, and not to be imported where that is too slow: see `engines`.
What is compiled is kept in the user's cache folder.  Functions are compiled when they are called
first; they release the GIL.
"""

from __future__ import annotations

import ctypes
import functools
import os
import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import llvmlite.binding  # type: ignore[import-untyped]
import numba
import numpy as np
import xxhash
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from collections.abc import Callable

_SYMBOL = "chexpoint_XXH3_128bits"
_EMPTY = np.uint32(0xFFFFFFFF)
_ONE = np.uint64(1)
_HALF = np.uint64(32)
_PAIR: Any = types.UniTuple(types.uint64, 2)  # type: ignore[no-untyped-call]
_function_of: Any = cgutils.get_or_insert_function
_CONFIG: Any = numba.config


def _bind_xxh3() -> None:
    """Let compiled code find XXH3 by name: where it lies differs from process to process."""
    # The pair of u64 that it returns comes in registers there, and is not known to elsewhere.
    if os.name != "posix" or platform.machine() not in {"x86_64", "aarch64", "arm64"}:
        raise ImportError("no way to call XXH3 on this machine is known")
    library = sys.modules[xxhash.xxh3_128_digest.__module__].__file__ or ""
    try:
        address = ctypes.cast(ctypes.CDLL(library).XXH3_128bits, ctypes.c_void_p).value
    except (AttributeError, OSError) as error:
        raise ImportError("this xxhash does not export XXH3") from error
    llvmlite.binding.add_symbol(_SYMBOL, address)


def _jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function, and keep the result in the user's cache folder if it can be written."""
    compile_it = functools.partial(numba.njit, nogil=True, error_model="numpy")
    before = _CONFIG.CACHE_DIR
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    try:
        if not before:
            _CONFIG.CACHE_DIR = str(Path(base, "chexpoint", "numba"))
        compiled: Callable[..., Any] = compile_it(cache=True)(function)
    except (RuntimeError, OSError):
        compiled = compile_it()(function)
    finally:
        _CONFIG.CACHE_DIR = before
    return compiled


def _typed_xxh3(_typing: Any, address: Any, length: Any) -> Any:
    """Return the two halves of the digest of bytes."""
    signature = _PAIR(types.uintp, types.uint64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        word, pointer = ir.IntType(64), ir.IntType(8).as_pointer()
        kind = ir.FunctionType(ir.LiteralStructType([word, word]), [pointer, word])
        function = _function_of(builder.module, kind, _SYMBOL)
        pair = builder.call(function, [builder.inttoptr(args[0], pointer), args[1]])
        halves = [builder.extract_value(pair, 1), builder.extract_value(pair, 0)]
        return context.make_tuple(builder, sig.return_type, halves)

    return signature, generate


_bind_xxh3()
_xxh3: Any = intrinsic(_typed_xxh3)


@_jit
def hash_rows(data: Any, size: Any, found: Any) -> None:
    """Write the digest of each piece of ``size`` bytes; the last may be short."""
    if not len(found):
        return
    base, length = np.uintp(data.ctypes.data), np.uint64(size)
    last = np.uint64(len(found) - 1)
    for i in range(last):
        found[i, 0], found[i, 1] = _xxh3(base + np.uintp(i * length), length)
    rest = np.uint64(len(data)) - last * length
    found[last, 0], found[last, 1] = _xxh3(base + np.uintp(last * length), rest)


@_jit
def _slot_of(high: Any, low: Any, digests: Any, slots: Any) -> Any:
    """Return the slot with the id of a digest, or the empty one where it belongs."""
    size = np.uint64(len(slots))
    slot = ((low >> _HALF) * size) >> _HALF
    while True:
        known = slots[slot]
        if known == _EMPTY or (digests[known, 1] == low and digests[known, 0] == high):
            return slot
        slot += _ONE
        if slot == size:
            slot = np.uint64(0)


@_jit
def place(digests: Any, slots: Any, count: Any) -> None:
    """Put the ids of digests, which all differ, into empty slots."""
    for i in range(count):
        slots[_slot_of(digests[i, 0], digests[i, 1], digests, slots)] = np.uint32(i)


@_jit
def look(
    data: Any,
    sizes: Any,
    wanted: Any,
    known: Any,
    ids: Any,
    blocks: Any,
    index: Any,
    found: Any,
) -> Any:
    """Look at some blocks; write what changed, and return how many chunks are new and moved.

    Parameters
    ----------
    data
        All the bytes.
    sizes
        Of a chunk and of a block.
    wanted
        The blocks to look at, ascending.
    known
        How many chunks the last contents had.
    ids, blocks
        The id of each chunk, and the digest of each block; brought up to date.
    index
        Its digests, slots and count; there must be room for every chunk of these blocks.
    found
        Three rows, for positions of new chunks, of moved chunks, and ids of the latter.
    """
    chunk, block = sizes
    digests, slots, count = index
    total, per_block = len(data), block // chunk
    now = np.empty((per_block, 2), np.uint64)
    was = np.empty((1, 2), np.uint64)
    news, moves = 0, 0
    for b in wanted:
        start, end = b * block, min((b + 1) * block, total)
        # Blocks are hashed faster than chunks, and those that changed need their digest anyway.
        was[0] = blocks[b]
        hash_rows(data[start:end], block, blocks[b : b + 1])
        if was[0, 0] == blocks[b, 0] and was[0, 1] == blocks[b, 1]:
            continue
        here = -(-(end - start) // chunk)
        hash_rows(data[start:end], chunk, now[:here])
        for j in range(here):
            i = np.uint64(b * per_block + j)
            high, low = now[j, 0], now[j, 1]
            if i < np.uint64(known):
                had = ids[i]
                if digests[had, 1] == low and digests[had, 0] == high:
                    continue
            slot = _slot_of(high, low, digests, slots)
            if slots[slot] == _EMPTY:
                slots[slot] = np.uint32(count)
                digests[count, 0], digests[count, 1] = high, low
                found[0, news] = i
                news += 1
                count += 1
            else:
                found[1, moves] = i
                found[2, moves] = slots[slot]
                moves += 1
            ids[i] = slots[slot]
    return news, moves
