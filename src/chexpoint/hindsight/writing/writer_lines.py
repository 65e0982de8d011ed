"""The file ``saved.jsonl`` of a run: what is durable, one line for each image."""

from __future__ import annotations

import contextlib
import errno
import json
import os
from typing import Any

NAME = "saved.jsonl"


def append_line(folder: str, line: dict[str, Any]) -> None:
    """Add a line, and return when it is on the disk.

    A line that was cut off, because its writer died or the disk was full, is ended first.

    Raises
    ------
    OSError
        If it could not be written as a whole.
    """
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, NAME)
    is_new = not os.path.exists(path)
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        size = os.fstat(fd).st_size
        is_cut = size > 0 and os.pread(fd, 1, size - 1) != b"\n"
        data = b"\n" * is_cut + json.dumps(line, separators=(",", ":")).encode() + b"\n"
        if os.write(fd, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.fsync(fd)
    finally:
        os.close(fd)
    if is_new:
        _sync_folder(folder)


def _sync_folder(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_lines(folder: str) -> dict[str, dict[str, Any]]:
    """Return the last line about each image; what is cut off or damaged is left out."""
    found: dict[str, dict[str, Any]] = {}
    try:
        with open(os.path.join(folder, NAME), "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return found
    for text in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):
            line = json.loads(text)
            found[line["image"]] = line
    return found
