"""What magics need of the catalog; loaded when it is first used, to keep kernels quick to start."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from IPython.core.error import UsageError

from chexpoint.errors import ChexError
from chexpoint.magics.engine_access import EngineAccess

if TYPE_CHECKING:
    from chexpoint.project import Project


def project_here(engine: EngineAccess) -> Project:
    """Return the project that the cells of this kernel are recorded in."""
    from chexpoint.project import Project

    return Project.at(engine.worker.folder) if engine.is_here else Project.find(os.getcwd())


def check_name(name: str) -> None:
    """Refuse a name that a version cannot have."""
    from chexpoint.project import check_version_name

    try:
        check_version_name(name)
    except ChexError as error:
        raise UsageError(str(error)) from None


def known_names(engine: EngineAccess) -> list[str]:
    """Return the names of versions and checkpoints, for completion."""
    names: list[str] = []
    try:
        if engine.is_here:
            names += [c.name or c.id for c in engine.status().checkpoints if not c.bad]
        tree = project_here(engine).tree().current()
        names += [tree.labels[version] for version in reversed(tree.versions)]
    except (ChexError, UsageError):
        pass
    return names
