"""The folder ``.chex`` beside a notebook, and what was recorded in it."""

from chexpoint.project.comparison import side_of
from chexpoint.project.journal import KEEP_VARIABLE, ProjectJournal, version_name
from chexpoint.project.names import check_version_name
from chexpoint.project.project import SHORT, Project

__all__ = [
    "KEEP_VARIABLE",
    "SHORT",
    "Project",
    "ProjectJournal",
    "check_version_name",
    "side_of",
    "version_name",
]
