"""Tables of pandas: which hold no Python objects, and which memory they hold.

Since version 3 pandas copies memory before it is written to if another object shows it: what a
table holds can only be changed by way of this table.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

Span = tuple[int, int]
"""An address, and that after the last byte."""


def is_table(value: object) -> bool:
    """Tell whether a value is a table or a column of a pandas that copies before it writes."""
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or int(str(pandas.__version__).partition(".")[0]) < 3:
        return False
    return type(value) in {pandas.DataFrame, pandas.Series}


def is_plain_table(value: Any) -> bool:
    """Tell whether a value is a table without Python objects in its columns."""
    if not is_table(value):
        return False
    kinds = [value.dtype] if value.ndim == 1 else list(value.dtypes)
    return all(kind.kind != "O" or _is_text(kind) for kind in (*kinds, value.index.dtype))


def _is_text(kind: Any) -> bool:
    """Tell whether a column holds strings, not objects of any kind."""
    if type(kind).__name__ == "CategoricalDtype":
        return kind.categories is not None and (
            kind.categories.dtype.kind != "O" or _is_text(kind.categories.dtype)
        )
    return type(kind).__name__ in {"StringDtype", "ArrowDtype"}


def memory_of(table: Any) -> Iterator[Span]:
    """Yield where the arrays of a table lie now: pandas moves them even when it only reads."""
    from numpy.lib.array_utils import byte_bounds

    for block in getattr(getattr(table, "_mgr", None), "blocks", ()):
        if type(block.values).__name__ == "ndarray":
            yield byte_bounds(block.values)
