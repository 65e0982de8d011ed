"""Which variables share objects or memory, and so have to be stored together."""

from __future__ import annotations

import _thread
import array
import datetime
import decimal
import enum
import fractions
import gc
import pathlib
import re
import sys
import types
import uuid
import weakref
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from chexpoint.image.code import Main, ModuleGlobals
from chexpoint.image.modules import is_importable
from chexpoint.image.pickler import Dump

REACH_LIMIT = 20_000
"""Objects that are looked at before a variable counts as entangled."""

IMMUTABLE = (
    str,
    bytes,
    tuple,
    frozenset,
    int,
    float,
    complex,
    range,
    slice,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.tzinfo,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    uuid.UUID,
    re.Pattern,
    types.CodeType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type(None),
    Main,
    ModuleGlobals,
)

IMMUTABLE_NAMES = {
    "numpy.dtype",
    "numpy.generic",
    "pandas.api.extensions.ExtensionDtype",
    "pandas.core.dtypes.base.ExtensionDtype",
    "pyarrow.lib._Weakrefable",
    "torch.device",
    "torch.dtype",
}

PLAIN = frozenset(
    {str, bytes, tuple, frozenset, int, float, complex, range, slice, types.CodeType, Main}
)
"""Types of which no object is mutable, to be passed over quickly."""


COMPILED = {"cython_function_or_method", "ufunc"}

CONTAINERS = frozenset({list, dict, set, bytearray, array.array})


def is_mutable(obj: Any) -> bool:
    """Tell whether it makes a difference that two variables hold the same object, not a copy."""
    kind = type(obj)
    if kind in CONTAINERS:
        return True
    if issubclass(kind, type | types.FunctionType) or kind.__name__ in COMPILED:
        return not is_importable(obj)
    if issubclass(kind, IMMUTABLE):
        # Instances of subclasses may have attributes.
        return bool(getattr(obj, "__dict__", None))
    if issubclass(kind, enum.Enum):
        return False
    return not any(f"{base.__module__}.{base.__name__}" in IMMUTABLE_NAMES for base in kind.__mro__)


# Whether objects of a type are mutable, where that is the same for all of them.
_KNOWN: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()
# Of these, one may be mutable and the next one not.
_ONE_BY_ONE = (type, types.FunctionType, *IMMUTABLE)


def _mutable_ids(objects: Iterable[Any]) -> set[int]:
    """Return the ids of the mutable ones; one of a type stands for all, as asking takes long."""
    found: set[int] = set()
    kinds: dict[type, bool] = dict.fromkeys(CONTAINERS, True)
    for obj in objects:
        kind = type(obj)
        answer = kinds.get(kind)
        if answer is None and (answer := _KNOWN.get(kind)) is None:
            answer = is_mutable(obj)
            if not issubclass(kind, _ONE_BY_ONE) and kind.__name__ not in COMPILED:
                kinds[kind] = _KNOWN[kind] = answer
        if answer:
            found.add(id(obj))
    return found


