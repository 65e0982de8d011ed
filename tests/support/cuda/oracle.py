"""What every differ must find, in the plainest Python: dictionaries of contents, no digests."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import xxhash

BLOCK_BYTES = 65536


class Expected(NamedTuple):
    """See `Analysis`."""

    new: list[int]
    moved: list[int]
    sources: list[int]
    payload: bytes
    root: bytes


class ExpectedRegions(NamedTuple):
    """See `Regions`."""

    first: list[int]
    shifted: list[int]
    sources: list[tuple[int, int]]
    """Checkpoint and node."""
    payload: bytes


def cut(data: bytes, size: int) -> list[bytes]:
    """Return the pieces of contents."""
    return [data[at : at + size] for at in range(0, len(data), size)]


class Oracle:
    """Looks at contents again and again."""

    def __init__(self, chunk_bytes: int) -> None:
        self.chunk_bytes = chunk_bytes
        self.before: list[bytes] = []
        self.ids: dict[bytes, int] = {}

    def changed(self, data: bytes) -> list[tuple[int, bytes]]:
        """Return the chunks that are not what was there before, with their positions."""
        chunks = cut(data, self.chunk_bytes)
        pairs = itertools.zip_longest(chunks, self.before[: len(chunks)])
        found = [(at, now) for at, (now, then) in enumerate(pairs) if now != then]
        self.before = chunks
        return found

    def analyse(self, data: bytes) -> Expected:
        """Return what is new, and what moved."""
        new, moved, sources, payload = [], [], [], b""
        for at, chunk in self.changed(data):
            if chunk in self.ids:
                moved.append(at)
                sources.append(self.ids[chunk])
            else:
                self.ids[chunk] = len(self.ids)
                new.append(at)
                payload += chunk
        # A chunk may have been there twice at once.
        digests = b"".join(xxhash.xxh3_128_digest(one) for one in cut(data, BLOCK_BYTES))
        root = xxhash.xxh3_128_digest(digests + len(data).to_bytes(8, "little"))
        return Expected(new, moved, sources, payload, root)


class RegionOracle(Oracle):
    """Looks at contents as method ``tree`` does; regions are known by their chunks."""

    def __init__(self, chunk_bytes: int) -> None:
        super().__init__(chunk_bytes)
        self.checkpoint = 0
        self.seen: dict[tuple[bytes, ...], tuple[int, int]] = {}

    def regions(self, data: bytes) -> ExpectedRegions:
        """Return the largest regions that are new, or were seen."""
        changed = dict(self.changed(data))
        nodes = list(self._nodes(len(self.before)))
        labels: dict[tuple[int, int], str] = {}
        for node, level, at in nodes:
            if level == 0 and at in changed:
                is_new = self._remember(node, level, at)
                labels[0, at] = "first" if is_new else "shifted"
        for node, level, at in nodes[len(self.before) :]:
            if self._children(labels, level, at) == {"first"}:
                labels[level, at] = "first"
                self._remember(node, level, at)
        for node, level, at in nodes[len(self.before) :]:
            if (level, at) in labels:
                continue
            known = self._content(level, at) in self.seen
            if known and self._children(labels, level, at) == {"shifted"}:
                labels[level, at] = "shifted"
            if self.checkpoint == 0:
                self._remember(node, level, at)
        return self._collect(nodes, labels, changed)

    def _nodes(self, count: int) -> list[tuple[int, int, int]]:
        """Return number, level and place of all nodes whose chunks exist."""
        found, number, level, size = [], 0, 0, count
        while True:
            whole = [at for at in range(size) if (at + 1) << level <= count]
            found += [(number + at, level, at) for at in whole]
            if size <= 1:
                return found
            number, level, size = number + size, level + 1, -(-size // 2)

    def _content(self, level: int, at: int) -> tuple[bytes, ...]:
        return tuple(self.before[at << level : (at + 1) << level])

    def _remember(self, node: int, level: int, at: int) -> bool:
        """Return whether it was not known."""
        source = self.checkpoint, node
        return self.seen.setdefault(self._content(level, at), source) == source

    def _children(self, labels: dict[tuple[int, int], str], level: int, at: int) -> set[str | None]:
        return {labels.get((level - 1, 2 * at)), labels.get((level - 1, 2 * at + 1))}

    def _collect(
        self,
        nodes: list[tuple[int, int, int]],
        labels: dict[tuple[int, int], str],
        changed: dict[int, bytes],
    ) -> ExpectedRegions:
        top = [
            (at << level, node, labels[level, at], level, at)
            for node, level, at in nodes
            if (level, at) in labels and (level + 1, at // 2) not in labels
        ]
        first = [node for _, node, label, _, _ in sorted(top) if label == "first"]
        shifted = [one for one in sorted(top) if one[2] == "shifted"]
        sources = [self.seen[self._content(level, at)] for *_, level, at in shifted]
        payload = [chunk for at, chunk in changed.items() if labels[0, at] == "first"]
        self.checkpoint += 1
        return ExpectedRegions(first, [one[1] for one in shifted], sources, b"".join(payload))
