"""What is worth knowing about a variable, to be shown and to be searched: columns, shape, class.

No code of the user's runs for it, and nothing that takes long.
"""

from __future__ import annotations

import collections
import contextlib
import math
import sys
from typing import Any

from chexpoint.engine.variable_facts import is_users
from chexpoint.image import kind_of

MAX_COLUMNS = 200
MAX_PARAMETERS = 60
_PLAIN = (type(None), bool, int, float, str)
_SIZED = frozenset(
    {list, dict, set, frozenset, tuple, str, bytes, bytearray, collections.deque}
    | {collections.OrderedDict, collections.Counter}
)


def meta_of(value: Any) -> dict[str, Any]:
    """Return what is worth knowing about a value; nothing if it is of no known kind."""
    with contextlib.suppress(Exception):
        for describe in (_table, _array, _module, _estimator):
            found = describe(value)
            if found:
                return found
        if type(value) in _SIZED:
            return {"length": len(value)}
    return {}


def is_estimator(value: object) -> bool:
    """Tell whether a value has the methods of scikit-learn's models."""
    kind = type(value)
    return not isinstance(value, type) and all(
        any(name in vars(base) for base in kind.__mro__) for name in ("fit", "get_params")
    )


def _library(value: object, name: str) -> Any:
    """Return a library if it is loaded, and an object is of one of its classes."""
    if type(value).__module__.partition(".")[0] != name:
        return None
    return sys.modules.get(name)


def _table(value: Any) -> dict[str, Any]:
    pandas = _library(value, "pandas")
    if pandas is not None and type(value) is pandas.Series:
        return {
            "rows": len(value.index),
            "columns": [_word(value.name)],
            "dtypes": [str(value.dtype)],
        }
    if pandas is None or type(value) is not pandas.DataFrame:
        polars = _library(value, "polars")
        if polars is None or type(value) is not polars.DataFrame:
            return {}
        names, kinds = value.columns[:MAX_COLUMNS], value.dtypes[:MAX_COLUMNS]
        return {"rows": value.height, "columns": names, "dtypes": [str(kind) for kind in kinds]}
    kinds = value.dtypes.iloc[:MAX_COLUMNS]
    return {
        "rows": len(value.index),
        "columns": [_word(name) for name in kinds.index],
        "dtypes": [str(kind) for kind in kinds],
    }


def _word(name: object) -> str:
    return str(name) if isinstance(name, str | int | float | tuple) else ""


def _array(value: Any) -> dict[str, Any]:
    numpy = _library(value, "numpy")
    if numpy is not None and isinstance(value, numpy.ndarray | numpy.generic):
        return {"shape": list(value.shape), "dtype": str(value.dtype)}
    torch = _library(value, "torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch.")}
    return {}


def _module(value: Any) -> dict[str, Any]:
    torch: Any = sys.modules.get("torch")
    if torch is None or not issubclass(type(value), getattr(torch.nn, "Module", ())):
        return {}
    # Not by the methods of the object: they may be the user's.
    counts = [each.numel() for each in torch.nn.Module.parameters(value)]
    return {"role": "model", "class": kind_of(value), "parameters": sum(counts)}


def _estimator(value: Any) -> dict[str, Any]:
    if not is_estimator(value):
        return {}
    kind = type(value)
    found = {"role": "model", "class": kind_of(value)}
    ask = next(vars(base)["get_params"] for base in kind.__mro__ if "get_params" in vars(base))
    if is_users(getattr(ask, "__module__", None)) or is_users(kind.__module__):
        return found
    given = value.get_params(deep=False)
    plain = {key: each for key, each in given.items() if _is_plain(each)}
    return found | {"parameters": dict(list(plain.items())[:MAX_PARAMETERS])}


def _is_plain(value: object) -> bool:
    if type(value) is float:
        return math.isfinite(value)
    return type(value) in _PLAIN and len(str(value)) < 200
