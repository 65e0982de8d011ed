"""Which states of a project are in its store."""

from __future__ import annotations

import json
import sqlite3

from chexpoint.errors import CatalogError
from chexpoint.model import ImageName, KnownImage
from chexpoint.project.rows import as_int, as_node, as_text, stored


def add_image(connection: sqlite3.Connection, image: KnownImage, now: float) -> None:
    """Note that there is an image of a state."""
    connection.execute(
        "INSERT OR REPLACE INTO image (name, node, taint, needs, keep, state_bytes, time)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            *(stored(image.name), stored(image.node), stored(image.taint), image.needs),
            *(stored(json.dumps(image.keep)), image.state_bytes, now),
        ),
    )


def drop_image(connection: sqlite3.Connection, name: ImageName) -> None:
    connection.execute("DELETE FROM image WHERE name = ?", (stored(name),))


def known_images(connection: sqlite3.Connection) -> tuple[KnownImage, ...]:
    """Return the images of all states, oldest first.

    Raises
    ------
    CatalogError
        If a row is damaged.
    """
    rows = connection.execute(
        "SELECT name, node, taint, needs, keep, state_bytes FROM image ORDER BY time, name"
    )
    try:
        return tuple(
            KnownImage(
                name=ImageName(as_text(name)),
                node=as_node(node),
                taint=as_text(taint),
                needs=as_int(needs),
                keep=tuple(as_text(each) for each in json.loads(as_text(keep))),
                state_bytes=as_int(size),
            )
            for name, node, taint, needs, keep, size in rows
        )
    except (ValueError, TypeError) as error:
        raise CatalogError(f"an image is damaged in the catalog: {error}") from error