class Groups:
    """Names, some of which belong together."""

    def __init__(self, names: Iterable[str]) -> None:
        self._parent = {name: name for name in names}

    def first(self, name: str) -> str:
        """Return the name that stands for the group of a name."""
        while self._parent[name] != name:
            self._parent[name] = name = self._parent[self._parent[name]]
        return name

    def join(self, one: str, other: str) -> None:
        """Put the groups of two names together."""
        self._parent[self.first(other)] = self.first(one)

    def all(self) -> list[list[str]]:
        """Return the groups, and the names in each, in the order in which they were given."""
        groups: dict[str, list[str]] = {}
        for name in self._parent:
            groups.setdefault(self.first(name), []).append(name)
        return list(groups.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Where a variable lies: numbers only, which keep nothing alive."""

    ids: frozenset[int] = frozenset()
    """Of its mutable objects."""
    spans: tuple[tuple[int, int, int], ...] = ()
    """Of its arrays: first address, the one after the last, and the number of pandas' list of
    those who share it, or 0."""
    tracked: tuple[tuple[int, int], ...] = ()
    """Ids of objects that pandas copies before one of those who share them writes, with the number
    of the list."""


def footprint_of(written: Dump) -> Footprint:
    """Return where a value lies that was written alone.  The dump is empty afterwards.

    Objects that were made only to be written are gone by then; their ids would be those of others.
    """
    memory, memo = written.memory, written.memo
    foreign = frozenset(memory.exporters)
    spans = {(*span, memory.tracked.get(span, 0)) for span in memory.spans}
    tracked = {key: value for key, value in memory.tracked.items() if isinstance(key, int)}
    objects = [obj for _, obj in memo.values() if type(obj) not in PLAIN]
    for held in (memo, memory.blocks, memory.exporters, memory.parts):
        held.clear()
    inner = _inner_parts(objects)
    count = -1
    while count != len(objects):
        count = len(objects)
        # The list, the name and the argument refer to it, and whoever else has it.
        objects = [obj for obj in objects if sys.getrefcount(obj) > 3]
    ids = _mutable_ids(objects)
    own = ids - inner
    return Footprint(
        ids=frozenset(own - tracked.keys()) | foreign,
        spans=tuple(sorted(spans)),
        tracked=tuple((number, key) for number, key in tracked.items() if number in own),
    )


def _inner_parts(objects: list[Any]) -> set[int]:
    """Return the ids of what objects of pandas have in common, and nobody changes."""
    found: set[int] = set()
    for obj in objects:
        kind = type(obj)
        indexes: Iterable[Any] = ()
        if kind.__name__ == "CategoricalDtype":
            indexes = (getattr(obj, "_categories", None),)
        elif kind.__name__ == "MultiIndex":
            indexes = getattr(obj, "_levels", ())
        for index in indexes:
            found |= {id(index), id(getattr(index, "_data", None))}
        if kind.__module__.startswith("pandas"):
            found.add(id(getattr(kind, "_metadata", None)))
    return found


def groups_of(dumps: Mapping[str, Dump]) -> list[list[str]]:
    """Return the names of variables in groups: what shares an object is in one of them."""
    groups = Groups(dumps)
    owners: dict[int, str] = {}
    for name, dump in dumps.items():
        ids = dump.memo.keys() | dump.memory.exporters.keys()
        for number in owners.keys() & ids:
            obj = dump.memo[number][1] if number in dump.memo else None
            if obj is None or is_mutable(obj):
                groups.join(owners[number], name)
        owners.update(dict.fromkeys(ids - owners.keys(), name))
    _join_by_memory(groups, dumps)
    return groups.all()


def _join_by_memory(groups: Groups, dumps: Mapping[str, Dump]) -> None:
    """Put variables together whose arrays overlap in memory."""
    spans = sorted((*span, name) for name, dump in dumps.items() for span in dump.memory.spans)
    end, owner = 0, ""
    for start, stop, name in spans:
        if owner and start < end:
            groups.join(owner, name)
        if stop > end:
            end, owner = stop, name


def reachable(value: object, stop: set[int]) -> dict[int, object] | None:
    """Return the mutable objects that a value leads to, by id; None if they are too many.

    Parameters
    ----------
    stop
        Ids of objects that are not followed, such as the namespace.
    """
    found: dict[int, object] = {}
    waiting = [value]
    seen: set[int] = set(stop)
    while waiting:
        obj = waiting.pop()
        if id(obj) in seen:
            continue
        seen.add(id(obj))
        if len(seen) - len(stop) > REACH_LIMIT:
            return None
        if isinstance(obj, types.ModuleType) or not _is_followed(obj):
            continue
        if is_mutable(obj) and not isinstance(obj, _thread.LockType):
            found[id(obj)] = obj
        waiting.extend(gc.get_referents(obj))
    return found


def _is_followed(obj: object) -> bool:
    return not isinstance(obj, type | types.FunctionType) or not is_importable(obj)
