"""A store gives back what was put into it, and writes only what changed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from stat import S_IMODE
from typing import Any

import pytest

from chexpoint.errors import (
    ImageRefused,
    InvalidValue,
    StoreDamaged,
    StoreError,
    StoreTooNew,
    UnknownImage,
)
from chexpoint.model import LostVariable
from chexpoint.store import Store

KEY = bytes(range(32))


def noise(seed: int, nbytes: int = 100_000) -> bytearray:
    return bytearray(random.Random(seed).randbytes(nbytes))


def files(folder: Path) -> set[str]:
    return {str(each.relative_to(folder)) for each in folder.rglob("*") if each.is_file()}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def store(folder: Path) -> Iterator[Store]:
    with Store.open(folder, key=KEY) as store:
        yield store


# ------------------------------------------------------------ there and back


def test_what_is_put_is_what_is_read(store: Store) -> None:
    document = {"line": ["c1", "c2"], "lost": [], "facts": {"é": [1, None, 2.5]}}
    array = noise(1)
    info = store.put("a", document, streams={"s": b"pickle"}, arrays={"x": array, "e": b""})
    assert (info.name, info.state_bytes, info.line) == ("a", 100_006, ("c1", "c2"))
    with store.read("a") as image:
        assert image.document == document
        assert (image.streams, image.arrays) == (("s",), ("e", "x"))
        assert image.stream("s") == b"pickle"
        assert image.array("x").tobytes() == array
        assert image.array("e").tobytes() == b""
        assert image.array("x").flags.writeable
        assert image.info == info


def test_another_process_reads_it(store: Store, folder: Path) -> None:
    store.put("a", {}, streams={"s": b"pickle"}, arrays={})
    code = (
        "import sys; from chexpoint.store import Store;"
        "print(Store.open(sys.argv[1], create=False).read('a').stream('s'))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder)],
        env={**os.environ, "CHEX_STORE_KEY": KEY.hex()},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "b'pickle'\n"


def test_images_are_told_oldest_first_with_what_they_lack(store: Store) -> None:
    lost = LostVariable(name="db", kind="sqlite3.Connection", why="it is open")
    store.put("b", {"lost": [lost]}, streams={}, arrays={}, cost_s=2.5)
    store.put("a", {}, streams={}, arrays={})
    first, second = store.images()
    assert (first.name, first.lost, first.cost_s, second.name) == ("b", (lost,), 2.5, "a")
    assert store.info("b") == first


def test_importing_the_package_loads_nothing_heavy() -> None:
    code = "import sys, chexpoint.store; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert loaded.isdisjoint({"fsspec", "numba", "numpy", "torch", "xxhash", "zstandard"})


def test_files_are_private(store: Store, folder: Path) -> None:
    store.put("a", {}, streams={"s": b"x"}, arrays={"x": noise(1, 2_000_000)})
    modes = {S_IMODE(each.stat().st_mode) for each in folder.rglob("*") if each.is_file()}
    assert modes == {0o600}
    folders = [folder, *(each for each in folder.rglob("*") if each.is_dir())]
    assert {S_IMODE(each.stat().st_mode) for each in folders} == {0o700}


# ------------------------------------------------------------ only what changed


def test_a_small_change_takes_little(store: Store) -> None:
    array = noise(1, 1_500_000)
    first = store.put("a", {}, streams={}, arrays={"x": array})
    array[70_000] ^= 1
    second = store.put("b", {}, streams={}, arrays={"x": array}, like="a")
    assert first.stored_bytes > 1_500_000
    assert second.stored_bytes < 2_000
    array[70_000] ^= 1
    for name, differs in {"a": False, "b": True}.items():
        with store.read(name) as image:
            assert (image.array("x").tobytes() != array) is differs


@pytest.mark.parametrize("nbytes", [20_000, 1_500_000], ids=["uncached", "cached"])
def test_another_process_goes_on_with_a_series(store: Store, folder: Path, nbytes: int) -> None:
    array = noise(1, nbytes)
    store.put("a", {}, streams={}, arrays={"x": array})
    for number in range(3):
        array[300 * number] ^= 1
        with Store.open(folder, key=KEY) as other:
            info = other.put(f"b{number}", {}, streams={}, arrays={"x": array})
        assert info.stored_bytes < 3_000
        with store.read(f"b{number}") as image:
            assert image.array("x").tobytes() == array


def test_contents_that_nothing_goes_on_from_stand_for_themselves(
    store: Store, folder: Path
) -> None:
    array = noise(1, 1_500_000)
    store.put("a", {}, streams={}, arrays={"x": array}, follows=False)
    assert not list((folder / "index").iterdir())
    array[70_000] ^= 1
    changed = store.put("b", {}, streams={}, arrays={"x": array}, follows=False)
    assert changed.stored_bytes > 1_500_000
    # The same contents are not written twice, and others may go on from them all the same.
    again = store.put("c", {}, streams={}, arrays={"other": array}, follows=False)
    array[80_000] ^= 1
    later = store.put("d", {}, streams={}, arrays={"x": array})
    assert again.stored_bytes < 2_000
    assert later.stored_bytes < 20_000
    for name, key in {"a": "x", "b": "x", "c": "other", "d": "x"}.items():
        with store.read(name) as image:
            found = image.array(key).tobytes()
        assert (found == array) is (name == "d")
        assert sum(one != other for one, other in zip(found, array, strict=True)) <= 2


def test_without_its_caches_a_store_has_lost_nothing(store: Store, folder: Path) -> None:
    array = noise(1, 1_500_000)
    store.put("a", {}, streams={}, arrays={"x": array})
    caches = list((folder / "index").iterdir())
    assert len(caches) == 1
    caches[0].unlink()
    array[0] ^= 1
    info = store.put("b", {}, streams={}, arrays={"x": array})
    assert info.stored_bytes < 2_000
    with store.read("b") as image:
        assert image.array("x").tobytes() == array


def test_a_damaged_or_foreign_cache_is_not_used(store: Store, folder: Path) -> None:
    array = noise(1, 1_500_000)
    store.put("a", {}, streams={}, arrays={"x": array})
    store.put("b", {}, streams={}, arrays={"y": noise(2, 1_500_000)})
    one, two = (folder / "index").iterdir()
    whole = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(whole[:-70] + b"\0" + whole[-69:])
    for like, key in (("a", "x"), ("b", "y")):
        array[0] ^= 1
        store.put(f"{like}2", {}, streams={}, arrays={key: array}, like=like)
        with store.read(f"{like}2") as image:
            assert image.array(key).tobytes() == array


def test_a_cache_takes_the_place_of_the_one_it_goes_on_from(store: Store, folder: Path) -> None:
    one, other = noise(1, 1_500_000), noise(2, 1_500_000)
    store.put("a", {}, streams={}, arrays={"x": one, "y": other})
    first = {each.name for each in (folder / "index").iterdir()}
    assert len(first) == 2
    one[0] ^= 1
    store.put("b", {}, streams={}, arrays={"x": one, "y": other}, like="a")
    second = {each.name for each in (folder / "index").iterdir()}
    assert (len(second), len(first & second)) == (2, 1)


def test_equal_contents_are_stored_once(store: Store) -> None:
    array = noise(1)
    info = store.put("a", {}, streams={}, arrays={"x": array, "y": array})
    assert info.stored_bytes < 110_000
    info = store.put("b", {}, streams={}, arrays={"other": array})
    assert info.stored_bytes < 1_000
    assert store.usage().ratio > 2.5
    with store.read("b") as image:
        assert image.array("other").tobytes() == array


def test_parts_that_are_the_same_are_not_given_again(store: Store) -> None:
    array = noise(1)
    store.put("a", {}, streams={"s": b"one"}, arrays={"x": array})
    info = store.put("b", {"n": 2}, streams={}, arrays={}, same=["s", "x"], like="a")
    assert info.stored_bytes < 1_000
    assert info.state_bytes == 100_003
    store.forget("a")
    store.gc()
    with store.read("b") as image:
        assert image.stream("s") == b"one"
        assert image.array("x").tobytes() == array


def test_chains_end_before_they_are_long(store: Store) -> None:
    array = noise(1, 30_000)
    sizes = []
    for number in range(70):
        array[300 * number] ^= 255
        info = store.put(str(number), {}, streams={}, arrays={"x": array})
        sizes.append(info.stored_bytes)
    assert [number for number, size in enumerate(sizes) if size > 20_000] == [0, 64]
    with store.read("69") as image:
        assert image.array("x").tobytes() == array
    with store.read("0") as image:
        assert image.array("x").tobytes() != array


def test_a_chain_of_large_differences_begins_anew(store: Store) -> None:
    for number in range(5):
        store.put(str(number), {}, streams={}, arrays={"x": noise(number)})
    store.forget("0", "1", "2", "3")
    store.gc()
    assert store.usage().pack_bytes < 350_000


def test_arrays_grow_and_shrink(store: Store) -> None:
    array = noise(1)
    for name, nbytes in {"a": 100_000, "b": 40_001, "c": 0, "d": 99_999}.items():
        store.put(name, {}, streams={}, arrays={"x": array[:nbytes]})
        with store.read(name) as image:
            assert image.array("x").tobytes() == array[:nbytes]


def test_storing_leaves_the_random_numbers_of_the_user_alone(store: Store) -> None:
    import numpy as np

    random.seed(1)
    np.random.seed(1)
    before = random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index]
    store.put("a", {}, streams={"s": b"x"}, arrays={"x": noise(1)})
    store.gc()
    after = random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index]
    assert before == after


# ------------------------------------------------------------ bad requests


def test_names_cannot_lead_out_of_the_store(store: Store) -> None:
    for name in ("", ".", "..", "../a", "a/b", "a\0", "a\n", ".a", "ä", "a" * 129):
        with pytest.raises(InvalidValue):
            store.put(name, {}, streams={}, arrays={})
        with pytest.raises(InvalidValue):
            store.read(name)
        with pytest.raises(InvalidValue):
            store.forget(name)


def test_a_name_is_used_once(store: Store) -> None:
    store.put("a", {}, streams={}, arrays={})
    with pytest.raises(StoreError, match="is in the store"):
        store.put("a", {}, streams={}, arrays={})


def test_unknown_images_are_told_with_a_suggestion(store: Store) -> None:
    store.put("first", {}, streams={}, arrays={})
    with pytest.raises(UnknownImage, match="Did you mean first"):
        store.read("frist")
    with pytest.raises(UnknownImage):
        store.put("b", {}, streams={}, arrays={}, like="none")
    with pytest.raises(UnknownImage):
        store.forget("first", "none")
    assert store.info("first").name == "first"


def test_what_cannot_be_stored_is_told_and_leaves_nothing(store: Store, folder: Path) -> None:
    store.put("a", {}, streams={"s": b"x"}, arrays={})
    before = files(folder)
    bad: list[dict[str, Any]] = [
        {"document": {"x": object()}},
        {"document": {"x": float("nan")}},
        {"document": {"lost": [{"no": "field"}]}},
        {"document": {"line": 5}},
        {"arrays": {"x": memoryview(bytes(100))[::2]}},
        {"streams": {"x": b"1"}, "arrays": {"x": b"1"}},
        {"same": ["s"]},
        {"same": ["t"], "like": "a"},
        {"same": ["s"], "like": "a", "streams": {"s": b"y"}},
        {"cost_s": float("inf")},
        {"cost_s": -1.0},
    ]
    for each in bad:
        request: dict[str, Any] = {"document": {}, "streams": {}, "arrays": {}, **each}
        with pytest.raises(InvalidValue):
            store.put("b", request.pop("document"), **request)
        assert files(folder) == before


def test_a_part_that_is_not_there_is_told(store: Store) -> None:
    store.put("a", {}, streams={"s": b"x"}, arrays={})
    with store.read("a") as image:
        with pytest.raises(StoreError, match="has no stream 't'"):
            image.stream("t")
        with pytest.raises(StoreError, match="has no array 's'"):
            image.array("s")


# ------------------------------------------------------------ opening


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(StoreError, match="is no store, and not empty"):
        Store.open(tmp_path, key=KEY)
    assert files(tmp_path) == {"thesis.tex"}


def test_a_store_that_is_not_there_is_not_made_unless_wanted(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is no store"):
        Store.open(tmp_path / "none", key=KEY, create=False)
    assert files(tmp_path) == set()
    Store.open(tmp_path / "deep" / "store", key=KEY).close()


def test_a_file_is_no_store(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(StoreError, match="Not a directory"):
        Store.open(path, key=KEY)


def test_a_newer_store_is_refused(store: Store, folder: Path) -> None:
    (folder / "format.json").write_text('{"chex_store":true,"format":2,"new":{}}')
    with pytest.raises(StoreTooNew, match=r"format 2.*Install a newer"):
        Store.open(folder, key=KEY)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format":1}', '{"chex_store":true,"format":0}'])
def test_a_damaged_format_file_is_told(store: Store, folder: Path, text: str) -> None:
    (folder / "format.json").write_text(text)
    with pytest.raises(StoreDamaged, match=r"format\.json"):
        Store.open(folder, key=KEY)


@pytest.mark.parametrize("budget", [0, -1])
def test_a_budget_of_nothing_is_refused(folder: Path, budget: int) -> None:
    with pytest.raises(InvalidValue):
        Store.open(folder, key=KEY, budget_bytes=budget)


# ------------------------------------------------------------ keys


def test_images_of_another_key_are_refused_before_anything_is_handed_out(
    store: Store, folder: Path
) -> None:
    store.put("a", {}, streams={"s": b"pickle"}, arrays={"x": noise(1)})
    other = Store.open(folder, key=bytes(16))
    with pytest.raises(ImageRefused, match="CHEX_STORE_KEY"):
        other.read("a")
    with pytest.raises(ImageRefused):
        other.put("b", {}, streams={}, arrays={}, like="a")
    # It is seen, and nothing of it is built on.
    assert [each.name for each in other.images()] == ["a"]
    assert other.put("b", {}, streams={}, arrays={"x": noise(1)}).stored_bytes > 100_000


def test_a_pointer_cannot_be_given_to_another_image(store: Store, folder: Path) -> None:
    store.put("a", {}, streams={"s": b"one"}, arrays={})
    store.put("b", {}, streams={"s": b"two"}, arrays={})
    (folder / "images" / "a.json").write_bytes((folder / "images" / "b.json").read_bytes())
    with pytest.raises(StoreDamaged):
        store.read("a")
