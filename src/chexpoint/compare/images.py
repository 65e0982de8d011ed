"""How two images compare: by their pixels, not by their bytes.  The only door to Pillow."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from chexpoint.compare.finding import SAME, Finding, worst
from chexpoint.compare.tolerance import Tolerance

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL.ImageFile import ImageFile

IMAGES = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of images that can be compared."""

_MOST_PIXELS = 25_000_000  # of all frames together; a page of A4 at 600 dpi has more
_BLOCK = 1 << 20  # pixels that are compared at a time


class _Opener(Protocol):
    def __call__(self, fp: io.BytesIO) -> ImageFile: ...


class _Unreadable(Exception):
    """Why an image cannot be compared, as what to say of it."""


def compare_images(kind: str, recorded: bytes, replayed: bytes, tolerance: Tolerance) -> Finding:
    """Return how two images compare.

    Parameters
    ----------
    kind
        The MIME type of both.
    """
    if recorded == replayed:
        return SAME
    try:
        with _open(kind, recorded) as old, _open(kind, replayed) as new:
            return worst(_compare_frames(old, new, tolerance))
    except _Unreadable as problem:
        return Finding("different", str(problem))
    except Exception:
        return Finding("different", "has other contents, which are no valid image")


def _open(kind: str, data: bytes) -> ImageFile:
    """Return an image of which only the header was read.

    The classes themselves rather than ``Image.open``: this format and no other is tried, and how
    large an image may be is decided here.
    """
    from PIL import GifImagePlugin, JpegImagePlugin, PngImagePlugin, WebPImagePlugin

    openers: dict[str, _Opener] = {
        "image/png": PngImagePlugin.PngImageFile,
        "image/jpeg": JpegImagePlugin.JpegImageFile,
        "image/gif": GifImagePlugin.GifImageFile,
        "image/webp": WebPImagePlugin.WebPImageFile,
    }
    return openers[kind](io.BytesIO(data))


def _compare_frames(old: ImageFile, new: ImageFile, tolerance: Tolerance) -> Iterator[Finding]:
    if old.size != new.size:
        sizes = "{}x{} instead of {}x{}".format(*new.size, *old.size)
        yield Finding("different", f"is {sizes} pixels large")
        return
    pixels = old.width * old.height
    if pixels > _MOST_PIXELS:
        raise _Unreadable(f"has other contents, and is too large ({pixels} pixels) to be compared")
    frames, others = getattr(old, "n_frames", 1), getattr(new, "n_frames", 1)
    if frames != others:
        yield Finding("different", f"has {others} frames instead of {frames}")
        return
    if pixels * frames > _MOST_PIXELS:
        raise _Unreadable(f"has other contents, and too many frames ({frames}) to be compared")
    for frame in range(frames):
        if frames > 1:
            old.seek(frame)
            new.seek(frame)
        yield _compare_pixels(_pixels(old), _pixels(new), tolerance)


def _pixels(image: ImageFile) -> NDArray[Any]:
    """Return an image as rows of colors, or of shades of gray with more than 8 bits."""
    import numpy as np

    is_deep = image.mode.startswith(("I", "F"))
    return np.asarray(image if is_deep else image.convert("RGBA"))


def _compare_pixels(old: NDArray[Any], new: NDArray[Any], tolerance: Tolerance) -> Finding:
    import numpy as np

    if old.dtype != new.dtype or old.shape != new.shape:
        return Finding("different", "has colors of another kind")
    channels = 4 if old.ndim == 3 else 1
    full = 255.0 if channels == 4 else 65535.0
    left, right = old.reshape(-1, channels), new.reshape(-1, channels)
    off = far = 0
    for at in range(0, len(left), _BLOCK):
        a, b = left[at : at + _BLOCK].astype("f4"), right[at : at + _BLOCK].astype("f4")
        difference = abs(a - b).max(axis=1)
        if channels == 4:
            difference[(a[:, 3] == 0) & (b[:, 3] == 0)] = 0  # nobody sees their colors
        off += int(np.count_nonzero(difference))
        far += int(np.count_nonzero(difference > tolerance.shade * full))
    if not off:
        return SAME
    if far > tolerance.pixels * len(left):
        return Finding("different", f"differs in {_share(far, len(left))} of its pixels")
    return Finding("close", f"differs slightly in {_share(off, len(left))} of its pixels")


def _share(part: int, whole: int) -> str:
    return f"{max(100 * part / whole, 0.001):.3g} %"
