"""Where images live: states of notebooks on disk, of which only what changed is written.

`Store` keeps images, in a folder or behind an fsspec URL.  Below it, and of use on its own, is the
de-duplicator: arrays in, one consolidated diff out.

Names are loaded when they are first used: a kernel that stores nothing need not import them.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.store.dedup import Deduplicator, Diff, Series, content_root, restore
    from chexpoint.store.depot import Depot
    from chexpoint.store.keys import store_key
    from chexpoint.store.store import Store
    from chexpoint.store.stored_image import StoredImage

_HOME = {
    "dedup": ("Deduplicator", "Diff", "Series", "content_root", "restore"),
    "depot": ("Depot",),
    "keys": ("store_key",),
    "store": ("Store",),
    "stored_image": ("StoredImage",),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.store.{module}"), name)
    raise AttributeError(f"module 'chexpoint.store' has no attribute '{name}'")


__all__ = [
    "Deduplicator",
    "Depot",
    "Diff",
    "Series",
    "Store",
    "StoredImage",
    "content_root",
    "restore",
    "store_key",
]
