"""Rules for what cells define: functions, closures, classes, enumerations, type variables.

Pickle would write their names only; here they go by value.  Their globals stay the live namespace.
"""

from __future__ import annotations

import _ctypes
import abc
import enum
import functools
import gc
import marshal
import operator
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image import live
from chexpoint.image.lost import Lost
from chexpoint.image.modules import is_importable
from chexpoint.image.source import OPAQUE, names_of_functions

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler

HEAP_TYPE = 1 << 9
"""The flag of types that can be made at run time."""

# Python makes these itself when the class is made, or its instances are pickled.
MADE_WITH_CLASS = {"__dict__", "__weakref__", "__abstractmethods__", "_abc_impl", "__slotnames__"}

MADE_WITH_ENUM = {
    "__new__",
    "_all_bits_",
    "_boundary_",
    "_flag_mask_",
    "_hashable_values_",
    "_inverted_",
    "_member_map_",
    "_member_names_",
    "_member_type_",
    "_new_member_",
    "_singles_mask_",
    "_unhashable_values_",
    "_unhashable_values_map_",
    "_use_args_",
    "_value2member_map_",
    "_value_repr_",
}

FUNCTION_ATTRIBUTES = (
    "__defaults__",
    "__kwdefaults__",
    "__doc__",
    "__module__",
    "__qualname__",
    "__annotations__",
    "__type_params__",
)


class Main:
    """Stands for the live namespace in a stream."""

    def __reduce__(self) -> tuple[Any, ...]:
        return live.main, ()


class ModuleGlobals:
    """Stands for the globals of a module in a stream."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __reduce__(self) -> tuple[Any, ...]:
        return live.module_globals, (self.name,)


MAIN = Main()


def reduce_code(pickler: ImagePickler, obj: types.CodeType) -> Any:
    """Write a code object; version 2 of marshal gives equal bytes for equal code."""
    pickler.world.sources.add(obj.co_filename)
    return live.code, (marshal.dumps(obj, 2),)


def reduce_function(pickler: ImagePickler, obj: types.FunctionType) -> Any:
    """Write a function by value if it cannot be imported.

    The cells of its closure are filled after it is made, because it may be in one of them.
    """
    if is_importable(obj):
        pickler.world.modules.add(obj.__module__)
        return NotImplemented
    closure = obj.__closure__
    contents = []
    for place, cell in enumerate(closure or ()):
        pickler.kept[id(cell)] = cell
        try:
            contents.append((place, cell.cell_contents))
        except ValueError:
            continue
    state: dict[str, Any] = {
        name: getattr(obj, name) for name in FUNCTION_ATTRIBUTES if hasattr(obj, name)
    }
    state |= {"cells": contents, "dict": obj.__dict__}
    args = (obj.__code__, _globals(pickler, obj.__globals__), obj.__name__, closure)
    return live.function, args, state, None, None, live.fill_function


def _globals(pickler: ImagePickler, names: dict[str, Any]) -> object:
    """Return what stands for the globals of a function."""
    if any(names is main for main in pickler.world.mains):
        return MAIN
    module = names.get("__name__")
    home = sys.modules.get(module) if isinstance(module, str) else None
    if home is not None and vars(home) is names and getattr(home, "__spec__", None) is not None:
        pickler.world.modules.add(home.__name__)
        return _kept(pickler, names, lambda: ModuleGlobals(home.__name__))
    return _kept(pickler, names, lambda: _own_globals(names))


def _own_globals(names: dict[str, Any]) -> dict[str, Any]:
    """Return the globals of functions without a module; of a copy of the namespace, what they use.

    attrs gives such a copy to the methods it writes: with it, they would hold every variable.
    """
    if names.get("__name__") != "__main__":
        return {name: value for name, value in names.items() if name != "__builtins__"}
    used = {"__name__"}
    for user in gc.get_referrers(names):
        if isinstance(user, types.FunctionType) and user.__globals__ is names:
            used.update(user.__code__.co_names, names_of_functions(user.__code__))
    is_whole = not OPAQUE.isdisjoint(used)
    return {
        name: value
        for name, value in names.items()
        if name != "__builtins__" and (is_whole or name in used)
    }


def _kept(pickler: ImagePickler, key: object, make: Callable[[], object]) -> object:
    """Return what stands for an object in this stream, the same one each time."""
    known = pickler.kept.get(id(key))
    if known is None:
        known = pickler.kept[id(key)] = make()
    return known


def reduce_cell(pickler: ImagePickler, obj: types.CellType) -> Any:
    """Write a cell of a closure, empty; its function knows the contents."""
    if id(obj) not in pickler.kept:
        raise Lost("a cell of a closure cannot be stored without its function")
    return live.cell, ()


def reduce_method(_: ImagePickler, obj: types.MethodType) -> Any:
    """Write a bound method as its function and its object."""
    if isinstance(obj.__func__, types.FunctionType):
        return types.MethodType, (obj.__func__, obj.__self__)
    return NotImplemented


def reduce_property(_: ImagePickler, obj: property) -> Any:
    """Write a property."""
    if type(obj) is not property:
        return NotImplemented
    return property, (obj.fget, obj.fset, obj.fdel, obj.__doc__)


def reduce_wrapper(_: ImagePickler, obj: Any) -> Any:
    """Write a class method or static method."""
    state = {k: v for k, v in vars(obj).items() if k not in functools.WRAPPER_ASSIGNMENTS}
    state.pop("__wrapped__", None)
    state.pop("__isabstractmethod__", None)
    if state or type(obj) not in {classmethod, staticmethod}:
        raise Lost("a decorated class method with attributes of its own cannot be stored")
    return type(obj), (obj.__func__,)


def reduce_mapping_proxy(_: ImagePickler, obj: Any) -> Any:
    """Write a read-only view of a dictionary."""
    return types.MappingProxyType, (gc.get_referents(obj)[0],)


def reduce_dict_view(_: ImagePickler, obj: Any) -> Any:
    """Write a view of a dictionary's keys, values or items."""
    return live.dict_view, (gc.get_referents(obj)[0], type(obj).__name__.removeprefix("dict_"))


