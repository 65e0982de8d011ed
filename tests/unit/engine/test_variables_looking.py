"""What a value leads to that was not read to its end, and what the text of a cell tells."""

from __future__ import annotations

import numpy as np
import pytest

from chexpoint.engine.variable_digests import TooMuch
from chexpoint.engine.variable_facts import Reader
from chexpoint.engine.variable_looking import LOOK_LIMIT, holds_objects
from chexpoint.engine.variable_reads import read_uses
from chexpoint.project.graph_uses import uses_of


@pytest.mark.parametrize(
    ("values", "is_holding"),
    [
        (["a", "b", None, 1.5], False),
        ([], False),
        (["a", []], True),
        (["a", ("b",)], True),
        ([np.dtype("f8"), "a"], False),
        (["a"] * (LOOK_LIMIT + 1), True),
    ],
)
def test_arrays_of_a_few_plain_values_hold_nothing_that_is_shared(
    values: list[object], is_holding: bool
) -> None:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    assert holds_objects(array) is is_holding


def test_structures_with_objects_hold_them() -> None:
    assert holds_objects(np.zeros(2, dtype=[("a", "O"), ("b", "f8")]))
    assert not holds_objects(np.zeros(2))
    assert not holds_objects([[]])


def test_a_table_that_could_not_be_read_is_entangled_with_nothing_by_its_labels() -> None:
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({name: [1.0, 2.0] for name in "abc"})
    assert table.columns.to_numpy(dtype=object).tolist() == ["a", "b", "c"]
    facts = Reader(({},)).unread([table, table.columns.values], TooMuch(), 0.1)
    assert facts.print.ids
    assert not facts.is_entangled
    table["d"] = [[], []]
    assert Reader(({},)).unread(table, TooMuch(), 0.1).is_entangled


def test_a_copy_that_was_made_to_be_written_is_no_place_of_a_variable() -> None:
    """Where it was, another variable may be later: that would seem to share it."""
    base = np.arange(100_000.0)
    facts, _ = Reader(({},)).read(base[::50], 1.0)
    start, end = np.lib.array_utils.byte_bounds(base[::50])
    assert facts.print.spans == ((start, end, 0),)


def test_a_warm_start_uses_its_model_and_its_data() -> None:
    uses = uses_of("model = make()\n%chex_warmstart model --data X y\nmodel.fit(X, y)")
    assert not uses.is_opaque
    assert uses.reads == {"make", "X", "y"}
    alone = read_uses("get_ipython().run_line_magic('chex_warmstart', 'model --data X y')")
    assert alone.reads == {"model", "X", "y"}
    assert not alone.is_opaque


@pytest.mark.parametrize("cell", ["%time k = _ * 2", "%timeit Out[3]", "%%time\nk = _i2"])
def test_magics_are_looked_into_for_what_earlier_cells_have_shown(cell: str) -> None:
    assert uses_of(cell).uses_history


def test_a_magic_that_may_do_anything_uses_everything() -> None:
    assert uses_of("%run other.py").is_opaque
    assert uses_of("x = 1\n!ls {x}").is_opaque
    assert not uses_of("%time x = y").is_opaque
