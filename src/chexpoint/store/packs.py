"""Packs: immutable files of sections, each with its checksum.

Caches have the same layout.  See `docs/reference/store-format.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

import xxhash

from chexpoint.errors import StoreDamaged
from chexpoint.store.shelf import Contents, Shelf, Writer, flat

if TYPE_CHECKING:
    from typing_extensions import Buffer

FORMAT = 1
_HEAD = struct.pack("<8sII", b"CHEXPACK", FORMAT, 0)
_ROW = struct.Struct("<Q16s")
_FOOT = struct.Struct("<Q16s8s")
_END = b"CHEXPEND"

EMPTY_PACK_BYTES = len(_HEAD) + _FOOT.size
ROW_BYTES = _ROW.size
"""What a section takes besides its own bytes."""


def pack_file(digest: str) -> str:
    """Return the name of a pack in the store."""
    return f"packs/{digest}.pack"


class PackWriter:
    """Writes sections as they come, then the table."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._rows: list[bytes] = []
        self._section_bytes = 0

    def add(self, buffers: Iterable[Buffer]) -> tuple[int, int]:
        """Write a section; return its number and length."""
        self._begin()
        digest, length = xxhash.xxh3_128(), 0
        for buffer in buffers:
            data = flat(buffer)
            digest.update(data)
            self._writer.write(data)
            length += data.nbytes
        self._rows.append(_ROW.pack(length, digest.digest()))
        self._section_bytes += length
        return len(self._rows) - 1, length

    @property
    def nbytes(self) -> int:
        """Length of the pack, if it ended here."""
        return EMPTY_PACK_BYTES + ROW_BYTES * len(self._rows) + self._section_bytes

    def end(self) -> str:
        """Write the table; return the digest of the pack, after which it is to be named."""
        self._begin()
        table = b"".join(self._rows)
        digest = _digest(table, len(self._rows))
        self._writer.write(table + _FOOT.pack(len(self._rows), digest, _END))
        return digest.hex()

    def _begin(self) -> None:
        # Not when it is made, so that making one cannot fail.
        if not self._rows:
            self._writer.write(_HEAD)


class Pack:
    """An open pack.  Nothing of it is returned before it is checked."""

    def __init__(self, contents: Contents, what: str) -> None:
        """Read the table.

        Raises
        ------
        StoreDamaged
            If it is not that of a whole pack.
        """
        self._contents = contents
        self._what = what
        size = contents.nbytes
        if size < EMPTY_PACK_BYTES or bytes(contents[0 : len(_HEAD)]) != _HEAD:
            raise StoreDamaged(f"{what} is damaged: it does not begin as a pack. {ADVICE}")
        count, digest, end = _FOOT.unpack(bytes(contents[size - _FOOT.size : size]))
        start = size - _FOOT.size - count * ROW_BYTES
        if end != _END or start < len(_HEAD):
            raise StoreDamaged(f"{what} is damaged: it does not end as a pack. {ADVICE}")
        table = bytes(contents[start : size - _FOOT.size])
        if _digest(table, count) != digest:
            raise StoreDamaged(f"{what} is damaged: its table has changed. {ADVICE}")
        self.digest = digest.hex()
        self._places: list[tuple[int, int, bytes]] = []
        position = len(_HEAD)
        for length, checksum in _ROW.iter_unpack(table):
            self._places.append((position, length, checksum))
            position += length
        if position != start:
            raise StoreDamaged(f"{what} is damaged: bytes are missing. {ADVICE}")

    def __len__(self) -> int:
        return len(self._places)

    def length(self, number: int) -> int:
        """Return the length of a section; 0 if there is none of that number."""
        return self._places[number][1] if 0 <= number < len(self._places) else 0

    def section(self, number: int) -> memoryview:
        """Return a section.

        Raises
        ------
        StoreDamaged
            If its checksum is wrong, or there is none.
        """
        if not 0 <= number < len(self._places):
            raise StoreDamaged(f"{self._what} is damaged: section {number} is missing. {ADVICE}")
        start, length, checksum = self._places[number]
        data = flat(self._contents[start : start + length])
        if data.nbytes != length or xxhash.xxh3_128_digest(data) != checksum:
            raise StoreDamaged(f"{self._what} is damaged: section {number} has changed. {ADVICE}")
        return data


ADVICE = "'chex fsck' says which images are lost."


class PackReader:
    """Opens packs of a store, and keeps the last ones open."""

    _KEPT = 96

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._open: dict[str, Pack] = {}

    def pack(self, digest: str) -> Pack:
        """Return a pack; `StoreDamaged` if it is missing or not what its name says."""
        found = self._open.pop(digest, None)
        if found is None:
            what = f"pack {digest}"
            try:
                found = Pack(self._shelf.view(pack_file(digest)), what)
            except FileNotFoundError:
                raise StoreDamaged(f"{what} is missing from the store. {ADVICE}") from None
            if found.digest != digest:
                raise StoreDamaged(f"{what} is damaged: it is another one. {ADVICE}")
            while len(self._open) >= self._KEPT:
                del self._open[next(iter(self._open))]
        self._open[digest] = found
        return found

    def section(self, digest: str, number: int) -> memoryview:
        """Return a section of a pack, checked."""
        return self.pack(digest).section(number)


def _digest(table: bytes, count: int) -> bytes:
    return xxhash.xxh3_128_digest(_HEAD + table + struct.pack("<Q", count))
