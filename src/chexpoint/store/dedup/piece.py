"""Pieces: header, metadata, payload.  See the reference, "Piece format"."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from chexpoint.errors import StoreDamaged, StoreTooNew
from chexpoint.store.dedup.analysis import BLOCK_BYTES, Method
from chexpoint.store.dedup.columns import damaged
from chexpoint.store.dedup.digests import check_of

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT = 1
HEADER_BYTES = 64

Coding = Literal["whole", "chunks", "xor", "patch", "bitmap", "regions"]

_MAGIC = b"CHXP"
_HEAD = struct.Struct("<4sBBBBIIQ16sIIQ")
_CHECK = struct.Struct("<Q")
_CODINGS: tuple[Coding, ...] = get_args(Coding)
_METHODS: tuple[Method, ...] = get_args(Method)
_FIT: dict[Method, frozenset[Coding]] = {
    "full": frozenset({"whole"}),
    "basic": frozenset({"bitmap"}),
    "list": frozenset({"regions"}),
    "tree": frozenset({"regions"}),
    "ours": frozenset({"whole", "chunks", "xor", "patch"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PieceInfo:
    """What the header of a piece says."""

    method: Method
    coding: Coding
    number: int
    """Its place in its series."""
    chunk_bytes: int
    nbytes: int
    """Length of the contents."""
    root: bytes
    key: int
    """Number of the piece with which decoding begins; those before it are not needed."""
    streak: int = 0
    """How many pieces in a row were dense changes."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Piece:
    """A piece taken apart."""

    info: PieceInfo
    meta: memoryview
    payload: memoryview


def write_piece(
    info: PieceInfo, meta: bytes, payload: Sequence[bytes | memoryview]
) -> list[bytes | memoryview]:
    """Return a piece as buffers."""
    head = _HEAD.pack(
        _MAGIC,
        FORMAT,
        _METHODS.index(info.method),
        _CODINGS.index(info.coding),
        info.streak,
        info.number,
        info.chunk_bytes,
        info.nbytes,
        info.root,
        info.key,
        len(meta),
        sum(map(len, payload)),
    )
    return [head + _CHECK.pack(check_of(head, meta)) + meta, *payload]


def read_piece(data: Any) -> Piece:
    """Take a piece apart.

    Raises
    ------
    StoreDamaged
        If it is not well-formed.
    StoreTooNew
        If a newer CHEX wrote it.
    """
    view = _view(data)
    if len(view) < HEADER_BYTES or view[:4] != _MAGIC:
        raise damaged("it has no header")
    head = view[: _HEAD.size]
    (_, version, method, coding, streak, number, chunk_bytes, nbytes, root, key, meta, payload) = (
        _HEAD.unpack(head)
    )
    if version > FORMAT:
        raise StoreTooNew(f"a piece has format {version}; upgrade CHEX to read it.")
    if HEADER_BYTES + meta + payload != len(view):
        raise damaged("it has another length than it should")
    metadata = view[HEADER_BYTES : HEADER_BYTES + meta]
    if check_of(head, metadata) != _CHECK.unpack(view[_HEAD.size : HEADER_BYTES])[0]:
        raise damaged("its check is wrong")
    if method >= len(_METHODS) or coding >= len(_CODINGS) or version != FORMAT:
        raise damaged("its method is unknown")
    info = PieceInfo(
        method=_METHODS[method],
        coding=_CODINGS[coding],
        number=number,
        chunk_bytes=chunk_bytes,
        nbytes=nbytes,
        root=root,
        key=key,
        streak=streak,
    )
    _check_fit(info)
    return Piece(info=info, meta=metadata, payload=view[HEADER_BYTES + meta :])


def read_info(piece: Any) -> PieceInfo:
    """Return what the header of a piece says.

    Raises
    ------
    StoreDamaged
        If it is not well-formed.
    StoreTooNew
        If a newer CHEX wrote it.
    """
    return read_piece(piece).info


def _view(data: Any) -> memoryview:
    try:
        view = memoryview(data).cast("B")
    except TypeError as error:
        raise StoreDamaged("a piece is damaged: it is no row of bytes.") from error
    return view.toreadonly()


def _check_fit(info: PieceInfo) -> None:
    size = info.chunk_bytes
    if info.coding not in _FIT[info.method]:
        raise damaged("its method and its coding do not go together")
    if not 16 <= size <= BLOCK_BYTES or size & (size - 1):
        raise damaged(f"its chunks have {size} bytes")
    if info.key > info.number or info.nbytes > size * 0xFFFFFFFE:
        raise damaged("its numbers are impossible")
    if (info.coding in {"xor", "patch"}) and info.key == info.number:
        raise damaged("it needs the piece before, and says it does not")
    if info.coding == "whole" and info.key != info.number:
        raise damaged("it needs no piece before, and says it does")
