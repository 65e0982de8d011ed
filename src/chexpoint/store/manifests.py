"""Manifests and pointers: what an image consists of, as JSON.  Both are read with distrust."""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from dataclasses import dataclass, field
from typing import Any, Literal

import xxhash

from chexpoint.errors import ImageRefused, InvalidValue, StoreDamaged
from chexpoint.model import ImageInfo, ImageName, image_info_from_json, to_json
from chexpoint.store.keys import is_signed, sign
from chexpoint.store.packs import FORMAT

CHAIN_PIECES = 64
"""A chain has no more pieces, so that restoring the last does not take ever longer."""
_MANIFEST_BYTES = 64 * 1024 * 1024
_POINTER_BYTES = 16 * 1024 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}", re.ASCII)
_DIGEST = re.compile(r"[0-9a-f]{32}", re.ASCII)
_CHECK = b'{"check":"'
_INFO = ("time", "seconds", "state_bytes", "stored_bytes", "cost_s", "lost", "line")

Kind = Literal["stream", "array"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a piece is."""

    pack: str
    """Digest of the pack; empty as long as the pack is not finished."""
    section: int
    nbytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One stream or array of an image."""

    kind: Kind
    nbytes: int
    root: bytes
    digest: str
    """BLAKE2b of the contents of a stream; empty for an array."""
    chain: tuple[Place, ...]

    @property
    def identity(self) -> tuple[str, int, bytes, str]:
        """Equal for parts of equal contents."""
        return self.kind, self.nbytes, self.root, self.digest


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The parts of an image, and what its writer says about it."""

    name: str
    document: dict[str, Any]
    parts: dict[str, Part]

    @property
    def state_bytes(self) -> int:
        """Length of all parts together."""
        return sum(part.nbytes for part in self.parts.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """What makes an image exist: where its manifest is, and what can be told without opening it."""

    info: ImageInfo
    pack: str
    section: int
    digest: str
    """BLAKE2b of the manifest, as it is in the pack."""
    packs: frozenset[str]
    """All packs that the image needs."""
    text: bytes = field(default=b"", repr=False)
    """The JSON that it was read from, without the check."""

    def check_key(self, key: bytes) -> None:
        """Raise `ImageRefused` if somebody with another key wrote the image."""
        value = json.loads(self.text)
        mac = str(value.pop("mac", ""))
        if not is_signed(key, _json(value), mac):
            raise ImageRefused(
                f"image '{self.info.name}' was written with another key, and loading it could run"
                " anything. If you trust its writer, set CHEX_STORE_KEY to that key; else run the"
                " cells again."
            )


def checked_name(name: str) -> ImageName:
    """Return the name of an image if it can be one."""
    if not _NAME.fullmatch(name):
        raise InvalidValue(
            f"'{name[:40]}' cannot name an image: use 1 to 128 letters, digits and . _ - only."
        )
    return ImageName(name)


def is_digest(text: object) -> bool:
    """Return whether something may be the digest of a pack."""
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def blake(data: bytes | memoryview) -> str:
    """Return the digest that a forger cannot meet."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


# ------------------------------------------------------------ manifests


def manifest_to_bytes(manifest: Manifest) -> bytes:
    """Return what goes into the pack; places without a pack are in the same one."""
    packs = [""]
    numbers = {"": 0}
    parts: dict[str, Any] = {}
    for key, part in manifest.parts.items():
        for place in part.chain:
            if place.pack not in numbers:
                numbers[place.pack] = len(packs)
                packs.append(place.pack)
        chain = [[numbers[p.pack], p.section, p.nbytes] for p in part.chain]
        parts[key] = [part.kind, part.nbytes, part.root.hex(), part.digest, chain]
    try:
        data = _json(
            {
                "name": manifest.name,
                "document": manifest.document,
                "packs": packs,
                "parts": parts,
            }
        )
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(
            f"the document of image '{manifest.name}' is not JSON: {error}."
        ) from None
    if len(data) > _MANIFEST_BYTES:
        raise InvalidValue(
            f"the document of image '{manifest.name}' has {len(data)} bytes, which is too much."
        )
    return zlib.compress(data, 1)


def manifest_from_bytes(data: memoryview, pack: str) -> Manifest:
    """Return the manifest that is in a pack.

    Raises
    ------
    StoreDamaged
        If it is none.
    """
    try:
        value = json.loads(_inflated(data))
        packs = value["packs"]
        if packs[0] != "" or not all(is_digest(each) for each in packs[1:]):
            raise ValueError("it names packs that cannot be")
        packs = [pack, *packs[1:]]
        if not isinstance(value["document"], dict) or not isinstance(value["name"], str):
            raise TypeError("it has no document")
        return Manifest(
            name=value["name"],
            document=value["document"],
            parts={key: _part(each, packs) for key, each in value["parts"].items()},
        )
    except (
        ArithmeticError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
        zlib.error,
    ) as error:
        raise StoreDamaged(f"a manifest in pack {pack} is damaged: {error}.") from None


def _part(value: Any, packs: list[str]) -> Part:
    kind, nbytes, root, digest, chain = value
    places = tuple(_place(each, packs) for each in chain)
    root = bytes.fromhex(root)
    if (
        kind not in ("stream", "array")
        or not _is_count(nbytes)
        or len(root) != 16
        or not isinstance(digest, str)
        or (kind == "stream") != (len(digest) == 64)
    ):
        raise ValueError("a part is not well-formed")
    if not 1 <= len(places) <= CHAIN_PIECES or len(set(places)) < len(places):
        raise ValueError("a chain is too long, or goes round in circles")
    return Part(kind=kind, nbytes=nbytes, root=root, digest=digest, chain=places)


def _place(value: Any, packs: list[str]) -> Place:
    number, section, nbytes = value
    if not (_is_count(number) and _is_count(section) and _is_count(nbytes)):
        raise ValueError("a piece is nowhere")
    return Place(pack=packs[number], section=section, nbytes=nbytes)


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _inflated(data: memoryview) -> bytes:
    """Decompress, but no more than a manifest may have."""
    unpacker = zlib.decompressobj()
    found = unpacker.decompress(data, _MANIFEST_BYTES)
    if not unpacker.eof or unpacker.unused_data:
        raise ValueError("it is too long, or not whole")
    return found


# ------------------------------------------------------------ pointers


def pointer_file(name: str) -> str:
    """Return the name of a pointer in the store."""
    return f"images/{name}.json"


def pointer_to_bytes(pointer: Pointer, key: bytes) -> bytes:
    """Return the contents of a pointer file, signed."""
    info = to_json(pointer.info)
    value = {
        "format": FORMAT,
        "name": pointer.info.name,
        "pack": pointer.pack,
        "section": pointer.section,
        "digest": pointer.digest,
        "packs": sorted(pointer.packs),
        **{each: info[each] for each in _INFO},
    }
    value["mac"] = sign(key, _json(value))
    value["check"] = xxhash.xxh3_128_hexdigest(_json(value))
    return _json(value) + b"\n"


def pointer_from_bytes(data: bytes, name: str) -> Pointer:
    """Return the pointer of an image; its key is not checked here.

    Raises
    ------
    StoreDamaged
        If it is none, or not the one of that name.
    """
    try:
        if len(data) > _POINTER_BYTES:
            raise ValueError("it is too long")
        text = _checked_text(data)
        value = json.loads(text)
        if value["name"] != name:
            raise ValueError("it is that of another image")
        packs = frozenset(value["packs"])
        if value["format"] != FORMAT or not all(is_digest(each) for each in packs):
            raise ValueError("it names packs that cannot be")
        if value["pack"] not in packs or not _is_count(value["section"]):
            raise ValueError("it leads nowhere")
        return Pointer(
            info=_info(value),
            pack=value["pack"],
            section=value["section"],
            digest=str(value["digest"]),
            packs=packs,
            text=text,
        )
    except (
        AttributeError,
        KeyError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise StoreDamaged(
            f"image '{name}' is damaged: its pointer cannot be read: {error}."
            " 'chex fsck --repair' moves it out of the way."
        ) from None


def _checked_text(data: bytes) -> bytes:
    """Return the JSON without the check, which comes first as keys are sorted."""
    start = len(_CHECK) + 34
    check, text = data[len(_CHECK) : start - 2], b"{" + data[start:].removesuffix(b"\n")
    if data[: len(_CHECK)] != _CHECK or data[start - 2 : start] != b'",' or data[-1:] != b"\n":
        raise ValueError("it has no checksum")
    if xxhash.xxh3_128_hexdigest(text).encode() != check:
        raise ValueError("its checksum is wrong")
    return text


def _info(value: dict[str, Any]) -> ImageInfo:
    info = image_info_from_json({"name": value["name"], **{each: value[each] for each in _INFO}})
    numbers = (info.time, info.seconds, info.state_bytes, info.stored_bytes, info.cost_s)
    if not all(isinstance(each, int | float) for each in numbers):
        raise TypeError("its times and sizes are no numbers")
    return info


def _json(value: Any) -> bytes:
    """Return the one way to write a value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()
