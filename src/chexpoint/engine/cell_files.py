"""Where cell sources are put for the debugger.

Stock names the folder after the process; a worker's pid changes with each
restore, so here the supervisor gives its name.
"""

from __future__ import annotations

import os
import sys
import tempfile


def cell_folder(supervisor: int) -> str:
    """Return the folder of one kernel's cell files."""
    return os.path.join(tempfile.gettempdir(), f"ipykernel_{supervisor}")


def use_cell_folder(supervisor: int) -> None:
    """Have ipykernel put cell files into that folder, in this process."""
    from ipykernel import compiler

    folder = cell_folder(supervisor)
    compiler.get_tmp_directory = lambda: folder
    debugger = sys.modules.get("ipykernel.debugger")
    if debugger is not None:
        debugger.get_tmp_directory = compiler.get_tmp_directory  # type: ignore[attr-defined]
