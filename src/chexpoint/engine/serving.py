"""The process of a headless supervisor."""

from __future__ import annotations

import os

from chexpoint.config import Config
from chexpoint.engine.journal import Journal
from chexpoint.engine.pipe_front import PipeFront
from chexpoint.engine.settings import auto_mode, settings_from
from chexpoint.engine.spawn import Spawner
from chexpoint.engine.state import EngineState
from chexpoint.engine.supervisor import Supervisor
from chexpoint.engine.wire import Link


def serve(argv: list[str], spawner: Spawner, journal: Journal | None = None) -> None:
    """Serve one engine; ``argv`` is the link's descriptor, the automatic mode, the budget."""
    link_fd, auto, budget = int(argv[0]), auto_mode(argv[1]), int(argv[2])
    settings, _ = settings_from(Config.at())
    state = EngineState(
        budget_bytes=budget or settings.budget_bytes,
        auto=auto,
        reserve_bytes=settings.reserve_bytes,
        missing=settings.missing,
        can_fork=settings.can_fork,
        overhead=settings.overhead,
        session=os.urandom(6).hex(),
    )
    supervisor = Supervisor(state, spawner, journal=journal)
    supervisor.start()
    supervisor.run(PipeFront(Link.from_fd(link_fd)))
