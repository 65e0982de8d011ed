"""What objects hold, and the ways to it."""

from __future__ import annotations

import functools
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

from chexpoint.hindsight.state.numpy_door import np

Step = tuple[str, Any]
"""``(".", attribute)``, ``("[", index or key)``, ``("{", number of the value in a dict)``."""
Steps = tuple[Step, ...]

ATOMS = frozenset({type(None), bool, int, float, complex, str, bytes, type(...), range, slice})
# Large structures of libraries in which no managed object of a loop is.
_CLOSED = frozenset(
    {"IPython", "PIL", "ipykernel", "logging", "matplotlib", "numpy", "pandas", "polars", "scipy"}
)


def contents_of(value: Any) -> Iterator[tuple[Step, Any]]:
    """Yield what an object holds, and the ways to it."""
    yield from _elements_of(value)
    if type(value).__module__.partition(".")[0] not in _CLOSED:
        yield from (((".", name), each) for name, each in attributes_of(value).items())


def _elements_of(value: Any) -> Iterator[tuple[Step, Any]]:
    if isinstance(value, (list, tuple, deque)):
        if not ATOMS.issuperset(map(type, value)):
            yield from ((("[", number), each) for number, each in enumerate(value))
    elif isinstance(value, dict):
        if not ATOMS.issuperset(map(type, dict.values(value))):
            for number, (key, each) in enumerate(dict.items(value)):
                yield ("[", key) if type(key) in (str, int) else ("{", number), each
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject and not value.dtype.names:
            yield from ((("[", place), each) for place, each in np.ndenumerate(value))
    elif isinstance(value, functools.partial):
        yield (".", "func"), value.func
        yield (".", "args"), value.args
        yield (".", "keywords"), value.keywords
    elif isinstance(value, types.MethodType):
        yield (".", "__self__"), value.__self__


def attributes_of(value: Any) -> dict[str, Any]:
    """Return the attributes that an object itself holds; nothing of the user's runs for it."""
    kind = type(value)
    if kind in _PLAIN:
        return {}
    try:
        found = dict(object.__getattribute__(value, "__dict__"))
    except AttributeError:
        found = {}
    for base in kind.__mro__:
        for name, slot in vars(base).items() if "__slots__" in vars(base) else ():
            if isinstance(slot, types.MemberDescriptorType):
                try:
                    found[name] = slot.__get__(value)
                except AttributeError:
                    continue
    return found


_PLAIN = frozenset({list, tuple, dict, set, frozenset, deque, bytearray, types.MethodType})


def text_of(step: Step) -> str:
    """Return a step as a user would write it."""
    kind, key = step
    if kind == ".":
        return f".{key}"
    return f"[{key!r}]" if kind == "[" else f"{{{key}}}"


def follow(start: Any, steps: Steps) -> Any:
    """Return what is found by going from an object step by step.

    Raises
    ------
    LookupError, AttributeError
        If there is no such way.
    """
    for kind, key in steps:
        if kind == ".":
            start = getattr(start, key)
        elif kind == "[":
            start = start[key]
        else:
            start = list(start.values())[key]
    return start
