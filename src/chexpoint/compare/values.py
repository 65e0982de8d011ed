"""How two values compare that JSON can hold."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from chexpoint.compare.arrays import compare_arrays
from chexpoint.compare.finding import SAME, Finding, change, worst
from chexpoint.compare.numbers import is_close
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Place = tuple["_Place", object] | None
"""A key or number, and where the thing is that it belongs to; None for the whole."""

_Pair = tuple[_Place, object, object]

# How plotly names the types of arrays that it sends as base64.
_TYPES = frozenset({"i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"})
_SHOWN_KEYS = 4


def compare_values(recorded: object, replayed: object, tolerance: Tolerance) -> Finding:
    """Return how two values compare: by structure, with numbers that are close.

    There is no recursion, because values may be nested deeper than Python can call.
    """
    return worst(_findings(recorded, replayed, tolerance))


def _findings(recorded: object, replayed: object, tolerance: Tolerance) -> Iterator[Finding]:
    to_do: list[Iterator[_Pair]] = [iter([(None, recorded, replayed)])]
    is_close = False
    while to_do:
        pair = next(to_do[-1], None)
        if pair is None:
            to_do.pop()
            continue
        place, old, new = pair
        arrays = _array(old), _array(new)
        if arrays[0] is not None and arrays[1] is not None:
            found = compare_arrays(arrays[0], arrays[1], tolerance)
            yield found._replace(what=found.what and found.what + _at(place))
        elif isinstance(old, dict) and isinstance(new, dict):
            if old.keys() != new.keys():
                yield Finding("different", f"has other keys{_at(place)}")
            else:
                to_do.append(_members(place, old, new))
        elif isinstance(old, list | tuple) and isinstance(new, list | tuple):
            if len(old) != len(new):
                what = f"has {len(new)} elements instead of {len(old)}{_at(place)}"
                yield Finding("different", what)
            else:
                to_do.append(_elements(place, old, new))
        else:
            found = _compare_leaves(old, new, tolerance)
            # Sentences take time, and of those about what is close only the first is used.
            if found.status == "different" or (found.status == "close" and not is_close):
                is_close = True
                values = change(_text(old), _text(new))
                yield found._replace(what=f"{found.what}{_at(place)}: {values}")


def _members(place: _Place, old: dict[Any, Any], new: dict[Any, Any]) -> Iterator[_Pair]:
    return (((place, key), old[key], new[key]) for key in old)


def _elements(place: _Place, old: Sequence[object], new: Sequence[object]) -> Iterator[_Pair]:
    pairs = zip(old, new, strict=True)
    return (((place, number), left, right) for number, (left, right) in enumerate(pairs))


def _compare_leaves(old: object, new: object, tolerance: Tolerance) -> Finding:
    if isinstance(old, str) and isinstance(new, str):
        status = compare_texts(old, new, tolerance).status
        if status == "close":
            return Finding("close", "has close numbers or volatile parts, first")
        return SAME if status == "same" else Finding("different", "differs")
    if type(old) is type(new) and (old == new or (_is_nan(old) and _is_nan(new))):
        return SAME
    if _is_number(old) and _is_number(new) and _are_close(old, new, tolerance):
        return Finding("close", "has close numbers, first")
    return Finding("different", "differs")


def _is_nan(value: object) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _are_close(old: Any, new: Any, tolerance: Tolerance) -> bool:
    if isinstance(old, int) and isinstance(new, int):
        return False  # they are not equal
    try:
        return is_close(float(old), float(new), tolerance)
    except OverflowError:  # a whole number that is larger than any float
        return False


def _text(value: object) -> str:
    """Return what a sentence shows of a value."""
    if isinstance(value, dict | list | tuple):
        return "{…}" if isinstance(value, dict) else "[…]"
    if isinstance(value, int) and value.bit_length() > 1000:
        return "a very large number"
    return str(value)


def _at(place: _Place) -> str:
    """Return where something is: `` at layout.width``; the last few keys of it."""
    keys: list[str] = []
    while place is not None and len(keys) < _SHOWN_KEYS:
        place, key = place
        keys.append(_text(key)[:40])
    if not keys:
        return ""
    return f" at {'….' if place is not None else ''}{'.'.join(reversed(keys))}"


# ------------------------------------------------------------ arrays inside of JSON


def _array(value: object) -> NDArray[Any] | None:
    """Return the array that plotly has packed into a dict; None if it is something else."""
    if not isinstance(value, dict):
        return None
    dtype, data = value.get("dtype"), value.get("bdata")
    if not isinstance(dtype, str) or dtype not in _TYPES or not isinstance(data, str):
        return None
    import numpy as np

    try:
        return np.frombuffer(base64.b64decode(data, validate=True), dtype=f"<{dtype}")
    except (binascii.Error, ValueError):
        return None
