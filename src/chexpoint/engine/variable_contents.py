"""The contents of small variables as text, and back; and variables out of images.

A text is base64 of a compressed block: the length of a header as four bytes, the header as JSON, a
stream of `chexpoint.image`, and its arrays.  It is loaded only where the same Python and the same
libraries are, because a stream names their classes.  Whoever loads a text must know that it comes
from somebody trusted: loading runs what it names.
"""

from __future__ import annotations

import base64
import binascii
import functools
import json
import linecache
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from chexpoint.engine.variable_facts import Small
from chexpoint.errors import ImageRefused
from chexpoint.image import library_versions, load_some, own_digests, python_version
from chexpoint.model import (
    ImageDocument,
    ImageGroup,
    VariableGroup,
    image_document_from_json,
)

if TYPE_CHECKING:
    from chexpoint.store import StoredImage

imported: set[str] = set()
"""Modules that were imported because contents came with them."""

_FORMAT = 1
_LITTLE_BYTES = 4096
_WORTH = 0.8
_DAMAGED = "the contents of a variable are damaged. Run its cells again."


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedGroup:
    """Variables that were loaded, and are to be bound."""

    values: dict[str, object] = field(repr=False)
    group: VariableGroup | None = None
    """What the graph knows about them."""


def contents_text(names: Iterable[str], small: Small, imports: Iterable[str] = ()) -> str:
    """Return small contents as text.

    Parameters
    ----------
    imports
        Modules that are imported when the text is loaded.
    """
    header = {
        "format": _FORMAT,
        "python": python_version(),
        "libraries": _versions(small.modules),
        "own": own_digests(small.modules) if small.modules else {},
        "names": list(names),
        "imports": sorted(imports),
        "stream": len(small.data),
        "parts": [len(part) for part in small.parts],
        "sources": _sources(small.sources),
    }
    text = json.dumps(header).encode()
    block = b"".join([len(text).to_bytes(4, "big"), text, small.data, *small.parts])
    return base64.b64encode(_squeezed(block)).decode()


def _squeezed(block: bytes) -> bytes:
    """Compress a block, unless it hardly shrinks, as most numbers: a cell waits for it."""
    is_little = len(block) <= _LITTLE_BYTES
    middle = block[len(block) // 2 :][:_LITTLE_BYTES]
    is_worth = is_little or len(_compressed(middle, 1, is_little=True)) < _WORTH * len(middle)
    return _compressed(block, 1 if is_worth else 0, is_little=is_little)


def _compressed(block: bytes, level: int, *, is_little: bool) -> bytes:
    # To prepare a large window takes longer than to compress a little.
    bits, memory = (12, 5) if is_little else (15, 8)
    squeezer = zlib.compressobj(level, zlib.DEFLATED, bits, memory)
    return squeezer.compress(block) + squeezer.flush()


def load_contents(text: str, main: dict[str, object]) -> dict[str, object]:
    """Return the variables of a text, by name; nothing else changes.

    Raises
    ------
    ImageRefused
        If the text is damaged, or was written by another Python or another library.
    """
    try:
        block = zlib.decompress(base64.b64decode(text, validate=True))
        start = 4 + int.from_bytes(block[:4], "big")
        header = json.loads(block[4:start])
        names = [str(name) for name in header["names"]]
        end = start + int(header["stream"])
        stream = block[start:end]
        parts = list(_split(block[end:], header["parts"]))
        document = _document(header, names)
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error, zlib.error) as error:
        raise ImageRefused(_DAMAGED) from error
    if header["format"] != _FORMAT:
        raise ImageRefused("a variable was stored by another chexpoint. Run its cells again.")
    array: Callable[[str], Any] = lambda key: bytearray(parts[int(key)])  # noqa: E731
    loaded = load_some(document, names, lambda _: stream, array, main=main)
    _import(header.get("imports", ()))
    for name, entry in header.get("sources", {}).items():
        linecache.cache.setdefault(name, (entry[0], None, entry[1], name))
    return loaded


def load_from_image(
    image: StoredImage, names: Collection[str], main: dict[str, object]
) -> dict[str, object]:
    """Return some variables of a stored image, by name; nothing else changes.

    Raises
    ------
    ImageRefused
        If the image was written in another world, or lacks one of them.
    """
    try:
        document = image_document_from_json(image.document)
    except (TypeError, KeyError) as error:
        raise ImageRefused(_DAMAGED) from error
    return load_some(document, names, image.stream, image.array, main=main)


def _split(block: bytes, sizes: list[int]) -> Iterable[bytes]:
    place = 0
    for size in sizes:
        yield block[place : place + size]
        place += size
    if place != len(block):
        raise ValueError("arrays of another size")


def _document(header: Mapping[str, Any], names: list[str]) -> ImageDocument:
    group = ImageGroup(
        variables=tuple(names),
        stream="",
        arrays=tuple(str(place) for place in range(len(header["parts"]))),
    )
    return ImageDocument(
        python=str(header["python"]),
        line=(),
        execution_count=0,
        groups=(group,),
        libraries=dict(header["libraries"]),
        facts={"own_modules": {name: tuple(each) for name, each in header["own"].items()}},
    )


def _import(names: Iterable[str]) -> None:
    for name in names:
        try:
            import_module(name)
        except Exception as error:
            raise ImageRefused(f"{name} cannot be imported. Run its cells again.") from error
        imported.add(name)


def _versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the libraries that modules belong to, by top-level module."""
    roots = sorted({name.partition(".")[0] for name in modules})
    return {root: version for root in roots for version in _version(root).values()}


@functools.lru_cache(maxsize=1024)
def _version(root: str) -> dict[str, str]:
    """Return the version of a library, which does not change while a process runs."""
    return library_versions([root])


def _sources(filenames: Collection[str]) -> dict[str, Any]:
    """Return the text of cells whose functions are stored, for tracebacks and `inspect`."""
    found = {}
    for name in sorted(filenames):
        entry = linecache.cache.get(name)
        # Files on disk are found there.
        if entry is not None and len(entry) == 4 and entry[1] is None:
            found[name] = [entry[0], entry[2]]
    return found
