"""Notebooks that share some cells: what is known is not computed, and every result is the same."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

import chexpoint.project
from chexpoint.engine import Engine
from chexpoint.model import AutoMode, CellResult
from chexpoint.project import Batch
from chexpoint.project.batch_plan import plan_versions
from chexpoint.project.sources import SourceCell, SourceFile

pytestmark = pytest.mark.slow

RECORDED = Path(chexpoint.project.__file__).with_name("run_recorded_engine.py")
# Well above the tenth of a second from which on contents are worth storing.
BUSY = "waste = sum(i * i for i in range(2_500_000))"
BASE = [
    "import numpy as np, random",
    f"x = np.arange(200_000.0)\n{BUSY}",
    f"y = [x * 2, {{'x': x}}]\n{BUSY}",
    "np.random.seed(7); random.seed(7)",
    f"drawn = np.random.rand(3)\n{BUSY}",
    "def scaled(v): return v * factor\nfactor = 3",
    "print(x.sum(), y[0].sum(), drawn.sum(), scaled(2))",
]


class Notebook:
    """Runs cells in a project of its own, with a graph that others share.

    Everything is stored: what is worth it depends on how busy the machine is.
    """

    def __init__(self, folder: Path, ledger: Path, **env: str) -> None:
        folder.mkdir(exist_ok=True)
        env = {"CHEX_GRAPH": str(ledger), "CHEX_GRAPH_KEEP": "all", **env}
        self.engine = Engine(cwd=folder, program=RECORDED, env=env, auto="rule")
        self.engine.set_reuse(graph=True)
        self._versions = 0

    def run(self, cells: list[str]) -> list[CellResult]:
        self._versions += 1
        self.engine.begin_version(f"v{self._versions}", {})
        results = [self.engine.run(cell, timeout_s=60) for cell in cells]
        self.engine.drain()
        return results


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "team.sqlite"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    with Engine(cwd=tmp_path_factory.mktemp("plain")) as engine:
        yield engine


def expected(plain: Engine, cells: list[str]) -> list[str]:
    plain.restore("root")
    return [printed(plain.run(cell)) for cell in cells]


def printed(result: CellResult) -> str:
    error = f"{result.error.ename}: {result.error.evalue}" if result.error is not None else ""
    texts = [o["text"] for o in result.outputs if o.get("name") == "stdout"]
    texts += [o["data"]["text/plain"] for o in result.outputs if "execution_count" in o]
    return "".join(texts) + error


def said(result: CellResult) -> str:
    """Return what CHEX says under a cell."""
    shown = [o["data"]["text/plain"] for o in result.outputs if o["output_type"] == "display_data"]
    return " | ".join(text for text in shown if text.startswith("CHEX"))


def reused(results: list[CellResult]) -> list[bool]:
    return ["CHEX: reused" in said(result) for result in results]


VARIANTS = {
    "another last cell": [*BASE[:-1], "print(y[0].mean(), 'other')"],
    "an alias of it is changed": [
        *BASE[:-1],
        "y[1]['x'][0] = 99.0; print(x[0], x[1])",
    ],
    "random numbers go on": [
        *BASE[:-1],
        "print(np.random.rand(), random.random())",
    ],
    "a function finds its names": [*BASE[:-1], "print(scaled(5))"],
    "a name that its function uses is another": [*BASE[:-1], "factor = 10", "print(scaled(5))"],
    "a cell is left out": [*BASE[:3], *BASE[5:6], "print(x.sum(), scaled(1))"],
    "a cell is put in": [*BASE[:2], "extra = 5", *BASE[2:-1], "print(extra, y[0].sum())"],
    "an early cell is another": [BASE[0], f"x = np.arange(100_000.0)\n{BUSY}", *BASE[2:]],
    "cells in another order": [BASE[0], BASE[5], BASE[1], BASE[2], "print(y[0][:3], scaled(4))"],
    "a variable is deleted": [*BASE[:3], "del x", "print('x' in dir(), y[0].sum())"],
    "everything is asked for": [*BASE[:-1], "print(sorted(k for k in globals() if k[0] != '_'))"],
    "a variable is changed in place first": [*BASE[:2], "x += 1", *BASE[2:3], "print(y[0].sum())"],
    "a cell fails": [*BASE[:3], "print(missing)", "print(y[0].sum())"],
}


def test_variants_give_what_they_give_without_reuse(
    tmp_path: Path, ledger: Path, plain: Engine
) -> None:
    first = Notebook(tmp_path / "first", ledger)
    with first.engine:
        assert [printed(each) for each in first.run(BASE)] == expected(plain, BASE)
        again = first.run(BASE)
        assert all(reused(again))
        assert [printed(each) for each in again] == expected(plain, BASE)
    other = Notebook(tmp_path / "other", ledger)
    wrong, counts = {}, {}
    with other.engine:
        for name, cells in VARIANTS.items():
            results = other.run(cells)
            found, wanted = [printed(each) for each in results], expected(plain, cells)
            if found != wanted:
                wrong[name] = f"{found} instead of {wanted}"
            counts[name] = sum(reused(results))
    assert not wrong, "\n".join(f"{name}: {what}" for name, what in wrong.items())
    assert counts["another last cell"] == 6
    assert counts["cells in another order"] >= 4
    assert counts["an early cell is another"] >= 3


HELPER = "KEPT = {}\n\ndef put(value): KEPT['v'] = value\n\ndef get(): return KEPT.get('v')\n"
# In each, a cell changes what no variable holds, and the next one asks for it.
UNSEEN = {
    "an attribute of a library": ["import string", "string.own = [{}]", "print(string.own)"],
    "what such an attribute holds": [
        "import string",
        "string.own = []",
        "string.own.append({})",
        "print(string.own)",
    ],
    "a function of a library": [
        "import textwrap",
        "textwrap.dedent = lambda text: {}",
        "print(textwrap.dedent(''))",
    ],
    "a setting of a library": [
        "import socket",
        "socket.setdefaulttimeout({})",
        "print(socket.getdefaulttimeout())",
    ],
    "a setting, by a function": [
        "import socket\ndef limit(seconds): socket.setdefaulttimeout(seconds)",
        "limit({})",
        "print(socket.getdefaulttimeout())",
    ],
    "a registry of a library": [
        "import logging",
        "handler = logging.NullHandler({}); logging.getLogger('own').addHandler(handler)",
        "print([each.level for each in logging.getLogger('own').handlers])",
    ],
    "what a module of the user's holds": ["import helper", "helper.put({})", "print(helper.get())"],
    "a variable that such a module holds": [
        "from helper import KEPT, get",
        "KEPT['v'] = {}",
        "print(get())",
    ],
    "a variable, by the module of all": [
        "import __main__",
        "secret = {}",
        "print(__main__.secret)",
    ],
    "the environment": ["import os", "os.environ['OWN'] = '{}'", "print(os.environ['OWN'])"],
    "a name in a text that a function has": [
        "import pandas as pd; df = pd.DataFrame({'a': [1, 2, 3]})",
        "def over(): return len(df.query('a > @least'))",
        "least = {}",
        "print(over())",
    ],
    "a name in a text of another cell": [
        "import pandas as pd; df = pd.DataFrame({'a': [1, 2, 3]}); texts = ['a > @least']",
        "least = {}",
        "print(len(df.query(texts[0])))",
    ],
    "a built-in function that is another one later": [
        "def total(): return sum([1, 2])",
        "sum = [None, sum, max][{}]",
        "print(total())",
    ],
    "a name like those of the interpreter": [
        "x = 1",
        "__version__ = {}",
        "print(__version__)",
    ],
    "what was there when an exception was ended": [
        "class Quiet:\n    def __enter__(self): pass\n    def __exit__(self, *_): return True",
        "x = {}",
        "with Quiet():\n    x = 1 / 0\nprint(x)",
    ],
    "how IPython shows numbers": ["x = 3.14159", "%precision {}", "x"],
    "the precision of decimals": [
        "import decimal",
        "decimal.getcontext().prec = {}",
        "x = decimal.Decimal(1) / 3",
        "decimal.getcontext().prec = 9",
        "print(x, decimal.Decimal(1) / 3)",
    ],
    "what NumPy does about errors": [
        "import numpy as np",
        "old = np.seterr(divide=[None, 'raise', 'ignore'][{}])",
        "try: print(np.float64(1) / 0)\nexcept FloatingPointError: print('raised')",
    ],
    "a stream that a logger holds": [
        "import io, logging; held = io.StringIO(); log = logging.getLogger('held')",
        "log.addHandler(logging.StreamHandler(held)); log.setLevel({}0)",
        "log.info('told')",
        "print(held.getvalue())",
    ],
    "a list that a module of the user's holds": [
        "import helper; held = []",
        "helper.put(held)",
        "helper.get().append({})",
        "print(held)",
    ],
    "a setting whose result is taken": [
        "import csv, io",
        "old = csv.register_dialect('own', delimiter='_|;'[{}])",
        "print(next(csv.reader(io.StringIO('a|b;c'), 'own')))",
    ],
    "an item of a table in a library": [
        "import mimetypes",
        "mimetypes.types_map['.own'] = 'own/{}'",
        "print(mimetypes.types_map['.own'])",
    ],
    "an item of such a table, by another name": [
        "import mimetypes; types = mimetypes.types_map",
        "types['.own'] = 'own/{}'",
        "print(mimetypes.types_map['.own'])",
    ],
    "the table that a variable is": [
        "import sys; table = sys.path",
        "table.append('own{}')",
        "print(sys.path[-1])",
    ],
    "a package with more in it": [
        "import xml",
        "if {} == 1: from xml.dom import minidom",
        "print(hasattr(xml, 'dom'))",
    ],
    "the size of a file": [
        "import os",
        "with open('own.txt', 'w') as file: file.write('x' * {})",
        "print(os.path.getsize('own.txt'))",
    ],
    "a way to all variables": ["x = 1", "k = {}", "found = eval", "print(found('k'))"],
    "what is called when an object goes": [
        "import weakref\ngone = []\nclass Kind: pass\nkind = Kind()",
        "end = weakref.finalize(kind, gone.append, {})",
        "del kind",
        "print(gone)",
    ],
    "the working folder": [
        "import os; os.makedirs('d1', exist_ok=True); os.makedirs('d2', exist_ok=True)",
        "os.chdir('d{}')",
        "print(os.path.basename(os.getcwd()))",
    ],
}


def test_what_no_variable_holds_is_not_taken_from_another_run(tmp_path: Path, ledger: Path) -> None:
    folders = [tmp_path / "plain", tmp_path / "reusing"]
    for folder in folders:
        folder.mkdir()
        (folder / "helper.py").write_text(HELPER)
    wrong, counts = {}, {}
    notebook = Notebook(folders[1], ledger)
    with notebook.engine, Engine(cwd=folders[0]) as plain:
        for name, texts in UNSEEN.items():
            for value in (1, 2):
                cells = [text.format(value) if "{}" in text else text for text in texts]
                results = notebook.run(cells)
                found, wanted = [printed(each) for each in results], expected(plain, cells)
                if found != wanted:
                    wrong[name, value] = f"{found} instead of {wanted}"
            counts[name] = sum(reused(results))
    assert not wrong
    # What came before is known all the same.
    assert min(counts.values()) >= 1


# More than a megabyte, so that it is read again only where a cell may have changed it.
TABLE = f"""import numpy as np, pandas as pd
t = pd.DataFrame({{'n': np.arange(200_000.0), 'i': pd.array([1] * 200_000, dtype='Int64')}})
{BUSY}"""
AROUND = {
    "array": "t['i'].array[0] = 99",
    "values": "t['i'].values[0] = 99",
    "flags": "a = t['n'].to_numpy(); a.flags.writeable = True; a[0] = 99; del a",
    "function": "def poke(column): column.values[0] = 99\npoke(t['i'])",
}


@pytest.mark.parametrize("way", AROUND)
def test_large_tables_that_are_changed_without_pandas_are_what_they_are(
    tmp_path: Path, ledger: Path, plain: Engine, way: str
) -> None:
    # Of the second it is known what the first has stored; both look alike to who does not look.
    programs = [
        [TABLE, f"m = t['n'].mean()\n{BUSY}", "print(t['n'].sum(), t['i'].sum(), m)"],
        [TABLE, f"{AROUND[way]}\n{BUSY}", "print(t['n'].sum(), t['i'].sum())"],
        [TABLE, f"{AROUND[way]}\n{BUSY}", "print(t['i'].sum() + t['n'].sum())"],
        [TABLE, f"m = t['n'].mean()\n{BUSY}", "print(t['i'].sum() + t['n'].sum(), m)"],
    ]
    for number, cells in enumerate(programs):
        book = Notebook(tmp_path / f"b{number}", ledger)
        with book.engine:
            results = book.run(cells)
        assert [printed(each) for each in results] == expected(plain, cells)


def test_what_was_loaded_says_so_and_what_nobody_needs_is_not_there(
    tmp_path: Path, ledger: Path
) -> None:
    with Notebook(tmp_path / "first", ledger).engine as engine:
        engine.set_reuse(graph=True)
        for cell in BASE[:3]:
            engine.run(cell)
        engine.drain()
    other = Notebook(tmp_path / "other", ledger)
    with other.engine as engine:
        results = other.run([*BASE[:3], "print(y[0].sum())"])
        assert reused(results) == [True, True, True, False]
        assert printed(results[-1]) == f"{2.0 * sum(range(200_000))}\n"
        why = engine._ask("why")
        assert why["y"].startswith("loaded"), why
        assert "not needed" in why["waste"], why
        # Going on in the same state loads what was left out.
        assert printed(engine.run("print(waste > 0)")) == "True\n"


def damage(store: Path) -> None:
    for pack in (store / "packs").iterdir():
        data = bytearray(pack.read_bytes())
        middle = len(data) // 2
        data[middle : middle + 64] = bytes(64)
        pack.chmod(0o600)
        pack.write_bytes(data)


@pytest.mark.parametrize(
    ("how", "reason"),
    {
        "damaged": r"'x, y' is computed again: array 'x/0' .* is lost: .* is damaged",
        "gone": "'x, y' is computed again: the store has no image",
        "another key": "what is kept of a cell was written with another key",
        "forged": "'np' is computed again: its contents are gone, or were written with another key",
    }.items(),
)
def test_contents_that_cannot_be_trusted_are_computed(
    tmp_path: Path, ledger: Path, plain: Engine, how: str, reason: str
) -> None:
    cells = [*BASE[:3], "print(y[0].sum(), x[5])"]
    first = Notebook(tmp_path / "first", ledger)
    with first.engine:
        first.run(cells[:3])
    store = ledger.with_suffix(".artifacts")
    env = {}
    match how:
        case "damaged":
            damage(store)
        case "gone":
            for image in (store / "images").iterdir():
                image.unlink()
        case "another key":
            env = {"CHEX_STORE_KEY": "ab" * 32}
        case "forged":
            with sqlite3.connect(ledger) as connection:
                connection.execute("UPDATE chex_contents SET data = 'gASVBQAAAAAAAACMAXiULg=='")
            damage(store)
    other = Notebook(tmp_path / "other", ledger, **env)
    with other.engine:
        results = other.run(cells)
    assert [printed(each) for each in results] == expected(plain, cells)
    told = "".join(o["text"] for each in results for o in each.outputs if o.get("name") == "stderr")
    assert len(re.findall(reason, told)) == 1, told


def test_cells_that_may_give_something_else_are_run(tmp_path: Path, ledger: Path) -> None:
    cells = [
        "import time, random",
        f"now = time.time()\n{BUSY}",
        f"drawn = random.random()\n{BUSY}",
        "print(drawn)",
    ]
    first = Notebook(tmp_path / "first", ledger)
    with first.engine:
        (one,) = [printed(each) for each in first.run(cells)][-1:]
    other = Notebook(tmp_path / "other", ledger)
    with other.engine:
        results = other.run(cells)
    assert reused(results) == [True, False, False, False]
    assert printed(results[-1]) != one


def test_files_that_cells_read_decide(tmp_path: Path, ledger: Path) -> None:
    cells = [f"text = open('data.txt').read()\n{BUSY}", "print(text)"]
    for folder, text in (("a", "one"), ("b", "one"), ("c", "two")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.txt").write_text(text)
    shown = {}
    for folder in "abc":
        notebook = Notebook(tmp_path / folder, ledger)
        with notebook.engine:
            results = notebook.run(cells)
        shown[folder] = reused(results)[0], printed(results[-1])
    assert shown == {"a": (False, "one\n"), "b": (True, "one\n"), "c": (False, "two\n")}


def test_graph_that_cannot_be_reached_stops_nobody(tmp_path: Path) -> None:
    place = tmp_path / "team.sqlite"
    place.write_text("this is no database, but a letter to a friend")
    notebook = Notebook(tmp_path / "project", place)
    with notebook.engine:
        results = [*notebook.run(BASE[:2]), *notebook.run(["print(1)", "print(2)"])]
    assert [printed(each) for each in results[-2:]] == ["1\n", "2\n"]
    told = " ".join(str(result.outputs) for result in results)
    assert len(re.findall("experiment graph is not used", told)) == 1


def test_dropped_contents_leave_the_disk_when_the_kernel_ends(tmp_path: Path, ledger: Path) -> None:
    def size() -> int:
        files = (path for path in tmp_path.glob("team*/**/*") if path.is_file())
        return sum(path.stat().st_size for path in files)

    arrays = [
        BASE[0],
        *(f"a{n} = np.random.default_rng({n}).random(100_000)\n{BUSY}" for n in range(3)),
    ]
    with (first := Notebook(tmp_path / "first", ledger)).engine:
        first.run(arrays)
    full = size()
    assert full > 600_000  # one of them at least is worth it on any machine
    with (other := Notebook(tmp_path / "other", ledger, CHEX_GRAPH_KEEP="none")).engine:
        other.run([BASE[0], f"b = np.random.default_rng(9).random(100_000)\n{BUSY}"])
    assert size() < full / 10


def test_a_recording_holds_only_states_that_later_versions_part_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[AutoMode] = []
    monkeypatch.setattr(Engine, "set_auto", lambda _, mode: modes.append(mode))
    cells = tuple(SourceCell(source=each) for each in ("x = 1", "y = x", "print(x + y)"))
    file = SourceFile(path=tmp_path / "steps.ipynb", kind="notebook", cells=cells)
    (task,) = plan_versions([file], [()], folder=tmp_path)
    with Batch(is_reusing=True) as batch:
        assert batch.record(task, keep=(2,)).status == "ok"
    assert modes == ["never", "always", "never"]
