"""Tests of what the code of a loop can reach."""

from __future__ import annotations

import functools
import logging
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
from torch import nn

from chexpoint.hindsight.state.putting_back import put_back
from chexpoint.hindsight.state.reach import reach
from tests.unit.hindsight.state_kit import Kept


def namespace(source: str, name: str = "__main__") -> dict[str, Any]:
    """Return what a program defines."""
    scope: dict[str, Any] = {"__name__": name}
    exec(compile(source, "<cell>", "exec"), scope)  # noqa: S102 - a program of the test
    return scope


@pytest.fixture
def helpers() -> Iterator[types.ModuleType]:
    module = types.ModuleType("helpers_of_reach")
    module.__file__ = "helpers_of_reach.py"
    source = "history = []\ncount = 0\ndef note(x):\n    global count\n    count += 1\n"
    source += "    history.append(x)\n"
    exec(compile(source, "helpers_of_reach.py", "exec"), vars(module))  # noqa: S102 - of the test
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_names_of_the_text() -> None:
    scope = {"a": [1], "b": 2, "other": 3, "print": print, "sys": sys, "log": logging.getLogger()}
    assert reach(["a", "b", "missing", "print", "sys", "log"], scope).roots == {"a": [1], "b": 2}


def test_globals_that_functions_mention() -> None:
    scope = namespace(
        """
import functools
model, optimizer, total, unused = [1], [2], 0, 5
def inner():
    return [optimizer for _ in range(2)]
def step():
    global total
    total += 1
    def nested():
        return model
    return nested(), inner()
@functools.lru_cache
def cached(): return step()
partial = functools.partial(cached)
"""
    )
    assert set(reach(["step"], scope).roots) == {"model", "optimizer", "total"}
    assert {"model", "optimizer", "total"} <= set(reach(["partial"], scope).roots)


def test_closures_and_what_they_hold_can_be_put_back() -> None:
    scope = namespace(
        """
def counter():
    count, seen = 0, []
    def step():
        nonlocal count
        count += 1
        seen.append(count)
        return count
    return step
step = counter()
"""
    )
    step = scope["step"]
    step()
    reached = reach(["step"], scope)
    assert set(reached.roots) == {"counter.<locals>.step~count", "counter.<locals>.step~seen"}
    before = Kept(reached.roots)
    step()
    step()
    roots = reach(["step"], scope).roots
    assert before.changed(roots) == set(roots)
    # As the caller does it: the names keep what binds them in a plain dict.
    assert put_back(dict(roots), before.leaves) == {}
    assert step() == 2


def test_globals_of_other_modules(helpers: types.ModuleType) -> None:
    scope = namespace("def step(x):\n    note(x)\n    return helpers.history")
    scope.update(helpers=helpers, note=helpers.note)
    roots = reach(["step"], scope).roots
    assert set(roots) == {"helpers_of_reach:history", "helpers_of_reach:count"}
    before = Kept(roots)
    scope["step"](1)
    scope["step"](2)
    roots = reach(["step"], scope).roots
    assert put_back(dict(roots), before.leaves) == {}
    assert (helpers.history, helpers.count) == ([], 0)


def test_methods_of_the_users_classes() -> None:
    scope = namespace(
        """
scale, base, table = [2], [3], [4]
class Base:
    shared = []
    def forward(self): return base
class Model(Base):
    @property
    def size(self): return scale
    @staticmethod
    def look(): return table
model = Model()
models = {"a": [Model()]}
"""
    )
    expected = {"model", "scale", "base", "table", "__main__:Base.shared"}
    assert set(reach(["model"], scope).roots) == expected
    assert {"scale", "base", "table"} <= set(reach(["models"], scope).roots)
    assert {"scale", "base", "table"} <= set(reach(["Model"], scope).roots)


def test_defaults_and_wrappers() -> None:
    scope = namespace(
        """
import functools
state = []
def keep(x, memory={}): memory[x] = state
def decorate(function):
    @functools.wraps(function)
    def wrapper(*args): return function(*args)
    return wrapper
@decorate
def decorated(): return state
"""
    )
    roots = reach(["keep"], scope).roots
    assert roots["keep~default.0"] == {}
    assert "state" in reach(["decorated"], scope).roots


def test_libraries_are_not_searched() -> None:
    scope: dict[str, Any] = {
        "net": nn.Linear(2, 2),
        "reduce": functools.reduce,
        "relu": nn.functional.relu,
        "Linear": nn.Linear,
    }
    assert set(reach(list(scope), scope).roots) == {"net"}


def test_a_callback_inside_a_list() -> None:
    scope = namespace("log = []\ncallbacks = [lambda x: log.append(x)]")
    assert set(reach(["callbacks"], scope).roots) == {"callbacks", "log"}
