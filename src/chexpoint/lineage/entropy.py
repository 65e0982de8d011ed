"""Whether a cell asks the system for randomness that may reach its results."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Mapping
from types import FrameType
from typing import Any

from chexpoint.lineage.hints import cell_frame, cell_line
from chexpoint.model import Hint

# They take entropy for names, keys and session ids, which do not reach the results.
_HARMLESS = frozenset(
    {
        "IPython",
        "aiohttp",
        "asyncio",
        "bokeh",
        "chexpoint",
        "comm",
        "dask",
        "debugpy",
        "distributed",
        "email",
        "importlib",
        "ipykernel",
        "ipywidgets",
        "joblib",
        "jupyter_client",
        "loky",
        "multiprocessing",
        "plotly",
        "requests",
        "ssl",
        "tempfile",
        "tornado",
        "urllib3",
        "zmq",
    }
)
_HARMLESS_PARTS = ("sklearn.callback",)


def entropy_hint(frame: FrameType | None, namespace: Mapping[str, Any]) -> Hint | None:
    """Return a hint if a cell, rather than the machinery around it, asks for entropy.

    ``frame`` is the caller of the function that gives it.
    """
    if cell_frame(frame, namespace) is None or _is_seeded_at_once(frame):
        return None
    # A script that the cell runs with `%run` is the user's code too.
    while frame is not None and (module := frame.f_globals.get("__name__")) != "__main__":
        if frame.f_globals is namespace:
            break
        if str(module).partition(".")[0] in _HARMLESS or str(module).startswith(_HARMLESS_PARTS):
            return None
        frame = frame.f_back
    return Hint(
        kind="entropy",
        what="random bytes of the operating system were used: results differ each time; "
        "pass a seed where one can be given",
        line=cell_line(frame, namespace),
    )


def _is_seeded_at_once(frame: FrameType | None) -> bool:
    """Return whether entropy is asked for by ``RandomState(seed)``, which then does not use it.

    NumPy makes the generator first, with entropy, and seeds it afterwards.
    """
    if frame is None or frame.f_globals.get("__name__") != "random" or frame.f_back is None:
        return False
    caller = frame.f_back
    call = _running_call(caller)
    if call is None or not ast.unparse(call.func).endswith("RandomState"):
        return False
    given = [*call.args, *(word.value for word in call.keywords if word.arg == "seed")]
    if len(given) != 1:
        return False
    match given[0]:
        case ast.Constant(value=value):
            return value is not None
        case ast.Name(id=name):
            return caller.f_locals.get(name, caller.f_globals.get(name)) is not None
    return False


def _running_call(frame: FrameType) -> ast.Call | None:
    """Return the call that a frame is in, as it is written."""
    line, end_line, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    if line is None or end_line is None or column is None or end_column is None:
        return None
    lines = linecache.getlines(frame.f_code.co_filename, frame.f_globals)[line - 1 : end_line]
    # Columns are counted in bytes.
    raw = [text.encode() for text in lines]
    if not raw:
        return None
    raw[-1] = raw[-1][:end_column]
    raw[0] = raw[0][column:]
    try:
        node = ast.parse(b"".join(raw).decode(), mode="eval").body
    except (SyntaxError, ValueError):
        return None
    return node if isinstance(node, ast.Call) else None
