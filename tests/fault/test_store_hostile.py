"""Files that somebody made up, or that a disk has changed, give one clear error."""

from __future__ import annotations

import json
import random
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xxhash

from chexpoint.errors import ImageRefused, StoreDamaged, StoreError
from chexpoint.store import Store
from chexpoint.store.keys import sign
from chexpoint.store.manifests import blake

KEY = bytes(range(32))
ARRAY = random.Random(1).randbytes(9_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a store of two images: ``b`` goes on with ``a``."""
    store = Store.open(tmp_path / "store", key=KEY)
    store.put("a", {}, streams={"s": b"stream"}, arrays={"x": ARRAY})
    store.put("b", {}, streams={"s": b"stream"}, arrays={"x": ARRAY[::-1]}, like="a")
    return tmp_path / "store"


def read_all(folder: Path, name: str = "a") -> dict[str, bytes]:
    with Store.open(folder, key=KEY, create=False).read(name) as image:
        parts = {key: image.stream(key) for key in image.streams}
        return parts | {key: image.array(key).tobytes() for key in image.arrays}


# ------------------------------------------------------------ packs and manifests made up


def write_pack(folder: Path, sections: list[bytes], **changes: Any) -> str:
    """Write a pack whose checksums are right, whatever else is wrong; return its digest."""
    head = changes.get("head", struct.pack("<8sII", b"CHEXPACK", 1, 0))
    lengths = changes.get("lengths", [len(each) for each in sections])
    rows = zip(lengths, sections, strict=True)
    table = b"".join(struct.pack("<Q", n) + xxhash.xxh3_128_digest(data) for n, data in rows)
    count = struct.pack("<Q", changes.get("count", len(sections)))
    digest = xxhash.xxh3_128_digest(head + table + count)
    body = head + b"".join(sections) + changes.get("gap", b"") + table
    name = changes.get("name", digest.hex())
    path = folder / "packs" / f"{name}.pack"
    path.write_bytes(body + count + digest + changes.get("end", b"CHEXPEND"))
    return str(name)


def write_pointer(folder: Path, name: str, value: dict[str, Any], key: bytes = KEY) -> None:
    """Write a pointer that is signed, whatever it says."""

    def text(value: dict[str, Any]) -> bytes:
        return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()

    value = {each: value[each] for each in value if each not in ("mac", "check")}
    value["mac"] = sign(key, text(value))
    value["check"] = xxhash.xxh3_128_hexdigest(text(value))
    (folder / "images" / f"{name}.json").write_bytes(text(value) + b"\n")


def pointer_of(folder: Path, name: str) -> dict[str, Any]:
    value = json.loads((folder / "images" / f"{name}.json").read_bytes())
    assert isinstance(value, dict)
    return value


def replace_manifest(folder: Path, data: bytes) -> None:
    """Give image ``a`` another manifest, signed by the owner of the key."""
    digest = write_pack(folder, [data])
    value = pointer_of(folder, "a")
    packs = sorted({digest, *value["packs"]})
    value |= {"pack": digest, "section": 0, "digest": blake(data), "packs": packs}
    write_pointer(folder, "a", value)


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of ``a``, its chains with the digest of its pack as first one."""
    value = pointer_of(folder, "a")
    data = (folder / "packs" / f"{value['pack']}.pack").read_bytes()
    start = data.index(b"\x78\x01", 9_000)
    manifest = json.loads(zlib.decompressobj().decompress(data[start:]))
    assert isinstance(manifest, dict)
    manifest["packs"].append(value["pack"])
    for part in manifest["parts"].values():
        for place in part[4]:
            place[0] = 1
    return manifest


def test_a_manifest_that_is_right_is_read(folder: Path) -> None:
    """The tests below would prove nothing if their way to write manifests were wrong."""
    replace_manifest(folder, zlib.compress(json.dumps(manifest_of(folder)).encode(), 1))
    assert read_all(folder) == {"s": b"stream", "x": ARRAY}


def cyclic(manifest: dict[str, Any]) -> None:
    manifest["parts"]["x"][4] *= 2


def too_long(manifest: dict[str, Any]) -> None:
    manifest["parts"]["x"][4] = [[1, number, 1] for number in range(65)]


def swapped(manifest: dict[str, Any]) -> None:
    manifest["parts"]["x"][4], manifest["parts"]["s"][4] = (
        manifest["parts"]["s"][4],
        manifest["parts"]["x"][4],
    )


def change(path: list[str | int], value: Any) -> Callable[[dict[str, Any]], None]:
    def changed(manifest: dict[str, Any]) -> None:
        inner: Any = manifest
        for step in path[:-1]:
            inner = inner[step]
        inner[path[-1]] = value

    return changed


HOSTILE: dict[str, Callable[[dict[str, Any]], None]] = {
    "cycle": cyclic,
    "long chain": too_long,
    "swapped chains": swapped,
    "no chain": change(["parts", "x", 4], []),
    "chain of nothing": change(["parts", "x", 4], None),
    "pack outside": change(["parts", "x", 4, 0, 0], 7),
    "pack before": change(["parts", "x", 4, 0, 0], -1),
    "section outside": change(["parts", "x", 4, 0, 1], 2**40),
    "section of the manifest": change(["parts", "x", 4, 0], [0, 0, 1]),
    "section before": change(["parts", "x", 4, 0, 1], -1),
    "section that is true": change(["parts", "x", 4, 0, 1], True),
    "huge part": change(["parts", "x", 1], 2**62),
    "huger part": change(["parts", "x", 1], 2**70),
    "fraction of a part": change(["parts", "x", 1], 9_000.0),
    "short root": change(["parts", "x", 2], "00"),
    "other root": change(["parts", "x", 2], "00" * 16),
    "root of words": change(["parts", "x", 2], "root"),
    "other digest": change(["parts", "s", 3], "0" * 64),
    "no digest": change(["parts", "s", 3], ""),
    "other kind": change(["parts", "s", 0], "array"),
    "unknown kind": change(["parts", "s", 0], "code"),
    "path as pack": change(["packs", 1], "../../../etc/passwd"),
    "unknown pack": change(["packs", 1], "0" * 32),
    "no packs": change(["packs"], []),
    "packs that are no list": change(["packs"], {"0": ""}),
    "other name": change(["name"], "b"),
    "document that is a list": change(["document"], []),
    "parts that are a list": change(["parts"], [1]),
    "part that is a number": change(["parts", "x"], 5),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_manifest_made_up_is_told(folder: Path, name: str) -> None:
    manifest = manifest_of(folder)
    HOSTILE[name](manifest)
    replace_manifest(folder, zlib.compress(json.dumps(manifest).encode(), 1))
    with pytest.raises(StoreDamaged) as caught:
        read_all(folder)
    assert "\n" not in str(caught.value)
    assert read_all(folder, "b")["x"] == ARRAY[::-1]
    store = Store.open(folder, key=KEY)
    lost = {image for each in store.fsck().damages for image in each.images}
    # Only whoever unpickles it compares a stream with its digest.
    assert lost == (set() if name == "other digest" else {"a"})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"not zlib",
        zlib.compress(b"not JSON"),
        zlib.compress(b"[" * 200_000),
        zlib.compress(b"null"),
        zlib.compress(b'{"packs":[""],"parts":{},"name":"a","document":' + b"9" * 9_000 + b"}"),
        zlib.compress(b"{}")[:-1],
        zlib.compress(b"{}") + b"more",
        b"\xff" * 100,
    ],
    ids=["empty", "raw", "text", "deep", "null", "digits", "short", "long", "noise"],
)
def test_a_manifest_that_is_none_is_told(folder: Path, data: bytes) -> None:
    replace_manifest(folder, data)
    with pytest.raises(StoreDamaged):
        read_all(folder)
    assert {each for damage in Store.open(folder, key=KEY).fsck().damages for each in damage.images}


