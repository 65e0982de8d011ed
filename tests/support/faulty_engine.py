"""A headless supervisor that kills somebody with SIGKILL just before its n-th instruction.

Run in place of ``run_engine.py``, with ``CHEX_FAULT`` = ``WHO:N``, or ``WHO:+N`` to kill
before every N-th instruction; with N = -1 nobody is killed.  The number of instructions is
written to the file ``CHEX_FAULT_COUNT``.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterable
from pathlib import Path

from chexpoint.engine import instructions as do
from chexpoint.engine.pipe_front import PipeFront
from chexpoint.engine.spawn import Spawner
from chexpoint.engine.state import EngineState
from chexpoint.engine.supervisor import Supervisor
from chexpoint.engine.wire import Link


class FaultySupervisor(Supervisor):
    """Counts what it does, and kills at the given count."""

    count = 0

    def _do(self, instructions: Iterable[do.Instruction]) -> None:
        who, _, at = os.environ["CHEX_FAULT"].partition(":")
        for instruction in instructions:
            self.count += 1
            if self.count == int(at) or (at.startswith("+") and self.count % int(at) == 0):
                self._kill(who)
            super()._do([instruction])

    def _kill(self, who: str) -> None:
        victims = {
            "worker": [self._pid],
            "checkpoint": list(self._freezer.pids.values())[-1:],
            "all checkpoints": list(self._freezer.pids.values()),
            "supervisor": [os.getpid()],
        }[who]
        for pid in victims:
            if pid:
                os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        if path := os.environ.get("CHEX_FAULT_COUNT"):
            Path(path).write_text(str(self.count))
        super()._end()


if __name__ == "__main__":
    link_fd = int(sys.argv[1])
    os.set_inheritable(link_fd, False)
    supervisor = FaultySupervisor(
        EngineState(budget_bytes=2**30, auto="never"),
        Spawner(["--Session.key=headless"]),
    )
    supervisor.start()
    supervisor.run(PipeFront(Link.from_fd(link_fd)))
