"""What is known about an image: a state that was written to a store, and outlives its process."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NewType

from chexpoint.model.ids import Bytes, NodeId, Seconds
from chexpoint.model.record import Taint

ImageName = NewType("ImageName", str)
"""Names an image within its store; never used for a second one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostVariable:
    """A variable that cannot be stored; it has to be made again by its cell."""

    name: str
    kind: str
    """Its type, as the user knows it: ``sqlite3.Connection``."""
    why: str
    """The reason in words."""
    cell: str = ""
    """The last cell that may have changed it, by its uid on the worker's line."""
    is_alone: bool = False
    """Whether nothing else shares objects with it, so that it can stay when the rest is loaded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageDocument:
    """What an image holds, without the contents; kept as JSON in the store."""

    python: str
    """Version and implementation that wrote it: code objects fit no other."""
    line: tuple[str, ...]
    """Uids of the cells that led to the state, from the root on."""
    execution_count: int
    groups: tuple[ImageGroup, ...]
    lost: tuple[LostVariable, ...] = ()
    libraries: dict[str, str] = field(default_factory=dict)
    """Versions of the distributions whose classes and functions the streams name."""
    facts: dict[str, Any] = field(default_factory=dict)
    """Plain facts of the process: folder, environment, search path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageGroup:
    """Variables that share objects, and so are stored in one stream."""

    variables: tuple[str, ...]
    stream: str
    """The key of its stream among the parts of the image."""
    arrays: tuple[str, ...] = ()
    """The keys of its arrays, in the order in which the stream wants them."""
    pickler: str = "pickle"
    """What wrote it."""
    size_bytes: Bytes = 0
    """Stream and arrays together, before de-duplication."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageInfo:
    """One image, as seen from outside."""

    name: ImageName
    time: float
    """When it was written, in seconds since the epoch."""
    seconds: Seconds
    """How long that took."""
    state_bytes: Bytes
    """Size of the state it holds."""
    stored_bytes: Bytes
    """What it added to the store."""
    cost_s: Seconds = 0.0
    """How long its state would take to compute again."""
    lost: tuple[LostVariable, ...] = ()
    line: tuple[str, ...] = ()
    """Uids of the cells that led to it, from the root on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownImage:
    """An image of a recorded state, and what has to be done before it can be loaded."""

    name: ImageName
    node: NodeId
    taint: Taint = ""
    needs: int = 0
    """How many cells of the path must be run first, for variables that could not be stored."""
    keep: tuple[str, ...] = ()
    """These variables: they stay as the cells made them when the image is loaded."""
    state_bytes: Bytes = 0


def image_info_from_json(data: dict[str, Any]) -> ImageInfo:
    """Return the image that `to_json` wrote."""
    lost = tuple(LostVariable(**each) for each in data["lost"])
    return ImageInfo(**{**data, "lost": lost, "line": tuple(data["line"])})


def image_document_from_json(data: dict[str, Any]) -> ImageDocument:
    """Return the document that `to_json` wrote.

    Raises
    ------
    TypeError, KeyError
        If it is not one.
    """
    groups = tuple(
        ImageGroup(
            **{
                **each,
                "variables": tuple(each["variables"]),
                "arrays": tuple(each["arrays"]),
            }
        )
        for each in data["groups"]
    )
    lost = tuple(LostVariable(**each) for each in data["lost"])
    return ImageDocument(**{**data, "line": tuple(data["line"]), "groups": groups, "lost": lost})
