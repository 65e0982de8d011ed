"""Sweeps free what no image needs, and nothing else; budgets hold."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from chexpoint.errors import StoreDamaged, StoreError
from chexpoint.model import ImageInfo, ImageName
from chexpoint.store import Store
from chexpoint.store import sweeping as sweeping_module
from chexpoint.store.eviction import choose_evictions, usefulness
from chexpoint.store.manifests import Pointer

KEY = bytes(range(32))
DAY = 86_400.0


def noise(seed: int, nbytes: int = 100_000) -> bytes:
    return random.Random(seed).randbytes(nbytes)


def changed(data: bytes, position: int) -> bytes:
    return data[:position] + b"!" + data[position + 1 :]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Store:
    return Store.open(folder, key=KEY)


# ------------------------------------------------------------ sweeps


def test_a_sweep_frees_what_only_forgotten_images_need(store: Store, folder: Path) -> None:
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={"x": noise(2), "y": noise(1)}, like="a")
    store.put("c", {}, streams={}, arrays={"z": noise(3, 1_500_000)})
    store.forget("c")
    assert store.usage().waste_bytes > 1_500_000
    seen: list[tuple[int, int]] = []
    report = store.gc(progress=lambda done, total: seen.append((done, total)))
    assert (report.packs, report.images, report.kept_busy) == (1, 0, 0)
    assert report.freed_bytes > 1_500_000
    assert seen == [(0, 1), (1, 1)]
    assert store.usage().waste_bytes == store.usage().index_bytes == 0
    store.forget("a")
    store.gc()
    with store.read("b") as image:
        assert (image.array("x").tobytes(), image.array("y").tobytes()) == (noise(2), noise(1))
    assert store.fsck().damages == ()


def test_a_second_sweep_has_nothing_to_do(store: Store) -> None:
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={"x": changed(noise(1), 7)}, like="a")
    store.forget("a")
    store.gc()
    assert store.gc().freed_bytes == 0


def test_only_wanted_images_stay(store: Store) -> None:
    for name in "abc":
        store.put(name, {}, streams={}, arrays={name: noise(ord(name))})
    report = store.gc(wanted={"b", "never seen"})
    assert (report.images, report.packs) == (2, 2)
    assert [each.name for each in store.images()] == ["b"]


def test_leftovers_of_dead_writers_are_swept(store: Store, folder: Path) -> None:
    (folder / "tmp" / "1-dead").write_bytes(bytes(1000))
    assert store.usage().waste_bytes == 1000
    assert store.gc().freed_bytes == 1000
    assert list((folder / "tmp").iterdir()) == []


def test_what_is_left_of_a_mostly_dead_pack_is_moved(store: Store) -> None:
    large, small = noise(1, 900_000), noise(2, 20_000)
    store.put("a", {}, streams={"s": b"kept"}, arrays={"large": large, "small": small})
    store.put("b", {}, streams={}, arrays={"small": changed(small, 9)}, same=["s"], like="a")
    store.put("c", {}, streams={}, arrays={"small": changed(small, 5)}, same=["s"], like="b")
    store.forget("a")
    report = store.gc()
    assert report.freed_bytes > 870_000
    assert store.usage().pack_bytes < 40_000
    for name, position in {"b": 9, "c": 5}.items():
        with store.read(name) as image:
            assert image.stream("s") == b"kept"
            assert image.array("small").tobytes() == changed(small, position)
    assert store.fsck().damages == ()
    # Moved pieces can be moved again, and gone on with.
    store.put("d", {}, streams={}, arrays={"small": changed(small, 1)}, same=["s"], like="c")
    store.forget("b", "c")
    store.gc()
    with store.read("d") as image:
        assert image.array("small").tobytes() == changed(small, 1)
    assert store.gc().freed_bytes == 0


def test_images_of_others_are_never_moved(store: Store, folder: Path) -> None:
    other = Store.open(folder, key=bytes(16))
    other.put("a", {}, streams={}, arrays={"large": noise(1, 900_000), "small": noise(2)})
    other.put("b", {}, streams={}, arrays={}, same=["small"], like="a")
    store.forget("a")
    assert store.gc().packs == 0
    with other.read("b") as image:
        assert image.array("small").tobytes() == noise(2)


def test_a_sweep_waits_for_readers_and_comes_back(
    store: Store, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeping_module, "PATIENCE_S", 0.0)
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    image = Store.open(folder, key=KEY).read("a")
    store.forget("a")
    report = store.gc()
    assert (report.kept_busy, report.packs) == (1, 0)
    assert image.array("x").tobytes() == noise(1)
    image.close()
    assert store.gc().packs == 1


def test_an_image_that_nobody_holds_is_closed(store: Store, folder: Path) -> None:
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    assert store.read("a").array("x").tobytes() == noise(1)
    store.forget("a")
    assert store.gc().packs == 1


def test_nothing_is_swept_while_nobody_knows_what_an_image_needs(
    store: Store, folder: Path
) -> None:
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={})
    store.forget("b")
    pointer = folder / "images" / "a.json"
    whole = pointer.read_bytes()
    pointer.write_bytes(whole.replace(b'"cost_s":0', b'"cost_s":1'))
    with pytest.raises(StoreDamaged, match=r"nothing was deleted.*'a'"):
        store.gc()
    pointer.write_bytes(whole)
    assert store.gc().packs == 1
    with store.read("a") as image:
        assert image.array("x").tobytes() == noise(1)


def test_thousands_of_images_are_listed_without_opening_a_pack(store: Store, folder: Path) -> None:
    for number in range(30):
        store.put(str(number), {}, streams={}, arrays={"x": noise(number, 5_000)})
    for pack in (folder / "packs").iterdir():
        pack.write_bytes(b"")
    assert [each.name for each in store.images()] == [str(number) for number in range(30)]
    assert store.usage().state_bytes == 150_000


# ------------------------------------------------------------ budgets


def info(name: str, *, age: float = 0.0, cost_s: float = 1.0, nbytes: int = 100_000) -> ImageInfo:
    return ImageInfo(
        name=ImageName(name),
        time=10 * DAY - age,
        seconds=0.0,
        state_bytes=nbytes,
        stored_bytes=nbytes,
        cost_s=cost_s,
    )


def pointer(about: ImageInfo, *packs: str) -> Pointer:
    return Pointer(info=about, pack=packs[0], section=0, digest="", packs=frozenset(packs))


def test_images_are_useful_if_they_are_costly_new_and_small() -> None:
    now = 10 * DAY
    usual = usefulness(info("a"), now)
    assert usefulness(info("a", cost_s=2.0), now) == 2 * usual
    assert usefulness(info("a", age=DAY), now) == usual / 2
    assert usefulness(info("a", nbytes=200_000), now) == usual / 2
    # Time that runs backwards, and images of nothing, are no reason to keep one for ever.
    assert usefulness(info("a", age=-DAY), now) == usual
    assert usefulness(info("a", nbytes=0), now) < 100 * usual


def test_the_least_useful_go_until_the_rest_fits() -> None:
    pointers = [
        pointer(info("cheap", cost_s=0.1), "p"),
        pointer(info("dear", cost_s=9.0), "q"),
        pointer(info("old", age=2 * DAY), "r"),
    ]
    sizes = {"p": 100, "q": 100, "r": 100, "unused": 1000}
    chosen = [
        choose_evictions(pointers, sizes, budget_bytes=budget, now=10 * DAY)
        for budget in (300, 299, 199, 99)
    ]
    assert chosen == [(), ("cheap",), ("old", "cheap"), ("dear", "old", "cheap")]


def test_images_whose_going_does_not_help_stay() -> None:
    pointers = [
        pointer(info("base", cost_s=0.1), "p"),
        pointer(info("next", cost_s=9.0), "q", "p"),
        pointer(info("large", cost_s=5.0), "r"),
    ]
    sizes = {"p": 100, "q": 1, "r": 50}
    assert choose_evictions(pointers, sizes, budget_bytes=101, now=10 * DAY) == ("large",)


def test_what_is_needed_is_never_freed() -> None:
    pointers = [pointer(info("a"), "p")]
    sizes = {"p": 100, "new": 10}
    for budget, expected in {110: (), 109: None}.items():
        found = choose_evictions(
            pointers, sizes, budget_bytes=budget, now=10 * DAY, needed=["p", "new"]
        )
        assert found == expected


def test_a_store_stays_within_its_budget(folder: Path) -> None:
    store = Store.open(folder, key=KEY, budget_bytes=350_000)
    for number in range(8):
        store.put(
            str(number),
            {},
            streams={},
            arrays={f"x{number}": noise(number)},
            cost_s=100.0 if number == 1 else 1.0 + number,
        )
        assert store.usage().pack_bytes <= 350_000
    assert [each.name for each in store.images()] == ["1", "6", "7"]
    with store.read("1") as image:
        assert image.array("x1").tobytes() == noise(1)


def test_waste_goes_before_images_do(folder: Path) -> None:
    store = Store.open(folder, key=KEY, budget_bytes=250_000)
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={"y": noise(2)})
    store.forget("b")
    store.put("c", {}, streams={}, arrays={"z": noise(3)})
    assert [each.name for each in store.images()] == ["a", "c"]
    assert store.usage().pack_bytes <= 250_000


def test_an_image_larger_than_the_budget_is_refused_and_costs_nothing(folder: Path) -> None:
    store = Store.open(folder, key=KEY, budget_bytes=150_000)
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    before = store.usage()
    with pytest.raises(StoreError, match="larger than the budget"):
        store.put("b", {}, streams={}, arrays={"y": noise(2, 200_000)})
    assert store.usage() == before
    with store.read("a") as image:
        assert image.array("x").tobytes() == noise(1)


def test_a_sweep_applies_a_budget_that_was_lowered(store: Store, folder: Path) -> None:
    for name in "abc":
        store.put(name, {}, streams={}, arrays={name: noise(ord(name))}, cost_s=ord(name))
    report = Store.open(folder, key=KEY, budget_bytes=210_000).gc()
    assert report.images == 1
    assert [each.name for each in store.images()] == ["b", "c"]
