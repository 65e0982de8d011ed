"""What is told of a store in every form: a few facts, and a row for each image."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from itertools import accumulate
from typing import Any

from chexpoint.model import (
    Bytes,
    ExecutionTree,
    ImageInfo,
    LostVariable,
    NodeId,
    StoreUsage,
    format_seconds,
    format_size,
    to_json,
)
from chexpoint.view.text import count, first_line, printable, short
from chexpoint.view.version_table import shown_time

HEAD = ("when", "node", "state", "added", "took", "not stored")
NUMBERS = (2, 3, 4)
"""Columns of `HEAD` that hold numbers."""

_MANY = 100  # from here on, how many times smaller is told without decimals


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreRow:
    """An image, and how far the store had grown with it."""

    image: ImageInfo
    name: str
    """What to call it."""
    states: Bytes
    """All states up to this one, if each were stored whole."""
    stored: Bytes
    """What they take together."""


def image_names(nodes: Mapping[str, NodeId], tree: ExecutionTree) -> dict[str, str]:
    """Return what to call images: node, versions that end there, and the cell that led there.

    Parameters
    ----------
    nodes
        The node of each image.
    """
    ends: dict[NodeId, list[str]] = {}
    for version in tree.versions:
        if version.node is not None:
            ends.setdefault(version.node, []).append(tree.labels[version])
    found = {}
    for image, node in nodes.items():
        versions = f"({', '.join(ends[node])})" if node in ends else ""
        cell = first_line(tree.nodes[node].cell) if node in tree.nodes else ""
        found[image] = " ".join(word for word in (short(node), versions, cell) if word)
    return found


def store_rows(usage: StoreUsage, names: Mapping[str, str] | None = None) -> tuple[StoreRow, ...]:
    """Return the images of a store, oldest first.

    Parameters
    ----------
    names
        What to call images; the others keep the name they have in the store.
    """
    known = names or {}
    states = accumulate(image.state_bytes for image in usage.images)
    # Later images may still need what those that are gone have stored.
    rest = usage.pack_bytes - sum(image.stored_bytes for image in usage.images)
    stored = accumulate((image.stored_bytes for image in usage.images), initial=max(rest, 0))
    next(stored)
    return tuple(
        StoreRow(image=image, name=known.get(image.name, image.name), states=whole, stored=taken)
        for image, whole, taken in zip(usage.images, states, stored, strict=True)
    )


def row_texts(row: StoreRow, zone: tzinfo | None) -> tuple[str, ...]:
    """Return a row as texts, one for each column of `HEAD`."""
    image = row.image
    return (
        shown_time(image.time, zone) if image.time else "",
        printable(row.name),
        format_size(image.state_bytes),
        format_size(image.stored_bytes),
        format_seconds(image.seconds),
        printable(", ".join(each.name for each in image.lost)),
    )


def store_facts(usage: StoreUsage) -> list[tuple[str, str]]:
    """Return what is known of a store as a whole: names, and values in words."""
    facts = [
        ("store", printable(usage.url)),
        ("images", f"{len(usage.images):,} with states of {format_size(usage.state_bytes)}"),
        (
            "on disk",
            f"{format_size(usage.pack_bytes)} in {count(usage.packs, 'pack')}{saved(usage)}",
        ),
    ]
    if usage.index_bytes:
        facts.append(("caches", f"{format_size(usage.index_bytes)} that can be made again"))
    facts.append(("budget", _budget(usage)))
    if usage.waste_bytes:
        facts.append(("to free", f"{format_size(usage.waste_bytes)} with chex gc"))
    return facts


def saved(usage: StoreUsage) -> str:
    """Return how much smaller the store is than the states in it, to be put after its size."""
    if usage.ratio <= 1:
        return ""
    digits = 0 if usage.ratio >= _MANY else 1
    return f", {usage.ratio:,.{digits}f} times smaller"


def lost_variables(usage: StoreUsage) -> list[LostVariable]:
    """Return the variables that could not be stored, each once, those of new images first."""
    found: dict[tuple[str, str, str], LostVariable] = {}
    for image in reversed(usage.images):
        for each in image.lost:
            found.setdefault((each.name, each.kind, each.why), each)
    return list(found.values())


def lost_text(lost: LostVariable) -> str:
    """Return why a variable could not be stored, in one line."""
    return printable(f"{lost.name} ({lost.kind}): {lost.why}")


def store_json(usage: StoreUsage, nodes: Mapping[str, NodeId] | None = None) -> dict[str, Any]:
    """Return what is known of a store as JSON.

    Parameters
    ----------
    nodes
        The nodes of images, as far as they are known.
    """
    known = nodes or {}
    images = [{**to_json(image), "node": known.get(image.name)} for image in usage.images]
    return {**to_json(usage), "ratio": usage.ratio, "images": images}


def _budget(usage: StoreUsage) -> str:
    if usage.budget_bytes is None:
        return "none"
    share = usage.pack_bytes / max(usage.budget_bytes, 1)
    return f"{format_size(usage.budget_bytes)}, {share:.0%} taken"
