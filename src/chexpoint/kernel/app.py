"""The kernel: an engine behind Jupyter's sockets."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from chexpoint.engine import EngineState, Spawner, Supervisor, settings_from
from chexpoint.kernel.connection import read_connection_file
from chexpoint.kernel.sockets import bind
from chexpoint.kernel.zmq_front import ZmqFront
from chexpoint.project import Project, ProjectJournal


def run(connection_file: str, spawner: Spawner) -> None:
    """Serve Jupyter clients until the kernel is shut down."""
    settings, wrong = settings_from(os.environ)
    for line in wrong:
        print(f"chex: {line}", file=sys.stderr)
    front = ZmqFront(bind(read_connection_file(connection_file)))
    state = EngineState(
        budget_bytes=settings.budget_bytes,
        auto=settings.auto,
        reserve_bytes=settings.reserve_bytes,
        missing=settings.missing,
        can_fork=settings.can_fork,
    )
    journal = ProjectJournal(Project.at(os.getcwd()), origin=notebook_name(os.environ))
    supervisor = Supervisor(state, spawner, journal=journal)
    supervisor.start()
    supervisor.run(front)


def notebook_name(environ: Mapping[str, str]) -> str:
    """Return the notebook that a kernel was started for, if Jupyter says."""
    name = os.path.basename(environ.get("JPY_SESSION_NAME", ""))
    return name if name.endswith(".ipynb") else ""
