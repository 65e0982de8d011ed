"""Files that come with CHEX but are not code."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from chexpoint.errors import ChexError


def bundled(folder: str) -> Path:
    """Return the directory of a bundled folder, ``notebooks`` or ``kernel_spec``.

    A wheel carries it inside the package, with an underscore before its name; an editable
    install has it at the top of the source tree.

    Raises
    ------
    ChexError
        If the installation lacks it.
    """
    package = Path(str(files("chexpoint")))
    source_tree = package.parent.parent
    for candidate in (package / f"_{folder}", source_tree / folder):
        if candidate.is_dir():
            return candidate
    raise ChexError(f"this installation lacks its folder {folder}. Install chexpoint again.")
