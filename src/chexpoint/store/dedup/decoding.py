"""From the pieces of a chain to contents."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from chexpoint.errors import StoreDamaged
from chexpoint.store.dedup.chunks import as_bytes
from chexpoint.store.dedup.columns import Reader, damaged, read_column
from chexpoint.store.dedup.digests import content_root
from chexpoint.store.dedup.frames import Frames, read_frames
from chexpoint.store.dedup.layout import Layout
from chexpoint.store.dedup.piece import Piece, read_piece
from chexpoint.store.dedup.published import History, apply_bitmap, apply_regions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


def decode(chain: Sequence[Any], *, most_bytes: int | None = None) -> NDArray[np.uint8]:
    """Return the contents after the last piece of a chain, in memory of their own.

    What a piece gives can be much larger than itself: an array of zeros is one chunk.

    Parameters
    ----------
    chain
        The pieces of a series from the first on, or from any key on (see `PieceInfo.key`), as
        buffers.  Nothing is read of those before the last key.
    most_bytes
        How large contents may be; as large as the memory of this machine if it is not given.

    Raises
    ------
    StoreDamaged
        If a piece is missing or not well-formed, or what comes out is not what went in.
    StoreTooNew
        If a newer CHEX wrote it.
    """
    pieces = needed(chain)
    if max(piece.info.nbytes for piece in pieces) > _limit(most_bytes):
        raise StoreDamaged("a piece is damaged: its contents are larger than they can be.")
    layout = lay_out(pieces)
    contents = layout.put_together()
    if content_root(contents) != pieces[-1].info.root:
        raise StoreDamaged("a piece is damaged: its contents are not what was stored.")
    return contents


def _limit(most_bytes: int | None) -> int:
    if most_bytes is not None:
        return most_bytes
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def needed(chain: Sequence[Any]) -> list[Piece]:
    """Return the pieces of a chain that its last one needs, taken apart."""
    if not len(chain):
        raise StoreDamaged("a chain has no pieces.")
    last = read_piece(chain[-1])
    count = last.info.number - last.info.key + 1
    if count > len(chain):
        raise StoreDamaged("a chain lacks its first pieces.")
    pieces = [*map(read_piece, chain[len(chain) - count : -1]), last]
    for number, piece in enumerate(pieces, last.info.key):
        info = piece.info
        if (info.number, info.key, info.method, info.chunk_bytes) != (
            number,
            last.info.key,
            last.info.method,
            last.info.chunk_bytes,
        ):
            raise StoreDamaged("a chain has a piece that is not its own.")
    return pieces


def lay_out(pieces: list[Piece]) -> Layout:
    """Return where each chunk of the contents after the last piece is."""
    layout = Layout(pieces[0].info.chunk_bytes)
    history = History(pieces)
    for piece in pieces:
        if piece.info.coding == "regions":
            apply_regions(piece, layout, history)
        elif piece.info.coding == "bitmap":
            apply_bitmap(piece, layout)
        else:
            _apply(piece, layout)
        history.remember(piece.info.number, layout)
    return layout


def _apply(piece: Piece, layout: Layout) -> None:
    info, reader = piece.info, Reader(piece.meta)
    if info.coding == "patch":
        reader.end()
        layout.restart(_patched(layout.put_together(), piece), info.nbytes)
        return
    columns = [read_column(reader) for _ in range(3 if info.coding == "chunks" else 0)]
    frames = read_frames(reader, piece.payload, info.chunk_bytes)
    reader.end()
    if info.coding == "whole":
        layout.restart(frames, info.nbytes)
    elif info.coding == "xor":
        if frames.nbytes != info.nbytes:
            raise damaged("it has more or less contents than it should")
        layout.restart(_combined(layout.put_together(), frames), info.nbytes)
    else:
        if info.key == info.number:
            layout.forget()
        new, moved, sources = columns
        layout.change(new, moved, sources, frames, info.nbytes)


def _patched(before: NDArray[np.uint8], piece: Piece) -> NDArray[np.uint8]:
    from chexpoint.store.dedup.zstd import apply_patch

    return as_bytes(apply_patch(piece.payload, before.data, piece.info.nbytes))


def _combined(before: NDArray[np.uint8], frames: Frames) -> NDArray[np.uint8]:
    made = np.zeros(frames.nbytes, np.uint8)
    both = min(len(made), len(before))
    made[:both] = before[:both]
    size = frames.size if frames.form else max(frames.nbytes, 1)
    for number, start in enumerate(range(0, frames.nbytes, size)):
        part = frames.frame(number) if frames.form else frames.whole()
        made[start : start + size] ^= part
    return made
