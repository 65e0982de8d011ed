"""Values as they go into SQLite and come out again.

SQLite keeps whatever it is given in any column, so nothing that comes out is trusted: these
functions raise `ValueError`, and whoever knows what the row stands for says so to the user.
"""

from __future__ import annotations

import json
import math
from typing import Any, Literal

import xxhash

from chexpoint.model import CellLineage, Digest, NodeId, lineage_from_json, to_json

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading JSON that somebody has tampered with may raise."""

_OF_A_RUN = ("source", "execution_count", "seconds", "size_bytes", "status")


def stored(text: str) -> str | bytes:
    """Return a text as SQLite takes it; one with bytes that are not UTF-8 goes as bytes."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def as_text(value: object) -> str:
    """Return the text that `stored` was given."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogatepass")
    raise ValueError(f"{value!r:.40} is no text")


def as_node(value: object) -> NodeId:
    return NodeId(as_text(value))


def as_int(value: object) -> int:
    if isinstance(value, int):
        return value
    raise ValueError(f"{value!r:.40} is no whole number")


def as_real(value: object) -> float:
    if isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    raise ValueError(f"{value!r:.40} is no number")


def as_status(value: object) -> Literal["ok", "error"]:
    if value == "ok":
        return "ok"
    if value == "error":
        return "error"
    raise ValueError(f"{value!r:.40} is no status")


def content_digest(text: str) -> Digest:
    """Return the digest that a text is kept under."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def as_source(value: object, digest: object) -> str:
    """Return a source that is still the one that was recorded."""
    text = as_text(value)
    if content_digest(text) != digest:
        raise ValueError("its source is not the one that ran")
    return text


def parameters_text(parameters: tuple[tuple[str, str], ...]) -> str:
    return json.dumps(parameters)


def as_parameters(value: object) -> tuple[tuple[str, str], ...]:
    pairs = json.loads(as_text(value))
    if not isinstance(pairs, list):
        raise ValueError("its parameters are no list")  # noqa: TRY004
    return tuple((as_text(name), as_text(chosen)) for name, chosen in pairs)


def lineage_text(lineage: CellLineage) -> str:
    """Return what runs that did the same have in common, so that it is kept once.

    JSON in ASCII carries names that are not UTF-8, which SQLite would refuse.
    """
    data: dict[str, Any] = to_json(lineage)
    for name in _OF_A_RUN:
        del data[name]
    data["audit"].pop("interrupts")
    return json.dumps(data)


def as_lineage(text: object, node: str, interrupts: object, run: dict[str, Any]) -> CellLineage:
    """Return the lineage of a run, from what `lineage_text` wrote and what was the run's own."""
    try:
        data = {**json.loads(as_text(text)), **run}
        data["audit"]["interrupts"] = as_int(interrupts)
        lineage = lineage_from_json(data)
        if lineage.node != node:
            raise ValueError(f"it is that of node {lineage.node!r:.40}")
        as_text(lineage.parent)
        as_int(lineage.number)
    except UNREADABLE as error:
        raise ValueError(f"its lineage cannot be read ({error!r:.80})") from error
    return lineage
