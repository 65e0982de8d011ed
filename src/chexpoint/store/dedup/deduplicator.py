"""Checkpoints of several arrays together: one consolidated diff each."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from chexpoint.errors import InvalidValue, StoreDamaged, StoreTooNew
from chexpoint.store.dedup.columns import Reader
from chexpoint.store.dedup.decoding import decode
from chexpoint.store.dedup.digests import check_of
from chexpoint.store.dedup.piece import read_info
from chexpoint.store.dedup.series import Series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

_MAGIC = b"CHXD"
_FORMAT = 1
_HEAD = struct.Struct("<4sB3sIIQ")
_CHECK = struct.Struct("<Q")
_NAME = struct.Struct("<H")
_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True, kw_only=True)
class Diff:
    """What one checkpoint adds."""

    number: int
    data: bytes
    nbytes: int
    """Size of the arrays."""

    @property
    def stored_bytes(self) -> int:
        """Size of the diff."""
        return len(self.data)


class Deduplicator:
    """Takes checkpoints of the same arrays again and again; keeps only digests of them.

    Parameters
    ----------
    method, chunk_bytes, engine
        As for `Series`.
    """

    def __init__(
        self, *, method: str = "ours", chunk_bytes: int = 256, engine: str = "auto"
    ) -> None:
        self._kind: dict[str, Any] = {"method": method, "engine": engine}
        self._chunk_bytes = chunk_bytes
        self._number = 0
        self._series: dict[str, Series] = {}
        self._new_series()

    @property
    def index_bytes(self) -> int:
        """What it takes in memory to know the arrays."""
        return sum(each.index_bytes for each in self._series.values())

    def checkpoint(
        self, arrays: Mapping[str, Any], *, previous: Mapping[str, Any] | None = None
    ) -> Diff:
        """Return what these arrays have that earlier checkpoints had not.

        Parameters
        ----------
        arrays
            By name.  Sizes and names may change from checkpoint to checkpoint.
        previous
            The arrays of the last checkpoint, if they are still there: where most of an array has
            changed a little, what differs bit by bit is then stored if it is small.
        """
        # An array that is not there now begins anew when it comes back.
        self._series = {
            name: self._series.get(name) or self._new_series() for name in sorted(arrays)
        }
        table, pieces, total = [], [], 0
        for name, series in self._series.items():
            before = None if previous is None else previous.get(name)
            last = None if before is None else partial(_itself, before)
            piece = b"".join(series.encode(arrays[name], previous=last))
            encoded = name.encode()
            if len(encoded) > 0xFFFF:
                raise InvalidValue(f"the name '{name[:40]}...' is too long; choose another.")
            table += [_NAME.pack(len(encoded)), encoded, _LENGTH.pack(len(piece))]
            pieces.append(piece)
            total += series.nbytes
        listing = b"".join(table)
        head = _HEAD.pack(_MAGIC, _FORMAT, bytes(3), self._number, len(pieces), len(listing))
        check = _CHECK.pack(check_of(head, listing))
        number, self._number = self._number, self._number + 1
        return Diff(number=number, data=b"".join([head, check, listing, *pieces]), nbytes=total)

    def _new_series(self) -> Series:
        return Series(chunk_bytes=self._chunk_bytes, **self._kind)


def _itself(array: Any) -> Any:
    return array


def restore(diffs: Sequence[Any], number: int = -1) -> dict[str, NDArray[np.uint8]]:
    """Return the bytes of all arrays as they were at a checkpoint.

    Parameters
    ----------
    diffs
        The data of all diffs up to that checkpoint, or more.
    number
        Which one; counted from the end if it is negative.

    Raises
    ------
    InvalidValue
        If there is no such checkpoint.
    StoreDamaged
        If a diff is damaged or missing.
    StoreTooNew
        If a newer CHEX wrote it.
    """
    if not -len(diffs) <= number < len(diffs):
        raise InvalidValue(f"there is no checkpoint {number}; {len(diffs)} were given.")
    wanted = number % len(diffs)
    tables = [_read_diff(diffs[i], i) for i in range(wanted + 1)]
    found = {}
    for name, piece in tables[wanted].items():
        count = read_info(piece).number + 1
        if count > wanted + 1:
            raise StoreDamaged("a diff is damaged: it has a piece of another series.")
        chain = [each.get(name, memoryview(b"")) for each in tables[wanted + 1 - count :]]
        found[name] = decode(chain)
    return found


def _read_diff(data: Any, number: int) -> dict[str, memoryview]:
    """Return the pieces of a diff by name."""
    view = memoryview(data).cast("B").toreadonly()
    if len(view) < _HEAD.size + _CHECK.size or view[:4] != _MAGIC:
        raise _damaged("it has no header")
    head = view[: _HEAD.size]
    _, version, zeros, found, count, length = _HEAD.unpack(head)
    if version > _FORMAT:
        raise StoreTooNew(f"a diff has format {version}; upgrade CHEX to read it.")
    reader = Reader(view[_HEAD.size :])
    (check,) = reader.unpack(_CHECK)
    listing = reader.take(length)
    if check_of(head, listing) != check or any(zeros) or version != _FORMAT:
        raise _damaged("its check is wrong")
    if found != number:
        raise _damaged(f"it is number {found}, where {number} should be")
    table, pieces = Reader(listing), {}
    for _ in range(count):
        name = _decoded(table.take(*table.unpack(_NAME)))
        pieces[name] = reader.take(*table.unpack(_LENGTH))
    table.end()
    reader.end()
    return pieces


def _decoded(name: memoryview) -> str:
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise _damaged("a name is no text") from error


def _damaged(why: str) -> StoreDamaged:
    return StoreDamaged(f"a diff is damaged: {why}.")
