"""Files that a cell wrote are compared by what kind of file they are."""

from __future__ import annotations

import io
import os
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from chexpoint.compare.files import LARGEST_FILE, compare_files
from chexpoint.compare.outputs import Comparison
from chexpoint.compare.tolerance import Tolerance


def compare(folder: Path, name: str, recorded: bytes, replayed: bytes) -> Comparison:
    old, new = folder / "recorded", folder / "replayed"
    old.write_bytes(recorded)
    new.write_bytes(replayed)
    return compare_files(f"./{name}", old, new, Tolerance())


def npy(value: Any, **options: Any) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.asarray(value), **options)
    return buffer.getvalue()


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def png(shade: int, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.new("L", (30, 20), shade).save(buffer, "png", **options)
    return buffer.getvalue()


CLOSE = {
    "a.txt": (b"loss 0.5 in 3 s\n", b"loss 0.50000000001 in 4 s\n"),
    "log": (b"2026-11-17 10:00:00 start\n", b"2026-11-18 11:00:00 start\n"),
    "a.csv": (b"a,b\n100,200.5\n", b"a,b\n100,200.50000001\n"),
    "b.csv": (b"a,b\r\n1,x\r\n", b"a,b\n1,x\n"),
    "a.tsv": (b"a\tb\n1\t0.25\n", b"a\tb\n1\t0.2500000001\n"),
    "a.json": (b'{"a": 0.5, "b": [1, NaN]}', b'{"b": [1, NaN], "a": 0.50000000001}'),
    "b.json": (b'{"a": 1}', b'{\n  "a": 1\n}\n'),
    "a.ipynb": (b'{"cells": [], "x": 0.5}', b'{"cells": [], "x": 0.5000000001}'),
    "a.html": (b"<p id='x1'>0.5</p>", b"<p id='x2'>0.5</p>"),
    "a.svg": (b"<svg id='x1'>0.5</svg>", b"<svg id='x2'>0.5</svg>"),
    "a.npy": (npy([0.5, np.nan]), npy([0.50000000001, np.nan])),
    "a.npz": (npz(a=[0.5], b=[1]), npz(a=[0.50000000001], b=[1])),
    "A.PNG": (png(100), png(102)),
}
DIFFERENT = {
    "a.txt": (b"loss 0.5\n", b"loss 0.6\n", "differs in line 1: 'loss 0.5' -> 'loss 0.6'"),
    "a.csv": (b"a,b\n1,0.5\n", b"a,b\n1,0.6\n", "differs in row 2, column 2: '0.5' -> '0.6'"),
    # As a number with thousands, this would be close.
    "b.csv": (b"100,200.5\n", b"100,200.501\n", "differs in row 1, column 2: "),
    "c.csv": (b"a\n1\n", b"a\n1\n2\n", "goes on with row 3"),
    "a.json": (b'{"a": [1]}', b'{"a": [2]}', "differs at a.0: '1' -> '2'"),
    "b.json": (b'{"a": 0.5', b'{"a": 0.6', "differs in line 1"),
    "a.npy": (npy([1.0, 2.0]), npy([1.0, 3.0]), "differs in 1 of 2 numbers"),
    "b.npy": (npy([1.0]), npy([[1.0]]), "has an array of shape (1, 1) instead of (1,)"),
    "c.npy": (npy([1.0]), npy([1]), "has an array of type int64 instead of float64"),
    "d.npy": (npy([1, 2]), npy([1, 3]), "differs in 1 of 2 numbers"),
    "a.npz": (npz(a=[1.0]), npz(a=[2.0]), "differs in 1 of 1 numbers in a"),
    "b.npz": (npz(a=[1.0]), npz(b=[1.0]), "has arrays of other names"),
    "a.png": (png(100), png(200), "differs in 100 % of its pixels"),
    "a.bin": (b"\x00\xff1", b"\x00\xff2", "has other contents"),
    "b.bin": (b"\xff1", b"text", "has other contents"),
    "c.bin": (b"0.5\0", b"0.50000000001\0", "has other contents"),
    "a.pkl": (b"\x80\x04K\x01.", b"\x80\x04K\x02.", "has other contents"),
}


@pytest.mark.parametrize("name", CLOSE)
def test_what_does_not_matter_is_close(tmp_path: Path, name: str) -> None:
    recorded, replayed = CLOSE[name]
    assert compare(tmp_path, name, recorded, replayed).status == "close"
    found = compare(tmp_path, name, replayed, recorded)
    assert found.status == "close"
    assert found.differences[0].what.startswith(f"./{name} ")


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_matters_is_different(tmp_path: Path, name: str) -> None:
    recorded, replayed, what = DIFFERENT[name]
    found = compare(tmp_path, name, recorded, replayed)
    assert found.status == "different"
    assert found.differences[0].what.startswith(f"./{name} {what}")
    assert (found.differences[0].recorded, found.differences[0].replayed) == (None, None)
    assert compare(tmp_path, name, replayed, recorded).status == "different"


@pytest.mark.parametrize("name", [*CLOSE, *DIFFERENT])
def test_equal_files_are_the_same(tmp_path: Path, name: str) -> None:
    contents = CLOSE[name][0] if name in CLOSE else DIFFERENT[name][0]
    assert compare(tmp_path, name, contents, contents) == Comparison(status="same")


def test_the_same_image_with_other_metadata_is_the_same(tmp_path: Path) -> None:
    assert compare(tmp_path, "a.png", png(9), png(9, dpi=(99, 99))) == Comparison(status="same")


def test_contents_that_were_not_kept_are_different(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    found = compare_files("./a", None, path, Tolerance())
    assert [each.what for each in found.differences] == ["./a has other contents"]


def test_a_file_that_was_not_written_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    found = compare_files("./a", path, None, Tolerance())
    assert [each.what for each in found.differences] == ["./a was not written"]
    found = compare_files("./a", path, tmp_path / "gone", Tolerance())
    assert found.differences[0].what == "./a cannot be read: No such file or directory"


def test_what_is_no_regular_file_is_not_read(tmp_path: Path) -> None:
    path, pipe = tmp_path / "a", tmp_path / "pipe"
    path.write_text("x")
    os.mkfifo(pipe)
    for other in (pipe, tmp_path):
        found = compare_files("./a", path, other, Tolerance())
        assert found.differences[0].what == "./a cannot be read: it is no regular file"


def test_a_large_file_is_the_same_or_different(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for path, end in ((old, b"1 s"), (new, b"2 s")):
        with path.open("wb") as file:
            file.truncate(LARGEST_FILE)  # takes no room: there is nothing in it
            file.seek(LARGEST_FILE)
            file.write(end)
    assert compare_files("./a.txt", old, old, Tolerance()).status == "same"
    found = compare_files("./a.txt", old, new, Tolerance())
    assert found.differences[0].what == (
        "./a.txt has other contents, too many (32.0 MB) to be compared further"
    )


def test_files_of_different_lengths_differ(tmp_path: Path) -> None:
    assert compare(tmp_path, "a.bin", b"\0", b"\0\0").status == "different"


def test_arrays_in_the_other_order_are_compared_by_value(tmp_path: Path) -> None:
    values = np.arange(12.0).reshape(3, 4)
    other = np.asfortranarray(values)
    assert compare(tmp_path, "a.npy", npy(values), npy(other)).status == "same"
    assert compare(tmp_path, "a.npy", npy(other), npy(other + 1e-9)).status == "close"
    assert compare(tmp_path, "a.npy", npy(other), npy(other + 1)).status == "different"


@pytest.mark.parametrize("value", [5.0, [], "text", [True], [1 + 2j]])
def test_arrays_of_any_type_are_compared(tmp_path: Path, value: Any) -> None:
    array = npy(value)
    assert compare(tmp_path, "a.npy", array, array).status == "same"
    assert compare(tmp_path, "a.npy", array, npy([7.5, 8.5])).status == "different"


def test_records_are_compared(tmp_path: Path) -> None:
    kind = [("a", "i4"), ("b", "f8")]
    old, new = np.array([(1, 0.5)], kind), np.array([(1, 0.6)], kind)
    assert compare(tmp_path, "a.npy", npy(old), npy(new)).status == "different"


# ------------------------------------------------------------ hostile files


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    old, new = npy(np.array([print], object)), npy(np.array([len], object))
    found = compare(tmp_path, "a.npy", old, new)
    assert found.differences[0].what == "./a.npy has other contents"


def lying(shape: str) -> bytes:
    """Return an array that says it has another shape."""
    return npy(np.zeros(1)).replace(b"(1,), }", f"({shape},), }}".encode(), 1)


@pytest.mark.parametrize("shape", ["9" * 12, "-1", "9" * 30, "[]", "1" * 300])
def test_an_array_that_lies_about_its_shape_is_different(tmp_path: Path, shape: str) -> None:
    assert lying(shape) != npy(np.zeros(1))
    for name in ("a.npy", "a.npz"):
        arrays = [npy(np.zeros(1)), lying(shape)]
        if name == "a.npz":
            arrays = [zipped("a.npy", array) for array in arrays]
        assert compare(tmp_path, name, *arrays).status == "different"


def zipped(name: str, contents: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, contents)
    return buffer.getvalue()


def test_an_archive_that_is_very_large_is_not_unpacked(tmp_path: Path) -> None:
    bombs = []
    for letter in (b"a", b"b"):
        archive = bytearray(zipped("a.npy", letter))
        # What its directory says is what it would be unpacked to.
        struct.pack_into("<I", archive, archive.index(b"PK\x01\x02") + 24, 2**29)
        bombs.append(bytes(archive))
    found = compare(tmp_path, "a.npz", bombs[0], bombs[1])
    assert found.differences[0].what.endswith("too many to be compared further")


@pytest.mark.parametrize(
    ("name", "contents"),
    [
        ("a.json", b"[" * 100_000),
        ("a.json", b"1" * 10_000),
        ("a.json", b'{"a": \xff}'),
        ("a.csv", b'"' + b"x" * 200_000),
        ("a.csv", b'a,"b\n' * 1000),
        ("a.npz", b"PK\x03\x04 no archive"),
        ("a.npy", b"\x93NUMPY\x01\x00\xff\xff{"),
        ("a.npy", b""),
        ("a.png", b""),
        ("a.html", b"<table>" * 1000),
    ],
)
def test_contents_that_are_not_what_the_name_says_are_compared(
    tmp_path: Path, name: str, contents: bytes
) -> None:
    assert compare(tmp_path, name, contents, contents).status == "same"
    assert compare(tmp_path, name, contents, contents + b"x").status == "different"
