"""Images: the variables of a namespace and the facts of its process, as streams and arrays.

`capture` writes them, in a fork of the worker; `rebuild` makes them again, in any process.

Names are loaded when they are first used: a worker that starts needs `TouchLog` alone.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.image.capturing import Capture, capture, trouble_of
    from chexpoint.image.lost import kind_of, reason_of
    from chexpoint.image.memory import overlaps, small_pages
    from chexpoint.image.modules import (
        INTERPRETERS,
        is_importable,
        is_own,
        library_versions,
        own_data,
        own_digests,
    )
    from chexpoint.image.pickler import Dump, Surroundings, dump
    from chexpoint.image.process import set_states, states_now
    from chexpoint.image.quiet import without_warnings
    from chexpoint.image.rebuilding import load_some, python_version, rebuild
    from chexpoint.image.sharing import Footprint, Groups, footprint_of, is_mutable
    from chexpoint.image.source import imports_in, targets_in
    from chexpoint.image.touch import TouchLog

_HOME = {
    "capturing": ("Capture", "capture", "trouble_of"),
    "lost": ("kind_of", "reason_of"),
    "memory": ("overlaps", "small_pages"),
    "modules": (
        "INTERPRETERS",
        "is_importable",
        "is_own",
        "library_versions",
        "own_data",
        "own_digests",
    ),
    "pickler": ("Dump", "Surroundings", "dump"),
    "process": ("set_states", "states_now"),
    "quiet": ("without_warnings",),
    "rebuilding": ("load_some", "python_version", "rebuild"),
    "sharing": ("Footprint", "Groups", "footprint_of", "is_mutable"),
    "source": ("imports_in", "targets_in"),
    "touch": ("TouchLog",),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.image.{module}"), name)
    raise AttributeError(f"module 'chexpoint.image' has no attribute '{name}'")


__all__ = [
    "INTERPRETERS",
    "Capture",
    "Dump",
    "Footprint",
    "Groups",
    "Surroundings",
    "TouchLog",
    "capture",
    "dump",
    "footprint_of",
    "imports_in",
    "is_importable",
    "is_mutable",
    "is_own",
    "kind_of",
    "library_versions",
    "load_some",
    "overlaps",
    "own_data",
    "own_digests",
    "python_version",
    "reason_of",
    "rebuild",
    "set_states",
    "small_pages",
    "states_now",
    "targets_in",
    "trouble_of",
    "without_warnings",
]
