"""Which tensors and arrays are one memory: views, slices, and what ``state_dict()`` gives."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from chexpoint.hindsight.state.leaves import torch_now
from chexpoint.hindsight.state.numpy_door import np

View = tuple[Any, ...]
"""How a view lies in the memory of another: offset, shape, strides, type."""


def memory_key(value: Any) -> int:
    """Return the address of the memory that a tensor or an array is in; 0 if it has none."""
    if isinstance(value, np.ndarray):
        while isinstance(value.base, np.ndarray):
            value = value.base
        return int(value.__array_interface__["data"][0]) if value.nbytes else 0
    return int(value.untyped_storage().data_ptr())


def views_among(values: Iterable[tuple[Any, bool]]) -> dict[int, Any]:
    """Return, by id, of which other each tensor or array is a view.

    Parameters
    ----------
    values
        Each with whether it is a part of a managed object, and so never a view of another.
    """
    groups: dict[int, list[tuple[Any, bool]]] = {}
    for value, is_part in values:
        key = memory_key(value)
        if key:
            groups.setdefault(key, []).append((value, is_part))
    found: dict[int, Any] = {}
    for group in groups.values():
        if len(group) > 1:
            holder = max(group, key=lambda each: (each[1], each[0].nbytes))[0]
            for value, is_part in group:
                if value is not holder and not is_part and _lies_in(value, holder):
                    found[id(value)] = holder
    return found


def _bounds(value: Any) -> tuple[int, int]:
    if isinstance(value, np.ndarray):
        size, strides = value.itemsize, list(value.strides)
        start = int(value.__array_interface__["data"][0])
    else:
        size = value.element_size()
        start, strides = value.data_ptr(), [step * size for step in value.stride()]
    ends = [(count - 1) * step for count, step in zip(value.shape, strides, strict=True)]
    before = sum(end for end in ends if end < 0)
    return start + before, start + sum(ends) - before + size


def _lies_in(value: Any, holder: Any) -> bool:
    if isinstance(value, np.ndarray) != isinstance(holder, np.ndarray):
        return False
    if isinstance(value, np.ndarray):
        if not (holder.flags.c_contiguous or holder.flags.f_contiguous):
            return False
    elif value.dtype != holder.dtype or value.device != holder.device:
        return False
    (start, stop), (first, last) = _bounds(value), _bounds(holder)
    return first <= start and stop <= last


def view_in(value: Any, holder: Any) -> View:
    """Return how a view lies in another's memory."""
    if isinstance(value, np.ndarray):
        offset = value.__array_interface__["data"][0] - holder.__array_interface__["data"][0]
        return (offset, value.shape, value.strides, value.dtype.str)
    offset = (value.data_ptr() - holder.data_ptr()) // value.element_size()
    return (offset, tuple(value.shape), tuple(value.stride()), "")


def make_view(holder: Any, view: View) -> Any:
    """Return the view of a memory."""
    offset, shape, strides, dtype = view
    if isinstance(holder, np.ndarray):
        flat = holder if holder.flags.c_contiguous else holder.T
        return np.ndarray(shape, np.dtype(dtype), flat, offset, strides)
    with torch_now().no_grad():
        plain = holder.detach()
        return plain.as_strided(shape, strides, plain.storage_offset() + offset)


def is_that_view(value: Any, holder: Any, view: View) -> bool:
    """Return whether a live object is the view of a memory already."""
    if isinstance(value, np.ndarray) != isinstance(holder, np.ndarray):
        return False
    return memory_key(value) == memory_key(holder) and view_in(value, holder) == view
