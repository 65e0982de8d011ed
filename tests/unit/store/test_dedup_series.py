"""Series: what pieces cost, when the guard steps in, and how contents come back."""

from __future__ import annotations

import pickle
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pytest

from chexpoint.errors import InvalidValue, StoreDamaged
from chexpoint.store.dedup import Series, content_root, decode, guard, read_info
from chexpoint.store.dedup import series as series_module

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

RNG_SEED = 7


def _floats(count: int, seed: int = RNG_SEED) -> NDArray[np.float32]:
    return np.random.default_rng(seed).normal(size=count).astype(np.float32)


def _encoded(states: Iterable[NDArray[np.generic]], *, has_previous: bool = False) -> list[bytes]:
    series, chain = Series(engine="plain"), list[bytes]()
    kept: list[NDArray[np.generic]] = []
    for state in states:
        previous = partial(kept.__getitem__, len(kept) - 1) if has_previous else None
        chain.append(b"".join(series.encode(state, previous=previous)))
        kept.append(state.copy())
    for number, state in enumerate(kept):
        assert decode(chain[: number + 1]).tobytes() == state.tobytes()
    return chain


def _codings(chain: list[bytes]) -> list[str]:
    return [read_info(piece).coding for piece in chain]


def test_unchanged_contents_make_a_tiny_piece() -> None:
    data = _floats(500_000)
    chain = _encoded([data, data, data])
    assert len(chain[0]) <= 1.01 * data.nbytes
    assert max(len(piece) for piece in chain[1:]) < 200


def test_a_sparse_change_costs_about_its_chunks() -> None:
    data = _floats(500_000)
    changed = data.copy()
    changed[::50_000] += 1
    chain = _encoded([data, changed])
    assert len(chain[1]) < 10 * 256 + 400


def test_going_back_to_old_contents_stores_no_chunk() -> None:
    one, two = _floats(50_000, 1), _floats(50_000, 2)
    chain = _encoded([one, two, one, two, one])
    assert max(len(piece) for piece in chain[2:]) < 400


def test_repeated_chunks_are_stored_once() -> None:
    chain = _encoded([np.tile(_floats(64), 10_000)])
    assert len(chain[0]) < 2000


