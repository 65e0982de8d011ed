"""De-duplication of any contents: what is found, what is stored, and what comes back."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from chexpoint.store.dedup import BLOCK_BYTES, Series, content_root, decode, read_info
from chexpoint.store.dedup.chunks import Gathered, gather
from chexpoint.store.dedup.differ import HostDiffer, make_differ
from chexpoint.store.dedup.digests import digests_of
from chexpoint.store.dedup.engines import hash_rows
from chexpoint.store.dedup.index import EMPTY, Index

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from chexpoint.store.dedup import Regions

METHODS = ("full", "basic", "list", "tree", "ours")
CHUNK = 32


@st.composite
def lineages(draw: st.DrawFn) -> list[NDArray[np.uint8]]:
    """Contents that change, grow, shrink, repeat themselves and go back."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    letters = draw(st.sampled_from([1, 2, 200]))
    states = [_letters(rng, draw(st.integers(0, 5000)), letters)]
    for _ in range(draw(st.integers(1, 6))):
        states.append(_step(draw, rng, states, letters))
    return states


def _step(
    draw: st.DrawFn,
    rng: np.random.Generator,
    states: list[NDArray[np.uint8]],
    letters: int,
) -> NDArray[np.uint8]:
    now = states[-1].copy()
    match draw(st.sampled_from(["same", "few", "all", "grow", "shrink", "move", "back", "large"])):
        case "few" if len(now):
            now[rng.integers(0, len(now), 3)] += 1
        case "all":
            now = _letters(rng, len(now), 200)
        case "grow":
            now = np.concatenate([now, _letters(rng, draw(st.integers(1, 700)), letters)])
        case "shrink":
            now = now[: draw(st.integers(0, len(now)))].copy()
        case "move":
            now = np.roll(now, CHUNK * draw(st.integers(1, 40)))
        case "back":
            now = states[draw(st.integers(0, len(states) - 1))].copy()
        case "large":
            now = np.concatenate([now, np.repeat(_letters(rng, 700, letters), 100)])
    return now


