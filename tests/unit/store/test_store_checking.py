"""Damage is found, named, and moved out of the way; what is whole stays whole."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chexpoint.errors import StoreDamaged, StoreError
from chexpoint.store import Store
from chexpoint.store import store as store_module

KEY = bytes(range(32))


def noise(seed: int, nbytes: int = 30_000) -> bytes:
    return random.Random(seed).randbytes(nbytes)


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x10
    path.write_bytes(data)


def largest(folder: Path) -> Path:
    return max((folder / "packs").iterdir(), key=lambda each: each.stat().st_size)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a store of three images: ``b`` goes on with ``a``, ``c`` is on its own."""
    store = Store.open(tmp_path / "store", key=KEY)
    store.put("a", {}, streams={"s": b"stream"}, arrays={"x": noise(1), "y": noise(2)})
    store.put("b", {}, streams={}, arrays={"x": noise(1)[:-1] + b"!"}, same=["s"], like="a")
    store.put("c", {}, streams={}, arrays={"z": noise(3, 2_000)})
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Store:
    return Store.open(folder, key=KEY)


def assert_readable(store: Store, name: str) -> None:
    with store.read(name) as image:
        for key in image.streams:
            image.stream(key)
        for key in image.arrays:
            image.array(key)


def test_a_whole_store_has_no_damage(store: Store, folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = store.fsck(progress=lambda done, total: seen.append((done, total)))
    assert (report.packs, report.images, report.damages) == (3, 3, ())
    assert report.checked_bytes > 62_000
    assert seen == [(number, 6) for number in range(1, 7)]


def test_a_missing_pack_costs_the_images_that_need_it(store: Store, folder: Path) -> None:
    pack = largest(folder)
    pack.unlink()
    damage, *images = store.fsck().damages
    assert (damage.what, damage.images) == (f"pack {pack.stem}", ("a", "b"))
    assert "missing" in damage.why
    assert [each.what for each in images] == ["image a", "image b"]
    with pytest.raises(StoreDamaged, match="missing"):
        store.read("a")
    with pytest.raises(StoreDamaged, match="missing"), store.read("b") as image:
        image.array("x")
    report = store.fsck(repair=True)
    assert all(each.repaired for each in report.damages)
    assert store.fsck().damages == ()
    assert [each.name for each in store.images()] == ["c"]
    assert_readable(store, "c")


def test_repair_keeps_what_else_is_in_a_damaged_pack(store: Store, folder: Path) -> None:
    pack = largest(folder)
    # The pieces are the stream, x and y, in this order: y is lost, and with it ``a``.
    flip(pack, pack.stat().st_size - 10_000)
    damage = store.fsck().damages[0]
    assert (damage.what, damage.images) == (f"pack {pack.stem}", ("a",))
    assert_readable(store, "b")
    report = store.fsck(repair=True)
    assert "copied" in report.damages[0].repaired
    assert sorted(each.name for each in (folder / "damaged").iterdir()) == [pack.name, "a.json"]
    assert [each.name for each in store.images()] == ["b", "c"]
    assert store.fsck().damages == ()
    for name in "bc":
        assert_readable(store, name)
    store.gc()
    assert_readable(store, "b")


def test_a_damaged_pointer_is_moved_away(store: Store, folder: Path) -> None:
    flip(folder / "images" / "c.json", 40)
    with pytest.raises(StoreDamaged, match="fsck --repair"):
        store.read("c")
    assert [each.name for each in store.images()] == ["a", "b"]
    (damage,) = store.fsck().damages
    assert (damage.what, damage.images) == ("image c", ("c",))
    store.fsck(repair=True)
    assert store.fsck().damages == ()
    assert store.gc().packs == 1
    for name in "ab":
        assert_readable(store, name)


def test_a_damaged_pack_that_nobody_needs_is_moved_away(store: Store, folder: Path) -> None:
    (folder / "packs" / f"{'0' * 32}.pack").write_bytes(b"CHEX")
    (damage,) = store.fsck(repair=True).damages
    assert damage.images == ()
    assert store.fsck().damages == ()


def test_a_damaged_cache_is_deleted(store: Store, folder: Path) -> None:
    store.put("d", {}, streams={}, arrays={"w": noise(4, 1_100_000)})
    (cache,) = (folder / "index").iterdir()
    flip(cache, 1000)
    (damage,) = store.fsck(repair=True).damages
    assert (damage.what, damage.images) == (f"cache {cache.name}", ())
    assert not cache.exists()


def test_a_store_is_not_repaired_while_it_is_used(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "_PATIENCE_S", 0.0)
    with store.read("a"), pytest.raises(StoreError, match="in use"):
        Store.open(folder, key=KEY).fsck(repair=True)


def test_new_images_are_stored_although_old_ones_are_lost(store: Store, folder: Path) -> None:
    flip(largest(folder), 5_000)
    array = noise(1)[:-2] + b"!!"
    store.put("d", {}, streams={}, arrays={"x": array}, like="c")
    with store.read("d") as image:
        assert image.array("x").tobytes() == array
    largest(folder).unlink()
    store.put("e", {}, streams={}, arrays={"x": array[::-1]}, like="c")
    assert_readable(store, "e")


def test_a_part_that_is_lost_is_not_the_same_any_more(store: Store, folder: Path) -> None:
    largest(folder).unlink()
    with pytest.raises(StoreDamaged, match="Give it again"):
        store.put("d", {}, streams={}, arrays={}, same=["x"], like="b")
