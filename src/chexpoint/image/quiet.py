"""Silence while something is written or loaded."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator


@contextlib.contextmanager
def without_warnings() -> Iterator[None]:
    """Show no warnings; unlike `warnings.catch_warnings`, Python does not forget those shown."""
    filters = warnings.filters
    warnings.filters = [("ignore", None, Warning, None, 0)]
    try:
        yield
    finally:
        warnings.filters = filters
