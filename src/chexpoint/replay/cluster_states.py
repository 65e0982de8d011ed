"""States that travel from host to host as images, and which of them are worth it.

A host that holds a state which took long to compute has a copy of it written as an image, and puts
that into the store that all hosts see.  Whoever takes over something below it loads the image, if
that is faster than computing what leads to it.  What cannot be loaded is computed.
"""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import xxhash

from chexpoint.model import (
    Bytes,
    CellLineage,
    Digest,
    ExecutionTree,
    ImageName,
    NodeId,
    Seconds,
    TreeNode,
)
from chexpoint.plan import choose_shipping

# Making a state of the bytes, and an image of a state, until it was measured.
_LOAD_S: Seconds = 0.5
_WRITE_S: Seconds = 1.0
# Whether anybody will want an image is not known when it is written, and writing it takes time.
_WORTH = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ShippedState:
    """A state that is in the store."""

    node: NodeId
    digest: Digest
    """Of the bytes that are there."""
    size_bytes: Bytes
    root: NodeId | None = None
    """The lineage of a fresh interpreter where it was computed: packages must be the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PackedImage:
    """An image on its way."""

    document: Mapping[str, object]
    streams: Mapping[str, bytes]
    arrays: Mapping[str, bytes]
    path: tuple[CellLineage, ...] = ()
    """The cells that have led to its state, if that has to be known."""


def pack_image(store: str, name: str, path: Iterable[CellLineage] = ()) -> tuple[Digest, bytes]:
    """Return an image of a store as bytes, and their digest.

    Raises
    ------
    StoreError
        If it is not there, or damaged.
    """
    from chexpoint.store import Store

    with Store.open(store, create=False) as opened, opened.read(ImageName(name)) as image:
        packed = PackedImage(
            document=image.document,
            streams={key: image.stream(key) for key in image.streams},
            arrays={key: image.array(key).tobytes() for key in image.arrays},
            path=tuple(path),
        )
    data = pickle.dumps(packed, protocol=pickle.HIGHEST_PROTOCOL)
    return xxhash.xxh3_128(data).hexdigest(), data


def unpack_image(store: str, name: str, data: bytes) -> tuple[CellLineage, ...]:
    """Put an image into a store; return the cells that have led to its state.

    Parameters
    ----------
    data
        What `pack_image` has returned, and nobody has changed since: its digest was compared.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    from chexpoint.store import Store

    image: PackedImage = pickle.loads(data)  # noqa: S301
    with Store.open(store) as opened:
        opened.put(
            ImageName(name), dict(image.document), streams=image.streams, arrays=image.arrays
        )
    return image.path


def is_worth_sending(prefix_s: Seconds, size: Bytes, bandwidth: float) -> bool:
    """Return whether a state should be put into the store, for hosts that may want it.

    Parameters
    ----------
    prefix_s
        What computing it has taken, from the last state on the way that is there.
    """
    shipped = choose_shipping(
        prefix_s,
        size,
        bandwidth,
        store_seconds=_WRITE_S + _moving_s(size, bandwidth),
        load_seconds=_LOAD_S,
    )
    return shipped.is_shipped and shipped.seconds * _WORTH < prefix_s


def _moving_s(size: Bytes, bandwidth: float) -> Seconds:
    return size / bandwidth if bandwidth else 0.0


@dataclass(slots=True)
class States:
    """What is known of the states in the store.  Pure decisions.

    Parameters
    ----------
    bandwidth
        Bytes a second between a host and the store; 0 if there is none.
    """

    tree: ExecutionTree
    bandwidth: float = 0.0
    load_s: Seconds = _LOAD_S
    known: dict[NodeId, ShippedState] = field(default_factory=dict)

    def stored(self, state: ShippedState, seconds: Seconds) -> None:
        """Take note of a state that a host has brought, and of how long that took."""
        self.known[state.node] = state
        self._moved(state.size_bytes, seconds)

    def loaded(self, node: NodeId, moving_s: Seconds, seconds: Seconds) -> None:
        """Take note of how long a state took to fetch, and to be loaded."""
        self.load_s = (self.load_s + max(0.0, seconds - moving_s)) / 2
        self._moved(self.known[node].size_bytes, moving_s)

    def useless(self, node: NodeId) -> None:
        """Take note that a state could not be loaded: nobody else need try."""
        self.known.pop(node, None)

    def _moved(self, size: Bytes, seconds: Seconds) -> None:
        """Correct the bandwidth by what was measured, unless it was all latency."""
        if size > 2**20 and seconds > 0:
            self.bandwidth = (self.bandwidth + size / seconds) / 2

    def for_leaves(
        self, leaves: Iterable[NodeId], held: Collection[NodeId], root: NodeId | None
    ) -> dict[NodeId, Seconds]:
        """Return the states to load for some leaves, and how long each takes.

        Parameters
        ----------
        held
            What whoever computes the leaves has already.
        root
            The lineage of a fresh interpreter there.
        """
        found: dict[NodeId, Seconds] = {}
        if self.known:
            for leaf in leaves:
                best = self._best(self.tree.path(leaf), held, root)
                if best is not None:
                    found[best[0]] = best[1]
        return found

    def _best(
        self, path: Iterable[TreeNode], held: Collection[NodeId], root: NodeId | None
    ) -> tuple[NodeId, Seconds] | None:
        best, most, prefix = None, 0.0, 0.0
        for node in path:
            prefix += node.cost
            if node.id in held:
                best, most, prefix = None, 0.0, 0.0
                continue
            state = self.known.get(node.id)
            if state is None or state.root != root:
                continue
            way = choose_shipping(
                prefix, state.size_bytes, self.bandwidth, load_seconds=self.load_s
            )
            if way.is_shipped and prefix - way.seconds > most:
                best, most = (node.id, way.seconds), prefix - way.seconds
        return best
