"""Images are compared by what one sees."""

from __future__ import annotations

import base64
import io
import struct
import zlib
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from chexpoint.compare.finding import Finding
from chexpoint.compare.images import compare_images
from chexpoint.compare.outputs import compare_outputs
from chexpoint.compare.tolerance import Tolerance
from chexpoint.model import Output


def plot(
    kind: str, last: float = 3.0, *, color: str = "C0", dpi: int = 72, **options: Any
) -> bytes:
    """Return a picture of three points, made by matplotlib."""
    figure = Figure(dpi=dpi)
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot([1, 2, last], marker="o", color=color)
    axes.set_title("three points")
    axes.set_ylim(0, 10)
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind, **options)
    return buffer.getvalue()


def compare(recorded: bytes, replayed: bytes, kind: str = "png", **options: Any) -> Finding:
    return compare_images(f"image/{kind}", recorded, replayed, Tolerance(**options))


def encoded(pixels: np.ndarray[Any, Any], kind: str = "png", **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind, **options)
    return buffer.getvalue()


def animated(kind: str, *shades: int) -> bytes:
    frames = [Image.new("RGB", (20, 10), (shade, 0, 0)) for shade in shades]
    buffer = io.BytesIO()
    options: dict[str, Any] = {"lossless": True} if kind == "webp" else {}
    frames[0].save(buffer, kind, save_all=True, append_images=frames[1:], duration=50, **options)
    return buffer.getvalue()


GRAY = np.full((100, 200, 3), 128, "u1")


def test_a_plot_that_is_made_again_is_the_same() -> None:
    recorded = plot("png", metadata={"Software": "one"})
    replayed = plot("png", metadata={"Software": "other"})
    assert recorded != replayed
    assert compare(recorded, replayed) == ("same", "")


@pytest.mark.parametrize("change", [{"last": 3.2}, {"color": "C1"}])
def test_a_plot_of_something_else_is_different(change: dict[str, Any]) -> None:
    found = compare(plot("png"), plot("png", **change))
    assert found.status == "different"
    assert found.what.startswith("differs in 0.")
    assert found.what.endswith(" % of its pixels")


def test_a_plot_of_close_numbers_is_not_different() -> None:
    assert compare(plot("png"), plot("png", 3.0000001)).status in {"same", "close"}


def test_a_marker_that_moves_is_seen() -> None:
    recorded, replayed = plot("png"), plot("png", 3.1)
    assert compare(recorded, replayed).status == "different"
    assert compare(recorded, replayed, pixels=0.05).status == "close"


def test_another_size_is_named() -> None:
    found = compare(encoded(GRAY), encoded(GRAY[:50]))
    assert found == ("different", "is 200x50 instead of 200x100 pixels large")


@pytest.mark.parametrize(
    ("step", "count", "status"),
    [(2, 20_000, "close"), (3, 2, "close"), (3, 3, "different"), (100, 2, "close")],
)
def test_a_few_pixels_or_a_slight_shade_are_close(step: int, count: int, status: str) -> None:
    changed = GRAY.copy()
    changed.reshape(-1, 3)[:count, 1] += step
    assert compare(encoded(GRAY), encoded(changed)).status == status
    assert compare(encoded(changed), encoded(GRAY)).status == status


def test_one_shade_is_not_enough_without_tolerance() -> None:
    changed = GRAY.copy()
    changed[0, 0, 0] += 1
    found = compare(encoded(GRAY), encoded(changed), pixels=0, shade=0)
    assert found == ("different", "differs in 0.005 % of its pixels")


def test_colors_that_nobody_sees_do_not_count() -> None:
    recorded = np.zeros((10, 10, 4), "u1")
    replayed = recorded.copy()
    replayed[..., 0] = 255
    assert compare(encoded(recorded), encoded(replayed)) == ("same", "")
    replayed[..., 3] = 255
    assert compare(encoded(recorded), encoded(replayed)).status == "different"


def test_the_way_an_image_is_stored_does_not_count() -> None:
    grays = encoded(np.full((10, 10), 128, "u1"))
    colors = encoded(np.full((10, 10, 3), 128, "u1"), optimize=True)
    assert compare(grays, colors) == ("same", "")


