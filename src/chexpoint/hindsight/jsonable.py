"""Logged values as JSON has them, and back: numbers stay what they are, to the last bit."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from typing import Any

LARGEST = 64
"""Elements of a value that is kept whole; of a larger one there is only a short text."""
_LONGEST_TEXT = 200
_DEEPEST = 8
_LARGEST_INT_BITS = 4096  # Python refuses to write much larger ones in decimal
_NO_NUMBERS = ("nan", "inf", "-inf")


class _TooLarge(Exception):
    """A value has too many elements, or is too deep."""


def jsonable(value: object) -> Any:
    """Return a value as JSON has it.

    Numbers, texts and None are exact.  What JSON has no number for is written as
    ``{"float": "nan"}``.  Arrays and tensors of up to `LARGEST` elements, lists and dictionaries
    become lists and dictionaries; of anything else there is the beginning of its ``repr``.
    Doing it twice is the same as once, and it never fails.
    """
    try:
        return _convert(value, _Room(), 0)
    except Exception:  # values are the user's, and can do anything
        return _short(value)


def from_jsonable(value: Any) -> Any:
    """Return the value that `jsonable` was given, as far as JSON can tell."""
    match value:
        case {"float": str(text)} if len(value) == 1 and text in _NO_NUMBERS:
            return float(text)
        case {"int": str(text)} if len(value) == 1 and text.lstrip("-").startswith("0x"):
            return int(text, 16)
        case dict():
            return {key: from_jsonable(each) for key, each in value.items()}
        case list():
            return [from_jsonable(each) for each in value]
    return value


class _Room:
    """How much more a value may hold, with all that is in it."""

    def __init__(self) -> None:
        self.elements = LARGEST
        self.containers = 2 * LARGEST

    def take(self, *, elements: int = 0, containers: int = 0) -> None:
        self.elements -= elements
        self.containers -= containers
        if self.elements < 0 or self.containers < 0:
            raise _TooLarge


def _convert(value: object, room: _Room, depth: int) -> Any:
    if value is None or isinstance(value, bool | str | int | float):
        room.take(elements=1)
        return _plain(value)
    if isinstance(value, Mapping | list | tuple):
        room.take(containers=1)
        if depth == _DEEPEST or len(value) > LARGEST:
            raise _TooLarge
        if not isinstance(value, Mapping):
            return [_convert(each, room, depth + 1) for each in value]
        found = {str(key): _convert(each, room, depth + 1) for key, each in value.items()}
        return found if len(found) == len(value) else _short(value)
    plain = _elements(value)
    return _short(value) if type(plain) is type(value) else _convert(plain, room, depth)


def _plain(value: bool | str | float | None) -> Any:
    """Return a single value without what a subclass adds to it: NumPy's, or an enumeration's."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        whole = int(value)
        return whole if whole.bit_length() <= _LARGEST_INT_BITS else {"int": hex(whole)}
    real = float(value)
    return real if math.isfinite(real) else {"float": str(real)}


def _elements(value: Any) -> object:
    """Return the elements of an array, whichever library it is of; other values as they are."""
    if isinstance(value, type) or not hasattr(value, "shape"):
        return value
    if not hasattr(value, "tolist"):
        return value.numpy() if hasattr(value, "numpy") else value
    if math.prod(value.shape) > LARGEST:
        raise _TooLarge
    # Times would become numbers of nanoseconds.
    is_plain = getattr(getattr(value, "dtype", None), "kind", "f") in "biufUO"
    return value.tolist() if is_plain else value


_repr = reprlib.Repr()
_repr.maxlevel = 4
_repr.maxlist = _repr.maxtuple = _repr.maxset = _repr.maxfrozenset = _repr.maxdict = 20
_repr.maxstring = _repr.maxother = _repr.maxlong = _LONGEST_TEXT


def _short(value: object) -> str:
    """Return the beginning of how Python shows a value."""
    try:
        text = _repr.repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    return text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
