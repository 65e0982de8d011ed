"""What each cell read and wrote, and the lineage that follows from it.

An `Auditor`, in the supervisor, sees the system calls of the worker and of all
it starts.  A `CellWatch`, in the worker, adds what only Python knows, and takes
the place of the auditor where system calls cannot be seen.

Names are loaded when they are first used: worker and supervisor need different
ones, and a kernel's start-up time is spent importing.
"""

from importlib import import_module

# Not from typing, which takes longer to import than the rest of what starts a worker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.lineage.auditor import Audited, Auditor
    from chexpoint.lineage.code import code_hash
    from chexpoint.lineage.environment import Environment, environment_fingerprint
    from chexpoint.lineage.equality import (
        Tolerance,
        differences,
        equal_states,
        input_reasons,
        lineage_digest,
        strict_digest,
    )
    from chexpoint.lineage.fingerprint import listing_digest
    from chexpoint.lineage.hints import has_users_tasks, is_users_thread
    from chexpoint.lineage.imports import only_imports
    from chexpoint.lineage.picture import lineage_svg
    from chexpoint.lineage.places import Places
    from chexpoint.lineage.present import path_of
    from chexpoint.lineage.processes import CHECKPOINT_NAME
    from chexpoint.lineage.recheck import Difference, Lost, Present, put_back, worth_keeping
    from chexpoint.lineage.records import default_cache_folder
    from chexpoint.lineage.seccomp import Installed, install, no_new_privileges
    from chexpoint.lineage.syscalls import UNSEEN, architecture
    from chexpoint.lineage.table import lineage_html, lineage_rows, lineage_text
    from chexpoint.lineage.trail import Cell, Step, root_node, taint_after
    from chexpoint.lineage.watch import CellWatch

_HOME = {
    "auditor": ("Audited", "Auditor"),
    "code": ("code_hash",),
    "environment": ("Environment", "environment_fingerprint"),
    "equality": (
        "Tolerance",
        "differences",
        "equal_states",
        "input_reasons",
        "lineage_digest",
        "strict_digest",
    ),
    "fingerprint": ("listing_digest",),
    "hints": ("has_users_tasks", "is_users_thread"),
    "imports": ("only_imports",),
    "picture": ("lineage_svg",),
    "present": ("path_of",),
    "places": ("Places",),
    "processes": ("CHECKPOINT_NAME",),
    "recheck": ("Difference", "Lost", "Present", "put_back", "worth_keeping"),
    "records": ("default_cache_folder",),
    "seccomp": ("Installed", "install", "no_new_privileges"),
    "syscalls": ("UNSEEN", "architecture"),
    "table": ("lineage_html", "lineage_rows", "lineage_text"),
    "trail": ("Cell", "Step", "root_node", "taint_after"),
    "watch": ("CellWatch",),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.lineage.{module}"), name)
    raise AttributeError(f"module 'chexpoint.lineage' has no attribute '{name}'")


__all__ = [
    "CHECKPOINT_NAME",
    "UNSEEN",
    "Audited",
    "Auditor",
    "Cell",
    "CellWatch",
    "Difference",
    "Environment",
    "Installed",
    "Lost",
    "Places",
    "Present",
    "Step",
    "Tolerance",
    "architecture",
    "code_hash",
    "default_cache_folder",
    "differences",
    "environment_fingerprint",
    "equal_states",
    "has_users_tasks",
    "input_reasons",
    "install",
    "is_users_thread",
    "lineage_digest",
    "lineage_html",
    "lineage_rows",
    "lineage_svg",
    "lineage_text",
    "listing_digest",
    "no_new_privileges",
    "only_imports",
    "path_of",
    "put_back",
    "root_node",
    "strict_digest",
    "taint_after",
    "worth_keeping",
]
