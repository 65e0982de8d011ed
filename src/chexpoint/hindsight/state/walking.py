"""A walk over all that a program's variables hold: who is where, and what is shared.

Each root is an `Item`, and so is each managed object wherever it is.  Every other mutable object
belongs to the item in which the walk met it first; others refer to it there.
"""

from __future__ import annotations

import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chexpoint.hindsight.state.arrays import is_storable
from chexpoint.hindsight.state.contents import ATOMS, Steps, contents_of, text_of
from chexpoint.hindsight.state.leaves import torch_now
from chexpoint.hindsight.state.managed import Adapter, Parts, State, adapter_for
from chexpoint.hindsight.state.memory import views_among
from chexpoint.hindsight.state.numpy_door import np
from chexpoint.hindsight.state.reach import Passing
from chexpoint.hindsight.state.sinks import is_sink

MAX_OBJECTS = 50_000
"""A walk ends after so many objects: what is further inside is pickled as it is."""
MAX_DEPTH = 500
"""And at this depth, where pickle is near its end, too."""

FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.ModuleType,
    type,
    types.MethodWrapperType,
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    property,
    staticmethod,
    classmethod,
)


@dataclass(slots=True, eq=False)
class Item:
    """A root, or a managed object anywhere."""

    name: str
    value: Any
    order: int
    adapter: Adapter | None = None
    state: State | None = None
    """The plain state of a managed object."""
    parts: Parts = field(default_factory=dict)
    """The leaves of a managed object, without those that are another's."""
    all_parts: Parts = field(default_factory=dict)
    is_root: bool = False
    shares: bool = False
    """Whether it holds objects that belong to another item."""

    @property
    def content(self) -> Any:
        """Return what is pickled of it."""
        return self.value if self.adapter is None else self.state


