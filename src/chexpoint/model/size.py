"""Sizes in bytes and shares of time, as people write them."""

from __future__ import annotations

import math
import re

from chexpoint.errors import InvalidValue

DEFAULT_OVERHEAD: float | None = 1 / 15
"""The share of time that checkpoints of loops may take: the paper's."""

_UNITS = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([kmgt]?)(?:i?b)?\s*", re.IGNORECASE)


def parse_size(text: str) -> int:
    """Return the bytes that ``text`` means: ``"512M"``, ``"1.5 GB"``, ``"4GiB"``, ``"1000"``.

    Units are powers of 1024, with or without the ``i``.

    Raises
    ------
    InvalidValue
        If ``text`` is not a size, or is zero.
    """
    match = _SIZE.fullmatch(text)
    size = float(match[1]) * _UNITS[match[2].lower()] if match else 0.0
    if not 1 <= size < 2**62 or not math.isfinite(size):
        raise InvalidValue(f"'{text}' is not a size. Write for example 512M or 4G.")
    return int(size)


def format_size(size: float) -> str:
    """Return ``size`` bytes in the unit that keeps it short: ``"1.5 GB"``."""
    value = float(size)
    for unit in ("B", "KB", "MB", "GB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TB"


def format_seconds(seconds: float) -> str:
    """Return a duration in the unit that keeps it short: ``"12 ms"``, ``"3.4 s"``, ``"2 min"``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def parse_overhead(text: str) -> float | None:
    """Return a share of time, from ``3%`` or ``0.03``; infinite for ``always``, None for ``off``.

    Raises
    ------
    InvalidValue
        If it is none of these, or not between 0 and 1.
    """
    if text == "off":
        return None
    if text == "always":
        return math.inf
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise InvalidValue(f"'{text}' is not a share of time: say 3%, 0.03, always or off")
    return share
