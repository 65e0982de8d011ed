"""Putting values into live objects, so that everybody who holds these sees them.

Two graphs are given, value by value: the live objects, and new ones as they should be.  A live
object takes the place of the new one at the same spot if it is of the same kind.  What the new
graph shares and where it goes in circles is kept.  Nothing is changed before `Merge.fill`.
"""

from __future__ import annotations

import enum
import functools
import operator
import types
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from chexpoint.hindsight.state.arrays import takes
from chexpoint.hindsight.state.contents import ATOMS, attributes_of, contents_of
from chexpoint.hindsight.state.leaves import torch_now
from chexpoint.hindsight.state.managed import adapter_for
from chexpoint.hindsight.state.memory import View, is_that_view, make_view
from chexpoint.hindsight.state.numpy_door import np
from chexpoint.hindsight.state.user_code import is_user_type
from chexpoint.hindsight.state.walking import is_live, is_tensor

# They cannot be filled: others are made of what their contents become.
_FROZEN = (tuple, frozenset, functools.partial, types.MethodType)
_MAPPINGS = (OrderedDict, defaultdict, Counter)


class Merge:
    """New values that are put into live ones.

    Parameters
    ----------
    is_final
        Whether an object in the new graph is a live one already.
    views
        Tensors and arrays of the new graph that are views, by id: in whose memory, and how.
    live_views
        Ids of live ones that are: to write into them is to write into another.
    """

    def __init__(
        self,
        is_final: Callable[[Any], bool],
        views: Mapping[int, tuple[Any, View]],
        live_views: Container[int] = (),
    ) -> None:
        self._live_views = live_views
        self._views = views
        self._is_final = is_final
        self._news: dict[int, Any] = {}
        """Mutable objects of the new graph, in the order of the visit."""
        self._place: dict[int, Any] = {}
        """For new objects: the live ones that take their places."""
        self._taken: set[int] = set()
        """Live objects that have taken one."""
        self._pinned: set[int] = set()
        """New objects that stay, because something that cannot be taken apart holds them."""
        self._rebuilt: dict[int, Any] = {}
        self._beside: dict[int, Any] = {}
        """Live objects at the places of new views, and of what cannot be filled."""
        self._left: dict[int, Any] = {}
        """Live objects at whose places there will be others of their kind."""

    def pin(self, new: Any) -> None:
        """Find what has to stay as it is, in a new graph; before any pairing."""
        seen: set[int] = set()
        stack = [(new, False)]
        while stack:
            value, is_held = stack.pop()
            if type(value) in ATOMS or self._is_final(value) or is_live(value):
                continue
            if id(value) in (self._pinned if is_held else seen):
                continue
            seen.add(id(value))
            held = is_held or _kind(value) == "whole"
            if held:
                self._pinned.add(id(value))
            stack.extend((child, held) for child in _children(value))

    def pair(self, live: Any, new: Any) -> None:
        """Find the live objects that can take the places of new ones."""
        stack = [(live, new)]
        while stack:
            here, value = stack.pop()
            if type(value) in ATOMS or self._is_final(value) or is_live(value):
                continue
            key = id(value)
            if type(value) in _FROZEN:
                if key not in self._news:
                    self._news[key] = value
                    self._beside[key] = here
                    stack.extend(reversed(list(_pairs(here, value))))
                continue
            if key in self._news:
                continue
            self._news[key] = value
            if key in self._views:
                self._beside[key] = here
                stack.append((None, self._views[key][0]))
                continue
            if type(here) is type(value):
                self._left[id(here)] = here
            if key in self._pinned:
                continue
            if self._can_take(here, value):
                self._place[key] = here
                self._taken.add(id(here))
                stack.extend(reversed(list(_pairs(here, value))))
            else:
                stack.extend((None, child) for child in reversed(list(_children(value))))

    def _can_take(self, here: Any, value: Any) -> bool:
        key = id(here)
        if key in self._taken or key in self._live_views or self._is_final(here):
            return False
        return _fits(here, value)

    def final(self, new: Any) -> Any:
        """Return what a new object will be: a live one, or itself."""
        if type(new) in ATOMS:
            return new
        key = id(new)
        if key in self._place:
            return self._place[key]
        if key in self._views:
            return self._view(key, new)
        if type(new) in _FROZEN and key in self._news and key not in self._pinned:
            if key not in self._rebuilt:
                # No circle leads back here but through something mutable.
                made = [self.final(each) for each in _held(new)]
                self._rebuilt[key] = _same(made, self._beside.get(key), new) or _made(new, made)
            return self._rebuilt[key]
        return new

    def _view(self, key: int, new: Any) -> Any:
        holder, view = self._views[key]
        if key not in self._rebuilt:
            held = self.final(holder)
            here = self._beside.get(key)
            if here is not None and is_that_view(here, held, view):
                self._rebuilt[key] = here
            else:
                self._rebuilt[key] = new if held is holder else make_view(held, view)
        return self._rebuilt[key]

    def left_behind(self) -> list[Any]:
        """Return live objects that others take the places of: who holds one will not see them."""
        return [each for key, each in self._left.items() if key not in self._taken]

    def fill(self) -> None:
        """Put all contents in place."""
        for key, new in self._news.items():
            if key not in self._pinned and key not in self._views and type(new) not in _FROZEN:
                _fill(self._place.get(key, new), new, self.final)


