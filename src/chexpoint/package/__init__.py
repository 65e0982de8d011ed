"""Packages: versions with everything that it takes to replay them elsewhere, in one file.

Names are loaded when they are first used: few commands need them.
"""

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.package.documents import FORMAT
    from chexpoint.package.environment import (
        environment_differences,
        environment_info,
        how_to_create,
    )
    from chexpoint.package.needs import Needs, lock_text, needs_of
    from chexpoint.package.opening import Package, open_package
    from chexpoint.package.summary import PackageSummary
    from chexpoint.package.unpacking import Unpacked, unpack
    from chexpoint.package.venv import build_venv, find_python
    from chexpoint.package.writing import write_package

_HOME = {
    "documents": ("FORMAT",),
    "environment": ("environment_differences", "environment_info", "how_to_create"),
    "needs": ("Needs", "lock_text", "needs_of"),
    "opening": ("Package", "open_package"),
    "summary": ("PackageSummary",),
    "unpacking": ("Unpacked", "unpack"),
    "venv": ("build_venv", "find_python"),
    "writing": ("write_package",),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.package.{module}"), name)
    raise AttributeError(f"module 'chexpoint.package' has no attribute '{name}'")


__all__ = [
    "FORMAT",
    "Needs",
    "Package",
    "PackageSummary",
    "Unpacked",
    "build_venv",
    "environment_differences",
    "environment_info",
    "find_python",
    "how_to_create",
    "lock_text",
    "needs_of",
    "open_package",
    "unpack",
    "write_package",
]
