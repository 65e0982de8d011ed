"""Surveys: what the state of a program is at one moment, without a copy of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import xxhash

from chexpoint.hindsight.state import randomness
from chexpoint.hindsight.state.arrays import ArraySource, array_mark, array_meta
from chexpoint.hindsight.state.digests import canonical_digest
from chexpoint.hindsight.state.leaves import (
    Leaf,
    StreamSource,
    TensorSource,
    tensor_mark,
    tensor_meta,
    unique_mark,
)
from chexpoint.hindsight.state.streams import (
    MAX_STREAM,
    CannotFollow,
    StatePickler,
    TooLong,
    dump,
)
from chexpoint.hindsight.state.walking import Item, Walk, is_array, is_tensor, one_line

__all__ = ["Leaf", "Survey", "take_survey"]


@dataclass(frozen=True, slots=True)
class Survey:
    """The state of a program at one moment."""

    leaves: Mapping[str, Leaf]
    unseen: Mapping[str, str]
    """Why the state of some objects cannot be followed, in one sentence each."""

    def changed_since(self, other: Survey) -> set[str]:
        """Return the leaves that have changed since another survey, or are new."""
        return {
            name
            for name, leaf in self.leaves.items()
            if name not in other.leaves or other.leaves[name].mark != leaf.mark
        }


def take_survey(roots: Mapping[str, object], *, effort_bytes: int | None = None) -> Survey:
    """Look at all that some variables hold; nothing is changed, and no error is raised.

    Parameters
    ----------
    roots
        Objects by name, from `reach`.
    effort_bytes
        About how much to read for marks; of leaves beyond it one cannot tell whether they change.
    """
    walk = Walk(roots)
    effort = _Effort(effort_bytes)
    leaves: dict[str, Leaf] = {}
    unseen = dict(walk.unseen)
    for item in walk.items.values():
        try:
            for leaf in item_leaves(walk, item, effort):
                if leaf.name in leaves:
                    unseen[leaf.name] = "two parts of the state have this name"
                leaves[leaf.name] = leaf
        except CannotFollow as reason:
            unseen.setdefault(item.name, str(reason))
        except Exception as error:
            # Whatever an object of the user's raises when it is looked at.
            unseen.setdefault(item.name, f"its state cannot be read: {one_line(error)}")
    for name, data in randomness.process_states():
        leaves[name] = _data_leaf(name, data)
    return Survey(leaves, unseen)


class _Effort:
    """How many bytes may still be read."""

    def __init__(self, limit: int | None) -> None:
        self.left = limit

    def allows(self, nbytes: int) -> bool:
        if self.left is None:
            return True
        self.left -= nbytes
        return self.left >= 0


def item_leaves(walk: Walk, item: Item, effort: _Effort) -> Iterator[Leaf]:
    """Yield the leaves of an item: its stream last, because it says what others there are."""
    if item.adapter is None and is_leaf_by_itself(walk, item):
        yield array_leaf(item.name, item.value, _about(item), effort)
        return
    for part, value in item.parts.items():
        name = f"{item.name}:{part}"
        yield array_leaf(name, value, {"of": item.name, "part": part}, effort)
    meta = _about(item)
    limit = MAX_STREAM if effort.left is None else max(0, min(MAX_STREAM, effort.left))
    try:
        data, pickler = dump(walk, item, limit)
    except TooLong:
        effort.allows(limit)
        if item.adapter is not None and item.adapter.is_data:
            return
        if effort.left is None:
            yield from _long_stream(walk, item, meta, effort)
        else:
            yield _unread_stream(walk, item, meta, limit)
        return
    effort.allows(len(data))
    for name, value in pickler.leaves.items():
        yield array_leaf(name, value, {"of": item.name}, effort)
    yield Leaf(
        name=item.name,
        kind="stream",
        mark=xxhash.xxh3_128_intdigest(data),
        nbytes=len(data),
        meta=meta,
        source=StreamSource(lambda: data, _digest_of(item, pickler)),
    )


def _about(item: Item) -> dict[str, Any]:
    about: dict[str, Any] = {"of": item.name, "order": item.order, "root": item.is_root}
    if item.adapter is not None:
        kind = type(item.value)
        about["class"] = f"{kind.__module__}.{kind.__qualname__}"
    return about


def is_leaf_by_itself(walk: Walk, item: Item) -> bool:
    """Return whether a root is a tensor or an array that belongs to nobody else."""
    value = item.value
    if id(value) in walk.parts or id(value) in walk.views or not is_array(value):
        return False
    return walk.homes[id(value)][0] is item


def array_leaf(name: str, value: Any, meta: dict[str, Any], effort: _Effort) -> Leaf:
    """Return the leaf of a tensor or an array."""
    if is_tensor(value):
        about = tensor_meta(value) | meta
        mark = tensor_mark(value)
        return Leaf(
            name=name,
            kind="array",
            # Of a part, its holder knows whether it is trained.
            mark=mark if "part" in meta else (*mark, about.get("requires_grad")),
            nbytes=value.numel() * value.element_size(),
            meta=about,
            source=TensorSource(value),
        )
    nbytes = int(value.nbytes)
    return Leaf(
        name=name,
        kind="array",
        mark=array_mark(value) if effort.allows(nbytes) else unique_mark(),
        nbytes=nbytes,
        meta=array_meta(value) | meta,
        source=ArraySource(value),
    )


def _long_stream(walk: Walk, item: Item, meta: dict[str, Any], effort: _Effort) -> Iterator[Leaf]:
    """Yield leaves of an item whose stream is too long to be compared; it is written in full."""
    data, pickler = dump(walk, item, None)
    for name, value in pickler.leaves.items():
        yield array_leaf(name, value, {"of": item.name}, effort)
    yield Leaf(
        name=item.name,
        kind="stream",
        mark=unique_mark(),
        nbytes=len(data),
        meta=meta,
        source=StreamSource(lambda: data, _digest_of(item, pickler)),
    )


def _unread_stream(walk: Walk, item: Item, meta: dict[str, Any], nbytes: int) -> Leaf:
    """Return the leaf of a stream for which there was no time; its size is not known."""
    return Leaf(
        name=item.name,
        kind="stream",
        mark=unique_mark(),
        nbytes=nbytes,
        meta=meta,
        source=StreamSource(lambda: dump(walk, item)[0], lambda: None),
        is_read=False,
    )


def _data_leaf(name: str, data: bytes) -> Leaf:
    return Leaf(
        name=name,
        kind="stream",
        mark=xxhash.xxh3_128_intdigest(data),
        nbytes=len(data),
        meta={},
        source=StreamSource(lambda: data, lambda: xxhash.xxh3_128_hexdigest(data)),
    )


def _digest_of(item: Item, pickler: StatePickler) -> Callable[[], str | None]:
    def stand_in(obj: Any) -> str | None:
        leaf = pickler.names.get(id(obj))
        if leaf is not None:
            return leaf
        ref = pickler.reference(obj)
        return None if ref is None else repr(ref)

    return lambda: canonical_digest(item.content, stand_in)
