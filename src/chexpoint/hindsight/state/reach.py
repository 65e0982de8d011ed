"""What the code of a loop can reach: from the names in its text, through the user's own code."""

from __future__ import annotations

import enum
import functools
import itertools
import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chexpoint.hindsight.state.contents import ATOMS, attributes_of, contents_of
from chexpoint.hindsight.state.sinks import is_sink
from chexpoint.hindsight.state.user_code import is_user_file, is_user_module, is_user_type

MAX_LOOKED_AT = 20_000
"""Objects that are searched for the user's code, and no more."""

MAX_OF_ONE = 1_000
"""And of one container so many: what it holds is mostly of one kind."""


class Place(str):
    """The name of a root that is no variable of the loop; it can be bound."""

    __slots__ = ("_bind",)
    _bind: Callable[[Any], None]

    @classmethod
    def at(cls, name: str, bind: Callable[[Any], None]) -> Place:
        """Return a name with the way to bind it."""
        made = cls(name)
        made._bind = bind
        return made

    def bind(self, value: Any) -> None:
        """Let the place hold a value."""
        self._bind(value)


class Passing(str):
    """The name of a variable that the loop binds, such as ``layer`` in ``for layer in layers``.

    The layer belongs to ``layers``, and is to be found there.
    """

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Reached:
    """What a loop can reach."""

    roots: dict[str, object]
    """By name: a variable; ``module:attribute``; ``function~variable`` for a closure."""


def reach(names: Iterable[str], scope: Mapping[str, object]) -> Reached:
    """Return all objects that code with these names can reach, by name.

    Modules, functions, classes and what only takes (loggers) are not among them, but what the
    user's own functions and classes mention is.

    Parameters
    ----------
    names
        Those that the text of the loop mentions.
    scope
        What names stand for where the loop is.
    """
    return Reached(_Search(scope).run(names))


