"""How a snapshot lies in memory: its header, then its parts, each aligned."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from dataclasses import dataclass

from chexpoint.hindsight.writing.arena import SharedMapping, aligned
from chexpoint.hindsight.writing.writer import HEAD
from chexpoint.hindsight.writing.writer_snapshot import Snapshot

# Of an entry of the header, besides its key: the kind, an offset and a length.
_ENTRY_BYTES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where the parts of a snapshot go."""

    head: bytes
    """What it begins with."""
    offsets: tuple[int, ...]
    nbytes: int
    """All of it."""


def layout_of(snapshot: Snapshot) -> Layout:
    """Return how a snapshot is to lie in memory.

    Raises
    ------
    TypeError, ValueError
        If its document is no JSON.
    """
    facts = {
        "name": snapshot.name,
        "document": snapshot.document,
        "like": snapshot.like,
        "cost_s": snapshot.cost_s,
    }
    # Offsets are part of the header: room for them is left before they are known.
    room = len(json.dumps(facts)) + _ENTRY_BYTES
    room += sum(len(json.dumps(part.key)) + _ENTRY_BYTES for part in snapshot.parts)
    offset = aligned(HEAD.size + room)
    offsets = []
    for part in snapshot.parts:
        offsets.append(offset)
        offset = aligned(offset + part.nbytes)
    parts = [
        (part.key, part.kind, start, part.nbytes)
        for part, start in zip(snapshot.parts, offsets, strict=True)
    ]
    text = json.dumps({**facts, "parts": parts}).encode()
    return Layout(head=HEAD.pack(len(text)) + text, offsets=tuple(offsets), nbytes=offset)


def fill(memory: SharedMapping, start: int, snapshot: Snapshot, layout: Layout) -> None:
    """Copy a snapshot to its place; raises what its parts raise."""
    with memory.lent(start, layout.nbytes) as whole:
        whole[: len(layout.head)] = layout.head
        for part, offset in zip(snapshot.parts, layout.offsets, strict=True):
            if part.nbytes:
                part.copy_into(whole[offset : offset + part.nbytes])


def spooled(snapshot: Snapshot, layout: Layout, folder: str) -> int:
    """Return a file without a name that holds a snapshot; raises what its parts raise.

    Raises
    ------
    OSError
        If the disk is full.
    """
    fd = _nameless_file(folder)
    try:
        # Reserved: a page for which the disk has no room would end the process.
        os.posix_fallocate(fd, 0, layout.nbytes)
        mapping = SharedMapping(fd, layout.nbytes)
        try:
            fill(mapping, 0, snapshot, layout)
        finally:
            mapping.close()
    except BaseException:
        os.close(fd)
        raise
    return fd


def _nameless_file(folder: str) -> int:
    os.makedirs(folder, exist_ok=True)
    with suppress(OSError):
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fd, path = tempfile.mkstemp(dir=folder)
    os.unlink(path)
    return fd
