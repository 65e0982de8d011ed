"""Contents travel as text or in an image, and are refused where they do not belong."""

from __future__ import annotations

import base64
import json
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from chexpoint.engine.variable_contents import LoadedGroup, load_contents, load_from_image
from chexpoint.errors import ImageRefused
from chexpoint.model import ImageName, to_json
from chexpoint.store import Store
from tests.support.watched import Watched, form_of, written


def contents(notebook: Watched, name: str) -> str:
    return notebook.groups[name].contents


def changed(text: str, **header: Any) -> str:
    """Return a text whose header says something else."""
    block = zlib.decompress(base64.b64decode(text))
    end = 4 + int.from_bytes(block[:4], "big")
    data = json.dumps(json.loads(block[4:end]) | header).encode()
    return base64.b64encode(
        zlib.compress(len(data).to_bytes(4, "big") + data + block[end:])
    ).decode()


def test_a_function_finds_its_new_namespace() -> None:
    notebook = Watched()
    notebook.run("k = 2\ndef f(x):\n    return x * k")
    assert notebook.groups["f"].reaches == ("k",)
    fresh: dict[str, Any] = {"__name__": "__main__", "k": 5}
    fresh |= load_contents(contents(notebook, "f"), fresh)
    assert fresh["f"](2) == 10
    import inspect

    assert inspect.getsource(fresh["f"]).startswith("def f")


def test_modules_come_with_their_parts() -> None:
    notebook = Watched()
    notebook.run("import xml.dom.minidom")
    dropped = {name: sys.modules.pop(name) for name in list(sys.modules) if "xml.dom" in name}
    try:
        loaded: Any = load_contents(contents(notebook, "xml"), {})["xml"]
        assert loaded.dom.minidom
    finally:
        sys.modules.update(dropped)


@pytest.mark.parametrize(
    "header",
    [
        {"python": "cpython 2.7.1"},
        {"libraries": {"numpy": "0.1"}},
        {"libraries": {"no_such_library": "1.0"}},
        {"own": {"no_such_module": ["/nowhere.py", "abc"]}},
        {"format": 99},
        {"parts": [10_000]},
        {"names": ["x", "y"]},
    ],
)
def test_refused(header: dict[str, Any]) -> None:
    notebook = Watched()
    notebook.run("import numpy as np\nx = np.arange(600.0)")
    text = contents(notebook, "x")
    assert form_of(load_contents(text, {})["x"]) == form_of(notebook["x"])
    with pytest.raises(ImageRefused, match=r"Run its cells again\.$"):
        load_contents(changed(text, **header), {})


@pytest.mark.parametrize("text", ["", "????", base64.b64encode(b"no").decode()])
def test_damaged(text: str) -> None:
    with pytest.raises(ImageRefused):
        load_contents(text, {})


def test_what_is_loaded_is_known() -> None:
    notebook = Watched()
    notebook.run("import numpy as np\nx = [1, {2: 'b'}]; y = x; n = np.arange(9)[::2]; m = 1")
    groups = {notebook.groups[name].names: notebook.groups[name] for name in "xnm"}
    other = Watched()
    other.run("import numpy as np\nm = 5")
    other.watch.bind(
        [
            LoadedGroup(values=load_contents(group.contents, other.names), group=group)
            for group in groups.values()
        ]
    )
    assert other["x"] is other["y"]
    calm = other.run("z = len(x) + len(n) + m")
    assert written(calm) == [("z",)]
    assert calm.reads == ("m", "n", "x")
    assert written(other.run("y.append(1)")) == [("x", "y")]
    other.watch.unbind(["y"])
    assert "y" not in other.names
    assert written(other.run("x.append(1)")) == [("x",)]


def test_large_groups_by_way_of_a_store(tmp_path: Path) -> None:
    notebook = Watched()
    notebook.run("import numpy as np\nclass A: pass\na = A(); a.v = np.arange(90_000)\nb = a.v[5:]")
    assert notebook.groups["a"].names == ("A", "a", "b")
    assert notebook.groups["a"].contents == ""
    assert notebook.groups["a"].size_bytes > 700_000
    taken = notebook.image_of(["A", "a", "b"])
    with Store.open(str(tmp_path / "store"), budget_bytes=1 << 30) as store:
        store.put(
            ImageName("one"), to_json(taken.document), streams=taken.streams, arrays=taken.arrays
        )
        other = Watched()
        with store.read(ImageName("one")) as image:
            values = load_from_image(image, ["A", "a", "b"], other.names)
            with pytest.raises(ImageRefused):
                load_from_image(image, ["missing"], other.names)
    names = ["A", "a", "b"]
    assert form_of([values[name] for name in names]) == form_of([notebook[n] for n in names])
    other.watch.bind([LoadedGroup(values=values)])
    other.run("b[0] = -1")
    assert other["a"].v[5] == -1


def test_a_class_with_a_last_word_is_not_tried() -> None:
    notebook = Watched()
    notebook.run("gone = []\nclass A:\n    def __del__(self): gone.append(1)\na = A()")
    assert notebook["gone"] == []
    assert notebook.groups["a"].contents == ""
    assert notebook.groups["a"].why_not == ""


def test_facts_for_show() -> None:
    notebook = Watched()
    notebook.run(
        "import numpy as np, pandas as pd\nfrom sklearn.linear_model import Ridge\n"
        "d = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']}); n = np.zeros((2, 3)); r = Ridge(alpha=3)"
    )
    meta = {name: notebook.groups[name].meta.get(name) for name in ("d", "n", "r")}
    assert meta["d"] == {"rows": 2, "columns": ["a", "b"], "dtypes": ["int64", "str"]}
    assert meta["n"] == {"shape": [2, 3], "dtype": "float64"}
    assert meta["r"] is not None
    assert (meta["r"]["role"], meta["r"]["parameters"]["alpha"]) == ("model", 3)
    json.dumps(meta)
