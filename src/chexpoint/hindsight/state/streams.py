"""The streams of a survey: values as pickle writes them, with references in place of

* managed objects, and what belongs to another item,
* tensors and arrays, which are leaves of their own unless they are small,
* code that cannot be imported, locks and loggers: these are found again where they were.
"""

from __future__ import annotations

import _pickle
import io
import pickle
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import xxhash

from chexpoint.hindsight.state.arrays import is_small
from chexpoint.hindsight.state.contents import ATOMS
from chexpoint.hindsight.state.leaves import new_tensor, small_bytes, tensor_meta
from chexpoint.hindsight.state.managed import adapter_for
from chexpoint.hindsight.state.memory import view_in
from chexpoint.hindsight.state.numpy_door import np
from chexpoint.hindsight.state.walking import (
    FUNCTIONS,
    Item,
    Walk,
    is_array,
    is_importable,
    one_line,
)

Ref = tuple[Any, ...]
"""``("item", name)``, ``("part", name, part)``, ``("in", name, steps)``, ``("live", name, sign)``,
``("leaf", name)`` or ``("view", tensor or array, how it lies in it)``."""

MAX_STREAM = 16 << 20
"""A longer stream is not written for a survey: whether it has changed cannot be told."""


class CannotFollow(Exception):
    """The state of an object cannot be followed; the message is a reason for the user."""


class TooLong(Exception):
    """A stream is longer than a survey has time for."""


# By qualified name of the type: what a user calls it.
_REFUSED = {
    "_asyncio.Task": "a task",
    "_io.BufferedRandom": "an open binary file",
    "_io.BufferedReader": "an open binary file",
    "_io.BufferedWriter": "an open binary file",
    "_io.FileIO": "an open binary file",
    "_io.TextIOWrapper": "an open file that is read",
    "_socket.socket": "a socket",
    "async_generator": "a generator",
    "builtins.async_generator": "a generator",
    "builtins.coroutine": "a coroutine",
    "builtins.frame": "a frame",
    "builtins.generator": "a generator",
    "concurrent.futures._base.Executor": "a pool of workers",
    "multiprocessing.pool.Pool": "a pool of workers",
    "multiprocessing.process.BaseProcess": "a process",
    "sqlite3.Connection": "a connection to a database",
    "subprocess.Popen": "a process",
    "threading.Thread": "a thread",
    "torch.utils.data.dataloader._BaseDataLoaderIter": "an iterator over a DataLoader",
}


def _refusal(kind: type) -> str:
    for base in kind.__mro__:
        word = _REFUSED.get(f"{base.__module__}.{base.__qualname__}")
        if word:
            return f"it holds {word}, whose state cannot be stored"
    return ""


class StatePickler(_pickle.Pickler):
    """Writes the content of one item."""

    def __init__(self, walk: Walk, item: Item, limit: int | None) -> None:
        self.file = _Bounded(limit)
        self.walk = walk
        self.item = item
        self.leaves: dict[str, Any] = {}
        """Tensors and arrays that are leaves of the item."""
        self.names: dict[int, str] = {}
        super().__init__(self.file, protocol=5)

    def reducer_override(self, obj: Any) -> Any:
        """Write a reference if one is due; pickle calls it for all but plain values."""
        ref = self.reference(obj)
        if ref is not None:
            return find, ref
        if is_array(obj):
            return self._array(obj)
        adapter = adapter_for(type(obj))
        if adapter is not None and adapter.is_apart:
            name = type(obj).__qualname__
            raise CannotFollow(f"it holds a {name} where that cannot be found again, as in a set")
        rule = _RULES.get(type(obj), _unknown)
        if rule is _unknown:
            rule = _RULES[type(obj)] = _refusal(type(obj)) or None
        if rule is not None:
            raise CannotFollow(rule)
        if isinstance(obj, FUNCTIONS) and not _is_named(obj):
            raise CannotFollow(f"it holds {_called(obj)}, which cannot be found by its name")
        return NotImplemented

    def reference(self, obj: Any) -> Ref | None:
        """Return how an object is referred to that does not belong to the stream."""
        walk, key = self.walk, id(obj)
        managed = walk.managed.get(key)
        if managed is not None:
            return "item", managed.name
        part = walk.parts.get(key)
        if part is not None:
            return "part", part[0].name, part[1]
        live = walk.live.get(key)
        if live is not None:
            if isinstance(obj, FUNCTIONS) and _is_named(obj):
                return None
            return "live", live, sign_of(obj)
        home = walk.homes.get(key)
        if home is not None and home[0] is not self.item:
            return "in", home[0].name, home[1]
        return None

    def _array(self, value: Any) -> Any:
        holder = self.walk.views.get(id(value))
        if holder is not None:
            return find, ("view", holder, view_in(value, holder))
        if not is_small(value):
            return find, ("leaf", self._leaf_name(value))
        if isinstance(value, np.ndarray):
            return NotImplemented
        return new_tensor, (tensor_meta(value), small_bytes(value))

    def _leaf_name(self, value: Any) -> str:
        name = self.names.get(id(value))
        if name is None:
            number = len(self.names)
            mark = ":" if self.item.adapter is None else ":#"
            name = self.names[id(value)] = f"{self.item.name}{mark}{number}"
            self.leaves[name] = value
        return name


