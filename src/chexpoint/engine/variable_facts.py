"""What is known about the value of one variable: a fingerprint, where it lies, what it reaches.

Nothing here keeps a value alive, and no code of the user's runs but what pickling calls.
"""

from __future__ import annotations

import contextlib
import logging
import math
import pickle
import sys
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import xxhash

from chexpoint.engine.variable_digests import Held, TimedFile, TooMuch, clock, digested
from chexpoint.engine.variable_looking import (
    NAMED,
    SCALARS,
    holds_objects,
    look_into,
    spans_of,
)
from chexpoint.engine.variable_tables import Span
from chexpoint.engine.variable_text import ANY, global_names
from chexpoint.image import (
    Dump,
    Footprint,
    Surroundings,
    dump,
    footprint_of,
    is_importable,
    is_own,
    kind_of,
    overlaps,
    reason_of,
)
from chexpoint.model import Bytes, Digest, Seconds

SMALL_BYTES = 64 << 10
"""Contents up to this size travel with what is said about them."""

SOME_FUNCTION = "*functions"
"""Stands, among the names that a value reaches, for those that any function uses."""

NOWHERE = Footprint()
_HEAP_TYPE = 1 << 9


def _nothing() -> Mapping[Span, Digest]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known about a value."""

    kind: str
    digest: Digest = ""
    """Empty if it was not read, or cannot be."""
    size_bytes: Bytes = 0
    parts: tuple[tuple[Digest, Bytes], ...] = ()
    places: tuple[tuple[Span, Digest], ...] = ()
    """Where its large arrays lay when they were read, and what was in them."""
    print: Footprint = NOWHERE
    is_entangled: bool = False
    """Whether it leads to more objects than were looked at."""
    reaches: frozenset[str] = frozenset()
    """Names that functions in it use; ``*`` for all there are, or `SOME_FUNCTION`."""
    why_not: str = ""
    cost_s: Seconds = 0.0
    """What writing it took, without reading its arrays; or what that is thought to take."""
    modules: frozenset[str] = frozenset()
    overlaps: bool = False
    """Whether arrays in it show the same memory."""
    is_risky: bool = False
    """Of a small value, whether a copy of it would be noticed."""


@dataclass(frozen=True, slots=True, eq=False)
class Small:
    """The contents of a small value."""

    data: bytes
    parts: list[memoryview]
    weak_count: int
    modules: frozenset[str]
    sources: frozenset[str]
    is_risky: bool = False
    """Whether loading a copy of it to try may run code of the user's, such as ``__del__``."""
    is_sure: bool = False
    """Whether there is nothing in it that might not come back."""

    @property
    def size_bytes(self) -> int:
        """Return the size of stream and arrays."""
        return len(self.data) + sum(map(len, self.parts))


