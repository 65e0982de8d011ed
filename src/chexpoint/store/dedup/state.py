"""What a series knows, as bytes: a cache for another process of the same CHEX, not a format."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from chexpoint.store.dedup.chunks import as_bytes
from chexpoint.store.dedup.digests import check_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

Fact = int | str | bool

_MAGIC = b"CHXS0001"


def pack(facts: Mapping[str, Fact], arrays: Mapping[str, NDArray[Any]]) -> list[bytes | memoryview]:
    """Return facts and arrays as buffers."""
    shapes = {name: [each.dtype.str, *each.shape] for name, each in arrays.items()}
    head = json.dumps({"facts": dict(facts), "arrays": shapes}).encode()
    bodies = [as_bytes(each).data for each in arrays.values()]
    check = check_of(head, *bodies).to_bytes(8, "little")
    return [_MAGIC + check + len(head).to_bytes(4, "little") + head, *bodies]


def unpack(data: Any) -> tuple[dict[str, Fact], dict[str, NDArray[Any]]]:
    """Return what `pack` was given; arrays are copies.

    Raises
    ------
    ValueError
        If it is damaged, or of another CHEX.
    """
    view = as_bytes(data).data
    length = int.from_bytes(view[16:20], "little")
    body = view[20:]
    if view[:8] != _MAGIC or length > len(body):
        raise ValueError("this is not the state of a series")
    if check_of(body) != int.from_bytes(view[8:16], "little"):
        raise ValueError("the state of a series is damaged")
    head, body = json.loads(bytes(body[:length])), body[length:]
    arrays = {}
    for name, (kind, *shape) in head["arrays"].items():
        nbytes = int(np.prod(shape, dtype=np.int64)) * np.dtype(kind).itemsize
        arrays[name] = np.frombuffer(body[:nbytes], kind).reshape(shape).copy()
        body = body[nbytes:]
    return head["facts"], arrays
