"""How two displayed objects compare, each of which is there in several representations."""

from __future__ import annotations

import base64
from collections.abc import Mapping

from chexpoint.compare.finding import Finding
from chexpoint.compare.images import IMAGES, compare_images
from chexpoint.compare.markup import compare_html, compare_markup
from chexpoint.compare.streams import text_of
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance
from chexpoint.compare.values import compare_values

Data = Mapping[str, object]
"""Representations of one object, by MIME type."""

_PLAIN = "text/plain"
# The ids of widgets are new with every run, and what Colab adds is for its own menus.
_IGNORED = ("application/vnd.jupyter.widget", "application/vnd.google.colaboratory")
_EMPTY: tuple[object, ...] = ("", [], {})
_TEXTS = {
    "text/html": compare_html,
    "image/svg+xml": compare_markup,
    "application/javascript": compare_markup,
}
_RICHNESS = (*IMAGES, "image/svg+xml", "text/html", "application/json")
_NAMES = {
    _PLAIN: "the text",
    "text/html": "the HTML",
    "image/svg+xml": "the image",
    **dict.fromkeys(IMAGES, "the image"),
}


def telling(data: object) -> Data:
    """Return the representations that tell something; some are empty, or random ids."""
    if not isinstance(data, dict):
        return {}
    return {
        kind: value
        for kind, value in data.items()
        if isinstance(kind, str) and kind and not kind.startswith(_IGNORED) and value not in _EMPTY
    }


def richest(data: Data) -> str:
    """Return the type that tells most about an object: its own data, how it looks, other text."""
    return min(data, key=_richness, default="")


def name_of(kind: str) -> str:
    """Return how a sentence names a representation."""
    return _NAMES.get(kind, f"the {kind}" if kind else "the object")


def compare_displays(recorded: Data, replayed: Data, tolerance: Tolerance) -> Finding:
    """Return how two objects compare, by the richest representation that they have in common.

    Plain text stands for an object that has nothing else: ``<Figure size 640x480>`` says nothing
    about a figure.
    """
    common = {kind: value for kind, value in recorded.items() if kind in replayed}
    kind = richest(common)
    has_more = len(recorded) > 1 or len(replayed) > 1
    if (not kind or (kind == _PLAIN and has_more)) and (recorded or replayed):
        old, new = richest(recorded) or "nothing", richest(replayed) or "nothing"
        return Finding("different", f"is shown as {new} instead of {old}")
    return _compare(kind, recorded.get(kind), replayed.get(kind), tolerance)


def _compare(kind: str, recorded: object, replayed: object, tolerance: Tolerance) -> Finding:
    old, new = text_of(recorded), text_of(replayed)
    if old is None or new is None or kind.endswith("json"):
        return compare_values(recorded, replayed, tolerance)
    if kind in IMAGES and old != new:
        return _compare_encoded(kind, old, new, tolerance)
    return _TEXTS.get(kind, compare_texts)(old, new, tolerance)


def _compare_encoded(kind: str, old: str, new: str, tolerance: Tolerance) -> Finding:
    try:
        before, now = _decoded(old), _decoded(new)
    except ValueError:  # no base64
        return Finding("different", "has other contents, which are no valid image")
    return compare_images(kind, before, now, tolerance)


def _decoded(text: str) -> bytes:
    return base64.b64decode("".join(text.split()), validate=True)


def _richness(kind: str) -> tuple[int, str]:
    """Return what sorts types; the richest is the least."""
    if kind == _PLAIN:
        return 99, kind
    if kind.startswith("application/vnd.") and kind.endswith("+json"):
        return -1, kind
    return _RICHNESS.index(kind) if kind in _RICHNESS else len(_RICHNESS), kind
