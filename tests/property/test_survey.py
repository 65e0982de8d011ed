"""Any nested data, with sharing and cycles, comes back as it was."""

from __future__ import annotations

import copy
import pickle
from collections import deque
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.hindsight.state.digests import canonical_digest
from tests.unit.hindsight.state_kit import Kept, digests

ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
)


class Node:
    """An object of the user's."""

    def __init__(self) -> None:
        self.held: list[Any] = []


KINDS = ("list", "dict", "tuple", "deque", "node", "array", "set")


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, Any]:
    """Draw the variables of a program: containers that hold each other in any way."""
    made: list[Any] = []
    for _ in range(draw(st.integers(1, 8))):
        kind = draw(st.sampled_from(KINDS))
        if kind == "tuple":
            made.append(tuple(draw(st.lists(st.one_of(ATOMS, st.sampled_from(made or [0]))))))
        elif kind == "array":
            made.append(np.full(draw(st.sampled_from([3, 300])), draw(st.integers(0, 9))))
        elif kind == "set":
            made.append(set(draw(st.lists(st.integers(0, 9)))))
        else:
            made.append({"list": list, "dict": dict, "deque": deque, "node": Node}[kind]())
    for value in made:
        for number in range(draw(st.integers(0, 3))):
            child = draw(st.one_of(ATOMS, st.sampled_from(made)))
            if isinstance(value, (list, deque)):
                value.append(child)
            elif isinstance(value, dict):
                value[number] = child
            elif isinstance(value, Node):
                value.held.append(child)
    names = draw(st.lists(st.sampled_from("abcd"), min_size=1, unique=True))
    return {name: draw(st.sampled_from(made)) for name in names}


def shape(roots: dict[str, Any]) -> bytes:
    """Return what tells values and which of them are one object."""
    numbers: dict[int, int] = {}
    told: list[Any] = []
    stack: list[Any] = [roots[name] for name in sorted(roots)]
    while stack:
        value = stack.pop()
        if not isinstance(value, (list, dict, tuple, deque, set, Node, np.ndarray)):
            told.append(repr(value))
            continue
        # Whether two equal tuples are one does not matter: they do not change.
        is_new = isinstance(value, tuple) or id(value) not in numbers
        number = -1 if isinstance(value, tuple) else numbers.setdefault(id(value), len(numbers))
        told.append((type(value).__name__, number))
        if isinstance(value, np.ndarray):
            told.append(value.tolist())
        elif isinstance(value, set):
            told.append(sorted(value))
        elif is_new:
            inside = value.held if isinstance(value, Node) else value
            children = list(inside.values()) if isinstance(inside, dict) else list(inside)
            told.append(len(children))
            stack.extend(children)
    return pickle.dumps(told)


def disturb(draw: st.DataObject, roots: dict[str, Any]) -> None:
    """Change things here and there."""
    for name in list(roots):
        value = roots[name]
        what = draw.draw(st.sampled_from(["leave", "clear", "add", "bind", "swap"]))
        if what == "clear" and hasattr(value, "clear"):
            value.clear()
        elif what == "add" and isinstance(value, (list, deque)):
            value.append(draw.draw(st.sampled_from(list(roots.values()))))
        elif what == "add" and isinstance(value, Node):
            value.held = [value]
        elif what == "add" and isinstance(value, np.ndarray):
            value += 1
        elif what == "bind":
            roots[name] = draw.draw(st.one_of(ATOMS, st.sampled_from(list(roots.values()))))
        elif what == "swap":
            other = draw.draw(st.sampled_from(list(roots)))
            roots[name], roots[other] = roots[other], roots[name]


@settings(max_examples=150, deadline=None)
@given(graphs(), st.data())
def test_values_and_sharing_come_back(roots: dict[str, Any], data: st.DataObject) -> None:
    expected = shape(roots)
    before = Kept(roots)
    disturb(data, roots)
    before.put_back(roots)
    assert shape(roots) == expected


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_values_come_into_being(roots: dict[str, Any]) -> None:
    expected = shape(roots)
    before = Kept(roots)
    fresh: dict[str, Any] = {}
    before.put_back(fresh)
    assert shape(fresh) == expected


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_copies_have_equal_digests(roots: dict[str, Any]) -> None:
    other = copy.deepcopy(roots)
    assert digests(other) == digests(roots)
    assert canonical_digest(other) == canonical_digest(roots)


NESTED = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.integers(0, 3), st.text(max_size=1)), inner, max_size=3),
        st.tuples(inner, inner),
    ),
    max_leaves=8,
)


def strict(value: Any) -> Any:
    """Return a text that is equal exactly for equal values of equal types."""
    if isinstance(value, dict):
        return ("dict", sorted((repr(key), strict(each)) for key, each in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [strict(each) for each in value])
    return (type(value).__name__, repr(value))


@settings(max_examples=300, deadline=None)
@given(NESTED, NESTED)
def test_digests_are_equal_exactly_for_equal_values(one: Any, other: Any) -> None:
    is_equal = repr(strict(one)) == repr(strict(other))
    assert (canonical_digest(one) == canonical_digest(other)) == is_equal
