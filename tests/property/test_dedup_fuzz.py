"""Pieces from strangers: damage is reported, and nothing else happens."""

from __future__ import annotations

import resource
import struct
from functools import cache, partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.errors import StoreDamaged, StoreTooNew
from chexpoint.store.dedup import Series, decode, read_info

if TYPE_CHECKING:
    from numpy.typing import NDArray

KINDS = ("full", "basic", "list", "tree", "chunks", "xor", "patch")


@cache
def _chain(kind: str) -> tuple[tuple[bytes, ...], bytes]:
    """Return a small chain whose last piece is of a kind, and its contents."""
    rng = np.random.default_rng(1)
    method = kind if kind in {"full", "basic", "list", "tree"} else "ours"
    series = Series(method=method, chunk_bytes=16, engine="plain")
    if kind == "xor":
        return _xor_chain(rng)
    data = rng.integers(0, 4, 3000, np.uint8)
    changed = np.roll(data, 3) if kind == "patch" else data.copy()
    if kind != "patch":
        changed[:128] = data[256:384]
        changed[700:710] += 1
    if kind == "patch":
        data = rng.integers(0, 256, 9000, np.uint8)
        changed = np.roll(data, 3)
    chain = [b"".join(series.encode(data))]
    chain.append(b"".join(series.encode(changed, previous=lambda: data)))
    if method == "ours":
        assert read_info(chain[1]).coding == kind
    return tuple(chain), changed.tobytes()


def _xor_chain(rng: np.random.Generator) -> tuple[tuple[bytes, ...], bytes]:
    from chexpoint.store.dedup.digests import content_root
    from chexpoint.store.dedup.frames import write_frames
    from chexpoint.store.dedup.piece import PieceInfo, write_piece

    data = rng.integers(0, 256, 3000, np.uint8)
    changed = data ^ (rng.random(3000) < 0.1)
    info = partial(PieceInfo, method="ours", chunk_bytes=16, nbytes=3000, key=0)
    frames = write_frames(data, 16, 0)
    first = write_piece(info(coding="whole", number=0, root=content_root(data)), *frames)
    frames = write_frames((data ^ changed).astype(np.uint8), 16, 4)
    second = write_piece(info(coding="xor", number=1, root=content_root(changed)), *frames)
    return (b"".join(first), b"".join(second)), changed.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_the_chains_are_right_to_begin_with(kind: str) -> None:
    chain, contents = _chain(kind)
    assert decode(chain).tobytes() == contents


def _decoded_or_damaged(chain: list[bytes], contents: bytes) -> None:
    try:
        found: NDArray[np.uint8] = decode(chain)
    except (StoreDamaged, StoreTooNew):
        return
    assert found.tobytes() == contents


@pytest.mark.parametrize("kind", KINDS)
def test_a_flipped_bit_anywhere_is_damage_or_does_no_harm(kind: str) -> None:
    chain, contents = _chain(kind)
    for which, piece in enumerate(chain):
        for place in range(0, len(piece) * 8, 1 + len(piece) // 50):
            wrong = bytearray(piece)
            wrong[place // 8] ^= 1 << place % 8
            _decoded_or_damaged([*chain[:which], bytes(wrong), *chain[which + 1 :]], contents)


@pytest.mark.parametrize("kind", KINDS)
def test_a_piece_that_is_cut_is_damage(kind: str) -> None:
    chain, _ = _chain(kind)
    for length in range(0, len(chain[-1]), 17):
        with pytest.raises(StoreDamaged):
            decode([*chain[:-1], chain[-1][:length]])


def _forged(piece: bytes, changes: list[tuple[int, int]]) -> bytes:
    """Return a piece with other bytes in header and metadata, and a check that fits."""
    made = bytearray(piece)
    meta = struct.unpack_from("<I", made, 44)[0]
    for place, value in changes:
        made[place % (64 + meta)] = value
    end = 64 + min(struct.unpack_from("<I", made, 44)[0], len(made))
    check = xxhash.xxh3_64_intdigest(bytes(made[:56]) + bytes(made[64:end]))
    struct.pack_into("<Q", made, 56, check)
    return bytes(made)


@pytest.mark.parametrize("kind", KINDS)
@settings(deadline=None, max_examples=150)
@given(
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=4),
    st.booleans(),
)
def test_forged_metadata_is_damage_or_does_no_harm(
    kind: str, changes: list[tuple[int, int]], is_first: bool
) -> None:
    chain, contents = _chain(kind)
    which = 0 if is_first else 1
    wrong = [*chain]
    wrong[which] = _forged(wrong[which], changes)
    _decoded_or_damaged(wrong, contents)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("nbytes", [2**63, 2**40, 2**35, 4096, 0])
def test_contents_that_cannot_be_there_take_no_memory(kind: str, nbytes: int) -> None:
    chain, _ = _chain(kind)
    lengths = list(enumerate(struct.pack("<Q", nbytes), 16))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for which in (0, 1):
        wrong = [*chain[: which + 1]]
        wrong[which] = _forged(wrong[which], lengths)
        with pytest.raises(StoreDamaged):
            decode(wrong)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * 1024 < 64 * 2**20


def test_contents_that_are_larger_than_allowed_are_refused() -> None:
    piece = b"".join(Series(engine="plain").encode(bytes(10**6)))
    assert len(piece) < 1000
    assert decode([piece], most_bytes=10**6).tobytes() == bytes(10**6)
    with pytest.raises(StoreDamaged, match="larger than they can be"):
        decode([piece], most_bytes=10**6 - 1)


@settings(deadline=None, max_examples=100)
@given(st.binary(max_size=200))
def test_any_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(StoreDamaged):
        decode([data])
    with pytest.raises((StoreDamaged, StoreTooNew)):
        read_info(b"CHXP" + data)


def test_a_newer_piece_says_so() -> None:
    chain, _ = _chain("full")
    with pytest.raises(StoreTooNew, match="upgrade CHEX"):
        read_info(_forged(chain[0], [(4, 2)]))