def _held(value: Any) -> list[Any]:
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    return list(value)


def _same(made: list[Any], *candidates: Any) -> Any:
    """Return an object that holds exactly this already; None if there is none."""
    for each in candidates:
        if type(each) in _FROZEN and type(each) is type(candidates[-1]):
            held = _held(each)
            if len(held) == len(made) and all(map(operator.is_, held, made)) and held:
                return each
    return None


def _made(like: Any, held: list[Any]) -> Any:
    if isinstance(like, functools.partial):
        return functools.partial(held[0], *held[1], **held[2])
    if isinstance(like, types.MethodType):
        return types.MethodType(*held)
    return type(like)(held)


def _kind(value: Any) -> str:
    """Return how an object is filled: ``whole`` if it is not."""
    kind = type(value)
    if kind in (list, dict, set, deque, bytearray) or kind in _FROZEN or kind in _MAPPINGS:
        return kind.__name__
    if kind is np.ndarray:
        return "array" if not value.dtype.hasobject else "whole"
    if is_tensor(value):
        return "tensor"
    if isinstance(value, enum.Enum):
        return "whole"  # there is one of each: another takes its place, not its contents
    if _solid_base(kind) in (object, list, dict, set, deque) and (
        is_user_type(kind) or adapter_for(kind) is not None or _is_its_attributes(kind)
    ):
        return "object"
    return "whole"


def _is_its_attributes(kind: Any) -> bool:
    """Return whether the attributes of a library's object are all there is to it."""
    names = ("__reduce__", "__reduce_ex__", "__getstate__")
    return not hasattr(kind, "__setstate__") and all(
        getattr(kind, name) is getattr(object, name) for name in names
    )


def _solid_base(kind: type) -> type:
    """Return the first base that is not written in Python."""
    return next(base for base in kind.__mro__ if not base.__flags__ & (1 << 9))


def _children(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        yield from dict.keys(value)
    if isinstance(value, (set, frozenset)):
        yield from value
    yield from (child for _, child in contents_of(value))


def _pairs(here: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield what the same step leads to in two objects; None where one has no such step."""
    known = dict(contents_of(here)) if type(here) is type(value) else {}
    if isinstance(value, dict):
        yield from ((None, key) for key in dict.keys(value) if type(key) not in ATOMS)
    if isinstance(value, (set, frozenset)):
        yield from ((None, each) for each in value if type(each) not in ATOMS)
    for step, child in contents_of(value):
        yield known.get(step), child


def _fits(here: Any, value: Any) -> bool:
    """Return whether a live object can take the contents of a new one."""
    if type(here) is not type(value) or here is value:
        return False
    kind = _kind(value)
    if kind == "array":
        return takes(here, value)
    if kind == "tensor":
        return (
            here.shape == value.shape
            and here.dtype == value.dtype
            and here.device == value.device
            and here.stride() == value.stride()
            and here.grad_fn is None
            and not here.is_inference()
        )
    return kind != "whole"


def _fill(target: Any, new: Any, final: Callable[[Any], Any]) -> None:
    kind = _kind(new)
    if kind == "tensor":
        if target is not new:
            _fill_tensor(target, new)
    elif kind == "array":
        if target is not new:
            np.copyto(target, new)
    elif kind == "bytearray":
        target[:] = bytes(new)
    else:
        _fill_container(target, new, final)
        if kind == "object":
            _fill_attributes(target, new, final)


def _fill_tensor(target: Any, new: Any) -> None:
    with torch_now().no_grad():
        target.copy_(new)
    target.requires_grad_(new.requires_grad)
    target.grad = None


def _fill_container(target: Any, new: Any, final: Callable[[Any], Any]) -> None:
    if type(new) in _MAPPINGS:
        made = {final(key): final(each) for key, each in new.items()}
        target.clear()
        target.update(made)
        if isinstance(new, defaultdict):
            target.default_factory = final(new.default_factory)
    elif isinstance(new, list):
        list.__setitem__(target, slice(None), [final(each) for each in list.__iter__(new)])
    elif isinstance(new, dict):
        made = {final(key): final(each) for key, each in dict.items(new)}
        dict.clear(target)
        dict.update(target, made)
    elif isinstance(new, set):
        each_final = [final(each) for each in set.__iter__(new)]
        set.clear(target)
        set.update(target, each_final)
    elif isinstance(new, deque):
        each_final = [final(each) for each in deque.__iter__(new)]
        if target.maxlen != new.maxlen:
            return
        deque.clear(target)
        deque.extend(target, each_final)


def _fill_attributes(target: Any, new: Any, final: Callable[[Any], Any]) -> None:
    made = {name: final(each) for name, each in attributes_of(new).items()}
    try:
        own = object.__getattribute__(target, "__dict__")
    except AttributeError:
        own = None
    slots = {
        name: slot
        for base in type(target).__mro__
        if "__slots__" in vars(base)
        for name, slot in vars(base).items()
        if isinstance(slot, types.MemberDescriptorType)
    }
    if own is not None:
        own.clear()
        own.update({name: each for name, each in made.items() if name not in slots})
    for name, slot in slots.items():
        if name in made:
            slot.__set__(target, made[name])
        elif target is not new:
            try:
                slot.__delete__(target)
            except AttributeError:
                continue