class _Search:
    def __init__(self, scope: Mapping[str, object]) -> None:
        self._scope = scope
        self._roots: dict[str, object] = {}
        self._seen: dict[int, object] = {}
        self._pending: list[Any] = []
        self._codes: set[tuple[int, int]] = set()

    def run(self, names: Iterable[str]) -> dict[str, object]:
        for name in dict.fromkeys(names):
            if name in self._scope:
                self._add(name, self._scope[name])
        looked_at = 0
        while self._pending and looked_at < MAX_LOOKED_AT:
            looked_at += 1
            try:
                self._look_into(self._pending.pop())
            except Exception:  # noqa: S112 - an object of the user's that cannot be looked at
                continue
        return self._roots

    def _add(self, name: str, value: object) -> None:
        if (_is_root(value) or _is_choice(name, value)) and name not in self._roots:
            self._roots[name] = value
        self._push(value)

    def _push(self, value: object) -> None:
        if type(value) not in ATOMS and id(value) not in self._seen:
            self._seen[id(value)] = value
            self._pending.append(value)

    def _look_into(self, value: Any) -> None:
        if isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._push(value.__func__)
            self._push(value.__self__)
        elif isinstance(value, type):
            self._class(value)
        elif isinstance(value, (staticmethod, classmethod)):
            self._push(value.__func__)
        elif isinstance(value, property):
            for each in (value.fget, value.fset, value.fdel):
                self._push(each)
        elif isinstance(value, types.ModuleType) or is_sink(value):
            return
        else:
            self._push(attributes_of(value).get("__wrapped__"))
            self._push(type(value))
            for _, child in itertools.islice(contents_of(value), MAX_OF_ONE):
                self._push(child)

    def _class(self, kind: type) -> None:
        for base in kind.__mro__:
            if not is_user_type(base) or issubclass(base, enum.Enum):
                continue
            for name, each in list(vars(base).items()):
                if isinstance(each, (*_CODE, functools.cached_property)):
                    self._push(each)
                elif not name.startswith(_NOT_STATE) and not _is_descriptor(each):
                    self._class_attribute(base, name, each)

    def _class_attribute(self, kind: type, name: str, value: Any) -> None:
        key = f"{kind.__module__}:{kind.__qualname__}.{name}"
        self._place(key, value, lambda new: setattr(kind, name, new))

    def _function(self, function: types.FunctionType) -> None:
        wrapped = function.__dict__.get("__wrapped__")
        if wrapped is not None:
            self._push(wrapped)
        if not _is_users(function):
            # A library's wrapper may still hold the user's function.
            for cell in function.__closure__ or ():
                self._push_callable(_cell_value(cell))
            return
        for cell, name in zip(
            function.__closure__ or (), function.__code__.co_freevars, strict=True
        ):
            value = _cell_value(cell)
            if value is not _EMPTY:
                key = f"{function.__qualname__}~{name}"
                self._place(key, value, functools.partial(_set_cell, cell))
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._push(default)
        self._default_values(function)
        for name, value in list(function.__dict__.items()):
            if name != "__wrapped__":
                key = f"{function.__qualname__}~.{name}"
                self._place(key, value, functools.partial(setattr, function, name))
        for code in _codes(function.__code__):
            self._names_of(function, code)

    def _default_values(self, function: types.FunctionType) -> None:
        named = enumerate(function.__defaults__ or ())
        for number, value in named:
            if _is_mutable(value):
                key = f"{function.__qualname__}~default.{number}"
                self._place(key, value, functools.partial(_set_default, function, number))
        held = function.__kwdefaults__ or {}
        for name, value in held.items():
            if _is_mutable(value):
                key = f"{function.__qualname__}~default.{name}"
                self._place(key, value, functools.partial(held.__setitem__, name))

    def _names_of(self, function: types.FunctionType, code: types.CodeType) -> None:
        found = function.__globals__
        module = str(found.get("__name__", "__main__"))
        for name in code.co_names:
            if name not in found:
                continue
            value = found[name]
            if isinstance(value, types.ModuleType):
                self._module(value, code)
            elif self._scope.get(name) is value:
                self._add(name, value)
            else:
                self._place(f"{module}:{name}", value, functools.partial(found.__setitem__, name))

    def _module(self, module: types.ModuleType, code: types.CodeType) -> None:
        if not is_user_module(module.__name__):
            return
        for name in code.co_names:
            if name in vars(module):
                value = vars(module)[name]
                if self._scope.get(name) is not value:
                    bind = functools.partial(setattr, module, name)
                    self._place(f"{module.__name__}:{name}", value, bind)

    def _place(self, key: str, value: Any, bind: Callable[[Any], None]) -> None:
        if "~" in key and key in self._roots:
            # Another function of the same text; each is looked into once.
            key = f"{key}#{next(n for n in itertools.count(1) if f'{key}#{n}' not in self._roots)}"
        if _is_root(value) and key not in self._roots:
            self._roots[Place.at(key, bind)] = value
        self._push(value)

    def _push_callable(self, value: Any) -> None:
        if callable(value):
            self._push(value)


# Made by Python and its library, which may not be stored.
_NOT_STATE = ("__", "_abc_")
_CODE = (types.FunctionType, staticmethod, classmethod, property)
_NO_ROOTS = (types.ModuleType, types.BuiltinFunctionType, type, *_CODE)
_EMPTY = object()


def _is_root(value: object) -> bool:
    # By its type, not with `isinstance`: that asks the object, and a proxy may raise.
    return not issubclass(type(value), _NO_ROOTS) and not is_sink(value)


def _is_choice(name: str, value: object) -> bool:
    """Return whether a variable stands for a function or class that has another name."""
    return type(value) in (types.FunctionType, type) and getattr(value, "__name__", name) != name


def _is_mutable(value: object) -> bool:
    kind = type(value)
    # Of a dataclass, what stands for a value that is made anew each time.
    is_sign = kind.__module__ == "dataclasses"
    return _is_root(value) and kind not in ATOMS and kind is not tuple and not is_sign


def _is_descriptor(value: object) -> bool:
    """Return whether a value of a class stands for a value of its objects."""
    return hasattr(type(value), "__get__") or type(value).__module__ == "dataclasses"


def _is_users(function: types.FunctionType) -> bool:
    module = function.__globals__.get("__name__")
    if module == "__main__":
        return True
    return is_user_file(function.__code__.co_filename)


def _cell_value(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return _EMPTY


def _set_cell(cell: Any, value: Any) -> None:
    cell.cell_contents = value


def _set_default(function: Any, number: int, value: Any) -> None:
    held = list(function.__defaults__)
    held[number] = value
    function.__defaults__ = tuple(held)


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    """Yield a function's code and those of the functions in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes(constant)
