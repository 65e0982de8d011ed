"""States of the process: those that are like variables, and those that hold a cell in its place."""

from __future__ import annotations

import decimal
import random
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from chexpoint.engine.variable_contents import LoadedGroup, load_contents
from chexpoint.engine.variable_states import States
from tests.support.watched import Watched, written

# It ships no types.
pd: Any = import_module("pandas")


@pytest.fixture(autouse=True)
def _process() -> Iterator[None]:
    state, options, context = random.getstate(), np.get_printoptions(), decimal.getcontext().copy()
    yield
    random.setstate(state)
    np.set_printoptions(**options)
    decimal.setcontext(context)
    pd.reset_option("display.max_rows")


def test_drawing_reads_and_writes_seeding_only_writes() -> None:
    notebook = Watched()
    seeded = notebook.run("import random\nrandom.seed(5)")
    assert (":random",) in written(seeded)
    assert seeded.reads == ()
    drawn = notebook.run("x = random.random()")
    assert (":random",) in written(drawn)
    assert drawn.reads == (":random", "random")
    assert notebook.run("y = 1").reads == ()


def test_seeding_after_drawing_reads() -> None:
    notebook = Watched()
    notebook.run("import numpy as np")
    found = notebook.run("x = np.random.rand()\nnp.random.seed(0)")
    assert ":numpy:random" in found.reads
    found = notebook.run("np.random.seed(None)")
    assert ":numpy:random" in found.reads


def test_looking_draws_nothing() -> None:
    notebook = Watched()
    notebook.run("import numpy as np, random\nrandom.seed(1); np.random.seed(1)")
    before = random.getstate(), np.random.get_state(legacy=True)[1].tolist()  # type: ignore[index]
    notebook.run("x = [1]; y = np.zeros(3)")
    assert before == (random.getstate(), np.random.get_state(legacy=True)[1].tolist())  # type: ignore[index]


def test_a_setting_is_written_once_and_read_by_all_that_follow() -> None:
    notebook = Watched()
    notebook.run("import numpy as np, pandas as pd, decimal")
    found = notebook.run("pd.set_option('display.max_rows', 7); np.set_printoptions(precision=3)")
    assert written(found) == [(":numpy:print",), (":pandas",)]
    assert notebook.run("x = 1").reads == (":numpy:print", ":pandas")
    found = notebook.run("pd.reset_option('display.max_rows')")
    assert written(found) == [(":pandas",)]
    assert notebook.run("x = 2").reads == (":numpy:print",)
    assert written(notebook.run("decimal.getcontext().prec = 5")) == [(":decimal",)]


def test_states_are_put_back() -> None:
    notebook = Watched()
    notebook.run("import random, numpy as np, pandas as pd")
    cell = "random.seed(3); np.random.seed(3); pd.set_option('display.max_rows', 9)"
    groups = notebook.run(cell).writes
    first = random.random(), np.random.rand()
    pd.reset_option("display.max_rows")
    values = [load_contents(group.contents, notebook.names) for group in groups]
    notebook.watch.bind([LoadedGroup(values=each) for each in values])
    assert (random.random(), np.random.rand()) == first
    assert pd.get_option("display.max_rows") == 9


@pytest.mark.parametrize(
    ("cell", "reason"),
    [
        ("import os; os.chdir('/')", "the working folder"),
        ("import os; os.environ['A_NAME_OF_OURS'] = '1'", "the environment"),
        ("import sys; sys.path.append('/nowhere')", "sys.path"),
        ("import atexit; atexit.register(print)", "at exit"),
        ("import json; json.ours = 1", "json.ours"),
        ("get_ipython().run_line_magic('matplotlib', 'inline')", "%matplotlib"),
        ("get_ipython().system('ls')", "command of the system"),
        ("import warnings; warnings.resetwarnings()", "warnings"),
    ],
)
def test_sticky(cell: str, reason: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import atexit
    import json
    import sys
    import warnings

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("A_NAME_OF_OURS", "0")
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(json, "ours", 0, raising=False)
    with warnings.catch_warnings():
        notebook = Watched()
        assert reason in notebook.run(cell).sticky
    atexit.unregister(print)


@pytest.mark.parametrize(
    "cell",
    [
        "get_ipython().run_line_magic('chex_log', '')",
        "get_ipython().run_line_magic('time', 'x = 1')",
        "x = 1",
    ],
)
def test_not_sticky(cell: str) -> None:
    assert Watched().run(cell).sticky == ""


def test_data_of_an_own_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "helper_of_ours.py").write_text("cache = []\ndef add(x): cache.append(x)\n")
    monkeypatch.syspath_prepend(tmp_path)
    notebook = Watched()
    assert notebook.run("import helper_of_ours as h").sticky == ""
    assert notebook.run("x = 1").sticky == ""
    assert "helper_of_ours" in notebook.run("h.add(1)").sticky
    assert notebook.run("y = len(h.cache)").sticky == ""


def test_what_is_drawn_while_modules_are_imported_counts_only_after_a_seed() -> None:
    states = States()
    states.start()
    with states.importing():
        random.random()
    assert ":random" not in states.changed({"import"})
    random.random()
    with states.importing():
        random.random()
    assert ":random" in states.changed({"import"})  # the cell has drawn before
    with states.importing():
        random.random()
    assert ":random" in states.changed({"import"})  # what was written is known, and is another now
