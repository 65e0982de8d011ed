"""What holds for every store at a URL, whatever serves it."""

from __future__ import annotations

import random

import fsspec  # type: ignore[import-untyped]
import pytest

from chexpoint.errors import StoreDamaged
from chexpoint.store import Store
from chexpoint.store.remote_shelf import RemoteShelf


def noise(seed: int, nbytes: int = 30_000) -> bytes:
    """Return bytes that cannot be compressed."""
    return random.Random(seed).randbytes(nbytes)


def check_that_young_packs_stay(url: str, key: bytes) -> None:
    """Forget an image: its pack is swept only once it is old."""
    store = Store.open(url, key=key)
    store.put("a", {}, streams={}, arrays={"x": noise(1)})
    store.put("b", {}, streams={}, arrays={"y": noise(2)})
    store.forget("a")
    assert store.gc().packs == 0
    eager = Store(RemoteShelf(url, grace_s=-1.0), key, None)
    assert eager.gc().packs == 1
    with store.read("b") as image:
        assert image.array("y").tobytes() == noise(2)


def check_that_damage_is_moved_away(url: str, key: bytes) -> None:
    """Damage the larger of two packs: it is found, and the other image stays."""
    store = Store.open(url, key=key)
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
