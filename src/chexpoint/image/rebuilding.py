"""Makes the variables of an image again: all of them, or none and nothing else changed."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from chexpoint.errors import ChexError, ImageRefused
from chexpoint.image.loader import Loader
from chexpoint.image.lost import reason_of
from chexpoint.image.memory import small_pages
from chexpoint.image.modules import file_digest, found_file, library_version
from chexpoint.image.options import options_now
from chexpoint.image.process import (
    apply_facts,
    apply_plain,
    restore_random,
    set_states,
    states_now,
)
from chexpoint.image.quiet import without_warnings
from chexpoint.model import ImageDocument, ImageGroup

FORMAT = 1


def python_version() -> str:
    """Return what an image calls the Python that wrote it: ``cpython 3.11.7``."""
    return f"{sys.implementation.name} {'.'.join(map(str, sys.version_info[:3]))}"


def rebuild(
    document: ImageDocument,
    stream: Callable[[str], bytes],
    array: Callable[[str], Any],
    *,
    main: dict[str, object],
) -> dict[str, object]:
    """Return the variables of an image, and bring the process to the state it had.

    Parameters
    ----------
    document
        What the image holds.
    stream
        Returns the contents of a stream.
    array
        Returns the contents of an array, in writable memory that is the array's from then on.
    main
        The namespace for which they are; functions get it as their globals.  It is not changed.

    Raises
    ------
    ImageRefused
        If the image cannot stand for the state now; then nothing has changed.
    """
    check_document(document)
    states = states_now() | options_now()
    undo = apply_plain(document.facts)
    try:
        loaded: dict[str, object] = {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for group in document.groups:
                loaded |= load_group(group, stream, array, main)
        shared = {name for group in document.groups for name in group.variables[1:]}
        shared |= {group.variables[0] for group in document.groups if len(group.variables) > 1}
        return apply_facts(document.facts, loaded, shared)
    except BaseException as error:
        undo()
        # Imports and constructors may have drawn random numbers.
        set_states(states)
        if isinstance(error, ChexError) or not isinstance(error, Exception):
            raise
        raise ImageRefused(
            f"the image cannot be loaded: {reason_of(error)}. Run its cells again."
        ) from error


def load_some(
    document: ImageDocument,
    names: Collection[str],
    stream: Callable[[str], bytes],
    array: Callable[[str], Any],
    *,
    main: dict[str, object],
) -> dict[str, object]:
    """Return some variables of an image that has no facts of a process; nothing else changes.

    The user's own modules may lie elsewhere than where the image was written.

    Raises
    ------
    ImageRefused
        If the image cannot stand for what it was made from, or lacks a variable.
    """
    own = {
        name: [found_file(name) or path, digest]
        for name, (path, digest) in document.facts.get("own_modules", {}).items()
    }
    check_document(replace(document, facts={**document.facts, "own_modules": own}))
    loaded: dict[str, object] = {}
    states = states_now()
    try:
        with without_warnings():
            for group in document.groups:
                if not set(names).isdisjoint(group.variables):
                    loaded |= load_group(group, stream, array, main)
    finally:
        # Imports and constructors may have drawn random numbers.
        restore_random(states)
    missing = sorted(set(names) - loaded.keys())
    if missing:
        raise ImageRefused(f"the image does not hold {missing[0]}. Run its cells again.")
    return {name: loaded[name] for name in names}


def load_group(
    group: ImageGroup,
    stream: Callable[[str], bytes],
    array: Callable[[str], Any],
    main: dict[str, object],
) -> dict[str, object]:
    """Return the variables of one group."""
    data = stream(group.stream)
    try:
        with small_pages() if group.arrays else contextlib.nullcontext():
            values = Loader(data, group.arrays, array, main).run(len(group.variables))
        return dict(zip(group.variables, values, strict=True))
    except ChexError:
        raise
    except Exception as error:
        names = ", ".join(group.variables)
        raise ImageRefused(
            f"the image cannot be loaded, because of {names}: {reason_of(error)}. "
            "Run its cells again."
        ) from error


def check_document(document: ImageDocument) -> None:
    """Refuse an image that was written in another world.

    Raises
    ------
    ImageRefused
        For another Python, another library, or a changed module of the user's.
    """
    if document.facts.get("format", FORMAT) != FORMAT:
        raise ImageRefused(
            "the image was written by another version of chexpoint. Run its cells again."
        )
    if document.python.rpartition(".")[0] != python_version().rpartition(".")[0]:
        raise ImageRefused(
            f"the image was written by {document.python}, and this is {python_version()}. "
            "Run its cells again."
        )
    for library, version in document.libraries.items():
        now = library_version(library)
        if now != version:
            state = f"{now} is installed" if now else "it is not installed"
            raise ImageRefused(
                f"{library} {version} wrote the image, {state}. Run its cells again."
            )
    for module, (path, digest) in document.facts.get("own_modules", {}).items():
        if file_digest(path) != digest:
            raise ImageRefused(f"module {module} ({path}) has changed. Run its cells again.")