def reduce_memoryview(_: ImagePickler, obj: memoryview) -> Any:
    """Write a view of all bytes of a bytes object."""
    whole = obj.obj
    is_whole = (obj.format, obj.ndim, obj.strides) == ("B", 1, (1,))
    if isinstance(whole, bytes | bytearray) and is_whole and obj.nbytes == len(whole):
        return live.whole_view, (whole, obj.readonly)
    raise Lost("a memoryview of foreign memory cannot be stored")


def reduce_cached(pickler: ImagePickler, obj: Any) -> Any:
    """Write a cached function that a cell defined, without what is cached."""
    if is_importable(obj):
        pickler.world.modules.add(obj.__module__)
        return NotImplemented
    state = {k: v for k, v in vars(obj).items() if k != "cache_parameters"}
    return live.cached, (obj.__wrapped__, obj.cache_parameters(), state)


def reduce_type_variable(_: ImagePickler, obj: Any) -> Any:
    """Write a type variable that a cell defined."""
    if obj.__module__ != "__main__":
        return NotImplemented
    names = {
        "bound": "__bound__",
        "covariant": "__covariant__",
        "contravariant": "__contravariant__",
    }
    options = {key: getattr(obj, name) for key, name in names.items() if getattr(obj, name, None)}
    options["__module__"] = obj.__module__
    return live.type_variable, (
        type(obj),
        obj.__name__,
        getattr(obj, "__constraints__", ()),
        options,
    )


def reduce_new_type(_: ImagePickler, obj: Any) -> Any:
    """Write a `typing.NewType` that a cell defined."""
    if obj.__module__ != "__main__":
        return NotImplemented
    return live.new_type, (obj.__name__, obj.__supertype__, obj.__module__)


_NAMED_TYPES = {getattr(types, name): name for name in types.__all__ if name.endswith("Type")}


def reduce_class(pickler: ImagePickler, cls: Any) -> Any:
    """Write a class: by name if it can be imported, else by value.

    By value it is made first, without attributes, because its methods may refer to it.
    """
    if cls in (type(None), type(NotImplemented), type(Ellipsis)):
        return NotImplemented
    if is_importable(cls):
        pickler.world.modules.add(cls.__module__)
        return NotImplemented
    if cls in _NAMED_TYPES:
        return live.attribute, ("types", _NAMED_TYPES[cls])
    if issubclass(cls, _ctypes.Array) and cls._type_ * cls._length_ is cls:
        return operator.mul, (cls._type_, cls._length_)
    if not cls.__flags__ & HEAP_TYPE:
        raise Lost(f"type {cls.__qualname__} cannot be imported")
    if issubclass(cls, enum.Enum):
        return _reduce_enum(cls)
    if any(getattr(value, "__objclass__", None) is cls for value in _compiled(cls)):
        raise Lost(f"class {cls.__qualname__} is compiled, and cannot be imported")
    if not _is_plain_metaclass(type(cls)):
        raise Lost(f"class {cls.__qualname__} is made by {type(cls).__name__}, which is not Python")
    given = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    given |= {key: vars(cls)[key] for key in ("__slots__", "__orig_bases__") if key in vars(cls)}
    slots = given.get("__slots__", ())
    if not isinstance(slots, str | tuple | list | dict):
        raise Lost(f"the slots of class {cls.__qualname__} cannot be read again")
    args = (type(cls), cls.__name__, cls.__bases__, given)
    return live.make_class, args, _class_state(cls, set(given)), None, None, live.fill_class


