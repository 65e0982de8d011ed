"""Pack versions of a project into one file that others can replay."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from chexpoint.lineage import Present, default_cache_folder, root_node
from chexpoint.model import Bytes, Recording
from chexpoint.package import PackageSummary, environment_info, write_package
from chexpoint.project.project import Project
from chexpoint.project.recordings import ProjectFiles, recording_of
from chexpoint.view import recorded_notebook


def pack(
    project: Project,
    labels: Sequence[str] | None,
    out: Path,
    watch: Callable[[Bytes, Bytes], None] = lambda _done, _all: None,
) -> PackageSummary:
    """Write versions of a project into a package, in place of a file of that name.

    Parameters
    ----------
    labels
        Which versions; None is all that are current.
    watch
        Called with how many bytes of files are packed, and how many there are.

    Raises
    ------
    InvalidValue
        If there is no such version, or none at all.
    PackageError
        If what was recorded is not whole.
    OSError
        If the package cannot be written.
    """
    found = recording_of(project, labels)
    # What is installed is not recorded, apart from a digest of it: it is taken from here and now.
    recording = replace(
        found,
        environment=environment_info(),
        notes=(*found.notes, *_about_environment(project, found)),
    )
    return write_package(
        out,
        recording,
        ProjectFiles(project).find,
        lambda version: recorded_notebook(recording, version),
        watch,
    )


def _about_environment(project: Project, recording: Recording) -> Iterator[str]:
    """Yield a sentence if the versions may have been recorded with other packages."""
    now = Present(str(project.folder), cache_folder=default_cache_folder()).packages()
    first = {version.path[0] for version in recording.tree.versions}
    if {recording.cells[node].lineage.parent for node in first} != {root_node(now)}:
        yield (
            "Python or its packages may have changed since some of the versions were recorded: the "
            "lock file has what was installed when they were packed"
        )
