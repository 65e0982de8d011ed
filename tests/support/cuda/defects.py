"""Defects to be planted in the kernels: if tests do not notice one, they prove nothing."""

from __future__ import annotations

from typing import NamedTuple


class Defect(NamedTuple):
    """A text to be replaced, and the kernels that it changes."""

    text: str
    by: str
    kernels: tuple[str, ...]


_CAS = "const u64 found = atomicCAS(&table[slot], EMPTY, word);"
_MIN = "if (word < found) atomicMin(&table[slot], word);"
_RANK = "if (lane == 0) counts[warp] = __popc(votes);\n  __syncthreads();"
_PACKING = ("count_tiles", "pack")

DEFECTS = {
    # Who comes first wins.
    "claim in two steps": Defect(
        _CAS,
        "const u64 found = table[slot]; emu_yield(); if (found == EMPTY) table[slot] = word;",
        ("insert",),
    ),
    "no minimum among equals": Defect(_MIN, "", ("insert",)),
    "minimum in two steps": Defect(
        _MIN, "if (word < found) { emu_yield(); table[slot] = word; }", ("insert",)
    ),
    "new beats old": Defect("word < found", "word > found", ("insert",)),
    # Barriers.
    "secret read before it is there": Defect(
        "words[i] = SECRET[i];\n  __syncthreads();", "words[i] = SECRET[i];", ("digest_chunks",)
    ),
    "chunk read before it is there": Defect(
        "    __syncthreads();\n    const u64 at = base",
        "    const u64 at = base",
        ("digest_small_chunks",),
    ),
    "chunk overwritten while it is read": Defect(
        "digest_short(data + at * chunk, length);\n      compare(digests, labels, at, known, d);\n"
        "    }\n    __syncthreads();",
        "digest_short(data + at * chunk, length);\n      compare(digests, labels, at, known, d);\n"
        "    }",
        ("digest_small_chunks",),
    ),
    "count read before it is there": Defect(
        _RANK, "if (lane == 0) counts[warp] = __popc(votes);", _PACKING
    ),
    "barrier for some": Defect(
        _RANK,
        "if (lane == 0) counts[warp] = __popc(votes);\n  if (lane < 31) __syncthreads();",
        _PACKING,
    ),
    "count overwritten while it is read": Defect(
        "  __syncthreads();\n  return before;", "  return before;", _PACKING
    ),
    "sum overwritten while it is read": Defect(
        "before + sum - own;\n    __syncthreads();", "before + sum - own;", ("add_up",)
    ),
    # Lanes.
    "lanes of others in the mask": Defect("0xFFu << (threadIdx.x & 24)", "~0u", ("digest_blocks",)),
    "a quarter of the accumulators left out": Defect(
        "  half += __shfl_xor_sync(lane.mask, half, 4);\n", "", ("digest_chunks",)
    ),
    # Arithmetic.
    "truncated product": Defect("INLINE u64 fold(", "INLINE u32 fold(", ("digest_chunks",)),
    "truncated swap": Defect("INLINE u64 swap64(", "INLINE u32 swap64(", ("digest_root",)),
    "stripe too few": Defect("(length - 1) % 1024 / 64", "length % 1024 / 64", ("digest_chunks",)),
    "secret of a wrong byte": Defect("32 * i - 125", "32 * i - 128", ("digest_chunks",)),
    "length left out": Defect("(length - 1) << 54", "length << 54", ("digest_chunks",)),
    # Borders.
    "last byte not copied": Defect("k < length;", "k + 1 < length;", ("gather",)),
    "last chunk of a block not looked at": Defect("i <= last", "i < last", ("digest_blocks",)),
    "shorter block not digested": Defect(
        " || length_of(at, BLOCK_BYTES, nbytes_before) != length", "", ("digest_blocks",)
    ),
    "node over a chunk that does not exist": Defect(
        "2 * at + 1 < children && labels[right] != PARTIAL", "2 * at < children", ("fold_new",)
    ),
    "one digest lost when the table grows": Defect(
        "at = thread_number(); at < count; at += thread_count())\n    if (claim",
        "at = thread_number() + 1; at < count; at += thread_count())\n    if (claim",
        ("refill",),
    ),
    "overflow not reported": Defect(
        "    if (slot == EMPTY) atomicAdd(overflow, 1u);\n", "", ("insert",)
    ),
    # Order, and what belongs together.
    "positions in the order of arrival": Defect(
        "nodes[before + rank] = (u32)at", "nodes[before + total - 1 - rank] = (u32)at", ("pack",)
    ),
    "own warp counted twice": Defect(
        "if (i < warp) before += counts[i]", "if (i <= warp) before += counts[i]", ("pack",)
    ),
    "sum of earlier tiles lost": Defect("u32 before = carry;", "u32 before = 0;", ("add_up",)),
    "numbers from zero again": Defect(
        "table[slot_of[nodes[i]]] = base + i;", "table[slot_of[nodes[i]]] = i;", ("publish",)
    ),
    "region that is its own source": Defect(
        " || table[slot] == (NEWBIT | (here + at))", "", ("fold_moved",)
    ),
    "region inside of a region": Defect(
        "labels[above + at / 2]", "labels[above + at]", ("mark_regions",)
    ),
}


def plant(source: str, defect: Defect) -> str:
    """Return the source with a defect."""
    if source.count(defect.text) != 1:
        raise LookupError(f"the kernels have {source.count(defect.text)} times: {defect.text}")
    return source.replace(defect.text, defect.by)
