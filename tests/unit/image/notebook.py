"""A notebook without a kernel: cells run in a namespace, images of it are taken and loaded."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from chexpoint.image import Capture, TouchLog, capture, rebuild
from chexpoint.model import ImageDocument, image_document_from_json, to_json


class Notebook:
    """A namespace, the cells that ran in it, and what they may have touched."""

    def __init__(self, touches: TouchLog | None = None) -> None:
        self.names: dict[str, Any] = {"__name__": "__main__", "__builtins__": __builtins__}
        self.touches = touches or TouchLog()

    def run(self, source: str) -> Notebook:
        """Run a cell."""
        exec(compile(source, "<cell>", "exec", dont_inherit=True), self.names)  # noqa: S102
        self.touches.ran(f"c{len(self.touches.line)}", source, self.names)
        return self

    def image(self, previous: ImageDocument | None = None) -> Capture:
        """Take an image; like one that is written to a store, it refers to nothing in here."""
        image = capture(self.names, touches=self.touches, previous=previous)
        arrays = {key: memoryview(bytes(part)) for key, part in image.arrays.items()}
        return replace(image, arrays=arrays)

    def __getitem__(self, name: str) -> Any:
        return self.names[name]


def load(image: Capture, document: ImageDocument | None = None) -> Notebook:
    """Return a new notebook that was loaded from an image, the document by way of JSON."""
    text = json.dumps(to_json(document or image.document))
    read = image_document_from_json(json.loads(text))
    new = Notebook(TouchLog.resumed(read.line, document=read))
    arrays = {key: bytes(part) for key, part in image.arrays.items()}
    new.names |= rebuild(
        read,
        image.streams.__getitem__,
        lambda key: bytearray(arrays[key]),
        main=new.names,
    )
    return new


def groups(image: Capture) -> list[tuple[str, ...]]:
    """Return the variables of an image by group, without those of the process."""
    found = [group.variables for group in image.document.groups]
    return [group for group in found if not group[0].startswith(":")]


def reasons(image: Capture) -> dict[str, str]:
    """Return why variables are lost."""
    return {each.name: each.why for each in image.document.lost}
