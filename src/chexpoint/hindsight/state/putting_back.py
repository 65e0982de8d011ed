"""Putting a stored state back into the live objects of a program."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from typing import Any

from chexpoint.errors import ChexError
from chexpoint.hindsight.state import randomness
from chexpoint.hindsight.state.contents import follow
from chexpoint.hindsight.state.leaves import StoredLeaf, contents_from, new_from
from chexpoint.hindsight.state.managed import Adapter, adapter_for
from chexpoint.hindsight.state.memory import View, make_view
from chexpoint.hindsight.state.merging import Merge
from chexpoint.hindsight.state.reach import Place
from chexpoint.hindsight.state.streams import CannotFollow, Ref, dump, load, sign_of
from chexpoint.hindsight.state.walking import Item, Walk, one_line

__all__ = ["BrokenState", "CannotPutBack", "StoredLeaf", "put_back"]


class CannotPutBack(ChexError):
    """A stored state does not fit the live objects; nothing was changed."""


class BrokenState(RuntimeError):
    """Putting a state back failed half-way, in an object's own code: it is of no use any more.

    Not a `ChexError`: nobody may go on from here.
    """


def put_back(
    roots: Mapping[str, object],
    stored: Mapping[str, StoredLeaf],
    beside: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Put stored leaves into live objects, in place; return the names that must be bound anew.

    Leaves that are not given are left as they are.  Names of modules' attributes and of closures
    are bound here.

    Parameters
    ----------
    beside
        What else is going to be read: it must not hold an object that another takes the place of.

    Raises
    ------
    CannotPutBack
        If something does not fit; nothing was changed then.
    BrokenState
        If an object raised an error when it was changed.
    """
    return _PuttingBack(roots, stored).run(beside or {})


