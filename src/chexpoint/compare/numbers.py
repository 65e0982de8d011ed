"""Whether numbers are close: by themselves, inside of text, and in arrays."""

from __future__ import annotations

import math
import re
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from chexpoint.compare.tolerance import Tolerance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# A number stands alone: neither `x2` nor `1.2.3` is one.  The possessive `++` never gives back
# what it took, so that no text takes more than one look at each character.
_NUMBER = re.compile(
    r"""
    (?: (?<![A-Za-z_.])[-+] | (?<![\w.]) )
    (?: (?: \d{1,3}(?:,\d{3}){1,8}+(?![\d,]) | \d++ ) (?:\.\d*+)? | \.\d++ )
    (?: [eE][-+]?\d++ )?
    j?
    (?! \w | \.\d )
    """,
    re.VERBOSE | re.ASCII,
)
_LONGEST = 400  # characters; what is longer is no number that a program computed with
_BLOCK = 1 << 20  # elements of an array that are compared at a time


def is_close(recorded: float, replayed: float, tolerance: Tolerance) -> bool:
    """Return whether two numbers are close; not-a-number is close to itself."""
    if math.isnan(recorded) or math.isnan(replayed):
        return math.isnan(recorded) and math.isnan(replayed)
    return math.isclose(recorded, replayed, rel_tol=tolerance.rtol, abs_tol=tolerance.atol)


def has_close_numbers(recorded: str, replayed: str, tolerance: Tolerance) -> bool:
    """Return whether two texts say the same, with numbers that are close.

    White space next to numbers does not count: columns are as wide as their numbers are long.
    """
    at = other = 0
    for left, right in zip_longest(_NUMBER.finditer(recorded), _NUMBER.finditer(replayed)):
        if (
            left is None
            or right is None
            or not _is_same_text(recorded[at : left.start()], replayed[other : right.start()])
            or not _is_close_number(left[0], right[0], tolerance)
        ):
            return False
        at, other = left.end(), right.end()
    return _is_same_text(recorded[at:], replayed[other:])


def without_numbers(text: str) -> str:
    """Return what is left of a text: two with close numbers leave the same."""
    return " ".join(_NUMBER.sub(" # ", text).split())


def _is_same_text(left: str, right: str) -> bool:
    return left == right or left.split() == right.split()


def _is_close_number(left: str, right: str, tolerance: Tolerance) -> bool:
    if left == right:
        return True
    is_imaginary = left.endswith("j")
    if is_imaginary != right.endswith("j"):
        return False
    left, right = left.rstrip("j"), right.rstrip("j")
    left, right = left.replace(",", ""), right.replace(",", "")
    if not is_imaginary and _is_whole(left) and _is_whole(right):
        return left.lstrip("+") == right.lstrip("+")
    if max(len(left), len(right)) > _LONGEST:
        return False
    return is_close(float(left), float(right), tolerance)


def _is_whole(number: str) -> bool:
    return number.lstrip("+-").isdecimal()


def far_elements(
    recorded: NDArray[Any], replayed: NDArray[Any], tolerance: Tolerance
) -> tuple[int, int]:
    """Return how many elements of two arrays of one shape differ, and how many are not even close.

    Only floating-point numbers may be close; others are the same or not.
    """
    import numpy as np

    left, right = recorded.reshape(-1), replayed.reshape(-1)
    off = far = 0
    for at in range(0, left.size, _BLOCK):
        a, b = left[at : at + _BLOCK], right[at : at + _BLOCK]
        is_off = np.asarray(a != b)
        if a.dtype.kind in "fcmM":
            is_off &= (a == a) | (b == b)  # noqa: PLR0124 - what has no value equals nothing
        off += int(np.count_nonzero(is_off))
        if a.dtype.kind in "fc":
            is_off[is_off] = ~_are_close(a[is_off], b[is_off], tolerance)
        far += int(np.count_nonzero(is_off))
    return off, far


def _are_close(left: NDArray[Any], right: NDArray[Any], tolerance: Tolerance) -> NDArray[np.bool_]:
    """Return `is_close` for each element."""
    import numpy as np

    with np.errstate(all="ignore"):
        # float16 has no room for the difference of its largest values.
        wide = np.result_type(left, right, np.float64)
        left, right = left.astype(wide), right.astype(wide)
        most = np.maximum(tolerance.rtol * np.maximum(abs(left), abs(right)), tolerance.atol)
        close: NDArray[np.bool_] = np.isfinite(most) & (abs(left - right) <= most)
        return close
