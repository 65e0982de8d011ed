"""Checks that what was loaded is what was stored, without running any code of the user's.

Pickle trusts each class to write all of its state.  Some do not: this looks at the attributes.
"""

from __future__ import annotations

import collections
import datetime
import decimal
import types
from collections.abc import Collection, Iterator
from typing import Any

LIMIT = 200_000
"""Pairs of objects that are compared; a larger state is trusted after that."""

CONTENT_BYTES = 1 << 20
"""Larger arrays share memory with the original while they are checked."""

LEAVES = (
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    bytearray,
    range,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
)

Pair = tuple[str, Any, Any]
"""Where it is, what was stored, what was loaded."""


def difference(stored: object, loaded: object, trusted: Collection[type] = ()) -> str:
    """Return where two states differ, such as ``.items[3]``; empty if no difference is seen.

    Parameters
    ----------
    trusted
        Types whose attributes are not compared, because a rule of ours decides about them.
    """
    seen: set[tuple[int, int]] = set()
    waiting: list[Pair] = [("", stored, loaded)]
    count = 0
    while waiting and count < LIMIT:
        where, one, other = waiting.pop()
        pair = (id(one), id(other))
        if one is other or pair in seen:
            continue
        seen.add(pair)
        count += 1
        if not _is_same_kind(one, other):
            return where or "the type"
        try:
            waiting.extend(_pairs(where, one, other, trusted))
        except _Differs as error:
            return str(error) or "the value"
    return ""


class _Differs(Exception):
    """Two objects differ; the text says where."""


def _is_same_kind(one: object, other: object) -> bool:
    """Tell whether the types are the same, or the same class made twice."""
    a, b = type(one), type(other)
    return a is b or (a.__module__, a.__qualname__) == (b.__module__, b.__qualname__)


def _pairs(where: str, one: Any, other: Any, trusted: Collection[type]) -> Iterator[Pair]:
    """Yield the pairs of objects that two objects consist of."""
    if type(one) in LEAVES:
        if not (one == other or (one != one and other != other)):  # noqa: PLR0124  not a number
            raise _Differs(where)
    elif isinstance(one, type):
        if one.__module__ == "__main__":
            _compare_names(where, vars(one), vars(other), _CLASS_NAMES)
    elif isinstance(one, types.FunctionType):
        yield from _function_pairs(where, one, other)
    else:
        yield from _content_pairs(where, one, other)
        if not _decides_itself(type(one)) and (type(one) not in trusted or _is_array(one)):
            yield from _attribute_pairs(where, one, other)


def _decides_itself(kind: type) -> bool:
    """Tell whether a class of a library says itself what of its state is kept."""
    names = ("__getstate__", "__reduce__", "__reduce_ex__", "__setstate__", "__getnewargs_ex__")
    return kind.__module__ != "__main__" and any(
        getattr(kind, name, None) is not getattr(object, name, None) for name in names
    )


_CLASS_NAMES = {
    "__abstractmethods__",
    "__dict__",
    "__init_subclass__",
    "__slotnames__",
    "__weakref__",
    "_abc_impl",
}


def _function_pairs(
    where: str, one: types.FunctionType, other: types.FunctionType
) -> Iterator[Pair]:
    if one.__module__ != "__main__":
        return
    if one.__code__ != other.__code__:
        raise _Differs(f"{where}()")
    yield f"{where}.__defaults__", one.__defaults__, other.__defaults__
    yield f"{where}.__dict__", one.__dict__, other.__dict__
    for cell, again in zip(one.__closure__ or (), other.__closure__ or (), strict=True):
        try:
            yield f"{where}()", cell.cell_contents, again.cell_contents
        except ValueError:
            continue


