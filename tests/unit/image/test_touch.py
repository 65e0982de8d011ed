"""A variable that the log calls unchanged is; cells that may do anything touch all."""

from __future__ import annotations

import pickle
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.image import TouchLog
from chexpoint.image.memory import overlaps
from chexpoint.image.source import read_cell
from tests.unit.image.notebook import Notebook

START = "import numpy as np; a = np.ones(3); b = np.ones(3); n = 1"


def is_unchanged(book: Notebook, name: str, count: int) -> bool:
    """Tell whether the log calls a variable unchanged since so many cells."""
    return not book.touches.changed_since(book.touches.line[:count], name)


@pytest.mark.parametrize(
    "cell",
    [
        "a[0] = 2",
        "f = lambda: a",
        "for a in []: pass",
        "del a; a = np.ones(3)",
        "exec('a[0] = 2')",
        "globals()['a'][0] = 2",
        "import __main__",
        "get_ipython = print; get_ipython()",
        "from textwrap import *",
        "import gc; gc.get_objects()",
        "import sys; sys._getframe()",
        "import sys; sys.modules[__name__]",
    ],
)
def test_a_cell_that_may_change_a_variable_touches_it(cell: str) -> None:
    assert not is_unchanged(Notebook().run(START).run(cell), "a", 1)


@pytest.mark.parametrize(
    "cell", ["b[0] = 2", "c = np.stack([b, b])", "n += 1", "x = [i for i in b]"]
)
def test_a_cell_that_names_another_variable_does_not(cell: str) -> None:
    assert is_unchanged(Notebook().run(START).run(cell), "a", 1)


def test_what_a_function_uses_is_touched_by_all_later_cells() -> None:
    book = Notebook().run(START).run("calls = [lambda: a.fill(2)]").run("x = 1").run("y = 2")
    assert not is_unchanged(book, "a", 2)
    assert not is_unchanged(book, "a", 3)
    assert is_unchanged(book, "b", 3)


def test_functions_that_were_made_unseen_are_found() -> None:
    book = (
        Notebook()
        .run(START)
        .run("exec('import atexit\\ndef h(): b.fill(2)\\natexit.k = h; del h')")
    )
    book.run("import atexit; atexit.k()")
    assert not is_unchanged(book, "b", 2)
    book.run("del atexit.k")
    assert is_unchanged(book, "a", 2)


def test_an_array_that_something_else_refers_to_is_looked_at() -> None:
    book = Notebook().run(START + "; keep = [a]").run("keep[0][0] = 5")
    assert not is_unchanged(book, "a", 1)
    assert is_unchanged(book, "b", 1)


def test_a_name_that_a_library_binds_is_touched() -> None:
    book = Notebook().run(START)
    book.names["load_session"] = lambda: book.names.update(a=np.zeros(3), n=2)
    book.run("load_session()").run("x = 1")
    assert not is_unchanged(book, "a", 1)
    assert book.touches.changed_since(book.touches.line[:1], "n", is_immutable=True)
    assert is_unchanged(book, "b", 1)


def test_a_line_that_is_not_a_prefix_tells_nothing() -> None:
    book = Notebook().run(START).run("x = 1")
    assert book.touches.changed_since(("other",), "a")
    book.touches.everything()
    assert not is_unchanged(book, "a", 2)


def test_the_log_survives_pickling() -> None:
    book = Notebook().run(START).run("f = lambda: b")
    book.touches = pickle.loads(pickle.dumps(book.touches))  # noqa: S301
    book.run("x = 1")
    assert is_unchanged(book, "a", 2)
    assert not is_unchanged(book, "b", 2)


def test_a_resumed_log_knows_what_came_with_the_image() -> None:
    book = Notebook(TouchLog.resumed(("c0", "c1")))
    book.names |= {"a": np.ones(3), "b": np.ones(3)}
    assert is_unchanged(book, "a", 2)
    book.run("b[0] = 1; x = 1")
    assert is_unchanged(book, "a", 2)
    assert not is_unchanged(book, "b", 2)
    assert book.touches.line == ("c0", "c1", "c2")


def test_reading_a_cell_says_nothing_of_what_is_odd_in_it() -> None:
    names = read_cell("x = '\\d' is y\nimport os.path\nos.extra = 1; setattr(os, 'more', 2)")
    assert {"x", "y", "os"} <= names.direct
    assert names.imports == ("os.path",)
    assert names.targets == ("os.extra", "os.more")
    assert read_cell("%magic").is_opaque
    assert read_cell("x =").is_opaque


STATEMENTS = (
    "a[{i}] += 1",
    "b[{i}] += 1",
    "c = a",
    "c = b[1:]",
    "c = None",
    "c is None or c.__setitem__(0, {i})",
    "keep.append(a)",
    "keep and keep[-1].__setitem__({i} % 2, 9)",
    "def g(): b[{i}] = 4",
    "fs.append(lambda: a.__setitem__({i}, 8))",
    "[f() for f in fs]",
    "a = a + 1",
    "a, b = b, a",
    "exec('b[0] = 3')",
    "keep.clear(); fs.clear(); c = None",
    "x = {i}",
)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.sampled_from(STATEMENTS), st.integers(0, 2)), max_size=12))
def test_what_the_log_calls_unchanged_is_unchanged(cells: list[tuple[str, int]]) -> None:
    book = Notebook().run(START + "; c = None; keep = []; fs = []; x = 0")
    states = [(book["a"].tobytes(), book["b"].tobytes())]
    for source, number in cells:
        book.run(source.format(i=number))
        states.append((book["a"].tobytes(), book["b"].tobytes()))
        for count, (a, b) in enumerate(states, 1):
            assert not is_unchanged(book, "a", count) or a == states[-1][0]
            assert not is_unchanged(book, "b", count) or b == states[-1][1]


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 8)), max_size=12))
def test_overlapping_spans_are_joined_and_others_are_left(pairs: list[tuple[int, int]]) -> None:
    spans = [(start, start + size) for start, size in pairs]
    hulls = overlaps(spans)
    assert all(one[1] <= other[0] for one, other in pairwise(hulls))
    for place, (start, end) in enumerate(spans):
        others = [span for number, span in enumerate(spans) if number != place]
        is_shared = any(low < end and start < high for low, high in others)
        inside = any(low <= start and end <= high for low, high in hulls)
        assert inside == is_shared
