"""The folder ``.chex`` beside a notebook, and what was recorded in it."""

from chexpoint.project.project import Project

__all__ = ["Project"]
