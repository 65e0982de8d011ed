"""What cells did to variables: each way of changing one is seen, and reading is not changing."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from chexpoint.engine import variable_digests, variable_known, variables
from chexpoint.engine.variable_contents import LoadedGroup, load_contents
from chexpoint.engine.variable_text import nodes_of
from tests.support.watched import Watched, written

# Cells; then the groups that the last of them wrote, and the variables that it read.
STORIES: dict[str, tuple[list[str], list[str], str]] = {
    "a new variable": (["x = 1"], ["x"], ""),
    "an equal value is no change": (["x = 1", "x = 1"], [], ""),
    "reading is no change": (["x = [1]", "y = len(x)"], ["y"], "x"),
    "a method": (["x = [1]", "x.append(2)"], ["x"], "x"),
    "augmented assignment": (["x = [1]", "x += [2]"], ["x"], "x"),
    "an item": (["x = {}", "x['a'] = 1"], ["x"], "x"),
    "an alias": (["x = [1]; y = x", "y.append(2)"], ["x y"], "x y"),
    "an alias is made": (["x = [1]", "y = x"], ["x y"], "x"),
    "an alias is gone": (["x = [1]; y = x", "y = 0"], ["x", "y"], "x"),
    "inside an object": (
        ["class A: pass\na = A(); a.d = {}", "a.d['k'] = 1"],
        ["A a"],
        "A a",
    ),
    "an attribute of a class": (["class A: n = 0\na = A()", "A.n += 1"], ["A a"], "A a"),
    "a function's globals": (
        ["x = []\ndef f(): x.append(1)", "f()"],
        ["x"],
        "f x",
    ),
    "a function of a function": (
        ["x = []\ndef f(): x.append(1)\ndef g(): f()", "g()"],
        ["x"],
        "f g x",
    ),
    "a function in a list": (["x = []\nfs = [lambda: x.append(1)]", "fs[0]()"], ["x"], "fs x"),
    "a function in an array": (
        ["import numpy as np\nx = []\nfs = np.array([lambda: x.append(1)])", "fs[0]()"],
        ["x"],
        "fs x",
    ),
    "a global statement": (["def f():\n    global x\n    x = 1", "f()"], ["x"], "f"),
    "a closure": (
        ["def make():\n    v = []\n    return lambda: v.append(1)\nf = make()", "f()"],
        ["f"],
        "f",
    ),
    "a default argument": (["def f(v=[]): v.append(1)", "f()"], ["f"], "f"),
    "another body of a function": (
        ["def f(): return 1\ndef g(): return 2", "f.__code__ = g.__code__"],
        ["f"],
        "f g",
    ),
    "another name of a function": (["def f(): pass", "f.__name__ = 'g'"], ["f"], "f"),
    "an attribute of a function": (["def f(): pass", "f.kept = [1]"], ["f"], "f"),
    "an annotation of a function": (
        ["def f(): pass", "f.__annotations__['x'] = 1"],
        ["f"],
        "f",
    ),
    "a default that is set": (["def f(v): pass", "f.__defaults__ = ([],)"], ["f"], "f"),
    "a default that is changed": (
        ["def f(v=[]): return v", "f().append(1)"],
        ["f"],
        "f",
    ),
    "a bound method": (["x = [1]; add = x.append", "add(2)"], ["add x"], "add x"),
    "a method of the notebook's class": (
        ["log = []\nclass A:\n    def go(self): log.append(1)\na = A()", "a.go()"],
        ["log"],
        "a log",
    ),
    "a view": (
        ["import numpy as np\na = np.zeros(9)\nv = a[2:]", "v[0] = 1"],
        ["a v"],
        "a v",
    ),
    "a view of a view": (
        ["import numpy as np\na = np.zeros((90, 90))\nv = a.T[3:, ::2]", "a[:] = 1"],
        ["a v"],
        "a v",
    ),
    "exec": (["x = 1; z = 1", "exec('x = 2')"], ["x"], "x z"),
    "globals": (["x = 1; z = 1", "globals()['x'] = 2"], ["x"], "x z"),
    "eval in a function": (["x = []\ndef f(s): eval(s)", "f('x.append(1)')"], ["x"], "f x"),
    "import": (["import json"], ["json"], ""),
    "import of a part": (["import xml.dom", "import xml.sax"], ["xml"], "xml"),
    "from import star": (["x = 1", "from math import *\nx = pi"], [], "x"),
    "a loop's variable": (["for i in range(3): pass"], ["i"], ""),
    "a comprehension leaks nothing": (["x = [i for i in range(3)]"], ["x"], ""),
    "a walrus": (["[y := 2]"], ["y"], ""),
    "an exception in the middle": (["x = []", "x.append(1); 1 / 0; x = 0"], ["x"], "x"),
    "a handler's variable": (["e = 1", "try: 1 / 0\nexcept Exception as e: y = 1"], ["y"], ""),
    "bound before it is used": (["x = 1", "x = 2; y = x"], ["x", "y"], ""),
    "bound on one way only": (["x = 1", "if []:\n    x = 2\ny = x"], ["y"], "x"),
    "defining is not using": (["g = 1", "def f(): return g"], ["f"], ""),
    "using what is defined": (["g = 1", "def f(): return g\nf()"], ["f"], "g"),
    "attributes are no variables": (
        ["x = 1; real = 5", "y = (3).real"],
        ["y"],
        "",
    ),
    "model.eval is not eval": (
        ["class M:\n    def eval(self): pass\nm = M(); z = 1", "m.eval()"],
        [],
        "m",
    ),
    "a thing that cannot be written": (["g = (i for i in [1, 2])", "next(g)"], ["g"], "g"),
    "a class that hides its state": (
        ["class A:\n    def __getstate__(self): return {}\na = A(); a.n = 1", "a.n = 2"],
        ["A a"],
        "A a",
    ),
    "a name to throw away": (["z = 1", "for _ in range(2): y = _"], ["_", "y"], ""),
    "what was shown before": (["z = 1; _ = 2", "y = _"], ["y"], "_ z"),
    "a recursive list": (["x = []; x.append(x)", "x.append(1)"], ["x"], "x"),
    "measured": (
        ["x = [1]; z = 1", "get_ipython().run_cell_magic('time', '', 'y = x')"],
        ["x y"],
        "x",
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_story(story: str) -> None:
    cells, writes, reads = STORIES[story]
    notebook = Watched()
    notebook.names["get_ipython"] = lambda: _Shell(notebook)
    notebook.watch._namespace = lambda: {
        k: v for k, v in notebook.names.items() if k != "get_ipython"
    }
    for cell in cells:
        found = notebook.run(cell)
    told = [" ".join(names) for names in written(found)]
    if story == "from import star":
        assert {"pi", "x"} <= set(told)
    else:
        assert told == writes
    assert " ".join(found.reads) == reads
    assert not found.sticky


class _Shell:
    """As much of IPython as a cell with ``%%time`` calls."""

    def __init__(self, notebook: Watched) -> None:
        self._names = notebook.names

    def run_cell_magic(self, _: str, __: str, body: str) -> None:
        exec(body, self._names)  # noqa: S102


def test_deleting() -> None:
    notebook = Watched()
    notebook.run("x = [1]; y = x; z = 1")
    found = notebook.run("del x, z")
    assert found.deleted == ("x", "z")
    assert written(found) == [("y",)]
    assert found.reads == ("x", "y", "z")


def test_frames_share_memory_but_stand_alone() -> None:
    notebook = Watched()
    notebook.run("import pandas as pd\ndf = pd.DataFrame({'a': range(999), 'b': 1.5, 's': 'x'})")
    assert written(notebook.run("y = df['b']; X = df.drop(columns='b')")) == [("X",), ("y",)]
    assert written(notebook.run("df.loc[0, 'b'] = 7")) == [("df",)]
    assert notebook["y"][0] == 1.5
    assert written(notebook.run("m = df.b.mean() + y.mean()")) == [("m",)]
    assert written(notebook.run("df.fillna(0, inplace=True); df['c'] = 1")) == [("df",)]
    view = notebook.run("v = df['a'].to_numpy()")
    assert ("X", "df", "v") in written(view)


def test_a_frame_that_is_too_large_for_the_time_is_kept_if_its_use_is_harmless(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # There is plenty of time for all but the frame, however busy the machine is.
    # Threads that other tests of this process have left might change it.
    monkeypatch.setattr(variables, "_has_threads", lambda _: False)
    monkeypatch.setattr(variables, "LEAST_BUDGET_S", 1.0)
    monkeypatch.setattr(variable_digests, "HASH_RATE", 1e6)
    notebook = Watched()
    notebook.run("import numpy as np, pandas as pd")
    notebook.run("df = pd.DataFrame({c: np.ones(500_000) for c in 'abcd'})", seconds=0)
    notebook.watch._saved = 0.0
    calm = notebook.run("m = df['a'].mean(); h = df.head(); n = len(df)", seconds=0)
    assert written(calm) == [("h",), ("m",), ("n",)]
    notebook.watch._saved = 0.0
    for cell in ("df.loc[0, 'a'] = 5", "df['a'] = 2", "d = df", "df.index.name = 'k'"):
        found = notebook.run(cell, seconds=0)
        notebook.watch._saved = 0.0
        (group,) = (group for group in found.writes if "df" in group.names)
        assert group.digest == ""


def test_frames_stand_alone_where_there_is_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variables, "_has_threads", lambda _: False)
    monkeypatch.setattr(variables, "LEAST_BUDGET_S", 0.0)
    # However slow the machine is.
    monkeypatch.setattr(variable_known, "_LEAST_S", 60.0)
    notebook = Watched()
    notebook.run("import pandas as pd")
    notebook.watch._saved = 0.0
    notebook.run("df = pd.DataFrame({'a': [1.0, 2.0], 'b': [3.0, 4.0]})", seconds=0)
    found = notebook.run("part = df[df['a'] > 1]; more = df.assign(c=5)", seconds=0)
    assert written(found) == [("more",), ("part",)]


def test_what_functions_of_a_group_use_is_read_with_any_of_it() -> None:
    # The graph asks for it: a function may be called through all that shares objects with it.
    notebook = Watched()
    notebook.run("x = [1]; factor = 2; holder = {'x': x, 'scaled': lambda v: v * factor}")
    found = notebook.run("n = len(x)")
    assert set(found.reads) >= {"x", "factor"}


def test_signs_of_a_text_lead_to_no_other_text() -> None:
    # Signs are the same objects in all trees; who shows tracebacks notes in them where they were.
    tree = ast.parse("a * b + c")
    sign: Any = ast.parse("a * b", mode="eval").body.op  # type: ignore[attr-defined]
    count = len(nodes_of(tree))
    sign.parent = tree
    try:
        assert len(nodes_of(tree)) == count
    finally:
        del sign.parent


def test_tensors_in_place_and_gradients() -> None:
    notebook = Watched()
    notebook.run(
        "import torch\nw = torch.ones(3, requires_grad=True)\nt = torch.zeros(4); u = t[1:]"
    )
    assert written(notebook.run("u.add_(1)")) == [("t", "u")]
    shared = notebook.run("import numpy as np\na = np.zeros(3); s = torch.from_numpy(a)").writes
    (pair,) = (group for group in shared if "a" in group.names)
    notebook.watch.bind([LoadedGroup(values=load_contents(pair.contents, notebook.names))])
    assert written(notebook.run("s[0] = 4")) == [("a", "s")]
    notebook.run("loss = (w * 2).sum()")
    found = notebook.run("loss.backward()")
    assert any("w" in names for names in written(found))
    assert "w" in found.reads


def test_a_list_too_long_to_look_at_is_with_what_may_share_its_parts() -> None:
    notebook = Watched()
    notebook.run("rows = [{'i': i} for i in range(300_000)]\nalone = [1]", seconds=0)
    notebook.run("first = rows[0]", seconds=0)
    found = notebook.run("first['i'] = 9", seconds=0)
    (group,) = found.writes
    assert {"first", "rows"} <= set(group.names)
    assert "alone" not in group.names


def test_values_are_not_kept_alive() -> None:
    notebook = Watched()
    notebook.run("import weakref\nclass A: pass\na = A(); r = weakref.ref(a)\nb = {1}; n = [a]")
    notebook.run("del a, n")
    assert notebook["r"]() is None


def test_hostile_objects() -> None:
    notebook = Watched()
    notebook.run(
        "class Bad:\n"
        "    def __reduce__(self): raise SystemError('no')\n"
        "    def __eq__(self, other): raise ValueError('no')\n"
        "    def __hash__(self): raise ValueError('no')\n"
        "    def __getattr__(self, name): raise RuntimeError(name)\n"
        "    def __len__(self): raise ValueError('no')\n"
        "    def __repr__(self): raise ValueError('no')\n"
        "    @property\n"
        "    def __class__(self): raise TypeError('no')\n"
        "bad = Bad(); lot = [bad, 1]\n"
    )
    found = notebook.run("lot.append(2)")
    assert "lot" in {name for names in written(found) for name in names}
    import threading

    notebook.names["lock"] = threading.Lock()
    with notebook["lock"]:
        found = notebook.run("lock; x = 1")
    assert ("x",) in written(found)


def test_warnings_that_were_shown_are_not_shown_again(recwarn: pytest.WarningsRecorder) -> None:
    import warnings

    warnings.simplefilter("default")
    notebook = Watched()
    notebook.run("import warnings\ndef f():\n    warnings.warn('once')\nf()")
    notebook.run("f(); y = 1")
    notebook.run("f(); y = 2")
    assert len([each for each in recwarn.list if str(each.message) == "once"]) == 1
