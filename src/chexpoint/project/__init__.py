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
    from chexpoint.project.cluster_batch import ClusterBatch
    from chexpoint.project.comparison import side_of
    from chexpoint.project.graph_opening import (
        ARTIFACT_IMAGE,
        FetchedModel,
        GraphSweep,
        OpenGraph,
        open_graph,
    )
    from chexpoint.project.journal import ProjectJournal, version_name
    from chexpoint.project.kept_files import keep_files
    from chexpoint.project.loops import (
        RecordedLoops,
        RecordedProgram,
        best_match,
        carried_to,
        changed_by_cell,
        changed_by_file,
        loops_folder,
    )
    from chexpoint.project.names import check_version_name
    from chexpoint.project.packing import pack
    from chexpoint.project.parameters import combinations
    from chexpoint.project.project import SHORT, Project
    from chexpoint.project.recordings import ProjectFiles, recording_of
    from chexpoint.project.sources import SourceFile, read_source
    from chexpoint.project.sweep import Turn, computed_cells, divide, in_turns

_HOME = {
    "graph_opening": (
        "ARTIFACT_IMAGE",
        "FetchedModel",
        "GraphSweep",
        "OpenGraph",
        "open_graph",
    ),
    "batch": ("Batch", "CellRun", "VersionRun"),
    "batch_plan": ("VersionTask", "plan_versions"),
    "cluster_batch": ("ClusterBatch",),
    "comparison": ("side_of",),
    "journal": ("ProjectJournal", "version_name"),
    "kept_files": ("keep_files",),
    "loops": (
        "RecordedLoops",
        "RecordedProgram",
        "best_match",
        "carried_to",
        "changed_by_cell",
        "changed_by_file",
        "loops_folder",
    ),
    "names": ("check_version_name",),
    "packing": ("pack",),
    "parameters": ("combinations",),
    "project": ("SHORT", "Project"),
    "recordings": ("ProjectFiles", "recording_of"),
    "sources": ("SourceFile", "read_source"),
    "sweep": ("Turn", "computed_cells", "divide", "in_turns"),
}


def __getattr__(name: str) -> "Any":
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"chexpoint.project.{module}"), name)
    raise AttributeError(f"module 'chexpoint.project' has no attribute '{name}'")


__all__ = [
    "ARTIFACT_IMAGE",
    "SHORT",
    "Batch",
    "CellRun",
    "ClusterBatch",
    "FetchedModel",
    "GraphSweep",
    "OpenGraph",
    "Project",
    "ProjectFiles",
    "ProjectJournal",
    "RecordedLoops",
    "RecordedProgram",
    "SourceFile",
    "Turn",
    "VersionRun",
    "VersionTask",
    "best_match",
    "carried_to",
    "changed_by_cell",
    "changed_by_file",
    "check_version_name",
    "combinations",
    "computed_cells",
    "divide",
    "in_turns",
    "keep_files",
    "loops_folder",
    "open_graph",
    "pack",
    "plan_versions",
    "read_source",
    "recording_of",
    "side_of",
    "version_name",
]
