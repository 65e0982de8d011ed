"""Telling the user's own code from that of libraries."""

from __future__ import annotations

import os
import site
import sys
import sysconfig
from functools import lru_cache


def is_user_type(kind: type) -> bool:
    """Return whether a class is the user's own."""
    return is_user_module(kind.__module__)


def is_user_module(name: object) -> bool:
    """Return whether a module is neither of the standard library nor installed."""
    if name == "__main__":
        return True
    if not isinstance(name, str):
        return False
    module = sys.modules.get(name)
    if module is None or name == "builtins":
        # A class may call its module what it likes; what is not loaded is not a library's.
        return module is None
    return is_user_file(getattr(module, "__file__", None))


@lru_cache(maxsize=4096)
def is_user_file(path: str | None) -> bool:
    """Return whether a file is neither of the standard library nor installed."""
    if path is None:
        return False
    if path.startswith("<"):
        # A cell, or what was given to `exec`; frozen modules are the interpreter's.
        return not path.startswith("<frozen")
    full = os.path.realpath(path)
    return not full.startswith(_library_folders()) and not full.startswith(_OWN)


_OWN = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "")


@lru_cache(maxsize=1)
def _library_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = {paths[key] for key in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders.update(site.getsitepackages())
    folders.add(site.getusersitepackages())
    return tuple(os.path.join(os.path.realpath(folder), "") for folder in sorted(folders))
