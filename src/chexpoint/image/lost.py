"""Why something cannot be stored: raised while an image is made, told to the user as a reason."""

from __future__ import annotations


class Lost(Exception):
    """Something cannot be stored, or would not come back as it is; the text says why."""


def kind_of(value: object) -> str:
    """Return the type of a value as the user knows it: ``sqlite3.Connection``, ``list``."""
    kind = type(value)
    if kind.__module__ in {"builtins", "__main__"}:
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def reason_of(error: BaseException) -> str:
    """Return one line that says why pickling failed."""
    if isinstance(error, Lost):
        return str(error)
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "there is not enough memory to write it"
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
