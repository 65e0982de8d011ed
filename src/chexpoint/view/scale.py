"""How costs become colours, and sizes radii."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from chexpoint.model import Bytes, Seconds

# Cividis (Nuñez, Anderton and Renslow 2018): its lightness grows evenly, and it looks nearly the
# same to colour-blind eyes.
_CIVIDIS = (
    (0, 34, 78),
    (18, 53, 112),
    (59, 73, 108),
    (87, 93, 109),
    (112, 113, 115),
    (138, 134, 120),
    (165, 156, 116),
    (195, 179, 105),
    (225, 204, 85),
    (254, 232, 56),
)

_LEAST_S = 0.001
"""Costs below this are not told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostScale:
    """Costs from the least to the most, by their orders of magnitude."""

    least: Seconds
    most: Seconds

    def place(self, cost: Seconds) -> float:
        """Return where a cost stands between the least, 0, and the most, 1."""
        if not self.least < self.most:
            return 0.0
        low, high = math.log(self.least), math.log(self.most)
        at = math.log(min(max(cost, self.least), self.most))
        return min(max((at - low) / (high - low), 0.0), 1.0)

    def colour(self, cost: Seconds) -> str:
        """Return the colour of a cost, as CSS has it."""
        return colour(self.place(cost))


def cost_scale(costs: Iterable[Seconds]) -> CostScale:
    """Return the scale that some costs span."""
    known = [max(cost, _LEAST_S) for cost in costs]
    return CostScale(least=min(known, default=_LEAST_S), most=max(known, default=_LEAST_S))


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeScale:
    """Sizes as radii: the area of a disc grows with the size."""

    largest: Bytes
    least_px: float
    most_px: float

    def radius(self, size: Bytes) -> float:
        """Return the radius of a size."""
        share = min(max(size, 0) / self.largest, 1.0) if self.largest > 0 else 0.0
        return self.least_px + (self.most_px - self.least_px) * math.sqrt(share)


def colour(place: float) -> str:
    """Return the colour of a place between 0, dark, and 1, bright."""
    at = min(max(place, 0.0), 1.0) * (len(_CIVIDIS) - 1)
    low = min(int(at), len(_CIVIDIS) - 2)
    mixed = (
        round(a + (b - a) * (at - low))
        for a, b in zip(_CIVIDIS[low], _CIVIDIS[low + 1], strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)