class _PuttingBack:
    def __init__(self, roots: Mapping[str, object], stored: Mapping[str, StoredLeaf]) -> None:
        self.roots = roots
        self.live = Walk(roots)
        self.stored = stored
        self.streams: dict[str, StoredLeaf] = {}
        self.parts: dict[str, dict[str, StoredLeaf]] = {}
        """Of managed objects."""
        self.arrays: dict[str, StoredLeaf] = {}
        self.random: dict[str, StoredLeaf] = {}
        self.new: dict[str, Any] = {}
        """What items should hold, as new objects."""
        self.shells: dict[str, Any] = {}
        """The objects whose state is put back: live ones, or made for it."""
        self.views: dict[int, tuple[Any, View]] = {}
        self.kept: list[Any] = []
        self.known_parts: dict[int, dict[str, Any]] = {
            id(item.value): item.all_parts for item in self.live.managed.values()
        }
        self.written: dict[str, dict[str, Any]] = {}
        """Live arrays, by item and leaf."""
        self.finals: set[int] = {id(value) for value in self.live.managed_at.values()}
        self.finals.update(self.live.parts)

    def run(self, beside: Mapping[str, object]) -> dict[str, object]:
        self._sort()
        merge = self._plan()
        self._check_beside(beside, merge)
        bound = self._bindings(merge)
        try:
            return self._act(merge, bound)
        except Exception as error:
            raise BrokenState(
                f"a state was put back only in part: {one_line(error)}. Run the program anew."
            ) from error

    def _sort(self) -> None:
        for name, leaf in self.stored.items():
            owner = leaf.meta.get("of")
            if owner is None:
                self.random[name] = leaf
            elif "part" in leaf.meta:
                self.parts.setdefault(owner, {})[leaf.meta["part"]] = leaf
            elif leaf.kind == "array":
                self.arrays[name] = leaf
            else:
                self.streams[name] = leaf

    # ------------------------------------------------------------ before anything is changed

    def _plan(self) -> Merge:
        for name, leaf in sorted(self.streams.items(), key=lambda each: each[1].meta["order"]):
            if name not in self.new:
                self._load(name, leaf)
        for name, leaf in self.arrays.items():
            owner = leaf.meta["of"]
            if owner == name:
                self._content(name)
            elif owner not in self.new:
                self._reload(owner)
        for name, parts in self.parts.items():
            self._check_parts(name, parts)
        return self._paired()

    def _paired(self) -> Merge:
        # What belongs to an item that stays as it is may have been held by others until now.
        self.finals.update(
            key for key, (home, _) in self.live.homes.items() if home.name not in self.new
        )
        merge = Merge(lambda value: id(value) in self.finals, self.views, self.live.views)
        for value in self.new.values():
            merge.pin(value)
        for name, value in self.new.items():
            item = self.live.items.get(name)
            if name not in self.shells:
                merge.pair(self.roots.get(name), value)
            elif item is not None and item.state is not None:
                merge.pair(item.state, value)
            else:
                merge.pair(None, value)
        return merge

    def _load(self, name: str, leaf: StoredLeaf) -> None:
        kind = leaf.meta.get("class")
        if kind is not None:
            live = self.live.managed_at.get(name)
            if live is not None and _class_name(live) == kind:
                self.shells[name] = live
        try:
            self.new[name] = load(leaf.data, self._find)
        except CannotPutBack:
            raise
        except Exception as error:
            raise CannotPutBack(f"'{name}' cannot be read: {one_line(error)}") from error
        if kind is not None and name not in self.shells:
            self._make(name, kind, self.new[name])

    def _reload(self, owner: str) -> None:
        """Take the structure of a live object whose arrays alone have changed."""
        item = self.live.items.get(owner)
        if item is None:
            raise CannotPutBack(f"'{owner}' does not exist here")
        data, _ = self._dump(item)
        meta = {"of": owner, "order": item.order}
        if item.adapter is not None:
            meta["class"] = _class_name(item.value)
        self._load(owner, StoredLeaf(kind="stream", meta=meta, data=data))

    def _dump(self, item: Item) -> tuple[bytes, dict[str, Any]]:
        try:
            data, pickler = dump(self.live, item)
        except CannotFollow as reason:
            raise CannotPutBack(f"'{item.name}' cannot be changed: {reason}") from reason
        self.written[item.name] = pickler.leaves
        return data, pickler.leaves

    def _make(self, name: str, kind: str, state: Any) -> None:
        """Make a managed object that does not exist yet: as another one of its kind, or anew."""
        made = None
        for item in self.live.items.values():
            if item.adapter is not None and _class_name(item.value) == kind:
                made = self._another(item, name, state)
                break
        if made is None:
            raise CannotPutBack(
                f"'{name}' does not exist here yet, and nothing of its kind, {kind}, to copy"
            )
        self.shells[name] = made
        self.finals.add(id(made))

    def _another(self, item: Item, name: str, state: Any) -> Any:
        adapter = item.adapter
        if adapter is None:
            return None
        made = adapter.make(name, type(item.value), state)
        if made is not None:
            return made
        try:
            return copy.deepcopy(item.value)
        except Exception:
            return None

    def _check_parts(self, name: str, parts: dict[str, StoredLeaf]) -> None:
        shell = self.shells.get(name)
        if shell is None:
            shell = self.live.managed_at.get(name)
            if shell is None:
                raise CannotPutBack(f"'{name}' does not exist here")
            self.shells[name] = shell
        adapter = _adapter(shell)
        metas = {part: leaf.meta for part, leaf in parts.items()}
        why = adapter.misfit(shell, self._parts_of(shell), metas)
        if why:
            raise CannotPutBack(f"'{name}' is not what it was: {why}")

    def _check_beside(self, beside: Mapping[str, object], merge: Merge) -> None:
        left = merge.left_behind() if beside else []
        held = Walk(beside if left else {})
        for value in left:
            if id(value) in held.homes or id(value) in held.managed:
                kind = type(value).__name__
                raise CannotPutBack(f"a {kind} cannot be changed in place, and others hold it")

    # ------------------------------------------------------------ references

    def _find(self, ref: Ref) -> Any:
        kind, name = ref[0], ref[1]
        if kind == "view":
            made = make_view(ref[1], ref[2])
            self.views[id(made)] = ref[1], ref[2]
            self.kept.append(made)
            return made
        try:
            if kind == "leaf":
                return self._array(name)
            if kind == "live":
                return self._live(name, ref[2] if len(ref) > 2 else "")
            if kind == "in":
                return follow(self._content(name), ref[2])
            shell = self.shells[name] if name in self.shells else self.live.managed_at[name]
            if kind == "item":
                self.finals.add(id(shell))
                return shell
            part = self._parts_of(shell)[ref[2]]
        except (LookupError, AttributeError) as error:
            told = name if kind in ("item", "live", "leaf") else f"{name} {ref[2]}"
            raise CannotPutBack(f"'{told}' does not exist here") from error
        self.finals.add(id(part))
        return part

    def _live(self, name: str, sign: str) -> Any:
        found = self.live.live_at.get(name)
        if name in self.live.live_at and sign_of(found) == sign:
            return found
        # A function may have been at another place then.
        if sign:
            for each in self.live.live_at.values():
                if sign_of(each) == sign:
                    return each
        raise LookupError(name)

    def _parts_of(self, shell: Any) -> dict[str, Any]:
        found = self.known_parts.get(id(shell))
        if found is None:
            found = self.known_parts[id(shell)] = _adapter(shell).parts(shell)[1]
        return found

    def _content(self, name: str) -> Any:
        if name in self.streams and name not in self.new:
            # A view comes before what it is a view of.
            self._load(name, self.streams[name])
        if name in self.new:
            return self.new[name]
        if name in self.arrays and self.arrays[name].meta["of"] == name:
            self.new[name] = new_from(self.arrays[name])
            return self.new[name]
        item = self.live.items[name]
        self._keep_all(item.content)
        return item.content

    def _keep_all(self, value: Any) -> None:
        """What belongs to an item that is not put back is as it should be."""
        for key, (home, _) in self.live.homes.items():
            if home.content is value:
                self.finals.add(key)

    def _array(self, name: str) -> Any:
        leaf = self.arrays.get(name)
        if leaf is not None:
            return new_from(leaf)
        # It has not changed: the live one is as it should be.
        owner = name.rpartition(":")[0]
        if owner not in self.written:
            self._dump(self.live.items[owner])
        found = self.written[owner][name]
        self.finals.add(id(found))
        return found

    # ------------------------------------------------------------ changing

    def _bindings(self, merge: Merge) -> dict[str, Any]:
        """Return the names that do not stand for what they should."""
        bound: dict[str, Any] = {}
        for name, new in self.new.items():
            if name in self.shells:
                if self.live.managed_at.get(name) is not self.shells[name]:
                    bound[name] = self.shells[name]
            elif name not in self.roots or self.roots[name] is not merge.final(new):
                bound[name] = merge.final(new)
        # What is not a root is where its holder puts it.
        return {name: each for name, each in bound.items() if self._is_root(name)}

    def _is_root(self, name: str) -> bool:
        leaf = self.stored.get(name)
        return name in self.roots or (leaf is not None and bool(leaf.meta.get("root")))

    def _act(self, merge: Merge, bound: dict[str, Any]) -> dict[str, object]:
        merge.fill()
        for name, shell in self.shells.items():
            self._put(name, shell, merge)
        for name, leaf in self.random.items():
            randomness.set_process_state(name, leaf.data)
        places = {str(name): name for name in self.roots if isinstance(name, Place)}
        rest: dict[str, object] = {}
        for name, value in bound.items():
            module, _, attribute = name.partition(":")
            if name in places:
                places[name].bind(value)
            elif attribute and module in sys.modules:
                setattr(sys.modules[module], attribute, value)
            else:
                rest[name] = value
        return rest

    def _put(self, name: str, shell: Any, merge: Merge) -> None:
        adapter = _adapter(shell)
        if name in self.new:
            final = merge.final(self.new[name])
            state = dict(final)
        else:
            state = dict(adapter.parts(shell)[0])
        parts = {part: contents_from(leaf) for part, leaf in self.parts.get(name, {}).items()}
        adapter.put(shell, state, parts)


def _adapter(obj: Any) -> Adapter:
    adapter = adapter_for(type(obj))
    if adapter is None:
        raise LookupError(type(obj).__name__)
    return adapter


def _class_name(obj: Any) -> str:
    return f"{type(obj).__module__}.{type(obj).__qualname__}"
