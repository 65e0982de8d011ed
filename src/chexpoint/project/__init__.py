"""The folder ``.chex`` beside a notebook, and what was recorded in it."""

from chexpoint.project.project import Project
from chexpoint.project.recorder import Recorder

__all__ = ["Project", "Recorder"]
