"""Starts worker processes, and our own command line for a cell that asks for it.

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


PROGRAM_VERBS = ("graph", "hindsight", "package", "replay")
"""What the command line may be started for."""


class Program:
    """The command line of CHEX at work for a cell.

    A process that a worker starts is audited with it, and cannot audit others: this one is started
    by the supervisor.  It has a process group of its own, because an interrupt of the cell is not
    for it, and its standard output and error are the files ``out`` and ``err`` of ``folder``.
    """

    def __init__(self, verb: str, words: list[str]) -> None:
        import tempfile

        if verb not in PROGRAM_VERBS:
            raise ValueError(f"chex {verb} cannot be started by a cell")
        self.folder = tempfile.mkdtemp(prefix="chex-program-")
        # Not -m alone: it would look for modules in the user's folder first.
        argv = [sys.executable, "-P", "-m", "chexpoint", verb, *words]
        writing = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        actions: list[tuple[int, int, str, int, int]] = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.path.join(self.folder, "out"), writing, 0o600),
            (os.POSIX_SPAWN_OPEN, 2, os.path.join(self.folder, "err"), writing, 0o600),
        ]
        self.pid = os.posix_spawn(
            sys.executable, argv, dict(os.environ), file_actions=actions, setpgroup=0
        )
        self.has_ended = False
        """To be set by whoever reaps it."""

    def end(self) -> None:
        """Ask it to end, if it has not, and take away what it has written."""
        import shutil
        import signal

        if not self.has_ended:
            os.kill(self.pid, signal.SIGTERM)
        shutil.rmtree(self.folder, ignore_errors=True)
