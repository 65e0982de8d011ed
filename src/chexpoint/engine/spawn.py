"""Starts worker processes.

Imports next to nothing: the kernel starts its first worker through this module
before it loads anything else, and the two then load side by side.
"""

import os
import socket
import sys

_RUN_WORKER = os.path.join(os.path.dirname(__file__), "run_worker.py")


PLAIN = "CHEX_PLAIN"
"""Set in the environment of a kernel that had to do without a worker: the reason."""


class Spawner:
    """Starts workers that write to the same two pipes.

    Parameters
    ----------
    argv
        Options for ipykernel's application in the worker.
    """

    def __init__(self, argv: list[str]) -> None:
        self._argv = argv
        self._ahead: tuple[int, socket.socket] | None = None
        self.stdout, self.stderr = os.pipe(), os.pipe()
        for reader, _ in (self.stdout, self.stderr):
            os.set_blocking(reader, False)

    def start_ahead(self) -> None:
        """Start the worker that the next `start` returns."""
        self._ahead = self.start()

    def start(self) -> tuple[int, socket.socket]:
        """Return the pid of a fresh worker and our end of its link."""
        if self._ahead is not None:
            ahead, self._ahead = self._ahead, None
            return ahead
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            theirs.set_inheritable(True)
            argv = [sys.executable, _RUN_WORKER, str(theirs.fileno()), str(os.getpid())]
            actions = [
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, self.stdout[1], 1),
                (os.POSIX_SPAWN_DUP2, self.stderr[1], 2),
            ]
            # The order of sets of strings must be the same each time a cell runs.
            env = {"PYTHONHASHSEED": "0", **os.environ}
            pid = os.posix_spawn(sys.executable, [*argv, *self._argv], env, file_actions=actions)
        return pid, mine
