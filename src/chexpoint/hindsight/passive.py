"""Iterables that may be consumed without running what is done with their items."""

from __future__ import annotations

import sys
from typing import Any

_PASSIVE: tuple[type, ...] = (
    range,
    list,
    tuple,
    str,
    bytes,
    dict,
    type({}.keys()),
    type({}.values()),
    type({}.items()),
    type(iter(range(0))),
    type(iter([])),
    type(iter(())),
    type(iter({})),
    type(iter({}.values())),
    type(iter({}.items())),
    type(iter("")),
    type(iter("\u0100")),
    type(iter(b"")),
    type(reversed([])),
    type(reversed(range(0))),
)
_WRAPPERS: tuple[type, ...] = (enumerate, zip, reversed)
_BARS = ("tqdm.",)


def active_part(iterable: object) -> str:
    """Return what stands against passing over items, as a phrase; empty if nothing does.

    The items of a range or a list are there already.  A generator computes them: it may look at
    what the body of the loop has done.
    """
    if isinstance(iterable, _PASSIVE):
        return ""
    kind = type(iterable)
    if isinstance(iterable, _WRAPPERS):
        return next((why for part in _wrapped(iterable) if (why := active_part(part))), "")
    if kind.__module__.startswith(_BARS) and hasattr(iterable, "iterable"):
        return active_part(iterable.iterable)
    for library, name in (("numpy", "ndarray"), ("torch", "Tensor")):
        known = getattr(sys.modules.get(library), name, None)
        if known is not None and isinstance(iterable, known):
            return ""
    return f"it runs over a {kind.__name__}, which computes its items as it goes"


def iterators_in(iterable: object) -> list[object]:
    """Return the iterators of Python's own that are consumed with an iterable.

    They cannot be set back: who holds one besides the loop would be left with another.
    """
    if type(iterable).__module__ not in ("builtins", "itertools"):
        return []
    if not hasattr(type(iterable), "__next__"):
        return []
    parts = _wrapped(iterable) if isinstance(iterable, _WRAPPERS) else []
    return [iterable, *(each for part in parts for each in iterators_in(part))]


def _wrapped(iterable: Any) -> list[object]:
    reduced = iterable.__reduce__()
    inner = reduced[1] if isinstance(reduced, tuple) and len(reduced) > 1 else ()
    return [part for part in inner if not isinstance(part, int)]
