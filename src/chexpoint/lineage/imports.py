"""Statements that only import: what modules draw meanwhile is for names of their own."""

from __future__ import annotations

import dis
from types import CodeType

_IMPORT = dis.opmap["IMPORT_NAME"]
# All that an import statement is compiled to, in any version of Python.
_PARTS = frozenset(
    dis.opmap[name]
    for name in (
        *("IMPORT_NAME", "IMPORT_FROM", "IMPORT_STAR", "CALL_INTRINSIC_1"),
        *("LOAD_CONST", "LOAD_SMALL_INT", "STORE_NAME", "STORE_GLOBAL", "SWAP", "POP_TOP"),
        *("RESUME", "CACHE", "NOP", "EXTENDED_ARG", "RETURN_VALUE", "RETURN_CONST"),
    )
    if name in dis.opmap
)


def only_imports(code: CodeType) -> bool:
    """Return whether compiled statements do nothing but import."""
    parts = set(code.co_code[::2])
    return _IMPORT in parts and parts <= _PARTS
