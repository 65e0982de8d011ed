"""NumPy, if the program has loaded it.

Never before it has: what a program sets before it imports NumPy (how many threads it may use, for
one) would come too late.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any


class _NoArray:
    """Stands for the class of arrays while there can be none."""


class _Numpy:
    """The module, as far as it is there."""

    def __getattr__(self, name: str) -> Any:
        if name == "ndarray" and not hasattr(sys.modules.get("numpy"), "ndarray"):
            return _NoArray
        return getattr(importlib.import_module("numpy"), name)


np: Any = _Numpy()
