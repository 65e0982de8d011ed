"""A store behind an fsspec URL is a store: without renames, and without locks."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from chexpoint.errors import InvalidValue, StoreDamaged, StoreError, UnknownImage
from chexpoint.store import Store
from chexpoint.store.remote_shelf import RemoteShelf

KEY = bytes(range(32))


def noise(seed: int, nbytes: int = 30_000) -> bytes:
    return random.Random(seed).randbytes(nbytes)


@pytest.fixture(params=["memory", "local"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    url = {"memory": "memory://bucket/store", "local": f"local://{tmp_path}/store"}[request.param]
    yield url
    fs, _ = fsspec.core.url_to_fs("memory://")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]


def test_images_go_there_and_back(url: str) -> None:
    with Store.open(url, key=KEY) as store:
        array = noise(1, 1_200_000)
        store.put("a", {"n": 1}, streams={"s": b"one"}, arrays={"x": array})
        changed = b"!" + array[1:]
        info = store.put("b", {"n": 2}, streams={}, arrays={"x": changed}, same=["s"], like="a")
        assert info.stored_bytes < 2_000
    with Store.open(url, key=KEY, create=False) as store:
        assert [each.name for each in store.images()] == ["a", "b"]
        with store.read("b") as image:
            assert image.document == {"n": 2}
            assert image.stream("s") == b"one"
            assert image.array("x").tobytes() == changed
        assert store.fsck().damages == ()
        assert store.usage().index_bytes > 0


def test_what_is_not_there_is_told(url: str) -> None:
    with pytest.raises(StoreError, match="is no store"):
        Store.open(url, key=KEY, create=False)
    store = Store.open(url, key=KEY)
    assert store.images() == ()
    with pytest.raises(UnknownImage):
        store.read("a")
    with pytest.raises(UnknownImage):
        store.forget("a")


def test_young_packs_are_not_swept(url: str) -> None:
    store = Store.open(url, key=KEY)
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={"y": noise(2)})
    store.forget("a")
    assert store.gc().packs == 0
    eager = Store(RemoteShelf(url, grace_s=-1.0), KEY, None)
    assert eager.gc().packs == 1
    with store.read("b") as image:
        assert image.array("y").tobytes() == noise(2)


def test_damage_is_found_and_moved_away(url: str) -> None:
    store = Store.open(url, key=KEY)
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={"y": noise(2, 3_000)})
    fs, path = fsspec.core.url_to_fs(url)
    pack = max(fs.ls(f"{path}/packs", detail=True), key=lambda each: int(each["size"]))["name"]
    data = bytearray(fs.cat_file(pack))
    data[9_000] ^= 1
    fs.pipe_file(pack, bytes(data))
    with pytest.raises(StoreDamaged), store.read("a") as image:
        image.array("x")
    assert store.fsck(repair=True).damages[0].images == ("a",)
    assert store.fsck().damages == ()
    with store.read("b") as image:
        assert image.array("y").tobytes() == noise(2, 3_000)


def test_a_folder_of_something_else_is_left_alone(url: str) -> None:
    fs, path = fsspec.core.url_to_fs(url)
    fs.makedirs(path, exist_ok=True)
    fs.pipe_file(f"{path}/thesis.tex", b"")
    with pytest.raises(StoreError, match="not empty"):
        Store.open(url, key=KEY)


def test_file_urls_are_folders(tmp_path: Path) -> None:
    store = Store.open(f"file://{tmp_path}/store", key=KEY)
    assert store.url == f"{tmp_path}/store"
    assert (tmp_path / "store" / "format.json").exists()


def test_an_unknown_protocol_is_told() -> None:
    with pytest.raises(InvalidValue, match="nowhere"):
        Store.open("nowhere://x/y", key=KEY)
