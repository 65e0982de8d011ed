"""The folder ``.chex`` beside a notebook, and what was recorded in it."""

from chexpoint.project.names import check_version_name
from chexpoint.project.project import SHORT, Project
from chexpoint.project.recorder import Recorder

__all__ = ["SHORT", "Project", "Recorder", "check_version_name"]
