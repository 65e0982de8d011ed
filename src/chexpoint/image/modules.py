"""Modules: which can be imported again, which belong to the user, and who made them."""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sys
import sysconfig
import types
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from chexpoint.image import live
from chexpoint.image.lost import Lost

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler

# Distributions whose modules have another name.  Where none is known the module's own
# ``__version__`` counts; asking every installed distribution takes a third of a second.
DISTRIBUTIONS = {
    "PIL": "pillow",
    "bs4": "beautifulsoup4",
    "cupy": "cupy-cuda12x",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}

INTERPRETERS = frozenset(
    {"__annotations__", "__builtin__", "__builtins__", "__cached__", "__doc__", "__file__"}
    | {"__loader__", "__name__", "__package__", "__spec__", "__warningregistry__"}
)
"""What the interpreter itself keeps in a namespace; other names of that form are the user's."""


def is_importable(obj: Any) -> bool:
    """Tell whether a class or function is found under its own name in a module."""
    module = getattr(obj, "__module__", None)
    name = getattr(obj, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str) or module == "__main__":
        return False
    home = sys.modules.get(module)
    # Modules that are made by a compiled package have no specification, but come with it.
    root = sys.modules.get(module.partition(".")[0])
    if home is None or getattr(root, "__spec__", None) is None:
        return False
    found: Any = home
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is obj


def reduce_module(pickler: ImagePickler, module: types.ModuleType) -> Any:
    """Write a module as an import of it."""
    name = module.__name__
    if name == "__main__" or any(vars(module) is main for main in pickler.world.mains):
        raise Lost("it is the notebook's own module")
    if sys.modules.get(name) is not module or getattr(module, "__spec__", None) is None:
        raise Lost(f"module {name} cannot be imported")
    pickler.world.modules.add(name)
    return live.module, (name,)


def library_version(root: str) -> str:
    """Return the version of the library a top-level module belongs to; empty if it has none."""
    from importlib import metadata

    try:
        found = metadata.distribution(DISTRIBUTIONS.get(root, root))
        # Parsing all of it takes milliseconds.
        line = re.search(r"^Version: *(\S+)", found.read_text("METADATA") or "", re.MULTILINE)
        return line[1] if line else found.version
    except metadata.PackageNotFoundError:
        pass
    try:
        version = getattr(import_module(root), "__version__", "")
    except Exception:  # the import runs the library's code
        return ""
    return version if isinstance(version, str) else ""


def library_versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the libraries that modules belong to, by top-level module."""
    roots = {name.partition(".")[0] for name in modules}
    roots -= {*sys.stdlib_module_names, "__main__", "chexpoint"}
    versions = {root: library_version(root) for root in sorted(roots)}
    return {root: version for root, version in versions.items() if version}


def is_own(module: object) -> bool:
    """Tell whether a module is the user's own: a file that no installer put there."""
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or not path.endswith(".py"):
        return False
    # What holds for most comes first: thousands are asked about.
    if "site-packages" in path or path.startswith(_installed_folders()) or not os.path.isabs(path):
        return False
    name = getattr(module, "__name__", "")
    if name.partition(".")[0] in {"chexpoint", "__main__"}:
        return False
    return getattr(module, "__spec__", None) is not None


@functools.cache
def _installed_folders() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    keys = ("stdlib", "platstdlib", "purelib", "platlib")
    return tuple({os.path.join(paths[key], "") for key in keys})


def own_modules() -> dict[str, types.ModuleType]:
    """Return the user's own modules that are loaded, by name."""
    loaded = list(sys.modules.items())
    return {name: module for name, module in loaded if is_own(module) and module.__name__ == name}


def file_digest(path: str) -> str:
    """Return the digest of a file's contents; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return ""


def found_file(name: str) -> str:
    """Return the file of a module, as it is loaded or would be found; empty if there is none."""
    from importlib.util import find_spec

    try:
        spec = getattr(sys.modules.get(name), "__spec__", None) or find_spec(name)
    except (ImportError, ValueError):
        return ""
    return getattr(spec, "origin", None) or ""


def own_digests(names: Iterable[str]) -> dict[str, list[str]]:
    """Return the file and its digest for each of the user's own modules among some."""
    own = {name: sys.modules.get(name) for name in sorted(names)}
    files = {
        name: getattr(module, "__file__", "") for name, module in own.items() if is_own(module)
    }
    return {name: [file, file_digest(file)] for name, file in files.items()}


def own_data(module: types.ModuleType) -> dict[str, object]:
    """Return the globals of a module that are data, in the order of their definition.

    What has no contents, such as ``object()``, only means something by its identity, and the import
    makes it.
    """
    skipped = (types.ModuleType, type, types.FunctionType, types.BuiltinFunctionType)
    return {
        name: value
        for name, value in vars(module).items()
        if not name.startswith("__")
        and not isinstance(value, skipped)
        and type(value) is not object
    }