@dataclass(slots=True)
class Reader:
    """Reads values, all in one namespace.

    Parameters
    ----------
    mains
        The live namespace.
    """

    mains: tuple[dict[str, Any], ...]
    rules: dict[type, Any] = field(default_factory=dict)
    _lasting: set[type] = field(default_factory=set)
    """Classes of libraries among those that there are rules for."""

    def world(self) -> Surroundings:
        """Return the surroundings for one stream."""
        return Surroundings(mains=self.mains, rules=self.rules)

    def forget_types(self) -> None:
        """Let go of the user's own classes."""
        for kind in self.rules.keys() - self._lasting:
            if not is_importable(kind):
                del self.rules[kind]
            elif not is_users(kind.__module__):
                self._lasting.add(kind)

    def read(
        self,
        value: object,
        seconds: Seconds,
        *,
        arrays_s: Seconds = math.inf,
        held: Held = _nothing,
    ) -> tuple[Facts, Small | None]:
        """Return the facts about a value, and its contents if they are little.

        Parameters
        ----------
        seconds
            How long that may take.
        arrays_s
            How much of it reading its arrays may take, which says nothing about what it shares.
        held
            Returns what is known of memory.
        """
        started = clock()
        try:
            return self._read(value, started, TimedFile(seconds), arrays_s, held)
        except Exception as error:  # pickling runs code of any library
            return self.unread(value, error, clock() - started), None

    def _read(
        self,
        value: object,
        started: float,
        file: TimedFile,
        arrays_s: Seconds,
        held: Held,
    ) -> tuple[Facts, Small | None]:
        world = self.world()
        written = dump([value], world, file=file, is_lone=True)
        size = written.size_bytes
        cost = clock() - started
        file.end = min(file.end, started + cost + arrays_s)
        contents = digested(written, file, held)
        # Of plain arrays it is known what they are made of.
        is_plain = _is_plain_array(value)
        objects = [] if is_plain else [obj for _, obj in written.memo.values()]
        small = None
        if size <= SMALL_BYTES:
            small = small_of(written, world, objects, is_sure=is_plain)
        reaches = reaches_of(objects)
        is_hidden = any(map(_hides_state, set(map(type, objects))))
        del objects
        is_double = bool(overlaps(written.memory.spans))
        lies = footprint_of(written)
        facts = Facts(
            kind=safe_kind(value),
            digest="" if is_hidden else contents.whole,
            size_bytes=size,
            parts=contents.parts,
            places=contents.places,
            print=lies,
            reaches=reaches,
            modules=frozenset(world.modules),
            cost_s=cost,
            overlaps=is_double,
            is_risky=small is not None and small.is_risky,
        )
        return facts, small

    def read_joint(
        self, values: list[object], joined: list[Span], seconds: Seconds, held: Held
    ) -> tuple[Facts, Small | None]:
        """Return the facts about values that share objects; only what they hold is told."""
        world = self.world()
        file = TimedFile(seconds)
        started = clock()
        try:
            written = dump(values, world, joined, file=file, is_lone=True)
        except Exception as error:  # pickling runs code of any library
            why = "" if isinstance(error, TooMuch) else reason_of(error)
            return Facts(kind="", why_not=why), None
        size = written.size_bytes
        contents = digested(written, file, held)
        small = small_of(written, world, [], is_sure=False) if size <= SMALL_BYTES else None
        facts = Facts(
            kind="",
            digest=contents.whole,
            size_bytes=size,
            parts=contents.parts,
            modules=frozenset(world.modules),
            cost_s=clock() - started,
        )
        return facts, small

    def unread(self, value: object, error: Exception, spent: Seconds) -> Facts:
        """Return what can be said about a value that was not read to its end."""
        kind = safe_kind(value)
        why = "" if isinstance(error, TooMuch) else reason_of(error)
        stop = {id(each) for each in (*self.mains, sys.modules, vars(types))}
        try:
            found = look_into(value, stop)
        except Exception:  # an object that answers nothing
            found = None
        lies, reaches = Footprint(), frozenset({SOME_FUNCTION})
        is_entangled = found is None
        if found is not None:
            spans = tuple(spans_of(found.values()))
            lies = Footprint(ids=frozenset(found), spans=spans)
            reaches = reaches_of([value, *found.values()])
            if any(map(holds_objects, found.values())):
                is_entangled, reaches = True, reaches | {SOME_FUNCTION}
        return Facts(
            kind=kind,
            print=lies,
            is_entangled=is_entangled,
            reaches=reaches,
            why_not=why,
            cost_s=0.0 if why else max(2 * spent, 0.01),
            modules=frozenset({"torch"} if "torch" in kind else ()),
        )


def small_of(
    written: Dump, world: Surroundings, objects: list[object], *, is_sure: bool
) -> Small | None:
    """Return a copy of a stream and its arrays; None if they are on a device.

    Parameters
    ----------
    objects
        What is in the stream.
    is_sure
        Whether it is known that all of it comes back.
    """
    try:
        parts = [memoryview(bytes(part)) for part in written.parts]
    except TypeError:
        return None
    modules, sources = frozenset(world.modules), frozenset(world.sources)
    kinds = _one_of_each(objects)
    is_sure = is_sure or (bool(objects) and all(map(_is_sure, kinds)))
    is_risky = not is_sure and any(map(_is_risky, kinds))
    return Small(written.data, parts, written.weak_count, modules, sources, is_risky, is_sure)


def _is_plain_array(value: Any) -> bool:
    """Tell whether a value is an array of numbers, and nothing else."""
    numpy: Any = sys.modules.get("numpy")
    if numpy is None or type(value) is not numpy.ndarray:
        return False
    return value.dtype.isbuiltin == 1 and not value.dtype.hasobject


def _one_of_each(objects: list[object]) -> list[object]:
    """Return an object of each type, and all that are classes or functions."""
    found: dict[object, object] = {}
    for obj in objects:
        kind = type(obj)
        found[id(obj) if issubclass(kind, NAMED) else kind] = obj
    return list(found.values())


_SURE = frozenset(
    {list, dict, set, frozenset, tuple, bytearray, types.BuiltinFunctionType, *SCALARS}
)
_SURE_NAMES = {
    "chexpoint.image.memory.Block",
    "numpy.dtype",
    "numpy.generic",
    "numpy.ndarray",
    "numpy.random._generator.Generator",
    "numpy.random._pcg64.PCG64",
    "numpy.random.bit_generator.SeedSequence",
}


def _is_sure(obj: object) -> bool:
    """Tell whether an object always comes back as it is, apart from what it holds."""
    kind = type(obj)
    if kind in _SURE:
        return True
    if issubclass(kind, NAMED) or kind.__name__ == "cython_function_or_method":
        return is_importable(obj)
    homes = (base for base in kind.__mro__ if base.__module__.startswith(("numpy", "chexpoint")))
    is_users_own = kind.__module__ == "__main__" or is_users(kind.__module__)
    return not is_users_own and any(
        f"{base.__module__}.{base.__name__}" in _SURE_NAMES for base in homes
    )


