"""How far what a replay shows may be from what was recorded, and still count as close."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chexpoint.errors import InvalidValue


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """What may differ.

    Two numbers are close if they differ by no more than `atol`, or by no more than `rtol` times
    the larger of them.  Whole numbers are never merely close: they count something.

    Raises
    ------
    InvalidValue
        If a value makes no sense.
    """

    rtol: float = 1e-6
    """Relative: sums in another order differ by far less, another seed by far more."""
    atol: float = 1e-9
    """Absolute: what is left of zero after rounding."""
    shade: float = 0.01
    """How far a pixel may be off, as a share of the full range of a color, and still be the same.

    Two steps of 255: the rounding of smooth edges.
    """
    pixels: float = 1e-4
    """The share of pixels of an image that may be off by more than `shade`.

    About 30 pixels of a figure of 640 x 480; a marker of a plot that has moved changes more.
    """
    folders: tuple[str, ...] = ()
    """Absolute paths that all stand for the project: where it was recorded and where it runs."""

    def __post_init__(self) -> None:
        for name in ("rtol", "shade", "pixels"):
            if not _is_between(getattr(self, name), 0, 1):
                raise InvalidValue(
                    f"{name} is a share from 0 to 1, not {getattr(self, name)!r}."
                    " Write for example 1e-6."
                )
        if not _is_between(self.atol, 0, math.inf) or math.isinf(self.atol):
            raise InvalidValue(
                f"atol is a number that is not negative, not {self.atol!r}. Write for example 1e-9."
            )


def _is_between(value: object, least: float, most: float) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