def _content_pairs(where: str, one: Any, other: Any) -> Iterator[Pair]:
    """Yield the elements of containers and compare those of arrays."""
    if _is_container_of_its_own(type(one)):
        return
    if isinstance(one, list | tuple | collections.deque):
        kind: Any = next(t for t in (list, tuple, collections.deque) if isinstance(one, t))
        mine, yours = list(kind.__iter__(one)), list(kind.__iter__(other))
        if len(mine) != len(yours):
            raise _Differs(where)
        for place, (a, b) in enumerate(zip(mine, yours, strict=True)):
            yield f"{where}[{place}]", a, b
    elif isinstance(one, dict):
        yield from _item_pairs(where, one, other)
    elif isinstance(one, set | frozenset):
        plain = all(type(each) in LEAVES for each in one)
        if len(one) != len(other) or (plain and one != other):
            raise _Differs(where)
    elif _is_array(one):
        yield from _array_pairs(where, one, other)


def _is_container_of_its_own(kind: type) -> bool:
    """Tell whether a class of a library only looks like a container, and keeps things elsewhere."""
    bases = [base for base in (dict, list, set, tuple) if issubclass(kind, base)]
    is_like_base = all(kind.__len__ is base.__len__ for base in bases)  # type: ignore[attr-defined]
    return kind.__module__ != "__main__" and not is_like_base


def _item_pairs(where: str, one: dict[Any, Any], other: dict[Any, Any]) -> Iterator[Pair]:
    """Yield the values of dictionaries: by key if that runs no code, else by their order."""
    if dict.__len__(one) != dict.__len__(other):
        raise _Differs(where)
    by_key = all(type(key) in LEAVES for key in dict.keys(one))
    for (key, value), (again, beside) in zip(dict.items(one), dict.items(other), strict=True):
        if not by_key:
            yield f"{where} keys", key, again
            yield f"{where}[...]", value, beside
        elif dict.__contains__(other, key):
            yield f"{where}[{key!r:.40}]", value, dict.__getitem__(other, key)
        else:
            raise _Differs(f"{where}[{key!r:.40}]")


def _is_array(value: object) -> bool:
    return any(f"{t.__module__}.{t.__name__}" == "numpy.ndarray" for t in type(value).__mro__)


def _array_pairs(where: str, one: Any, other: Any) -> Iterator[Pair]:
    import numpy as np

    # Subclasses have methods of their own.
    mine, yours = one.view(np.ndarray), other.view(np.ndarray)
    if (mine.shape, mine.dtype) != (yours.shape, yours.dtype):
        raise _Differs(where)
    if mine.dtype == object:
        yield where, mine.ravel().tolist(), yours.ravel().tolist()
    elif mine.dtype.hasobject or mine.nbytes > CONTENT_BYTES:
        return
    elif mine.tobytes() != yours.tobytes():
        raise _Differs(where)


def _attribute_pairs(where: str, one: Any, other: Any) -> Iterator[Pair]:
    """Yield the attributes of two objects, those in slots too."""
    mine, yours = _attributes(one), _attributes(other)
    is_own = type(one).__module__ == "__main__"
    hidden = set() if is_own else {name for name in mine if name.startswith("_")}
    _compare_names(where, mine, yours, hidden)
    for name in mine.keys() & yours.keys():
        # What a library keeps to itself may be a cache, or be bound to the process.
        if name not in hidden:
            yield f"{where}.{name}", mine[name], yours[name]


def _compare_names(where: str, mine: Any, yours: Any, hidden: set[str]) -> None:
    for name in mine:
        if name not in yours and name not in hidden:
            raise _Differs(f"{where}.{name}")


def _attributes(value: object) -> dict[str, Any]:
    """Return the attributes of an object; nothing that it computes."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        found = {}
    attributes = dict(found) if type(found) is dict else {}
    for cls in type(value).__mro__:
        for name, member in vars(cls).items():
            if isinstance(member, types.MemberDescriptorType) and cls.__module__ == "__main__":
                try:
                    attributes[name] = member.__get__(value)
                except AttributeError:
                    continue
    return attributes