@pytest.mark.parametrize("nbytes", [0, 1, 255, 256, 257, 65_536, 65_537])
def test_odd_sizes_come_back(nbytes: int) -> None:
    data = np.random.default_rng(0).integers(0, 256, nbytes, np.uint8)
    _encoded([data, data[: nbytes // 2], data, np.zeros(nbytes, np.uint8)], has_previous=True)


def test_a_frame_that_gains_columns_costs_about_one_column() -> None:
    column = 100_000
    frame = _floats(5 * column)
    chain = _encoded([frame, np.concatenate([frame, _floats(column, 3)])])
    assert len(chain[1]) < 1.02 * 4 * column


def test_non_contiguous_arrays_are_encoded_as_they_look() -> None:
    data = _floats(10_000).reshape(100, 100)
    assert decode([b"".join(Series().encode(data.T))]).tobytes() == data.T.tobytes()


def test_dense_changes_are_never_larger_than_full_and_end_the_hashing() -> None:
    states = [_floats(300_000, seed) for seed in range(8)]
    chain = _encoded(states)
    assert max(len(piece) for piece in chain) <= 1.01 * states[0].nbytes
    infos = [read_info(piece) for piece in chain]
    assert [info.coding for info in infos[3:]] == ["whole"] * 5
    assert [info.key for info in infos[3:]] == [3, 4, 5, 6, 7]
    assert [info.streak for info in infos] == list(range(8))


def test_hashing_begins_again_when_changes_become_sparse() -> None:
    states = [_floats(300_000, seed) for seed in range(5)]
    for place in range(3):
        changed = states[-1].copy()
        changed[place] += 1
        states.append(changed)
    chain = _encoded(states)
    assert read_info(chain[5]).streak == 0
    assert max(len(piece) for piece in chain[6:]) < 1000


def test_small_changes_everywhere_are_stored_as_exclusive_or() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(0, 2**16, 12_000_000, np.uint16)
    states = []
    for _ in range(4):
        weights = weights ^ (rng.random(len(weights), np.float32) < 0.05)
        states.append(weights)
    chain = _encoded(states, has_previous=True)
    assert _codings(chain)[1:] == ["xor"] * 3
    assert max(len(piece) for piece in chain[1:]) < 0.25 * weights.nbytes


def test_shifted_streams_are_patched() -> None:
    things: list[dict[str, object]] = [{"id": i, "name": f"user {i}"} for i in range(3000)]
    states = []
    for number in range(12):
        things.insert(100 * number, {"new": number})
        states.append(np.frombuffer(pickle.dumps(things), np.uint8))
    chain = _encoded(states, has_previous=True)
    assert _codings(chain)[1:9] == ["patch"] * 8
    assert max(len(piece) for piece in chain[1:9]) < 0.2 * states[0].nbytes
    assert _codings(chain)[9:] == ["whole", "patch", "patch"]


def test_pieces_that_need_all_contents_before_them_are_bounded() -> None:
    data = np.random.default_rng(0).integers(0, 256, 100_000, np.uint8)
    chain = _encoded([np.roll(data, number) for number in range(20)], has_previous=True)
    keys = [info.number for info in map(read_info, chain) if info.key == info.number]
    assert keys == [0, 9, 18]
    assert guard.MOST_DEPENDENT == 8


def test_the_index_stays_within_a_quarter_of_the_contents() -> None:
    data = _floats(4_000_000)
    series, chain = Series(engine="auto"), []
    for number in range(14):
        data[number * 250_000 : number * 250_000 + 1_600_000] += 1
        chain.append(b"".join(series.encode(data)))
        assert series.index_bytes <= 0.25 * data.nbytes
        assert sum(map(len, series.dump())) <= 0.25 * data.nbytes
    assert decode(chain).tobytes() == data.tobytes()


def test_chunks_that_were_forgotten_are_stored_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series_module, "_INDEX_LEAST", 0)
    monkeypatch.setattr(series_module, "_INDEX_SHARE", 0.0)
    one = np.random.default_rng(1).integers(0, 256, 51_200, np.uint8)
    two = np.random.default_rng(2).integers(0, 256, 51_200, np.uint8)
    states = [one, two, one, np.concatenate([one, two]), np.concatenate([two, one])]
    chain = _encoded(states)
    assert len(chain[2]) > 50_000
    assert len(chain[4]) < 2000


def test_a_guarded_series_goes_on_after_dump_and_after_rebuild() -> None:
    states = [_floats(100_000, seed) for seed in range(6)]
    states += [states[-1] + np.float32(0), states[-1] * np.float32(2)]
    series, chain = Series(), list[bytes]()
    for state in states:
        again = []
        if chain:
            again = [Series.load(b"".join(series.dump())), Series.rebuild(chain)]
        chain.append(b"".join(series.encode(state)))
        for other in again:
            assert other.root == content_root(states[len(chain) - 2])
            piece = b"".join(other.encode(state))
            assert read_info(piece).streak == read_info(chain[-1]).streak
            assert decode([*chain[:-1], piece]).tobytes() == state.tobytes()


def test_a_chain_decodes_from_its_last_key_on() -> None:
    states = [_floats(100_000, seed) for seed in range(6)]
    chain = _encoded(states)
    key = read_info(chain[-1]).key
    assert key > 0
    assert decode(chain[key:]).tobytes() == states[-1].tobytes()
    assert decode([*[b"gone"] * key, *chain[key:]]).tobytes() == states[-1].tobytes()


def test_a_chain_without_its_first_pieces_is_damaged() -> None:
    data = _floats(100_000)
    changed = data.copy()
    changed[0] += 1
    chain = _encoded([data, changed])
    for wrong in ([], chain[1:], [chain[1], chain[1]]):
        with pytest.raises(StoreDamaged):
            decode(wrong)


def test_damaged_state_is_refused() -> None:
    series = Series()
    series.encode(_floats(1000))
    state = b"".join(series.dump())
    for wrong in (b"", state[:-1], state[:30], state[:-1] + bytes([state[-1] ^ 1]), state + b"x"):
        with pytest.raises(ValueError, match="state of a series"):
            Series.load(wrong)


@pytest.mark.parametrize(
    "wrong", [{"method": "other"}, {"engine": "fpga"}, {"chunk_bytes": 100}, {"chunk_bytes": 8}]
)
def test_what_there_is_not_is_refused(wrong: dict[str, str | int]) -> None:
    with pytest.raises(InvalidValue, match=r"choose one of|must be a power of two"):
        Series(**wrong)  # type: ignore[arg-type]


def test_things_without_bytes_are_refused() -> None:
    with pytest.raises(InvalidValue, match="give an array"):
        Series().encode("text")
