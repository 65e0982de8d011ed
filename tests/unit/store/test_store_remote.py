"""A store behind an fsspec URL is a store: without renames, and without locks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import fsspec  # type: ignore[import-untyped]
import pytest

from chexpoint.errors import InvalidValue, StoreError, UnknownImage
from chexpoint.store import Store
from tests.support.remote_stores import (
    check_that_damage_is_moved_away,
    check_that_young_packs_stay,
    noise,
)

KEY = bytes(range(32))


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
    check_that_young_packs_stay(url, KEY)


def test_damage_is_found_and_moved_away(url: str) -> None:
    check_that_damage_is_moved_away(url, KEY)


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
