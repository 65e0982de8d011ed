"""Whatever a small program does to its variables is told, and comes back from what is told."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings

from chexpoint.engine.variable_contents import load_contents
from chexpoint.image import load_some
from tests.support.watched import Watched, form_of, programs, run_cell

NAMES = ("a", "b", "c", "d")
CELLS = (
    "{x} = []",
    "{x} = 3",
    "{x} = {y}",
    "{x} = [{y}, {z}]",
    "{x} = ({y}, 1)",
    "{x} = dict(k={y})",
    "{x} = {{1, 2}}",
    "{x} = np.arange(6)",
    "{x} = np.arange(2000)",
    "{x} = {y}[1:]",
    "{x} = {y}[0]",
    "{x} = {y}['k']",
    "{x}.append({y})",
    "{x}['k'] = {y}",
    "{x}[0] = 7",
    "{x}.add(5)",
    "{x} += [1]",
    "{x} = {x} + {y}",
    "del {x}",
    "for {x} in range(2):\n    {y} = {x}",
    "{x} = [{z} for _ in range(2)]",
    "[{x} := 5, {y}]",
    "{x} = {y} if {y} else {z}",
    "try:\n    {x} = 1 / 0\nexcept ZeroDivisionError:\n    {y} = 2",
    "{x} = 1\n{y} = 1 / 0\n{z} = 2",
    "exec('{x} = 5')",
    "globals()['{x}'] = [3]",
    "def f():\n    return {x}",
    "def f():\n    {x}.append(9)",
    "def f(kept=[]):\n    kept.append(1)\n    return kept",
    "def f():\n    global {x}\n    {x} = [{y}]",
    "def make(v):\n    def inner():\n        v.append(0)\n        return v\n    return inner",
    "f()",
    "{x} = f()",
    "{x} = f",
    "{x} = make({y})",
    "{x} = make([])",
    "{x}()",
    "{x}[0]()",
    "{x} = lambda: {y}",
    "{x} = [f, {y}]",
    "class Kind:\n    items = []\n    def add(self):\n        self.items.append({y})",
    "class Kind:\n    def add(self):\n        {y}.append(2)",
    "{x} = Kind()",
    "{x}.add()",
    "{x}.p = {y}",
    "{x}.p.append(4)",
    "Kind.items.append(3)",
    "Kind.q = {x}",
    "{x} = {y}.add",
    "import random\nrandom.seed(3)\n{x} = random.random()",
    "np.random.seed(1)",
    "{x} = np.random.rand()",
    "{x} = sorted({y})",
    "{x} = list({y})",
    "with np.errstate(all='ignore'):\n    {x} = {y}",
)
START = """
import numpy as np
a = [1]
b = {"k": [2], 0: []}
c = np.arange(6)
d = [a, 3]
def f():
    return d
class Kind:
    items = []
    def add(self):
        self.items.append(1)
def make(v):
    def inner():
        v.append(0)
        return v
    return inner
"""


def forms(names: dict[str, Any]) -> dict[str, Any]:
    return {k: form_of(v) for k, v in names.items() if not k.startswith("__")}


ATOMS = (int, float, str, np.generic, type(np), type(None))


def holds(value: Any, found: dict[int, Any]) -> dict[int, Any]:
    """Return the mutable objects that a value leads to through containers and attributes."""
    if id(value) in found or isinstance(value, ATOMS):
        return found
    if not isinstance(value, tuple):
        found[id(value)] = value
    children: list[Any] = []
    if isinstance(value, (list, tuple)):
        children = list(value)
    elif isinstance(value, dict):
        children = list(value.values())
    elif hasattr(value, "__dict__"):
        children = [type(value), *vars(value).values()] if not isinstance(value, type) else []
    if isinstance(value, type):
        if value.__module__ != "__main__":
            found.pop(id(value))
        children = [v for k, v in vars(value).items() if not k.startswith("__")]
    for child in children:
        holds(child, found)
    return found


FULL = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@FULL
@given(programs(CELLS, NAMES))
def test_no_change_goes_unseen(cells: list[str]) -> None:
    notebook = Watched()
    notebook.run(START)
    for cell in cells:
        before = forms(notebook.names)
        found = notebook.run(cell)
        after = forms(notebook.names)
        names = {name for group in found.writes for name in group.names}
        changed = {name for name in after if before.get(name) != after[name]}
        assert changed <= names, cell
        assert set(found.deleted) == before.keys() - after.keys()
        assert not found.sticky
        for one, other in combinations(after, 2):
            mine, yours = holds(notebook[one], {}), holds(notebook[other], {})
            if mine.keys() & yours.keys():
                assert notebook.groups[one].names == notebook.groups[other].names


@FULL
@given(programs(CELLS, NAMES))
def test_what_is_told_comes_back(cells: list[str]) -> None:
    notebook = Watched()
    notebook.run(START)
    for cell in cells:
        for group in notebook.run(cell).writes:
            if not group.contents or group.names[0].startswith(":"):
                continue
            loaded = load_contents(group.contents, notebook.names)
            here = [notebook[name] for name in group.names]
            assert form_of([loaded[name] for name in group.names]) == form_of(here)


@FULL
@given(programs(CELLS, NAMES))
def test_a_cell_needs_nothing_but_what_it_reads(cells: list[str]) -> None:
    notebook = Watched()
    notebook.run(START)
    for cell in cells:
        np.random.seed(0)
        image = notebook.image_of(forms(notebook.names))
        arrays = {key: bytes(part) for key, part in image.arrays.items()}
        found = notebook.run(cell)
        error = notebook.error
        kept = {name for group in image.document.groups for name in group.variables}
        reads = [name for name in found.reads if not name.startswith(":")]
        if not kept.issuperset(reads):
            continue
        fresh: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        fresh |= load_some(
            image.document,
            reads,
            image.streams.__getitem__,
            lambda key, arrays=arrays: bytearray(arrays[key]),  # type: ignore[misc]
            main=fresh,
        )
        np.random.seed(0)
        assert repr(run_cell(cell, fresh)) == repr(error)
        for group in found.writes:
            if group.names[0].startswith(":"):
                continue
            here = form_of([notebook[name] for name in group.names])
            assert form_of([fresh[name] for name in group.names]) == here, cell
