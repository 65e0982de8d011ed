"""The pickler of images: C speed for what pickle does rightly, a rule for each kind it does not.

A rule is a function of the pickler and an object; it returns what ``__reduce__`` would, or
`NotImplemented` to leave the object to pickle, or raises `Lost`.
"""

from __future__ import annotations

import _pickle
import builtins
import enum
import io
import math
import struct
import sys
import types
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from chexpoint.image import (
    code,
    devices,
    frames,
    handles,
    live,
    ndarrays,
    refused,
    singles,
    tensors,
    weak,
)
from chexpoint.image.lost import Lost
from chexpoint.image.memory import Memory, Span
from chexpoint.image.modules import is_importable, reduce_module

Rule = Callable[["ImagePickler", Any], Any]

# Rules by type, for what every Python has; by name, for libraries that may not be loaded.
RULES: Mapping[type | str, Rule] = {
    **code.RULES,
    **weak.RULES,
    **handles.RULES,
    **ndarrays.RULES,
    **frames.RULES,
    **tensors.RULES,
    **devices.RULES,
    **singles.RULES,
    **refused.RULES,
    types.ModuleType: reduce_module,
}


@dataclass(frozen=True, slots=True, eq=False)
class Surroundings:
    """What all streams of one image have in common."""

    mains: tuple[Mapping[str, object], ...]
    """The live namespace: functions that were defined in it keep it as their globals."""
    rules: dict[type, Rule | None] = field(default_factory=dict)
    """The rule of each type seen so far."""
    modules: set[str] = field(default_factory=set)
    """Modules whose classes and functions the streams name."""
    sources: set[str] = field(default_factory=set)
    """File names of the code that the streams hold."""


class ImagePickler(_pickle.Pickler):
    """Writes one stream, and takes the memory of arrays out of it."""

    def __init__(
        self,
        world: Surroundings,
        joined: list[Span],
        *,
        file: io.BytesIO | None = None,
        is_lone: bool = False,
        alone: Collection[int] = (),
    ) -> None:
        self.world = world
        self.memory = Memory(joined)
        self.file = io.BytesIO() if file is None else file
        self.is_lone = is_lone
        """Whether equal contents are to give an equal stream, whoever else shares them."""
        self.alone = alone
        """Ids of arrays that nothing else in the stream shares, whatever pandas knows of others."""
        self.kept: dict[Any, Any] = {}
        """Objects that stand for others, so that each is written once."""
        self.weak_count = 0
        super().__init__(self.file, protocol=5, buffer_callback=self.memory.keep)

    def reducer_override(self, obj: Any) -> Any:
        """Write an object by the rule of its type; pickle calls it for all but plain containers."""
        kind = type(obj)
        rules = self.world.rules
        try:
            rule = rules[kind]
        except KeyError:
            rule = rules[kind] = rule_for(kind)
        if rule is None:
            return NotImplemented
        return rule(self, obj)


class _NanPickler(ImagePickler):
    """Writes which floats are the same not-a-number: a set or ``in`` goes by that alone.

    Not done for all: to be asked about each object takes twice the time.
    """

    nans: dict[int, int | str]

    def persistent_id(self, obj: Any) -> Any:
        """Return what stands for a not-a-number; None for all else."""
        if type(obj) is not float or obj == obj:  # noqa: PLR0124
            return None
        return self.nans.setdefault(id(obj), len(self.nans))


_NANS = tuple(b"G" + struct.pack(">d", value) for value in (math.nan, -math.nan))


def _well_known_nans() -> dict[int, int | str]:
    numpy: Any = sys.modules.get("numpy")
    known: dict[int, int | str] = {id(math.nan): "math"}
    return known if numpy is None else known | {id(numpy.nan): "numpy"}