def _is_risky(obj: object) -> bool:
    """Tell whether a copy of an object would be noticed: a class, or one with a last word."""
    kind = type(obj)
    if issubclass(kind, type):
        return not is_importable(obj)
    if issubclass(kind, logging.Logger):
        return True  # there is one of a name: to load it gives that one handlers that are copies
    return any(
        "__del__" in vars(base) or "__setstate__" in vars(base)
        for base in kind.__mro__
        if base.__flags__ & _HEAP_TYPE and is_users(base.__module__)
    )


def _hides_state(kind: type) -> bool:
    """Tell whether a class of the user's says itself what is written of its objects."""
    return any(
        not _OWN_WORDS.isdisjoint(vars(base))
        for base in kind.__mro__
        if base.__flags__ & _HEAP_TYPE and is_users(base.__module__)
    )


_OWN_WORDS = {"__getstate__", "__reduce__", "__reduce_ex__", "__getnewargs__", "__getnewargs_ex__"}


def is_users(module: object) -> bool:
    """Tell whether a module of that name is the notebook or a file of the user's."""
    if not isinstance(module, str) or module == "__main__":
        return True
    return is_own(sys.modules.get(module))


def small_scalar(value: object) -> Small | None:
    """Return the contents of a value that is no more than a number or a text; else None."""
    # A stream tells which floats are the same not-a-number.
    if type(value) not in SCALARS or value != value:  # noqa: PLR0124
        return None
    data = pickle.dumps(value, 5)
    return Small(data, [], 0, frozenset(), frozenset(), is_sure=True)


def safe_kind(value: object) -> str:
    """Return the type of a value as the user knows it."""
    with contextlib.suppress(Exception):
        return kind_of(value)
    return "object"


def is_scalar(value: object) -> bool:
    """Tell whether a value cannot change, and is little."""
    if type(value) is tuple:
        return len(value) <= 100 and all(type(each) in SCALARS for each in value)
    if type(value) in {str, bytes}:
        return len(value) <= SMALL_BYTES  # type: ignore[arg-type]
    return type(value) in SCALARS


_OPAQUE = frozenset(map(id, (eval, exec, globals, locals, vars, dir, __import__)))


def quick_facts(value: object, imports: Iterable[str]) -> Facts | None:
    """Return the facts about a value that cannot change, or is known by its name; else None.

    Parameters
    ----------
    imports
        Modules that cells have imported: those below a module come with it.
    """
    if is_scalar(value):
        data = pickle.dumps(value, 5)
        digest = xxhash.xxh3_128_hexdigest(type(value).__name__.encode() + data)
        return Facts(kind=type(value).__name__, digest=digest, size_bytes=len(data))
    if type(value) is types.ModuleType:
        name = value.__name__
        if sys.modules.get(name) is not value:
            return None
        below = sorted(each for each in imports if each.startswith(f"{name}."))
        text = " ".join(["module", name, *below])
        facts = _named("module", text, name)
        # All variables can be had from it.
        return replace(facts, reaches=frozenset({ANY})) if name == "__main__" else facts
    if isinstance(type(value), type) and issubclass(type(value), NAMED):
        with contextlib.suppress(Exception):
            if is_importable(value):
                named: Any = value
                text = f"import {named.__module__} {named.__qualname__}"
                facts = _named(safe_kind(value), text, named.__module__)
                return replace(facts, reaches=frozenset({ANY})) if id(value) in _OPAQUE else facts
    return None


def _named(kind: str, text: str, module: str) -> Facts:
    digest = xxhash.xxh3_128_hexdigest(text.encode())
    return Facts(kind=kind, digest=digest, size_bytes=len(text), modules=frozenset({module}))


def plain_function(value: object, main: Mapping[str, Any]) -> tuple[object, ...] | None:
    """Return what a function of the notebook consists of, if nothing in it can be changed.

    It may be given other code, or another name.
    """
    if type(value) is not types.FunctionType or value.__globals__ is not main:
        return None
    given = (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
    typed = (value.__annotations__, getattr(value, "__type_params__", None))
    if any(given) or any(typed):
        return None
    names = (value.__name__, value.__qualname__, value.__module__, value.__doc__)
    return (value.__code__, *names)


_CODED = frozenset(
    {types.CodeType, types.FunctionType, types.GeneratorType}
    | {types.CoroutineType, types.AsyncGeneratorType}
)


def reaches_of(objects: Iterable[object]) -> frozenset[str]:
    """Return the names of globals that the functions among some objects use."""
    found: set[str] = set()
    for obj in objects:
        kind = type(obj)
        if kind not in _CODED:
            continue
        if kind is types.CodeType:
            found |= global_names(obj)
        elif kind is types.FunctionType and not is_importable(obj):
            found |= global_names(obj.__code__)  # type: ignore[attr-defined]
        elif kind is types.GeneratorType:
            found |= global_names(obj.gi_code)  # type: ignore[attr-defined]
        elif kind is types.CoroutineType:
            found |= global_names(obj.cr_code)  # type: ignore[attr-defined]
        elif kind is types.AsyncGeneratorType:
            found |= global_names(obj.ag_code)  # type: ignore[attr-defined]
    return frozenset(found)
