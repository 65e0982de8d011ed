"""Digests of values: equal in any process exactly if the values are equal.

Order counts in lists, not in sets and dicts.  A cycle is told by how far up it leads.  Objects
are their class and attributes; those of libraries are what pickle would make of them.
"""

from __future__ import annotations

import copyreg
import math
import struct
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import xxhash

from chexpoint.hindsight.state.arrays import ArraySource, array_meta
from chexpoint.hindsight.state.leaves import TensorSource, tensor_meta
from chexpoint.hindsight.state.numpy_door import np
from chexpoint.hindsight.state.walking import is_tensor

MAX_VISITS = 6_000
"""How much is looked at: a container counts once, an object that must be taken apart ten times.

Objects that lead to each other are visited again and again, and a training waits meanwhile.
"""
_APART = 10
MAX_DEPTH = 10_000


class _CannotTell(Exception):
    pass


def canonical_digest(
    value: object, stand_in: Callable[[Any], str | None] = lambda _: None
) -> str | None:
    """Return the digest of a value; None if it holds something that cannot be compared.

    Parameters
    ----------
    stand_in
        Names the objects that are not part of the value but referred to.
    """
    try:
        return _hash("value", [_Digest(stand_in).of(value)]).hex()
    except Exception:
        # Also whatever a user's object raises when it is looked at.
        return None


class _Digest:
    def __init__(self, stand_in: Callable[[Any], str | None]) -> None:
        self._stand_in = stand_in
        self._depths: dict[int, int] = {}
        """Objects on the way down to here."""
        self._known: dict[int, bytes] = {}
        """Of objects that lead to nothing above them."""
        self._kept: list[Any] = []
        self._lowest = MAX_DEPTH
        self._visits = 0

    def of(self, value: Any) -> bytes:
        atom = _ATOMS.get(type(value))
        if atom is not None:
            return atom(value)
        key = id(value)
        if key in self._known:
            return self._known[key]
        if key in self._depths:
            at = self._depths[key]
            self._lowest = min(self._lowest, at)
            return _hash("up", [b"%d" % (len(self._depths) - at)])
        self._visits += 1
        if self._visits > MAX_VISITS:
            raise _CannotTell
        name = self._stand_in(value)
        if name is not None:
            return _hash("ref", [name.encode()])
        return self._inside(value, key)

    def _inside(self, value: Any, key: int) -> bytes:
        depth = self._depths[key] = len(self._depths)
        above, self._lowest = self._lowest, MAX_DEPTH
        try:
            found = self._compound(value)
        finally:
            del self._depths[key]
        if self._lowest >= depth:
            # It leads to nothing above it: the same wherever it is.
            self._known[key] = found
            self._kept.append(value)
            self._lowest = above
        else:
            self._lowest = min(above, self._lowest)
        return found

    def _compound(self, value: Any) -> bytes:
        kind = type(value)
        if kind in (list, tuple, deque):
            return _hash(kind.__name__, [self.of(each) for each in value])
        if kind is dict:
            return _hash("dict", self._pairs(value.items()))
        if kind in (set, frozenset):
            return _hash(kind.__name__, sorted(self.of(each) for each in value))
        if kind is np.ndarray and not value.dtype.hasobject:
            meta = array_meta(np.ascontiguousarray(value))
            told = f"{meta['dtype']}{value.shape}".encode()
            return _hash("array", [told, bytes(ArraySource(np.ascontiguousarray(value)).data())])
        if is_tensor(value):
            told = f"{tensor_meta(value)['dtype']}{tuple(value.shape)}".encode()
            return _hash("tensor", [told, bytes(TensorSource(value).data())])
        return self._object(value)

    def _pairs(self, items: Iterable[tuple[Any, Any]]) -> list[bytes]:
        return sorted(_hash("pair", [self.of(key), self.of(each)]) for key, each in items)

    def _object(self, value: Any) -> bytes:
        if isinstance(value, (type, types.FunctionType, types.BuiltinFunctionType)):
            return _hash("named", [_name(value).encode()])
        if isinstance(value, (types.ModuleType, types.GeneratorType, weakref.ref)):
            raise _CannotTell
        return self._reduced(value)

    def _reduced(self, value: Any) -> bytes:
        self._visits += _APART
        reduce = copyreg.dispatch_table.get(type(value))
        reduced = reduce(value) if reduce is not None else value.__reduce_ex__(2)
        if isinstance(reduced, str):
            return _hash("named", [reduced.encode()])
        call, args, state, items, pairs = (tuple(reduced) + (None,) * 5)[:5]
        self._kept.append(reduced)
        return _hash(
            "reduced",
            [
                self.of(call),
                self.of(args),
                self.of(state),
                self.of(None if items is None else list(items)),
                _hash("dict", self._pairs(pairs or ())),
            ],
        )


def _name(obj: Any) -> str:
    return f"{obj.__module__}.{obj.__qualname__}"


def _hash(tag: str, parts: Iterable[bytes]) -> bytes:
    digest = xxhash.xxh3_128(tag.encode())
    for part in parts:
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


def _float(value: float) -> bytes:
    return b"nan" if math.isnan(value) else struct.pack("<d", value)


# Each value is its tag and contents; those of any length are hashed.
_ATOMS: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda value: b"N",
    type(...): lambda value: b"E",
    bool: lambda value: b"T" if value else b"F",
    int: lambda value: b"i%d" % value,
    float: lambda value: b"f" + _float(value),
    complex: lambda value: b"c" + _float(value.real) + b"," + _float(value.imag),
    str: lambda value: _hash("str", [value.encode("utf-8", "surrogatepass")]),
    bytes: lambda value: _hash("bytes", [value]),
    bytearray: lambda value: _hash("bytearray", [bytes(value)]),
    range: lambda value: b"r%d,%d,%d" % (value.start, value.stop, value.step),
}