class SharingPickler(StatePickler):
    """The same for items that hold lists and dicts of others; it looks at every object."""

    def persistent_id(self, obj: Any) -> Any:
        """Return the reference to a plain container of another item."""
        if type(obj) in (list, dict, set, bytearray):
            return self.reference(obj)
        return None


_unknown = "?"
_RULES: dict[type, str | None] = {
    weakref.ref: "it holds a weak reference, which cannot be stored",
    types.GeneratorType: "it holds a generator, whose state cannot be stored",
}


def _is_named(obj: Any) -> bool:
    if isinstance(obj, types.BuiltinFunctionType):
        return True
    if isinstance(obj, types.ModuleType):
        return False
    return is_importable(obj)


def sign_of(obj: Any) -> str:
    """Return what tells a function or class from others at its place; empty if nothing does."""
    if isinstance(obj, type):
        return obj.__qualname__
    if not isinstance(obj, types.FunctionType):
        return ""
    code = obj.__code__
    if obj.__name__ != "<lambda>":
        return obj.__qualname__  # its code may have statements added to it
    held = [each for each in code.co_consts if type(each) in ATOMS]
    text = repr((code.co_code, code.co_names, held))
    return f"{obj.__qualname__} {xxhash.xxh3_64_hexdigest(text.encode())}"


def _called(obj: Any) -> str:
    name = getattr(obj, "__qualname__", None) or getattr(obj, "__name__", "")
    return f"{type(obj).__name__} {name}".strip()


class _Bounded(io.BytesIO):
    """Memory for a stream of a limited length."""

    def __init__(self, limit: int | None) -> None:
        super().__init__()
        self.limit = limit
        self.length = 0

    def write(self, data: Any, /) -> int:
        self.length += len(data)
        if self.limit is not None and self.length > self.limit:
            raise TooLong
        return super().write(data)


def dump(walk: Walk, item: Item, limit: int | None = None) -> tuple[bytes, StatePickler]:
    """Write the content of an item; return it with what it refers to.

    Raises
    ------
    CannotFollow
        If it cannot be stored.
    TooLong
        If it is longer than the limit.
    """
    pickler = (SharingPickler if item.shares else StatePickler)(walk, item, limit)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pickler.dump(item.content)
    except (CannotFollow, TooLong):
        raise
    except Exception as error:
        # Whatever the pickling of a user's object raises.
        raise CannotFollow(f"its state cannot be stored: {one_line(error)}") from error
    return pickler.file.getvalue(), pickler


# ---------------------------------------------------------------- reading

_finder: ContextVar[Callable[[Ref], Any]] = ContextVar("finder")


def find(*ref: Any) -> Any:
    """Return what a reference in a stream stands for; streams call it."""
    return _finder.get()(ref)


class _Reader(pickle.Unpickler):
    def persistent_load(self, ref: Any) -> Any:
        return find(*ref)


def load(data: Any, finder: Callable[[Ref], Any]) -> Any:
    """Return the value that a stream of ours holds.

    Parameters
    ----------
    finder
        Says what references stand for.
    """
    with _finding(finder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _Reader(io.BytesIO(data)).load()


@contextmanager
def _finding(finder: Callable[[Ref], Any]) -> Iterator[None]:
    token = _finder.set(finder)
    try:
        yield
    finally:
        _finder.reset(token)
