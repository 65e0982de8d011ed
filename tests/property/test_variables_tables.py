"""Large tables are not read to their end after each cell: what is told of them is right.

Here nothing is small, so that all the shortcuts are taken.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, given, settings

from chexpoint.engine import variable_digests, variable_known, variables
from chexpoint.engine.variable_facts import Reader
from tests.support.watched import Watched, programs

NAMES = ("a", "b", "c")
CELLS = (
    # New tables, which show memory of others or have their own.
    "{x} = {y}",
    "{x} = {y}.copy()",
    "{x} = {y}.copy(deep=False)",
    "{x} = {y}[['n', 's']]",
    "{x} = {y}.drop(columns='n').assign(n=1.5)",
    "{x} = pd.concat([{y}, {z}[['m']].add_prefix('p')], axis=1)[['n', 'm', 's', 'i', 'k']]",
    "{x} = {y}.head(700)",
    "{x} = {y}.iloc[100:].reset_index(drop=True)",
    "{x} = {y}.sort_values('n')",
    "{x} = {y}.merge({z}[['m']], left_index=True, right_index=True, suffixes=('', '_r'))",
    "{x} = {y}.astype({{'n': 'float64'}})",
    "{x}, rest = train_test_split({y}, train_size=0.9, shuffle=False)",
    "h = pd.concat([{y}, {z}], axis=1)",
    "t = {x}.T",
    # Looking.
    "k = len({x}) + {x}['n'].mean()",
    "print({x}['n'].sum(), {x}.shape)",
    "k = [name for name in {x}.columns]",
    "k = {x}.groupby('k')['n'].transform(f).sum()",
    "k = {x}.apply(lambda column: column.max())",
    "k = g({x}['n'])",
    # Changing, in ways that pandas knows.
    "{x}.loc[0, 'n'] = 7",
    "{x}.iat[1, 0] += 1",
    "{x}['n'] = {y}['m']",
    "{x}['n'] += 1",
    "{x}.loc[{x}['n'] > 3, 'm'] = 0",
    "{x}.fillna(0, inplace=True)",
    "{x}.sort_values('m', inplace=True, ignore_index=True)",
    "{x}['k'] = {x}['k'].cat.rename_categories({{'u': 'w'}}).astype(str).astype('category')",
    "s = {x}['n']\ns[0] = 11",
    "{x}.index = {x}.index + 1",
    "{x}.index.name = 'row'",
    "{x}.columns.name = 'kind'",
    "for part in ({x}, {y}):\n    part.loc[0, 'm'] = 3",
    "def h():\n    {x}.loc[0, 'n'] = 4\nh()",
    "change({x})",
    "k = [{x}][0]\nk.loc[2, 'm'] = 8",
    "len = change\nlen({x})",
    "k = {x}.pipe(change)",
    "for _, column in {x}.items():\n    column.iloc[0] = column.iloc[1]",
    "{x}.iloc[:, 0].iloc[0] = 9.0",
    "{x}.squeeze().iat[0, 0] = 9.0",
    "{x}.head(500)['m'].update(pd.Series([1.0]))",
    "k = {x}.apply(lambda column: column.__setitem__(0, column[1]))",
    "pd.concat([{x}, {y}], axis=1, copy=False).iat[0, 1] = 8.0",
    "np.add({x}['n'], 1, out={x}['m'])",
    "{x}.columns.values[0] = 'n'",
    # Changing, in ways that pandas does not know.
    "{x}['s'].values[0] = 'z'",
    "{x}['i'].array[0] = 9",
    "values = {x}['n'].to_numpy()\nvalues.flags.writeable = True\nvalues[3] = 5",
    "write({x}['n'])",
    "poke({x}['s'])",
    "v = {x}['s'].values",
    "v[1] = 'q'",
    "w = {x}['n'].to_numpy()",
    "w.setflags(write=True)\nw[2] = 6",
    (
        "u = np.zeros((1000, 2))\nw = pd.DataFrame(u, columns=['n', 'm'], copy=False)\n"
        "{x} = w.join({y}[['s', 'i', 'k']])"
    ),
    "u[5] = 2",
)
START = """
import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
def made(start):
    return pd.DataFrame({
        "n": np.arange(start, start + 1000.0),
        "m": np.arange(1000.0) % 17,
        "s": pd.array(["x", "y"] * 500, dtype="string[python]"),
        "i": pd.array([1, 2] * 500, dtype="Int64"),
        "k": pd.Categorical(["u", "v"] * 500),
    })
