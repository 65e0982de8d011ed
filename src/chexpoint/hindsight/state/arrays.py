"""Arrays of NumPy as leaves, and which arrays and tensors are leaves of their own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from chexpoint.hindsight.state.numpy_door import np

INLINE_BYTES = 1024
"""Smaller tensors and arrays stay in the stream of what holds them."""


@dataclass(frozen=True, slots=True)
class ArraySource:
    """The contents of an array: in the order of its memory if that is C or Fortran."""

    array: Any

    def data(self) -> memoryview:
        return _bytes_of(np.ascontiguousarray(_in_order(self.array)))

    def copy_into(self, target: memoryview) -> None:
        array = _in_order(self.array)
        if array.size:
            into = np.frombuffer(target, dtype=np.uint8, count=array.nbytes)
            np.copyto(into.view(array.dtype).reshape(array.shape), array)

    def digest(self) -> str | None:
        return xxhash.xxh3_128_hexdigest(self.data())


def _bytes_of(array: Any) -> memoryview:
    return memoryview(array.reshape(-1).view(np.uint8))


def _in_order(array: Any) -> Any:
    # A subclass may do otherwise in any of what follows.
    plain = np.asarray(array)
    if plain.flags.f_contiguous and not plain.flags.c_contiguous:
        return plain.T
    return plain


def array_mark(array: Any) -> tuple[Any, ...]:
    """Return the mark of an array: arrays have no version, so all of it is read."""
    return (array.shape, array.dtype.str, xxhash.xxh3_128_intdigest(ArraySource(array).data()))


def array_meta(array: Any) -> dict[str, Any]:
    """Return what is needed to make an array of the same kind."""
    meta: dict[str, Any] = {
        "lib": "numpy",
        "dtype": array.dtype.str,
        "shape": list(array.shape),
    }
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        meta["layout"] = "F"
    if not array.flags.writeable:
        meta["writeable"] = False
    return meta


def array_from(meta: Mapping[str, Any], data: Any) -> Any:
    """Return stored contents as an array over them; it must not be written to."""
    flat = np.frombuffer(data, dtype=np.dtype(meta["dtype"]), count=math.prod(meta["shape"]))
    if meta.get("layout") == "F":
        return flat.reshape(meta["shape"][::-1]).T
    return flat.reshape(meta["shape"])


def new_array(meta: Mapping[str, Any], data: Any) -> Any:
    """Return an array of its own with stored contents."""
    made = array_from(meta, data).copy(order="K")
    if meta.get("writeable") is False:
        made.flags.writeable = False
    return made


def is_small(value: Any) -> bool:
    """Return whether a tensor or array is too small to be a leaf of its own."""
    return bool(value.nbytes <= INLINE_BYTES)


def is_storable(array: Any) -> bool:
    """Return whether an array is its memory: plain numbers, no objects or fields."""
    dtype = array.dtype
    return not (dtype.hasobject or dtype.names or np.dtype(dtype.str) != dtype)


def takes(here: Any, value: Any) -> bool:
    """Return whether an array can take the contents of another, and be stored as it is."""
    return (
        type(here) is np.ndarray
        and here.shape == value.shape
        and here.dtype == value.dtype
        and here.flags.c_contiguous == value.flags.c_contiguous
        and here.flags.f_contiguous == value.flags.f_contiguous
        and bool(here.flags.writeable)
    )