def rule_for(kind: type) -> Rule | None:
    """Return the rule for objects of a type, the most special one; None leaves them to pickle."""
    for base in kind.__mro__:
        rule = RULES.get(base) or RULES.get(f"{base.__module__}.{base.__qualname__}")
        if rule is not None:
            return rule
    if issubclass(kind, type):
        return code.reduce_class
    if issubclass(kind, enum.Enum):
        return code.reduce_member
    return sentinel_rule(kind)


def sentinel_rule(kind: type) -> Rule | None:
    """Return a rule for objects that are one of a kind, such as ``dataclasses.MISSING``.

    Pickle would make a second one of them, and comparisons with ``is`` would fail.
    """
    own: Any = kind
    if (own.__reduce_ex__, own.__reduce__) != (object.__reduce_ex__, object.__reduce__):
        return None
    home = sys.modules.get(kind.__module__)
    if home is None or not is_importable(kind):
        return None
    names = {
        id(value): name
        for name, value in list(vars(home).items())
        if type(value) is kind and _has_only_a_name(value)
    }
    if not names:
        return None

    def reduce_sentinel(pickler: ImagePickler, obj: Any) -> Any:
        name = names.get(id(obj))
        if name is None:
            return NotImplemented
        pickler.world.modules.add(kind.__module__)
        return live.attribute, (kind.__module__, name)

    return reduce_sentinel


def _has_only_a_name(value: object) -> bool:
    return all(isinstance(each, str) for each in getattr(value, "__dict__", {}).values())


@dataclass(frozen=True, slots=True, eq=False)
class Dump:
    """One stream, and what writing it showed."""

    data: bytes
    parts: list[Any]
    """The buffers that were taken out of it."""
    bounds: list[int]
    """How many of them there are after each value."""
    memo: dict[int, tuple[int, Any]]
    """Every object in it, by id, if it holds a single value; it keeps them alive, too, so that
    ids stay unique."""
    memory: Memory
    weak_count: int
    """How many weak references it has."""

    @property
    def size_bytes(self) -> int:
        """Return the size of the stream and its buffers."""
        return len(self.data) + sum(int(part.nbytes) for part in self.parts)


def _dump_all(pickler: ImagePickler, values: Sequence[object]) -> list[int]:
    """Write values; return how many buffers there are after each."""
    bounds = []
    for value in values:
        pickler.dump(value)
        bounds.append(len(pickler.memory.parts))
    return bounds


def dump(
    values: Sequence[object],
    world: Surroundings,
    joined: list[Span] | None = None,
    *,
    file: io.BytesIO | None = None,
    is_lone: bool = False,
    alone: Collection[int] = (),
) -> Dump:
    """Write values into one stream; what they share is written once.

    Parameters
    ----------
    joined
        Memory that is known to be shared.
    file
        Takes the stream; what it raises ends the writing.
    is_lone
        Whether the stream is to be the same whoever else shares what it holds.
    alone
        Ids of arrays that are known to be shared by nothing else in the stream.

    Raises
    ------
    Exception
        Whatever the pickling of an object raises, and `Lost`.
    """
    pickler = ImagePickler(world, joined or [], file=file, is_lone=is_lone, alone=alone)
    bounds = _dump_all(pickler, values)
    if any(nan in pickler.file.getvalue() for nan in _NANS):
        pickler.file.seek(0)
        pickler.file.truncate()
        again = _NanPickler(world, joined or [], file=pickler.file, is_lone=is_lone, alone=alone)
        again.nans = _well_known_nans()
        bounds, pickler = _dump_all(again, values), again
    memory = pickler.memory
    # Of what was written together, each was written alone before.
    memo = pickler.memo.copy() if len(values) == 1 else {}
    if any(id(main) in memo for main in world.mains):
        raise Lost("it holds the namespace itself")
    tables = (sys.modules, sys.path, sys.argv, warnings.filters, vars(builtins))
    if any(id(table) in memo for table in tables):
        raise Lost("it holds a table of the interpreter")
    return Dump(
        data=pickler.file.getvalue(),
        parts=memory.parts,
        bounds=bounds,
        memo=memo,
        memory=memory,
        weak_count=pickler.weak_count,
    )