def test_a_manifest_that_swells_is_told(folder: Path) -> None:
    replace_manifest(folder, zlib.compress(bytes(65 * 1024 * 1024), 1))
    with pytest.raises(StoreDamaged, match="too long"):
        read_all(folder)


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 2**63},
        {"count": 2},
        {"count": 0},
        {"lengths": [2**64 - 1]},
        {"lengths": [1]},
        {"gap": b"hidden"},
        {"head": struct.pack("<8sII", b"CHEXPACK", 2, 0)},
        {"head": b"PK" + bytes(14)},
        {"end": b"notatend"},
        {"name": "0" * 32},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_pack_made_up_is_told(folder: Path, changes: dict[str, Any]) -> None:
    data = zlib.compress(json.dumps(manifest_of(folder)).encode(), 1)
    digest = write_pack(folder, [data], **changes)
    value = pointer_of(folder, "a")
    value |= {"pack": digest, "section": 0, "digest": blake(data)}
    value["packs"] = sorted({digest, *value["packs"]})
    write_pointer(folder, "a", value)
    with pytest.raises(StoreDamaged, match=digest):
        read_all(folder)
    store = Store.open(folder, key=KEY)
    assert store.fsck(repair=True).damages[0].images == ("a",)
    assert store.fsck().damages == ()
    assert read_all(folder, "b")["x"] == ARRAY[::-1]


