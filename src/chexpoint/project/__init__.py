"""The folder ``.chex`` beside a notebook: what is recorded in it, and how.

Names are loaded when they are first used: a kernel needs few of them, and its start-up time is
spent importing.
"""

from importlib import import_module

# Not from typing, which takes longer to import than the rest of what starts a worker.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from chexpoint.project.batch import Batch, CellRun, VersionRun
    from chexpoint.project.batch_plan import VersionTask, plan_versions
    from chexpoint.project.comparison import side_of
    from chexpoint.project.journal import ProjectJournal, version_name
    from chexpoint.project.kept_files import keep_files
    from chexpoint.project.names import check_version_name
    from chexpoint.project.packing import pack
    from chexpoint.project.parameters import combinations
    from chexpoint.project.project import SHORT, Project
    from chexpoint.project.recordings import ProjectFiles, recording_of
    from chexpoint.project.sources import SourceFile, read_source

_HOME = {
    "batch": ("Batch", "CellRun", "VersionRun"),
    "batch_plan": ("VersionTask", "plan_versions"),
    "comparison": ("side_of",),
    "journal": ("ProjectJournal", "version_name"),
    "kept_files": ("keep_files",),
    "names": ("check_version_name",),
    "packing": ("pack",),
    "parameters": ("combinations",),
    "project": ("SHORT", "Project"),
    "recordings": ("ProjectFiles", "recording_of"),
    "sources": ("SourceFile", "read_source"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.project.{module}"), name)
    raise AttributeError(f"module 'chexpoint.project' has no attribute '{name}'")


__all__ = [
    "SHORT",
    "Batch",
    "CellRun",
    "Project",
    "ProjectFiles",
    "ProjectJournal",
    "SourceFile",
    "VersionRun",
    "VersionTask",
    "check_version_name",
    "combinations",
    "keep_files",
    "pack",
    "plan_versions",
    "read_source",
    "recording_of",
    "side_of",
    "version_name",
]
