"""The kernel: an engine behind Jupyter's sockets."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Mapping

from chexpoint.config import Config
from chexpoint.engine import EngineState, Spawner, Supervisor, settings_from
from chexpoint.errors import ChexError
from chexpoint.kernel.connection import read_connection_file
from chexpoint.kernel.sockets import bind
from chexpoint.kernel.zmq_front import ZmqFront
from chexpoint.model import KnownImage
from chexpoint.project import Project, ProjectJournal


def run(connection_file: str, spawner: Spawner) -> None:
    """Serve Jupyter clients until the kernel is shut down."""
    settings, wrong = settings_from(Config.at())
    for line in wrong:
        print(f"chex: {line}", file=sys.stderr)
    front = ZmqFront(bind(read_connection_file(connection_file)))
    project = Project.at(os.getcwd())
    state = EngineState(
        budget_bytes=settings.budget_bytes,
        auto=settings.auto,
        reserve_bytes=settings.reserve_bytes,
        missing=settings.missing,
        can_fork=settings.can_fork,
        persist=settings.persist,
        overhead=settings.overhead,
        session=uuid.uuid4().hex[:12],
        images=images_of(project),
    )
    journal = ProjectJournal(project, origin=notebook_name(os.environ))
    supervisor = Supervisor(state, spawner, journal=journal, store_budget=settings.store_budget)
    supervisor.start()
    supervisor.run(front)


def images_of(project: Project) -> tuple[KnownImage, ...]:
    """Return the states that are on disk; none if that cannot be found out."""
    if not project.store_folder.is_dir():
        return ()
    try:
        return project.images()
    except ChexError as error:
        print(f"chex: {error}", file=sys.stderr)
        return ()


def notebook_name(environ: Mapping[str, str]) -> str:
    """Return the notebook that a kernel was started for, if Jupyter says."""
    name = os.path.basename(environ.get("JPY_SESSION_NAME", ""))
    return name if name.endswith(".ipynb") else ""