class Walk:
    """What the roots of a program hold."""

    def __init__(self, roots: Mapping[str, object]) -> None:
        self.items: dict[str, Item] = {}
        self.homes: dict[int, tuple[Item, Steps]] = {}
        """Of each mutable object: the item it belongs to, and the way to it there."""
        self.managed: dict[int, Item] = {}
        self.parts: dict[int, tuple[Item, str]] = {}
        """By tensor or array."""
        self.views: dict[int, Any] = {}
        """Of tensors and arrays that are views: whose memory they are in."""
        self.live: dict[int, str] = {}
        """Objects that are never stored, but found again at the same place."""
        self.live_at: dict[str, Any] = {}
        self.managed_at: dict[str, Any] = {}
        self.unseen: dict[str, str] = {}
        self._count = 0
        self._arrays: list[Any] = []
        self._walk(roots)
        self._name_parts()

    def _walk(self, roots: Mapping[str, object]) -> None:
        names = sorted(name for name in roots if not is_sink(roots[name]))
        # What stays is met first, so that it is found again whatever the loop's variables hold.
        self._walk_from([name for name in names if not isinstance(name, Passing)], roots)
        self._walk_from([name for name in names if isinstance(name, Passing)], roots)

    def _walk_from(self, names: list[str], roots: Mapping[str, object]) -> None:
        # What a name stands for directly is called by it, wherever else it is.
        pending = []
        for name in names:
            value = roots[name]
            adapter = None if type(value) in ATOMS else adapter_for(type(value))
            if adapter is not None and id(value) not in self.managed:
                pending.append(self._manage(name, value, adapter))
            else:
                pending.append(self._add(name, value))
        for item in pending:
            item.is_root = True
            if is_array(item.value) and id(item.value) not in self.homes:
                self.homes[id(item.value)] = item, ()
                self._arrays.append(item.value)
        for item in pending:
            try:
                self._explore(item)
            except Exception as error:
                # Whatever an object of the user's raises when it is looked at.
                self.unseen[item.name] = f"it cannot be looked into: {one_line(error)}"

    def _add(self, name: str, value: Any) -> Item:
        name = str(name)  # a place's name can do more, which must not get into a stream
        item = Item(name, value, len(self.items))
        self.items[name] = item
        return item

    def _manage(self, name: str, value: Any, adapter: Adapter) -> Item:
        item = self._add(name, value)
        item.adapter = adapter
        self.managed[id(value)] = item
        self.managed_at[name] = value
        reason = adapter.unseen(value)
        try:
            item.state, item.all_parts = adapter.parts(value)
        except Exception as error:
            reason = f"its state cannot be read: {one_line(error)}"
            item.state = {}
        if reason:
            self.unseen[name] = reason
        return item

    # ------------------------------------------------------------ inside an item

    def _explore(self, item: Item) -> None:
        """Visit all that an item holds, managed objects in it included, in the order of paths."""
        stack: list[tuple[Item, str, Steps, Any]] = []
        if item.adapter is None:
            self._meet(item, item.name, (), item.value, stack)
        else:
            self._enter_state(item, stack)
        while stack:
            owner, name, steps, value = stack.pop()
            found: list[tuple[Item, str, Steps, Any]] = []
            for step, child in contents_of(value):
                if type(child) in ATOMS:
                    continue
                if self._count > MAX_OBJECTS:
                    break
                self._meet(owner, name + text_of(step), (*steps, step), child, found)
            stack.extend(reversed(found))

    def _enter_state(self, item: Item, stack: list[tuple[Item, str, Steps, Any]]) -> None:
        for key, value in reversed((item.state or {}).items()):
            if key.startswith("@"):
                # The adapter's own: nobody else holds any of it.
                continue
            self._meet(item, f"{item.name}.{key}", (("[", key),), value, stack)

    def _meet(
        self,
        owner: Item,
        name: str,
        steps: Steps,
        value: Any,
        stack: list[tuple[Item, str, Steps, Any]],
    ) -> None:
        kind = type(value)
        if kind in ATOMS:
            return
        if id(value) in self.managed:
            self.managed_at.setdefault(name, value)
        elif is_live(value):
            self.live.setdefault(id(value), name)
            self.live_at[name] = value
        elif id(value) in self.homes:
            owner.shares = owner.shares or self.homes[id(value)][0] is not owner
        else:
            self._meet_first(owner, name, steps, value, stack)

    def _meet_first(
        self,
        owner: Item,
        name: str,
        steps: Steps,
        value: Any,
        stack: list[tuple[Item, str, Steps, Any]],
    ) -> None:
        kind = type(value)
        adapter = adapter_for(kind)
        is_held = owner.adapter is adapter and adapter is not None and not adapter.is_apart
        if adapter is not None and name not in self.items and not is_held:
            item = self._manage(name, value, adapter)
            self._enter_state(item, stack)
            return
        self._count += 1
        if self._count > MAX_OBJECTS or len(steps) > MAX_DEPTH:
            return
        if is_array(value):
            self._arrays.append(value)
            self.homes[id(value)] = owner, steps
            return
        if kind is not tuple and kind is not frozenset:
            self.homes[id(value)] = owner, steps
            if not is_importable(kind):
                self.live.setdefault(id(kind), f"{name}.__class__")
                self.live_at[f"{name}.__class__"] = kind
        stack.append((owner, name, steps, value))

    # ------------------------------------------------------------ parts

    def _name_parts(self) -> None:
        managed = [item for item in self.items.values() if item.adapter is not None]
        managed.sort(key=lambda item: (item.adapter.rank if item.adapter else 0, item.order))
        for item in managed:
            for part, value in item.all_parts.items():
                if id(value) in self.parts:
                    continue
                self.parts[id(value)] = item, part
                item.parts[part] = value
        met = [value for value in self._arrays if id(value) not in self.parts]
        if met:
            parts = [value for item in managed for value in item.parts.values()]
            self.views = views_among(
                [(value, True) for value in parts] + [(value, False) for value in met]
            )


def is_tensor(value: Any) -> bool:
    """Return whether a value is a tensor with memory of its own kind: strided, not abstract."""
    kind = type(value)
    if kind.__module__ not in ("torch", "torch.nn.parameter"):
        return False
    torch = torch_now()
    return (
        torch is not None
        and (kind is torch.Tensor or kind is torch.nn.Parameter or kind is torch.nn.Buffer)
        and value.layout is torch.strided
        and (value.is_cpu or value.device.type != "meta")
        and not value.is_quantized
    )


def is_array(value: Any) -> bool:
    """Return whether a value is a tensor or an array whose memory can be a leaf."""
    if type(value) is np.ndarray:
        return is_storable(value)
    return is_tensor(value)


def is_live(value: Any) -> bool:
    """Return whether an object is never stored: code, locks, and what only takes."""
    kind = type(value)
    if isinstance(value, FUNCTIONS):
        return True
    if kind.__module__ in ("_thread", "threading", "multiprocessing.synchronize"):
        return kind.__name__ in ("lock", "RLock", "Lock", "Condition", "Event", "_RLock")
    return is_sink(value)


def is_importable(kind: Any) -> bool:
    """Return whether pickle finds a class or function by its name."""
    found: Any = sys.modules.get(getattr(kind, "__module__", None) or "")
    for name in getattr(kind, "__qualname__", "?").split("."):
        found = getattr(found, name, None)
    return found is kind


def one_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    text = str(error).strip().splitlines()
    return text[0] if text else type(error).__name__
