"""A store in a bucket of a real S3-compatible server, as a team has it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import fsspec  # type: ignore[import-untyped]
import pytest

from chexpoint.errors import ImageRefused, StoreError
from chexpoint.store import Store
from tests.support.remote_stores import (
    check_that_damage_is_moved_away,
    check_that_young_packs_stay,
    noise,
)
from tests.support.s3_server import BUCKET, S3Server, s3_server

pytestmark = pytest.mark.slow

KEY = bytes(range(32))
OTHER_KEY = bytes(range(1, 33))


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server() as server:
        yield server


@pytest.fixture
def url(
    server: S3Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[str]:
    for name, value in server.settings.items():
        monkeypatch.setenv(name, value)
    yield f"s3://{BUCKET}/{request.node.name}"
    # The next server has another address.
    fsspec.get_filesystem_class("s3").clear_instance_cache()


COLLEAGUE = """
import sys

from chexpoint.store import Store

url, action, name = sys.argv[1:]
with Store.open(url, key=bytes(range(32))) as store:
    if action == "put":
        store.put(name, {"by": "colleague"}, streams={}, arrays={"x": bytes(range(256)) * 300})
    else:
        store.forget(name)
"""


def colleague(url: str, action: str, name: str) -> None:
    """Have another process change the store, with memories of its own of what is in it."""
    command = [sys.executable, "-c", COLLEAGUE, url, action, name]
    subprocess.run(command, env=dict(os.environ), check=True, timeout=60)


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


def test_what_is_large_goes_there_in_one_piece(url: str) -> None:
    large = noise(2, 9 * 2**20)
    with Store.open(url, key=KEY) as store:
        store.put("large", {}, streams={}, arrays={"x": large})
    with Store.open(url, key=KEY, create=False) as store, store.read("large") as image:
        assert image.array("x").tobytes() == large


def test_what_a_colleague_does_is_seen_at_once(url: str) -> None:
    store = Store.open(url, key=KEY)
    store.put("mine", {}, streams={}, arrays={"x": noise(3)})
    # Looked at, so that whoever remembers listings remembers this one.
    assert [each.name for each in store.images()] == ["mine"]
    colleague(url, "put", "theirs")
    with store.read("theirs") as image:
        assert image.document == {"by": "colleague"}
        assert image.array("x").tobytes() == bytes(range(256)) * 300
    colleague(url, "forget", "mine")
    assert [each.name for each in store.images()] == ["theirs"]


def test_what_is_young_is_left_for_colleagues(url: str) -> None:
    check_that_young_packs_stay(url, KEY)


def test_what_others_have_signed_is_refused(url: str) -> None:
    with Store.open(url, key=OTHER_KEY) as store:
        store.put("a", {}, streams={}, arrays={"x": noise(6)})
    with Store.open(url, key=KEY) as store, pytest.raises(ImageRefused):
        store.read("a")


def test_damage_is_found_and_moved_away(url: str) -> None:
    check_that_damage_is_moved_away(url, KEY)


def test_a_server_that_goes_away_is_told(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with s3_server() as other:
        monkeypatch.setenv("AWS_ENDPOINT_URL", other.url)
        fsspec.get_filesystem_class("s3").clear_instance_cache()
        store = Store.open(url, key=KEY)
        store.put("a", {}, streams={}, arrays={"x": noise(9)})
        other.stop()
        with pytest.raises(StoreError, match="cannot be written"):
            store.put("b", {}, streams={}, arrays={"x": noise(10)})
        with pytest.raises(StoreError, match="cannot be read"):
            store.read("a")