def _letters(rng: np.random.Generator, count: int, letters: int) -> NDArray[np.uint8]:
    rows = rng.integers(0, letters, (8, CHUNK), np.uint8)
    return rows[rng.integers(0, 8, -(-count // CHUNK))].reshape(-1)[:count].copy()


def _chunks(data: NDArray[np.uint8]) -> list[bytes]:
    return [data[start : start + CHUNK].tobytes() for start in range(0, len(data), CHUNK)]


@pytest.mark.parametrize("engine", ["plain", "jit"])
@settings(deadline=None, max_examples=25)
@given(lineages())
def test_chunks_are_new_or_moved_as_a_dictionary_says(
    engine: str, states: list[NDArray[np.uint8]]
) -> None:
    differ = make_differ("ours", CHUNK, engine)
    ids: dict[bytes, int] = {}
    before: list[bytes] = []
    for state in states:
        found = differ.analyse(state)
        new, moved, sources = [], [], []
        now = _chunks(state)
        for i, chunk in enumerate(now):
            if i < len(before) and before[i] == chunk:
                continue
            if chunk in ids:
                moved.append(i)
                sources.append(ids[chunk])
            else:
                new.append(i)
                ids[chunk] = len(ids)
        assert found.new.tolist() == new
        assert found.moved.tolist() == moved
        assert found.sources.tolist() == sources
        assert found.payload.tobytes() == b"".join(now[i] for i in new)
        assert found.root == _root(state)
        before = now


def _root(data: NDArray[np.uint8]) -> bytes:
    blocks = [
        xxhash.xxh3_128_digest(data[start : start + BLOCK_BYTES].tobytes())
        for start in range(0, len(data), BLOCK_BYTES)
    ]
    return xxhash.xxh3_128_digest(b"".join(blocks) + len(data).to_bytes(8, "little"))


@pytest.mark.parametrize("method", ["basic", "list", "tree"])
@settings(deadline=None, max_examples=25)
@given(lineages())
def test_engines_find_the_same_regions(method: str, states: list[NDArray[np.uint8]]) -> None:
    plain, jit = (make_differ(method, CHUNK, engine) for engine in ("plain", "jit"))
    for state in states:
        assert _told(plain.regions(state)) == _told(jit.regions(state))


def _told(found: Regions) -> tuple[object, ...]:
    return (
        found.nbytes,
        found.first.tolist(),
        found.shifted.tolist(),
        found.source_nodes.tolist(),
        found.source_checkpoints.tolist(),
        found.payload.tobytes(),
    )


@settings(deadline=None, max_examples=25)
@given(lineages())
def test_tree_finds_the_regions_of_the_published_algorithm(
    states: list[NDArray[np.uint8]],
) -> None:
    differ = make_differ("tree", CHUNK, "plain")
    seen: dict[bytes, tuple[int, int]] = {}
    before: list[bytes] = []
    for number, state in enumerate(states):
        found = differ.regions(state)
        now = _chunks(state)
        expected = _Algorithm1(number, now, before, seen)
        assert found.first.tolist() == [node for node, _ in expected.regions("first")]
        assert [
            (int(node), (int(checkpoint), int(source)))
            for node, checkpoint, source in zip(
                found.shifted, found.source_checkpoints, found.source_nodes, strict=True
            )
        ] == expected.regions("shifted")
        before = now


class _Algorithm1:
    """The paper's, node by node; contents stand for their digests."""

    def __init__(
        self,
        number: int,
        now: list[bytes],
        before: list[bytes],
        seen: dict[bytes, tuple[int, int]],
    ) -> None:
        self._number, self._now, self._seen = number, now, seen
        self._labels: dict[tuple[int, int], str] = {}
        counts = [len(now)]
        while counts[-1] > 1:
            counts.append(-(-counts[-1] // 2))
        self._offsets = [sum(counts[:k]) for k in range(len(counts))]
        self._label_chunks(before)
        inner = [(k, j) for k in range(1, len(counts)) for j in range(len(now) >> k)]
        for node in inner:
            self._label_first(*node)
        for node in inner:
            self._label_shifted(*node)

    def _label_chunks(self, before: list[bytes]) -> None:
        for i, chunk in enumerate(self._now):
            if i < len(before) and before[i] == chunk:
                self._labels[0, i] = "fixed"
            else:
                self._labels[0, i] = "shifted" if chunk in self._seen else "first"
                self._remember(0, i)

    def _label_first(self, k: int, j: int) -> None:
        if self._children(k, j) == {"first"}:
            self._labels[k, j] = "first"
            self._remember(k, j)

    def _label_shifted(self, k: int, j: int) -> None:
        if self._children(k, j) == {"shifted"} and self._contents(k, j) in self._seen:
            self._labels[k, j] = "shifted"
        elif self._number == 0:
            self._remember(k, j)

    def _remember(self, k: int, j: int) -> None:
        self._seen.setdefault(self._contents(k, j), (self._number, self._offsets[k] + j))

    def _contents(self, k: int, j: int) -> bytes:
        # Levels and lengths differ, so that a short chunk is never taken for two.
        parts = self._now[j << k : (j + 1) << k]
        return b"|".join(parts) + bytes([k]) if k else parts[0]

    def _children(self, k: int, j: int) -> set[str | None]:
        return {self._labels.get((k - 1, 2 * j)), self._labels.get((k - 1, 2 * j + 1))}

    def regions(self, label: str) -> list[tuple[int, tuple[int, int]]]:
        """Return nodes of a label that lie in no larger one, with where they were seen first."""
        found = [
            (j << k, self._offsets[k] + j, self._seen[self._contents(k, j)])
            for (k, j), mine in self._labels.items()
            if mine == label and (k + 1, j // 2) not in self._labels
        ]
        return [(node, source) for _, node, source in sorted(found)]


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=25)
@given(lineages(), st.booleans())
def test_every_checkpoint_of_every_method_comes_back(
    method: str, states: list[NDArray[np.uint8]], has_previous: bool
) -> None:
    series = Series(method=method, chunk_bytes=CHUNK, engine="plain")
    chain: list[bytes] = []
    for number, state in enumerate(states):
        previous = partial(states.__getitem__, number - 1) if has_previous else None
        chain.append(b"".join(series.encode(state, previous=previous)))
        info = read_info(chain[-1])
        assert (info.number, info.nbytes, info.method) == (number, len(state), method)
        assert info.root == series.root == content_root(state)
        assert len(chain[-1]) <= 1.01 * len(state) + 512 or method in {"basic", "list", "tree"}
    for number, state in enumerate(states):
        found = decode(chain[: number + 1])
        assert found.flags.writeable
        assert found.tobytes() == state.tobytes()


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=15)
@given(lineages(), st.data())
def test_series_go_on_the_same_after_dump_and_after_rebuild(
    method: str, states: list[NDArray[np.uint8]], data: st.DataObject
) -> None:
    cut = data.draw(st.integers(1, len(states)))
    series = Series(method=method, chunk_bytes=CHUNK, engine="plain")
    chain = [b"".join(series.encode(state)) for state in states[:cut]]
    loaded = Series.load(b"".join(series.dump()), engine="plain")
    rebuilt = Series.rebuild(chain, engine="jit")
    assert loaded.root == rebuilt.root == series.root
    assert loaded.number == rebuilt.number == cut
    for state in states[cut:]:
        expected = b"".join(series.encode(state))
        assert b"".join(loaded.encode(state)) == expected
        assert b"".join(rebuilt.encode(state)) == expected


@settings(deadline=None, max_examples=20)
@given(st.binary(max_size=3000), st.sampled_from([16, 64, 256]))
def test_digests_are_those_of_xxhash(data: bytes, size: int) -> None:
    array = np.frombuffer(data, np.uint8)
    expected = b"".join(
        xxhash.xxh3_128_digest(data[start : start + size]) for start in range(0, len(data), size)
    )
    for found in (digests_of(array, size), hash_rows(array, size, "jit")):
        assert found.astype(">u8").tobytes() == expected


@settings(deadline=None, max_examples=20)
@given(st.lists(st.lists(st.integers(0, 40), max_size=60), max_size=8))
def test_an_index_gives_ids_as_a_dictionary_does(batches: list[list[int]]) -> None:
    index, ids = Index(), dict[int, int]()
    for batch in batches:
        digests = np.array([_digest(each) for each in batch], np.uint64).reshape(-1, 2)
        known = [ids.get(each, EMPTY) for each in batch]
        assert index.find(digests).tolist() == known
        found, is_new = index.add(digests)
        assert is_new.tolist() == [
            each not in ids and each not in batch[:i] for i, each in enumerate(batch)
        ]
        for each in batch:
            ids.setdefault(each, len(ids))
        assert found.tolist() == [ids[each] for each in batch]
    index.replace(index.digests[: index.count][::2])
    kept = {each: i // 2 for each, i in ids.items() if i % 2 == 0}
    digests = np.array([_digest(each) for each in ids], np.uint64).reshape(-1, 2)
    assert index.find(digests).tolist() == [kept.get(each, EMPTY) for each in ids]


def _digest(number: int) -> tuple[int, int]:
    # Few slots, so that most of them collide.
    return number // 3, (number % 3) << 60


@settings(deadline=None, max_examples=20)
@given(lineages(), st.data())
def test_dirty_ranges_find_what_a_whole_look_finds(
    states: list[NDArray[np.uint8]], data: st.DataObject
) -> None:
    whole, some = (
        HostDiffer(
            method="ours", chunk_bytes=CHUNK, engine=data.draw(st.sampled_from(["plain", "jit"]))
        )
        for _ in range(2)
    )
    before = states[0][:0]
    for state in states:
        both = min(len(before), len(state))
        places = np.flatnonzero(before[:both] != state[:both]).tolist()
        dirty = [(place, place + 1) for place in places]
        expected, found = whole.analyse(state), some.analyse(state, dirty)
        assert found.new.tolist() == expected.new.tolist()
        assert found.moved.tolist() == expected.moved.tolist()
        assert found.root == expected.root
        before = state


@given(
    nbytes=st.integers(0, 700),
    picks=st.sets(st.integers(0, 21)),
    cuts=st.tuples(st.integers(0, 800), st.integers(0, 800)),
)
def test_chunks_that_are_gathered_late_are_those_gathered_at_once(
    nbytes: int, picks: set[int], cuts: tuple[int, int]
) -> None:
    contents = np.random.default_rng(nbytes).integers(0, 256, nbytes).astype(np.uint8)
    count = -(-nbytes // CHUNK)
    positions = np.array(sorted(each for each in picks if each < count), np.uint32)
    whole = gather(contents, positions, CHUNK).tobytes()
    late = Gathered(contents, positions, CHUNK)
    assert len(late) == late.nbytes == len(whole)
    assert late.tobytes() == whole
    assert np.asarray(late).tobytes() == whole
    assert b"".join(late.buffers()) == whole
    start, stop = sorted(cuts)
    assert late[start:stop].tobytes() == whole[start:stop]