@pytest.mark.parametrize(
    "changes",
    [
        {"pack": "../images/b"},
        {"packs": ["../../x"]},
        {"packs": 5},
        {"packs": []},
        {"section": -1},
        {"section": 10**30},
        {"name": "b"},
        {"format": 2},
        {"digest": "0" * 64},
        {"line": 5},
        {"lost": [{"no": "field"}]},
        {"time": "now"},
        {"stored_bytes": None},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_pointer_made_up_is_told(folder: Path, changes: dict[str, Any]) -> None:
    write_pointer(folder, "a", pointer_of(folder, "a") | changes)
    with pytest.raises(StoreDamaged):
        read_all(folder)
    store = Store.open(folder, key=KEY)
    assert [each.name for each in store.images()][-1:] == ["b"]
    assert {each for damage in store.fsck().damages for each in damage.images} == {"a"}


def test_a_pointer_without_the_key_is_refused(folder: Path) -> None:
    write_pointer(folder, "a", pointer_of(folder, "a") | {"cost_s": 1e9}, key=bytes(32))
    with pytest.raises(ImageRefused):
        read_all(folder)


# ------------------------------------------------------------ every byte


@pytest.mark.slow
def test_a_flipped_bit_anywhere_is_found_and_never_returned(folder: Path) -> None:
    whole = {name: read_all(folder, name) for name in "ab"}
    flips = random.Random(5)
    paths = [folder / "format.json", *(folder / "images").iterdir(), *(folder / "packs").iterdir()]
    for path in paths:
        data = path.read_bytes()
        # All kinds of bytes are near the ends.
        is_near = {*range(0, 300, 5), *range(len(data) - 400, len(data), 4)}
        for position in sorted((is_near | {*range(0, len(data), 211)}) & {*range(len(data))}):
            changed = bytearray(data)
            changed[position] ^= 1 << flips.randrange(8)
            path.write_bytes(changed)
            assert_told(folder, whole)
        path.write_bytes(data)
    assert Store.open(folder, key=KEY).fsck().damages == ()


def assert_told(folder: Path, whole: dict[str, dict[str, bytes]]) -> None:
    """Check that what can be read is right, and that damage is found."""
    try:
        damages = Store.open(folder, key=KEY).fsck().damages
    except StoreError:
        return
    lost = {image for each in damages for image in each.images}
    assert lost
    for name, expected in whole.items():
        try:
            assert read_all(folder, name) == expected
        except StoreError:
            assert name in lost
