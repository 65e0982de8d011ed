"""Finds, checks and makes the place that a store is in."""

from __future__ import annotations

import json
from pathlib import Path

from chexpoint.errors import StoreDamaged, StoreError, StoreTooNew
from chexpoint.store.local_shelf import LocalShelf
from chexpoint.store.packs import FORMAT
from chexpoint.store.shelf import FOLDERS, Shelf, telling, write_file

_FILE = "format.json"
_TEXT = json.dumps({"chex_store": True, "format": FORMAT}, separators=(",", ":")) + "\n"


def open_shelf(where: str | Path, *, create: bool) -> Shelf:
    """Return the place of a store; raises as `Store.open` does."""
    shelf = shelf_at(str(where))
    with telling(shelf.url, "read"):
        is_there = _check_format(shelf)
    if not is_there:
        if not create:
            raise StoreError(f"'{shelf.url}' is no store. Check the path.")
        with telling(shelf.url, "written"):
            _create(shelf)
    return shelf


def shelf_at(where: str) -> Shelf:
    """Return a place for files, whatever is there."""
    if where.startswith("file://"):
        return LocalShelf(Path(where.removeprefix("file://")))
    if "://" not in where:
        return LocalShelf(Path(where).expanduser().absolute())
    from chexpoint.store.remote_shelf import RemoteShelf

    return RemoteShelf(where)


def _check_format(shelf: Shelf) -> bool:
    """Return whether there is a store; raise if it is one that cannot be used."""
    try:
        data = bytes(shelf.view(_FILE)[0:4096])
    except FileNotFoundError:
        return False
    if data == _TEXT.encode():
        return True
    try:
        value = json.loads(data)
        is_store, number = value["chex_store"] is True, value["format"]
    except (KeyError, TypeError, ValueError, RecursionError):
        is_store, number = False, 0
    if is_store and type(number) is int and number > FORMAT:
        raise StoreTooNew(
            f"the store '{shelf.url}' has format {number}; this CHEX knows formats up to {FORMAT}."
            " Install a newer chexpoint."
        )
    raise StoreDamaged(
        f"the store '{shelf.url}' is damaged: its {_FILE} is not that of a store. If it should be,"
        f" write {_TEXT.strip()} into it."
    )


def _create(shelf: Shelf) -> None:
    """Make a store, unless the folder is used for something else.

    Folders of a store that were left by a process that died while it made them are gone on with.
    """
    others = {each.name for each in shelf.entries("")} - {*FOLDERS, "lock"}
    if _FILE in others:
        return  # somebody else has just made it
    if others or shelf.entries("images") or shelf.entries("packs"):
        raise StoreError(
            f"'{shelf.url}' is no store, and not empty. Choose an empty folder or a new one."
        )
    shelf.prepare()
    write_file(shelf, _FILE, _TEXT.encode())
