"""What a stream calls when it is loaded.

The names here are part of the format of images: a function may be added, never renamed.  Those
marked as *bound* need to know the state that is being rebuilt; a `Loader` puts its own method of
the same name in their place.
"""

from __future__ import annotations

import importlib
import marshal
import types
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")


def _unbound(*_: object) -> NoReturn:
    raise RuntimeError("a stream of an image is loaded by chexpoint.image.rebuild only")


def main() -> dict[str, Any]:
    """Return the namespace that is being rebuilt (bound)."""
    _unbound()


def memory(buffer: Any) -> Any:
    """Return a buffer as an array of bytes, writable (bound)."""
    _unbound(buffer)


def weak(target: Any) -> weakref.ref[Any]:
    """Return a weak reference, and check later that something else holds its target (bound)."""
    _unbound(target)


def weak_container(kind: Callable[..., Any], items: Any) -> Any:
    """Return a weak dictionary or set, and check later that its items live (bound)."""
    _unbound(kind, items)


def fill_class(cls: type, state: dict[str, Any]) -> None:
    """Give a class its attributes (bound)."""
    _unbound(cls, state)


def device(number: int) -> Any:
    """Return the part of that number, which belongs on a device (bound)."""
    _unbound(number)


BOUND = frozenset({"main", "memory", "weak", "weak_container", "fill_class", "device"})


def attribute(module: str, name: str) -> Any:
    """Return something by its dotted name in a module."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def module(name: str) -> types.ModuleType:
    """Return a module, imported."""
    return importlib.import_module(name)


def module_globals(name: str) -> dict[str, Any]:
    """Return the globals of a module."""
    return vars(importlib.import_module(name))


def same(value: T) -> T:
    """Return what it is given: another name for something that was loaded before."""
    return value


def code(data: bytes) -> types.CodeType:
    """Return a code object."""
    loaded: types.CodeType = marshal.loads(data)  # noqa: S302
    return loaded


def cell() -> types.CellType:
    """Return an empty cell of a closure; the function that uses it fills it."""
    return types.CellType()


def function(
    body: types.CodeType,
    names: dict[str, Any],
    name: str,
    closure: tuple[types.CellType, ...] | None,
) -> types.FunctionType:
    """Return a function without its attributes."""
    return types.FunctionType(body, names, name, None, closure)


def fill_function(made: types.FunctionType, state: dict[str, Any]) -> None:
    """Give a function its attributes, and its closure the contents."""
    for place, contents in state.pop("cells"):
        (made.__closure__ or ())[place].cell_contents = contents
    made.__dict__.update(state.pop("dict"))
    for name, value in state.items():
        setattr(made, name, value)


def make_class(meta: type, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> type:
    """Return a class without its attributes; neither its metaclass nor its bases run code."""
    made: type = type.__new__(meta, name, bases, attributes)
    prepare_abstract(made)
    return made


def prepare_abstract(cls: type) -> None:
    """Give an abstract class its registers."""
    from abc import ABCMeta

    if isinstance(cls, ABCMeta):
        abstract_registers()._abc_init(cls)


def abstract_registers() -> Any:
    """Return the module behind `abc`, of which type checkers do not know."""
    return importlib.import_module("_abc")


def make_enum(
    meta: type, name: str, bases: tuple[type, ...], members: dict[str, Any], options: dict[str, Any]
) -> type:
    """Return an enumeration with its members, without the rest."""
    import enum

    attributes: Any = enum.EnumMeta.__prepare__(name, bases)
    for key, value in {**options.pop("attributes"), **members}.items():
        attributes[key] = value
    # Mypy takes the metaclass's constructor for that of a plain type.
    make: Any = enum.EnumMeta.__new__
    made: type = make(meta, name, bases, attributes, **options)
    return made


def type_variable(
    kind: Any, name: str, constraints: tuple[Any, ...], options: dict[str, Any]
) -> Any:
    """Return a type variable that a cell defined."""
    origin = options.pop("__module__")
    made = kind(name, *constraints, **options)
    made.__module__ = origin
    return made


def new_type(name: str, kind: Any, origin: str) -> Any:
    """Return a `typing.NewType` that a cell defined."""
    from typing import NewType

    make: Any = NewType
    made = make(name, kind)
    made.__module__ = origin
    return made


def cached(inner: Callable[..., Any], options: dict[str, Any], state: dict[str, Any]) -> Any:
    """Return a function behind `functools.lru_cache`, with nothing in the cache yet."""
    import functools

    made = functools.lru_cache(**options)(inner)
    made.__dict__.update(state)
    return made


def dict_view(mapping: dict[Any, Any], name: str) -> Any:
    """Return the keys, values or items of a dictionary, as a view of it."""
    return getattr(mapping, name)()


def whole_view(buffer: Any, is_readonly: bool) -> memoryview:
    """Return a memoryview of a buffer."""
    view = memoryview(buffer)
    return view.toreadonly() if is_readonly else view


def dead_reference() -> weakref.ref[Any]:
    """Return a weak reference whose target is gone."""

    class Gone:
        pass

    return weakref.ref(Gone())


def with_attributes(make: Callable[..., Any], args: Iterable[Any], state: Mapping[str, Any]) -> Any:
    """Return an object that is made by a call, with some of its attributes set."""
    made = make(*args)
    for name, value in state.items():
        setattr(made, name, value)
    return made


def bare(cls: type, state: Mapping[str, Any]) -> Any:
    """Return an object that has only its attributes: its constructor does not run."""
    made: Any = object.__new__(cls)
    made.__dict__.update(state)
    return made
