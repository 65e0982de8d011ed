"""The names that a running piece of code can see, and how to bind them from outside."""

from __future__ import annotations

import ctypes
import sys
from collections import ChainMap
from collections.abc import Mapping
from types import FrameType
from typing import Any

# Since 3.13 (PEP 667) writing to f_locals is enough.
_MUST_PUSH = sys.version_info < (3, 13)


def visible_names(frame: FrameType) -> Mapping[str, object]:
    """Return what the names in a frame stand for, locals before globals."""
    if frame.f_locals is frame.f_globals:
        return frame.f_globals
    return ChainMap(dict(frame.f_locals), frame.f_globals)


def bind_names(frame: FrameType, values: Mapping[str, object]) -> None:
    """Bind names in a frame, each where its code would bind it."""
    if frame.f_locals is frame.f_globals:
        frame.f_globals.update(values)
        return
    code = frame.f_code
    fast = {*code.co_varnames, *code.co_cellvars, *code.co_freevars}
    frame.f_globals.update({name: value for name, value in values.items() if name not in fast})
    own = {name: value for name, value in values.items() if name in fast}
    if not own:
        return
    names: dict[str, Any] = frame.f_locals
    names.update(own)
    if _MUST_PUSH:
        push = ctypes.pythonapi.PyFrame_LocalsToFast
        push.argtypes, push.restype = [ctypes.py_object, ctypes.c_int], None
        push(frame, 0)
