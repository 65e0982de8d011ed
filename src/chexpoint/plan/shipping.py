"""Whether a host computes what leads to a state, or loads the state from a store."""

from __future__ import annotations

import math
from typing import NamedTuple

from chexpoint.errors import InvalidValue
from chexpoint.model import Seconds


class Shipping(NamedTuple):
    """How a host gets to a state."""

    is_shipped: bool
    """Whether an image of it is loaded; else the cells that lead to it are run."""
    seconds: Seconds
    """How long that takes."""


def choose_shipping(
    prefix_seconds: Seconds,
    image_bytes: float,
    bandwidth: float,
    store_seconds: Seconds = 0.0,
    load_seconds: Seconds = 0.0,
) -> Shipping:
    """Return the faster way to a state; to compute it if both take as long.

    An image can be refused when it is loaded and a cell is what it is, so that of two equal ways
    the cells are the better one.

    Parameters
    ----------
    prefix_seconds
        What computing the state takes on this host, from the nearest state that it has.
    image_bytes
        What has to go over the network.
    bandwidth
        Bytes a second between a host and the store; infinity if they are one, 0 if there is none.
    store_seconds
        How long it takes until the image is in the store; 0 if it is there.
    load_seconds
        What making a state of the bytes takes.

    Raises
    ------
    InvalidValue
        If a number is less than 0, or not a number.
    """
    given = (prefix_seconds, image_bytes, bandwidth, store_seconds, load_seconds)
    if not all(value >= 0 for value in given):
        raise InvalidValue(f"shipping a state is not described by numbers >= 0: {given}")
    moving = image_bytes / bandwidth if bandwidth else math.inf
    shipped = store_seconds + moving + load_seconds
    return Shipping(True, shipped) if shipped < prefix_seconds else Shipping(False, prefix_seconds)
