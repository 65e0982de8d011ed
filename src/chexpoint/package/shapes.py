"""What a JSON document must look like, said by small functions that check one thing each.

A *shape* takes a value and where it stands, and raises `PackageError` if the value is of another
kind.  Nothing that a shape has not passed is used.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from chexpoint.errors import PackageError

Shape = Callable[[object, str], None]

DEEPEST = 100
"""How many lists and objects may stand in one another."""

_LARGEST = 2**63


def parse_json(data: bytes, where: str) -> Any:
    """Return the value of a JSON document, in which no name stands twice in the same object.

    Raises
    ------
    PackageError
        If it is none.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_object)
    # A RecursionError is what very deep nesting gives; UnicodeDecodeError is a ValueError.
    except (ValueError, RecursionError) as error:
        raise PackageError(f"{where} is not readable: {type(error).__name__}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands twice in the same object")
    return found


# ---------------------------------------------------------------- simple values


def text(value: object, where: str) -> None:
    """Any text."""
    if not isinstance(value, str):
        raise _wrong(where, "a text", value)


def number(value: object, where: str) -> None:
    """A number from 0 on, whole or not."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # A comparison that is also false for "not a number".
    if not is_number or not 0 <= value < _LARGEST:  # type: ignore[operator]
        raise _wrong(where, "a number from 0 on", value)


def whole(value: object, where: str) -> None:
    """A whole number from 0 on."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < _LARGEST:
        raise _wrong(where, "a whole number from 0 on", value)


def anything(value: object, where: str) -> None:
    """Any value that is not nested too deep."""
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for item in level
            if isinstance(item, list | dict)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
        if not level:
            return
    raise PackageError(f"{where} is nested too deep")


def one_of(*words: object) -> Shape:
    """Return the shape of one of some texts."""

    def check(value: object, where: str) -> None:
        if not isinstance(value, str) or value not in words:
            raise _wrong(where, f"one of {', '.join(map(str, words))}", value)

    return check


def where_true(is_right: Callable[[str], bool], what: str) -> Shape:
    """Return the shape of a text that a function says is right."""

    def check(value: object, where: str) -> None:
        if not isinstance(value, str) or not is_right(value):
            raise _wrong(where, what, value)

    return check


# ---------------------------------------------------------------- values made of others


def nothing_or(shape: Shape) -> Shape:
    """Return the shape of null, or of something else."""

    def check(value: object, where: str) -> None:
        if value is not None:
            shape(value, where)

    return check


def list_of(shape: Shape, *, at_least: int = 0) -> Shape:
    """Return the shape of a list."""

    def check(value: object, where: str) -> None:
        if not isinstance(value, list) or len(value) < at_least:
            raise _wrong(where, f"a list of at least {at_least}" if at_least else "a list", value)
        for at, item in enumerate(value):
            shape(item, f"{where}[{at}]")

    return check


def row(*shapes: Shape, rest: Shape | None = None) -> Shape:
    """Return the shape of a list in which each place has a meaning, and perhaps some more."""

    def check(value: object, where: str) -> None:
        wanted = len(shapes)
        if not isinstance(value, list) or (len(value) < wanted if rest else len(value) != wanted):
            raise _wrong(where, f"a list of {wanted}", value)
        for at, item in enumerate(value):
            shape = shapes[at] if at < wanted else rest
            if shape is not None:
                shape(item, f"{where}[{at}]")

    return check


def table(key: Shape, shape: Shape) -> Shape:
    """Return the shape of an object with any names."""

    def check(value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        for name, item in value.items():
            key(name, f"a name in {where}")
            shape(item, f"{where}.{_shown(name)}")

    return check


def record(needed: Mapping[str, Shape], optional: Mapping[str, Shape] | None = None) -> Shape:
    """Return the shape of an object with these names, and no others."""
    shapes = {**needed, **(optional or {})}

    def check(value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise _wrong(where, "an object", value)
        for name in needed:
            if name not in value:
                raise PackageError(f"{where} has no {name}")
        for name, item in value.items():
            if name not in shapes:
                raise PackageError(f"{where} has something that is not known: {_shown(name)}")
            shapes[name](item, f"{where}.{name}")

    return check


def _wrong(where: str, what: str, value: object) -> PackageError:
    return PackageError(f"{where} is not {what}: {reprlib.repr(value)}")


def _shown(name: str) -> str:
    return ascii(name[:40])[1:-1]
