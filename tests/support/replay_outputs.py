"""Outputs of cells that are made up: streams, values, pictures, exceptions."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Mapping

from hypothesis import strategies as st

from chexpoint.model import CellError, Output, OutputDifference

Pixel = Callable[[int, int], tuple[int, int, int]]


def printed(text: str, name: str = "stdout") -> Output:
    """Return what a cell wrote to a stream."""
    return {"output_type": "stream", "name": name, "text": text}


def result(count: int = 1, **data: object) -> Output:
    """Return the value of a cell; types of data are written with ``__`` for a slash."""
    found = {name.replace("__", "/"): value for name, value in data.items()}
    return {
        "output_type": "execute_result",
        "execution_count": count,
        "metadata": {},
        "data": found,
    }


def display(data: Mapping[str, object]) -> Output:
    """Return what a cell displayed."""
    return {"output_type": "display_data", "metadata": {}, "data": dict(data)}


def raised(error: CellError) -> Output:
    """Return the output of a cell that failed."""
    return {
        "output_type": "error",
        "ename": error.ename,
        "evalue": error.evalue,
        "traceback": list(error.traceback),
    }


def differing(what: str, recorded: int | None = 0, replayed: int | None = 0) -> OutputDifference:
    """Return a difference; by default of the first output."""
    return OutputDifference(what=what, recorded=recorded, replayed=replayed)


def png(width: int, height: int, pixel: Pixel) -> str:
    """Return a picture in base64."""
    rows = b"".join(
        b"\x00" + bytes(part for x in range(width) for part in pixel(x, y)) for y in range(height)
    )

    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    parts = chunk(b"IHDR", head), chunk(b"IDAT", zlib.compress(rows, 9)), chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"".join(parts)).decode("ascii")


def bars(*heights: int) -> str:
    """Return a picture of a bar chart."""

    def pixel(x: int, y: int) -> tuple[int, int, int]:
        at, inside = divmod(x - 20, 40)
        if x < 20 or y > 170 or not 0 <= at < len(heights) or inside > 30:
            return (40, 40, 40) if x == 19 or y == 171 else (255, 255, 255)
        return (58, 147, 201) if 170 - y < heights[at] else (255, 255, 255)

    return png(40 + 40 * len(heights), 190, pixel)


FRAME = (
    "<style scoped>.dataframe td {{ text-align: right; }}</style>"
    '<table border="1" class="dataframe"><thead><tr><th></th><th>species</th><th>mass</th></tr>'
    "</thead><tbody><tr><th>0</th><td>Adelie</td><td>3706.2</td></tr>"
    "<tr><th>1</th><td>Gentoo</td><td>{}</td></tr></tbody></table>"
)
FRAME_TEXT = "  species    mass\n0  Adelie  3706.2\n1  Gentoo  {}"
CURVE = (
    '<svg xmlns="http://www.w3.org/2000/svg" width="240" height="90" viewBox="0 0 240 90">'
    '<rect width="240" height="90" fill="white"/>'
    '<polyline fill="none" stroke="{}" stroke-width="3" points="5,80 60,40 120,{} 180,30 235,15"/>'
    "</svg>"
)
FAILING_LINE = (
    "\x1b[36mCell\x1b[39m\x1b[36m \x1b[39m\x1b[32mIn[4]\x1b[39m\x1b[32m, line 2\x1b[39m\n"
    "\x1b[32m      1\x1b[39m scaled = frame.copy()\n"
    "\x1b[32m----> \x1b[39m\x1b[32m2\x1b[39m scaled[\x1b[33m'x'\x1b[39m] = "
    "\x1b[43mframe\x1b[49m\x1b[43m[\x1b[38;5;28;43m'flipper_length'\x1b[39;43m]\x1b[49m"
)
MISSING = CellError(
    ename="KeyError",
    evalue="'flipper_length'",
    traceback=(
        f"\x1b[31m{'-' * 75}\x1b[39m",
        f"\x1b[31mKeyError\x1b[39m{' ' * 34}Traceback (most recent call last)",
        FAILING_LINE,
        "\x1b[31mKeyError\x1b[39m: 'flipper_length'",
    ),
)


# ---------------------------------------------------------------- whatever JSON can hold

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
kinds = anything | st.sampled_from(["stream", "error", "display_data", "execute_result"])
some_data = st.dictionaries(
    st.sampled_from(["text/plain", "text/html", "application/json", "image/png"]), anything
)
odd_outputs = st.fixed_dictionaries(
    {"output_type": kinds},
    optional={
        name: some_data if name == "data" else anything
        for name in ("name", "text", "data", "metadata", "ename", "evalue", "traceback")
    },
)
