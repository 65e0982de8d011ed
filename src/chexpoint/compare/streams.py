"""What a cell has written to its streams."""

from __future__ import annotations

import re

_OWN = re.compile(r"^CHEX: [^\n]*+\n?", re.MULTILINE)


def text_of(value: object) -> str | None:
    """Return a text, which notebook files may hold as a list of lines; None if it is none."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return None


def stream_of(output: object) -> tuple[str, str] | None:
    """Return the name of a stream and what was written to it; None if an output is none.

    Odd things are no stream: outputs may come from anybody.
    """
    if not isinstance(output, dict) or output.get("output_type") != "stream":
        return None
    name, text = output.get("name", "stdout"), text_of(output.get("text", ""))
    return (name, text) if isinstance(name, str) and text is not None else None


def without_own_lines(text: str) -> str:
    """Return a text without what CHEX says about its own doing."""
    return _OWN.sub("", text) if "CHEX: " in text else text
