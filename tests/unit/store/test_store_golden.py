"""Stores of every format that was ever written can be read.

``make`` wrote ``tests/golden/store-1``; it stays as it is when the code goes on.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest

from chexpoint.errors import ImageRefused
from chexpoint.store import Store

GOLDEN = Path(__file__).parents[2] / "golden" / "store-1"
KEY = bytes(range(32))


def contents() -> dict[str, dict[str, bytes]]:
    """Return the arrays of the images in the golden store, by name."""
    counts = b"".join(number.to_bytes(4, "little") for number in range(6_000))
    noise = random.Random(1).randbytes(4_500)
    changed = counts[:9_000] + b"changed" + counts[9_007:]
    moved = changed[512:] + changed[:512]
    return {
        "first": {"counts": counts, "noise": noise, "none": b""},
        "changed": {"counts": changed, "noise": noise, "none": b"some"},
        "moved": {"counts": moved, "copy": moved},
        "grown": {"counts": moved + noise, "noise": noise[::-1]},
    }


def make(folder: Path) -> Store:
    """Write the store."""
    store = Store.open(folder, key=KEY)
    before = None
    for name, arrays in contents().items():
        streams = {"main": f"stream of {name}".encode() * 20, "same": b"always the same"}
        document = {"python": "3.11", "line": ["c1", name], "facts": {"é": [1, 2.5, None]}}
        store.put(name, document, streams=streams, arrays=arrays, like=before, cost_s=2.5)
        before = name
    return store


def assert_as_made(store: Store) -> None:
    assert [each.name for each in store.images()] == list(contents())
    assert [each.cost_s for each in store.images()] == [2.5] * 4
    assert store.fsck().damages == ()
    for name, arrays in contents().items():
        with store.read(name) as image:
            assert image.document["line"] == ["c1", name]
            assert image.document["facts"] == {"é": [1, 2.5, None]}
            assert image.stream("main") == f"stream of {name}".encode() * 20
            assert image.stream("same") == b"always the same"
            assert {key: image.array(key).tobytes() for key in image.arrays} == arrays


@pytest.fixture
def golden(tmp_path: Path) -> Path:
    """Return a copy, so that nothing happens to the store itself."""
    return Path(shutil.copytree(GOLDEN, tmp_path / "store"))


def test_the_golden_store_is_read(golden: Path) -> None:
    assert_as_made(Store.open(golden, key=KEY, create=False))


def test_it_is_what_is_written_today(tmp_path: Path) -> None:
    assert_as_made(make(tmp_path / "store"))


def test_it_can_be_gone_on_with(golden: Path) -> None:
    store = Store.open(golden, key=KEY)
    array = contents()["grown"]["counts"] + b"!"
    info = store.put("next", {}, streams={}, arrays={"counts": array}, like="grown")
    assert info.stored_bytes < 2_000
    store.forget("first", "changed", "moved", "grown")
    store.gc()
    with store.read("next") as image:
        assert image.array("counts").tobytes() == array


def test_its_key_is_asked_for(golden: Path) -> None:
    with pytest.raises(ImageRefused):
        Store.open(golden, key=bytes(32)).read("first")


def test_it_is_as_the_format_says(golden: Path) -> None:
    assert (golden / "format.json").read_bytes() == b'{"chex_store":true,"format":1}\n'
    for path in (golden / "packs").iterdir():
        data = path.read_bytes()
        count = int.from_bytes(data[-32:-24], "little")
        table = data[-32 - 24 * count : -32]
        lengths = [int.from_bytes(table[n : n + 8], "little") for n in range(0, len(table), 24)]
        assert data[:16] == b"CHEXPACK\1\0\0\0\0\0\0\0"
        assert data[-24:-8].hex() == path.stem
        assert data[-8:] == b"CHEXPEND"
        assert 16 + sum(lengths) + len(table) + 32 == len(data)
    pointer = json.loads((golden / "images" / "first.json").read_bytes())
    assert sorted(pointer) == [
        *("check", "cost_s", "digest", "format", "line", "lost", "mac", "name", "pack", "packs"),
        *("seconds", "section", "state_bytes", "stored_bytes", "time"),
    ]
