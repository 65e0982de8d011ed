"""How a file that a replayed cell wrote compares with the one that was recorded."""

from __future__ import annotations

import csv
import io
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from chexpoint.compare.arrays import compare_npy, compare_npz
from chexpoint.compare.finding import SAME, Comparison, Finding, sentence
from chexpoint.compare.images import compare_images
from chexpoint.compare.markup import compare_html, compare_markup
from chexpoint.compare.tables import compare_tables
from chexpoint.compare.texts import compare_texts
from chexpoint.compare.tolerance import Tolerance
from chexpoint.compare.values import compare_values
from chexpoint.model import OutputDifference, format_size

__all__ = ["LARGEST_FILE", "compare_files"]

LARGEST_FILE = 32 * 2**20
"""Bytes; larger files have the same contents or others, and are never in memory as a whole.

Except for arrays (``.npy``): they are mapped, and compared a piece at a time.
"""

_PIECE = 1 << 20
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}
_OTHER = Finding("different", "has other contents")


def compare_files(
    name: str, recorded: Path | None, replayed: Path | None, tolerance: Tolerance
) -> Comparison:
    """Return how two files compare, by what kind of file the name says they are.

    Parameters
    ----------
    name
        What to call it, and by its suffix the kind: text, tables, JSON and arrays with numbers
        that are close, images by their pixels, all others byte by byte.
    recorded
        The contents that were recorded; None if they are not known any more, but to be others.
    replayed
        The contents now; None if there are none.
    """
    if recorded is None:
        found = _OTHER
    elif replayed is None:
        found = Finding("different", "was not written")
    else:
        try:
            found = _compare(PurePosixPath(name).suffix.lower(), recorded, replayed, tolerance)
        except OSError as error:
            found = Finding("different", f"cannot be read: {error.strerror or error}")
    if found.status == "same":
        return Comparison(status="same")
    difference = OutputDifference(what=sentence(f"{name} {found.what}"))
    return Comparison(status=found.status, differences=(difference,))


def _compare(kind: str, recorded: Path, replayed: Path, tolerance: Tolerance) -> Finding:
    sizes = [_size(recorded), _size(replayed)]
    if sizes[0] == sizes[1] and _has_same_bytes(recorded, replayed):
        return SAME
    if kind != ".npy" and max(sizes) > LARGEST_FILE:
        size = format_size(max(sizes))
        return Finding("different", f"has other contents, too many ({size}) to be compared further")
    for compare in [*_by_kind(kind), _compare_any]:
        try:
            return compare(recorded, replayed, tolerance)
        except OSError:
            raise
        except Exception:  # noqa: S112 - contents are not what the name says; parsers raise anything
            continue
    return _OTHER


def _size(path: Path) -> int:
    status = os.stat(path)
    if not stat.S_ISREG(status.st_mode):  # to read a pipe might take forever
        raise OSError(None, "it is no regular file")
    return status.st_size


def _has_same_bytes(recorded: Path, replayed: Path) -> bool:
    with recorded.open("rb") as old, replayed.open("rb") as new:
        while piece := old.read(_PIECE):
            if piece != new.read(_PIECE):
                return False
        return not new.read(1)


# ------------------------------------------------------------ by kind

_Compare = Callable[[Path, Path, Tolerance], Finding]


def _by_kind(kind: str) -> list[_Compare]:
    """Return how to compare files with this suffix, unless they are any files."""
    known: dict[str, _Compare] = {
        ".npy": compare_npy,
        ".npz": compare_npz,
        ".json": _compare_json,
        ".ipynb": _compare_json,
        ".csv": lambda old, new, tolerance: _compare_rows(old, new, tolerance, ","),
        ".tsv": lambda old, new, tolerance: _compare_rows(old, new, tolerance, "\t"),
        ".html": lambda old, new, tolerance: compare_html(_text(old), _text(new), tolerance),
        ".svg": lambda old, new, tolerance: compare_markup(_text(old), _text(new), tolerance),
    }
    if kind in _IMAGES:
        return [
            lambda old, new, tolerance: compare_images(
                _IMAGES[kind], old.read_bytes(), new.read_bytes(), tolerance
            )
        ]
    return [known[kind]] if kind in known else []


def _compare_any(recorded: Path, replayed: Path, tolerance: Tolerance) -> Finding:
    return compare_texts(_text(recorded), _text(replayed), tolerance)


def _compare_json(recorded: Path, replayed: Path, tolerance: Tolerance) -> Finding:
    found = compare_values(json.loads(_text(recorded)), json.loads(_text(replayed)), tolerance)
    return Finding("close", "is laid out in another way") if found.status == "same" else found


def _compare_rows(recorded: Path, replayed: Path, tolerance: Tolerance, delimiter: str) -> Finding:
    old = csv.reader(io.StringIO(_text(recorded), newline=""), delimiter=delimiter)
    new = csv.reader(io.StringIO(_text(replayed), newline=""), delimiter=delimiter)
    found = compare_tables(old, new, tolerance)
    return Finding("close", "is laid out in another way") if found.status == "same" else found


def _text(path: Path) -> str:
    """Return the text in a file; raises a ValueError if there is none."""
    text = path.read_bytes().decode("utf-8")
    if "\0" in text:
        raise ValueError("no text")
    return text