def test_deep_grays_are_compared_in_full() -> None:
    deep = np.arange(10_000, dtype="u2").reshape(100, 100)
    assert compare(encoded(deep), encoded(deep + 1)).status == "close"
    assert compare(encoded(deep), encoded(deep + 1000)).status == "different"
    assert compare(encoded(deep), encoded(np.zeros((100, 100), "u1"))).status == "different"


@pytest.mark.parametrize("kind", ["jpeg", "gif", "webp"])
def test_other_formats_are_compared_by_pixels(kind: str) -> None:
    assert compare(encoded(GRAY, kind), encoded(GRAY, kind), kind).status == "same"
    assert compare(encoded(GRAY, kind), encoded(GRAY // 2, kind), kind).status == "different"


@pytest.mark.parametrize("kind", ["gif", "webp", "png"])
def test_all_frames_of_an_animation_count(kind: str) -> None:
    recorded = animated(kind, 0, 100, 200)
    assert compare(recorded, animated(kind, 0, 100, 200), kind).status == "same"
    assert compare(recorded, animated(kind, 0, 100, 250), kind).status == "different"
    found = compare(recorded, animated(kind, 0, 100), kind)
    assert found == ("different", "has 2 frames instead of 3")


# ------------------------------------------------------------ hostile images


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def bomb(side: int, end: bytes) -> bytes:
    """Return a small PNG that says it is very large."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 6, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(end))


@pytest.mark.parametrize("side", [5001, 20_000, 2**31 - 1])
def test_an_image_that_is_too_large_is_not_unpacked(side: int) -> None:
    found = compare(bomb(side, b"a"), bomb(side, b"b"))
    what = f"has other contents, and is too large ({side * side} pixels) to be compared"
    assert found == ("different", what)


def test_too_many_frames_are_not_unpacked() -> None:
    frames = [Image.new("L", (2000, 2000), shade) for shade in range(6)]
    images = []
    for first in (200, 201):
        buffer = io.BytesIO()
        start = Image.new("L", (2000, 2000), first)
        start.save(buffer, "gif", save_all=True, append_images=frames, duration=50)
        images.append(buffer.getvalue())
    found = compare(images[0], images[1], "gif")
    assert found == ("different", "has other contents, and too many frames (7) to be compared")


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp"])
@pytest.mark.parametrize("cut", [0, 1, 20, 60, -40])
def test_an_image_that_is_cut_off_is_different(kind: str, cut: int) -> None:
    whole = encoded(np.arange(60_000, dtype="u1").reshape(100, 200, 3), kind)
    assert compare(whole, whole[:cut], kind).status == "different"
    assert compare(whole[:cut], whole, kind).status == "different"


def test_an_image_of_another_format_is_no_image_of_this_one() -> None:
    found = compare(encoded(GRAY), encoded(GRAY, "gif"))
    assert found == ("different", "has other contents, which are no valid image")


# ------------------------------------------------------------ inside of outputs


def shown(data: bytes, kind: str) -> list[Output]:
    value = data.decode() if kind == "image/svg+xml" else base64.encodebytes(data).decode()
    return [{"output_type": "display_data", "data": {kind: value, "text/plain": "<Figure>"}}]


def test_images_inside_of_outputs_are_compared() -> None:
    recorded, replayed = shown(plot("png"), "image/png"), shown(plot("png", 3.5), "image/png")
    assert compare_outputs(recorded, recorded, Tolerance()).status == "same"
    found = compare_outputs(recorded, replayed, Tolerance())
    assert found.status == "different"
    assert found.differences[0].what.startswith("the image differs in ")


def test_the_date_and_the_random_ids_of_a_drawing_do_not_count() -> None:
    recorded, replayed = plot("svg"), plot("svg", metadata={"Date": "2027-01-01T00:00:00"})
    assert recorded != replayed
    found = compare_outputs(
        shown(recorded, "image/svg+xml"), shown(replayed, "image/svg+xml"), Tolerance()
    )
    assert found.status == "close"


def test_a_drawing_of_something_else_is_different() -> None:
    recorded, replayed = (
        shown(plot("svg"), "image/svg+xml"),
        shown(plot("svg", 3.2), "image/svg+xml"),
    )
    assert compare_outputs(recorded, replayed, Tolerance()).status == "different"
