"""What a value leads to, found by looking at it: for values that cannot be written in time."""

from __future__ import annotations

import contextlib
import gc
import sys
import types
from collections.abc import Iterable
from typing import Any

from chexpoint.image import is_importable, is_mutable

LOOK_LIMIT = 5_000
"""Objects that are looked at before a value counts as entangled with others."""

SCALARS = frozenset({type(None), bool, int, float, complex, str, bytes})
NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


def look_into(value: object, stop: set[int]) -> dict[int, object] | None:
    """Return the mutable objects that a value leads to, by id; None if they are too many."""
    found: dict[int, object] = {}
    seen = set(stop)
    waiting = [value]
    count = 0
    while waiting:
        obj = waiting.pop()
        kind = type(obj)
        if kind in SCALARS or id(obj) in seen:
            continue
        seen.add(id(obj))
        count += 1
        if count > LOOK_LIMIT:
            return None
        if issubclass(kind, types.ModuleType) or (issubclass(kind, NAMED) and is_importable(obj)):
            continue
        if is_mutable(obj):
            found[id(obj)] = obj
        waiting += gc.get_referents(obj)
    return found


def spans_of(objects: Iterable[Any]) -> Iterable[tuple[int, int, int]]:
    """Yield where arrays lie that were found by looking, not by writing."""
    for obj in objects:
        kind = type(obj)
        with contextlib.suppress(Exception):
            if kind.__module__ == "numpy" and kind.__name__ == "ndarray" and obj.size:
                from numpy.lib.array_utils import byte_bounds

                yield (*byte_bounds(obj), 0)
            elif kind.__module__.partition(".")[0] == "torch" and hasattr(obj, "data_ptr"):
                storage = obj.untyped_storage()
                start = storage.data_ptr()
                if start:
                    yield start, start + storage.nbytes(), 0


def holds_objects(obj: Any) -> bool:
    """Tell whether an array holds objects that may be shared; they cannot be followed.

    Most tables have arrays of a few strings and types somewhere, those of their columns.
    """
    if type(obj).__module__ != "numpy" or type(obj).__name__ != "ndarray":
        return False
    if not obj.dtype.hasobject:
        return False
    if obj.dtype.kind != "O" or obj.size > LOOK_LIMIT:
        return True
    others = (each for each in obj.ravel().tolist() if type(each) not in SCALARS)
    return any(isinstance(each, tuple | frozenset) or is_mutable(each) for each in others)


def _holds_others(obj: Any) -> bool:
    is_array = type(obj).__module__ == "numpy" and type(obj).__name__ == "ndarray"
    return is_array and (obj.base is not None or holds_objects(obj))


def is_closed(value: object, stop: set[int], holders: int) -> bool:
    """Tell whether nothing outside of a value refers to a mutable object in it.

    Parameters
    ----------
    stop
        Ids of objects that are not followed, such as the namespace.
    holders
        How many tables of ours and of the notebook refer to the value itself.
    """
    found: dict[int, object] = {id(value): value}
    counts = {id(value): holders}
    waiting = [value]
    while waiting:
        for child in gc.get_referents(waiting.pop()):
            number = id(child)
            counts[number] = counts.get(number, 0) + 1
            is_known = number in found or number in stop or not gc.is_tracked(child)
            if is_known or isinstance(child, NAMED) or type(child) is types.ModuleType:
                continue
            found[number] = child
            waiting.append(child)
            if len(found) > LOOK_LIMIT:
                return False
    del value
    # Whose memory an array shows cannot be seen this way.
    if any(map(_holds_others, found.values())):
        return False
    # The table, the name and the argument refer to it, too.
    return all(sys.getrefcount(obj) - 3 <= counts[id(obj)] for obj in found.values())
