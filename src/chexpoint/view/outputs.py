"""What the outputs of a cell show, and whether two cells show the same."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal
from urllib.parse import quote

from chexpoint.model import Output

Kind = Literal["text", "image", "data"]

_IMAGES = ("image/svg+xml", "image/png", "image/jpeg", "image/webp", "image/gif")
_WIDGETS = "application/vnd.jupyter.widget"  # their ids are new with every run
_COLOURS = re.compile(r"\x1b\[[0-9;:]*[A-Za-z]")
# Addresses in memory and random ids differ with every run, and say nothing.
_VOLATILE = re.compile(
    r"\b0x[0-9a-f]{6,}\b|\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One thing that outputs show."""

    kind: Kind
    name: str
    """The stream or the type of the data."""
    value: str

    @property
    def key(self) -> str:
        """What two of them have in common if they show the same."""
        return self.value if self.kind == "image" else _VOLATILE.sub("", self.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputChange:
    """One thing that two runs of a cell show differently, or that one of them shows."""

    kind: Kind
    name: str
    left: str | None
    right: str | None
    """Text, or data as a notebook holds it; None if this side does not show it."""

    @property
    def has_other_numbers(self) -> bool:
        """Whether both are text in which only numbers differ."""
        if self.kind != "text" or self.left is None or self.right is None:
            return False
        return _NUMBER.sub("#", self.left) == _NUMBER.sub("#", self.right)

    @property
    def summary(self) -> str:
        """What there is to say about it in a few words."""
        if self.left is None or self.right is None:
            return f"{self.name} only on the {'right' if self.left is None else 'left'}"
        if self.has_other_numbers:
            return f"{self.name}: numbers differ"
        return f"{self.name} differs"


def shown(outputs: Sequence[Output]) -> tuple[Shown, ...]:
    """Return what outputs show; pieces of one stream are one text."""
    found: list[Shown] = []
    for output in outputs:
        for item in _items(output):
            last = found[-1] if found else None
            is_stream = output.get("output_type") == "stream"
            if is_stream and last is not None and last.name == item.name:
                found[-1] = Shown(kind="text", name=item.name, value=last.value + item.value)
            else:
                found.append(item)
    return tuple(
        Shown(kind=item.kind, name=item.name, value=plain_text(item.value))
        if item.kind == "text"
        else item
        for item in found
    )


def output_changes(left: Sequence[Output], right: Sequence[Output]) -> tuple[OutputChange, ...]:
    """Return where two runs of a cell show something else."""
    a, b = shown(left), shown(right)
    matcher = SequenceMatcher(
        None, [(s.kind, s.name) for s in a], [(s.kind, s.name) for s in b], autojunk=False
    )
    changes = []
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        if tag == "equal":
            pairs = zip(a[i1:i2], b[j1:j2], strict=True)
            changes += [_change(x, y) for x, y in pairs if x.key != y.key]
        else:
            changes += [_change(x, None) for x in a[i1:i2]]
            changes += [_change(None, y) for y in b[j1:j2]]
    return tuple(changes)


def data_uri(name: str, value: str) -> str | None:
    """Return an image as an address that holds it; None if it is no image."""
    if name == "image/svg+xml":
        return f"data:{name},{quote(value, errors='replace')}"
    if name not in _IMAGES:
        return None
    try:
        raw = base64.b64decode("".join(value.split()), validate=True)
    except (binascii.Error, ValueError):
        return None
    return f"data:{name};base64,{base64.b64encode(raw).decode('ascii')}"


def value_digest(value: str) -> str:
    """Return what stands for data that is too long to be shown."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def plain_text(text: str) -> str:
    """Return a text without colours of terminals, and with lines as they look in the end."""
    lines = _COLOURS.sub("", text).split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines).rstrip("\n")


def _change(left: Shown | None, right: Shown | None) -> OutputChange:
    some = left or right
    assert some is not None  # noqa: S101 - one of the two is given
    return OutputChange(
        kind=some.kind,
        name=some.name,
        left=left.value if left else None,
        right=right.value if right else None,
    )


def _items(output: Output) -> Iterator[Shown]:
    kind = output.get("output_type")
    if kind == "stream":
        name = str(output.get("name", "stdout"))
        yield Shown(kind="text", name=name, value=_joined(output.get("text", "")))
    elif kind == "error":
        value = f"{output.get('ename', '')}: {output.get('evalue', '')}"
        yield Shown(kind="text", name="error", value=value)
    else:
        data = output.get("data")
        if isinstance(data, dict):
            yield from _data_items(data)


def _data_items(data: dict[str, Any]) -> Iterator[Shown]:
    for name in _IMAGES:
        if name in data:
            yield Shown(kind="image", name=name, value=_joined(data[name]))
            return
    for name in sorted(data, key=lambda name: (name != "text/plain", name)):
        if not name.startswith(_WIDGETS):
            kind: Kind = "text" if name == "text/plain" else "data"
            yield Shown(kind=kind, name=name, value=_joined(data[name]))


def _joined(value: object) -> str:
    """Return text or data, which files may hold as a list of lines."""
    if isinstance(value, str):
        return value
    if isinstance(value, list) and all(isinstance(line, str) for line in value):
        return "".join(value)
    return json.dumps(value, sort_keys=True, default=str)