def _compiled(cls: type) -> list[object]:
    """Return the methods in a class that are not Python."""
    kinds = types.WrapperDescriptorType | types.MethodDescriptorType
    return [value for value in vars(cls).values() if isinstance(value, kinds)]


def _is_plain_metaclass(meta: type) -> bool:
    """Tell whether a metaclass makes classes as `type` does, apart from Python code of its own."""
    return all(
        base in {type, object, abc.ABCMeta} or base.__flags__ & HEAP_TYPE for base in meta.__mro__
    ) and not any(name in meta.__module__ for name in ("_ctypes", "pydantic", "sqlalchemy"))


def _class_state(cls: type, given: set[str]) -> dict[str, Any]:
    """Return the attributes of a class that have to be set after it is made."""
    state = {
        name: value
        for name, value in vars(cls).items()
        if name not in MADE_WITH_CLASS
        and name not in given
        and not (isinstance(value, types.MemberDescriptorType) and value.__objclass__ is cls)
        and not (isinstance(value, types.GetSetDescriptorType) and value.__objclass__ is cls)
    }
    registered = _registered(cls)
    return {**state, ":registered": registered} if registered else state


def _registered(cls: type) -> list[type]:
    """Return the classes that were registered as virtual subclasses of an abstract class."""
    if not isinstance(cls, abc.ABCMeta):
        return []
    found = [reference() for reference in live.abstract_registers()._get_dump(cls)[0]]
    return sorted((each for each in found if each is not None), key=lambda each: each.__qualname__)


def _reduce_enum(cls: Any) -> Any:
    """Write an enumeration with its members; no code of the user's runs when it is made again."""
    if cls._member_type_ is not object and any(map(_has_own_new, cls.__mro__)):
        raise Lost(f"the members of {cls.__qualname__} are made by its own __new__")
    members = {name: member._value_ for name, member in cls.__members__.items()}
    options: dict[str, Any] = {
        "attributes": {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    }
    if issubclass(cls, enum.Flag):
        options["boundary"] = cls._boundary_
    hidden = {"_value_", "_name_", "__objclass__", "_sort_order_"}
    extras = {
        name: {key: value for key, value in vars(member).items() if key not in hidden}
        for name, member in cls.__members__.items()
        if hasattr(member, "__dict__") and vars(member).keys() - hidden
    }
    skipped = {*members, *MADE_WITH_ENUM, *options["attributes"]}
    state = _class_state(cls, skipped)
    if extras:
        state[":members"] = extras
    args = (type(cls), cls.__name__, cls.__bases__, members, options)
    return live.make_enum, args, state, None, None, live.fill_class


def _has_own_new(cls: type) -> bool:
    """Tell whether an enumeration of the user's has a ``__new__`` for its members."""
    new = vars(cls).get("__new_member__")
    return cls.__module__ != "enum" and isinstance(new, staticmethod | types.FunctionType)


def reduce_member(_: ImagePickler, obj: Any) -> Any:
    """Write a member of an enumeration that a cell defined, by its name."""
    cls = type(obj)
    if is_importable(cls) or cls.__members__.get(obj._name_) is not obj:
        return NotImplemented
    return getattr, (cls, obj._name_)


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {
    types.CodeType: reduce_code,
    types.FunctionType: reduce_function,
    types.CellType: reduce_cell,
    types.MethodType: reduce_method,
    types.MappingProxyType: reduce_mapping_proxy,
    property: reduce_property,
    classmethod: reduce_wrapper,
    staticmethod: reduce_wrapper,
    type({}.keys()): reduce_dict_view,
    type({}.values()): reduce_dict_view,
    type({}.items()): reduce_dict_view,
    memoryview: reduce_memoryview,
    functools._lru_cache_wrapper: reduce_cached,
    typing.TypeVar: reduce_type_variable,
    typing.ParamSpec: reduce_type_variable,
    typing.TypeVarTuple: reduce_type_variable,
    typing.NewType: reduce_new_type,
}