a, b, c = made(0), made(5), made(9)
def f(column):
    return column - column.mean()
def g(column):
    column[0] = 100
    return float(column.sum())
def change(table):
    table.loc[3, "n"] = 12
    return 1
def write(column):
    values = column.to_numpy()
    values.flags.writeable = True
    values[4] = 13
def poke(column):
    column.values[5] = "r"
u, v, w = np.zeros(3), ["x", "y"], np.zeros(3)
"""

FULL = settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


def check(cells: list[str]) -> None:
    """Run cells; what has the same digest must hold the same, and no change may go unseen."""
    notebook = Watched()
    notebook.run(START)
    seen: dict[str, Any] = {}
    for cell in ["", *cells]:
        before = contents(notebook)
        found = notebook.run(cell)
        after = contents(notebook)
        told = {name for group in found.writes for name in group.names}
        assert {name for name in after if before.get(name) != after[name]} <= told, cell
        digests = {name: facts.digest for name, facts in notebook.watch._known.facts.items()}
        digests |= {name: group.digest for name, group in notebook.groups.items() if name in told}
        for name in after.keys() & digests.keys():
            kind, digest = type(notebook[name]), digests[name]
            if digest and len(notebook.groups[name].names) == 1:
                assert seen.setdefault(f"{kind} {digest}", after[name]) == after[name], cell


def contents(notebook: Watched) -> dict[str, Any]:
    """Return what the tables hold."""
    values: dict[str, Any] = notebook.names
    tables = {name for name, each in values.items() if type(each) in {pd.DataFrame, pd.Series}}
    return {name: content_of(values[name]) for name in tables}


def content_of(table: Any) -> tuple[object, ...]:
    frame = table.to_frame("only") if table.ndim == 1 else table
    axes = [
        (repr(axis.names), repr(axis.dtype), axis.tolist()) for axis in (frame.index, frame.columns)
    ]
    columns = [frame.iloc[:, at] for at in range(frame.shape[1])]
    return repr(axes), [(repr(each.dtype), repr(each.tolist())) for each in columns]


@pytest.fixture(autouse=True)
def _nothing_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(variable_digests, "LARGE_BYTES", 1)
    monkeypatch.setattr(variable_known, "LARGE_BYTES", 1)
    # Threads that other tests of this process have left might change any table.
    monkeypatch.setattr(variables, "_has_threads", lambda _: False)


@FULL
@given(programs(CELLS, NAMES))
def test_what_is_known_of_tables_is_so(cells: list[str]) -> None:
    np.random.seed(0)
    check(cells)


@pytest.mark.parametrize("cell", CELLS)
def test_what_is_known_after_each_cell_is_so(cell: str) -> None:
    check([cell.format(x="a", y="b", z="c"), cell.format(x="b", y="a", z="a")])


@pytest.mark.parametrize(
    ("cell", "is_read"),
    [
        ("k = a['n'].mean()", False),
        ("k = pd.concat([a, b], axis=1)", False),
        ("k = len(a), np.array([1.0]), {}.values()", False),
        ("k = f(a['n'])", False),
        ("k = train_test_split(a, shuffle=False)", False),
        ("k = a['s'].values", True),
        ("k = a['i'].array", True),
        ("k = getattr(a['i'], 'ar' + 'ray')", True),
        ("k = poke(a['s'])", True),
        ("k = [poke][0](a['s'])", True),
        ("k = (lambda c: c.values)(a['s'])", True),
        ("import torch\nk = torch.from_numpy(a['n'].to_numpy())", True),
        ("train_test_split = change\nk = train_test_split(a)", True),
        ("pd = b\nk = pd.merge(a)\nimport pandas as pd", True),
        ("k = a", True),
    ],
)
def test_tables_are_read_again_only_where_they_may_have_changed(
    cell: str, is_read: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = Watched()
    notebook.run(START)
    table, read = notebook["a"], []
    plain = Reader.read

    def noting(self: Reader, value: object, *args: Any, **options: Any) -> Any:
        read.append(value)
        return plain(self, value, *args, **options)

    monkeypatch.setattr(Reader, "read", noting)
    notebook.run(cell)
    assert any(value is table for value in read) is is_read


def test_functions_in_files_of_the_users_own_may_change_a_table_in_any_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_helpers_of_tables.py").write_text(
        "def poke(column):\n    column.values[5] = 'r'\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    check(["import own_helpers_of_tables as own\nown.poke(a['s'])", "own.poke(b['s'])"])
