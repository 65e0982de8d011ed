"""Where a program is: what state its loops reach, and what its iterations are called."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from chexpoint.hindsight.runtime import OpenLoop, frame_of
from chexpoint.hindsight.scope import visible_names
from chexpoint.hindsight.state.reach import Passing, Place, reach

INNER = "~"
"""Begins the names of roots that only a block can see; sorts after all others."""


def roots_at(
    loop: OpenLoop,
    frame: FrameType | None,
    block: OpenLoop | None,
    inner: FrameType | None,
    names: tuple[str, ...] | None = None,
) -> dict[str, object]:
    """Return the objects that a main loop can reach, and its block from the function it is in.

    Parameters
    ----------
    frame, inner
        Of the main loop and of the block; the first is found from the second if it is missing.
    names
        Those of the main loop's text; None for what its site says.
    """
    if frame is None:
        frame = frame_of(loop, inner)
    roots: dict[str, object] = {}
    if frame is not None:
        found = reach(loop.site.names if names is None else names, visible_names(frame)).roots
        roots.update((_called(loop, name, name), value) for name, value in found.items())
    if block is not None and inner is not None and inner is not frame:
        prefix = inner_prefix(block)
        seen = visible_names(inner)
        own = {name: seen[name] for name in block.site.names if name in inner.f_locals}
        reached = reach(tuple(own), own).roots
        for name, value in reached.items():
            if name in own:
                roots[_called(block, name, prefix + name)] = value
            elif isinstance(name, Place) and INNER in name:
                # What functions made in there hold, of variables that the block does not name.
                roots[Place.at(prefix + name, name.bind)] = value
    return roots


def _called(loop: OpenLoop, name: str, full: str) -> str:
    """Return the name of a root, as one that passes if the loop binds it."""
    if isinstance(name, Place):
        return name
    return Passing(full) if name in loop.site.bound else full


def inner_prefix(block: OpenLoop) -> str:
    """Return how the roots of a block's function begin."""
    return f"{INNER}{block.site.function}/"


def labels_at(main: OpenLoop, block: OpenLoop | None) -> list[list[Any]]:
    """Return what the program calls the iteration it is in: ``[["epoch", 3], ["step", 17]]``."""
    labels = [_label(main, "iteration")]
    if block is not None and block.index >= 0:
        labels.append(_label(block, "step"))
    return labels


def _label(loop: OpenLoop, otherwise: str) -> list[Any]:
    frame = frame_of(loop, sys._getframe(2))
    name = str(loop.facts.get("label", loop.site.label))
    seen = {} if frame is None else visible_names(frame)
    value = seen.get(name)
    if isinstance(value, (int, str)) and not isinstance(value, bool):
        return [name, value]
    # A name that is no variable was given by the user, except to a loop that has none.
    is_given = frame is not None and name not in seen and loop.site.kind == "for"
    return [name if is_given else otherwise, loop.index]
