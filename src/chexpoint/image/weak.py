"""Rules for weak references.

The target is written too; when the stream is loaded, something else in it must hold the target.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image import live
from chexpoint.image.lost import Lost

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler


def reduce_reference(pickler: ImagePickler, obj: Any) -> Any:
    """Write a weak reference."""
    kind: Any = type(obj)
    if kind is not weakref.ReferenceType:
        raise Lost(f"a {kind.__name__} cannot be stored")
    target = obj()
    if target is None:
        return live.dead_reference, ()
    if obj.__callback__ is not None:
        raise Lost("a weak reference with a callback cannot be stored")
    pickler.weak_count += 1
    return live.weak, (target,)


def reduce_weak_dictionary(pickler: ImagePickler, obj: Any) -> Any:
    """Write a weak dictionary as its items."""
    pickler.weak_count += 1
    return live.weak_container, (type(obj), list(obj.items()))


def reduce_weak_set(pickler: ImagePickler, obj: Any) -> Any:
    """Write a weak set as its elements."""
    pickler.weak_count += 1
    return live.weak_container, (type(obj), list(obj))


def refuse_proxy(_: ImagePickler, obj: Any) -> Any:
    """Refuse a proxy: pickle would write its target in its place."""
    raise Lost("a weak proxy cannot be stored")


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = {
    weakref.ReferenceType: reduce_reference,
    weakref.WeakKeyDictionary: reduce_weak_dictionary,
    weakref.WeakValueDictionary: reduce_weak_dictionary,
    weakref.WeakSet: reduce_weak_set,
    weakref.ProxyType: refuse_proxy,
    weakref.CallableProxyType: refuse_proxy,
}
