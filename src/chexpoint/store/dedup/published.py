"""The diffs of the published methods, in the bytes of the authors' program, and back."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

from chexpoint.store.dedup.chunks import count_of
from chexpoint.store.dedup.columns import Reader, damaged
from chexpoint.store.dedup.layout import Layout, spread
from chexpoint.store.dedup.regions import level_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.dedup.analysis import Method, Regions
    from chexpoint.store.dedup.piece import Piece, PieceInfo

_HEAD = struct.Struct("<IIQIIII")


def write_published(found: Regions, method: Method, number: int) -> bytes:
    """Return the metadata of what a published method found."""
    return (_write_bitmap if method == "basic" else _write_regions)(found, number)


def _write_bitmap(found: Regions, number: int) -> bytes:
    marked = np.zeros(count_of(found.nbytes, found.chunk_bytes), np.bool_)
    marked[found.first] = True
    counts = len(found.first), 0, 0
    head = _HEAD.pack(0, number, found.nbytes, found.chunk_bytes, *counts)
    return head + np.packbits(marked, bitorder="little").tobytes()


def _write_regions(found: Regions, number: int) -> bytes:
    order = np.argsort(found.source_checkpoints, kind="stable")
    checkpoints, counts = np.unique(found.source_checkpoints, return_counts=True)
    head = _HEAD.pack(
        0,
        number,
        found.nbytes,
        found.chunk_bytes,
        len(found.first),
        len(checkpoints),
        len(found.shifted),
    )
    groups = np.stack([checkpoints, counts.astype(np.uint32)], axis=1)
    shifted = np.stack([found.shifted[order], found.source_nodes[order]], axis=1)
    return head + b"".join(each.astype("<u4").tobytes() for each in (found.first, groups, shifted))


class History:
    """The layouts of earlier checkpoints, as far as later ones take chunks from them."""

    def __init__(self, pieces: list[Piece]) -> None:
        self._wanted: set[int] = set()
        self._known: dict[int, NDArray[np.uint32]] = {}
        for piece in pieces:
            if piece.info.coding == "regions":
                _, groups, _ = _read_lists(piece)
                self._wanted.update(groups[:, 0].tolist())

    def remember(self, number: int, layout: Layout) -> None:
        """Keep where the chunks of a checkpoint are, if they are wanted."""
        if number in self._wanted:
            self._known[number] = layout.at.copy()

    def addresses(self, number: int, nodes: NDArray[np.int64], most: int) -> NDArray[np.uint32]:
        """Return where the chunks are that regions of a checkpoint cover."""
        if number not in self._known:
            raise damaged("it takes chunks from a checkpoint that is not there")
        at = self._known[number]
        return at[_positions(*_places(nodes, len(at)), most)]


def apply_bitmap(piece: Piece, layout: Layout) -> None:
    """Change contents as a piece of method basic says."""
    reader = Reader(piece.meta)
    first, _, _ = _read_head(reader, piece.info)
    count = count_of(piece.info.nbytes, piece.info.chunk_bytes)
    bits = np.frombuffer(reader.take(count_of(count, 8)), np.uint8)
    reader.end()
    new = np.flatnonzero(np.unpackbits(bits, count=count, bitorder="little")).astype(np.uint32)
    if len(new) != first:
        raise damaged("its bitmap has another count than it should")
    none = np.empty(0, np.uint32)
    payload = np.frombuffer(piece.payload, np.uint8)
    layout.change(new, none, none, payload, piece.info.nbytes)


def apply_regions(piece: Piece, layout: Layout, history: History) -> None:
    """Change contents as a piece of method list or tree says."""
    info = piece.info
    first, groups, pairs = _read_lists(piece)
    count = count_of(info.nbytes, info.chunk_bytes)
    new = _positions(*_places(first, count), count)
    at_levels = _places(pairs[:, 0], count)
    moved = _positions(*at_levels, count)
    sources = np.empty(len(moved), np.uint32)
    inside: list[tuple[NDArray[np.int64], NDArray[np.int64]]] = []
    region = chunk = 0
    for number, regions in groups.tolist():
        nodes = pairs[region : region + regions, 1]
        here = slice(chunk, chunk + int((1 << at_levels[1][region : region + regions]).sum()))
        if number == info.number:
            inside.append((moved[here], _positions(*_places(nodes, count), count)))
            sources[here] = 0
        else:
            sources[here] = _exactly(history.addresses(number, nodes, count), here)
        region, chunk = region + regions, here.stop
    order = np.argsort(moved, kind="stable")
    payload = np.frombuffer(piece.payload, np.uint8)
    layout.change(
        new.astype(np.uint32),
        moved[order].astype(np.uint32),
        sources[order],
        payload,
        info.nbytes,
    )
    for targets, origins in inside:
        _resolve(layout, targets, origins)


def _exactly(found: NDArray[np.uint32], here: slice) -> NDArray[np.uint32]:
    if len(found) != here.stop - here.start:
        raise damaged("a region and its source differ in size")
    return found


def _resolve(layout: Layout, targets: NDArray[np.int64], origins: NDArray[np.int64]) -> None:
    """Take chunks from the same contents, which may take them from elsewhere in turn."""
    if len(targets) != len(origins) or not (origins < targets).all():
        raise damaged("a region and its source do not go together")
    jump = np.arange(len(layout.at))
    jump[targets] = origins
    # Each jump leads to a lower position, so this ends.
    while not np.array_equal(further := jump[jump], jump):
        jump = further
    layout.at[targets] = layout.at[jump[targets]]


def _read_head(reader: Reader, info: PieceInfo) -> tuple[int, int, int]:
    _, number, nbytes, chunk_bytes, first, prior, shifted = reader.unpack(_HEAD)
    if (number, nbytes, chunk_bytes) != (info.number, info.nbytes, info.chunk_bytes):
        raise damaged("its two headers differ")
    return first, prior, shifted


def _read_lists(
    piece: Piece,
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return first regions; checkpoints with counts; shifted regions with their sources."""
    reader = Reader(piece.meta)
    first, prior, shifted = _read_head(reader, piece.info)
    nodes = reader.numbers(first).astype(np.int64)
    groups = reader.numbers(2 * prior).astype(np.int64).reshape(-1, 2)
    pairs = reader.numbers(2 * shifted).astype(np.int64).reshape(-1, 2)
    reader.end()
    if int(groups[:, 1].sum()) != shifted or (groups[:, 0] > piece.info.number).any():
        raise damaged("its lists do not go together")
    return nodes, groups, pairs


def _places(nodes: NDArray[np.int64], count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first chunk and the level of each node of a tree over ``count`` chunks."""
    offsets = np.cumsum([0, *level_counts(count)])
    levels = np.searchsorted(offsets, nodes, "right") - 1
    if len(nodes) and int(nodes.max()) >= offsets[-1]:
        raise damaged("it names a node that is not there")
    starts = (nodes - offsets[levels]) << levels
    if (starts + (1 << levels) > count).any():
        raise damaged("it names a node that is no region")
    return starts, levels


def _positions(
    starts: NDArray[np.int64], levels: NDArray[np.int64], most: int
) -> NDArray[np.int64]:
    """Return the chunks that nodes cover; there may be no more of them than this."""
    lengths = np.int64(1) << levels
    if int(lengths.sum()) > most:
        raise damaged("its regions overlap")
    return spread(starts, lengths)
