"""Starting writers: by this process, or by somebody for it."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

LINK_FD = 3
"""The descriptor under which a writer finds its end of the connection."""

# The shell ends at once and leaves the writer without a parent: it is nobody's child, and nobody
# has to collect it.  Its first packet is the writer's process id.
_SCRIPT = f'"$@" & echo $! >&{LINK_FD}'

Starter = Callable[[list[str], int], None]
"""Starts a process, given its command line and the descriptor of its end of a connection."""

_starter: Starter | None = None


def use_starter(starter: Starter | None) -> None:
    """Have writers of this process started by somebody else; None is by itself.

    What a worker of the kernel starts is audited with its cell: the supervisor starts it instead.
    """
    global _starter  # noqa: PLW0603 - it is about the process
    _starter = starter


def start_writer(command: list[str], link: int) -> None:
    """Start a writer.

    Raises
    ------
    OSError
    """
    (_starter or start_detached)(command, link)


def start_detached(command: list[str], link: int) -> None:
    """Start a process in a session of its own that is nobody's child.

    Raises
    ------
    OSError
    """
    null = os.devnull
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, null, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, null, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_OPEN, 2, null, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, link, LINK_FD),
    ]
    # One thread is what it may have; PYTHONINSPECT and the like are for the user's own program.
    env = {k: v for k, v in os.environ.items() if k not in ("PYTHONINSPECT", "PYTHONSTARTUP")}
    env |= {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    argv = ["sh", "-c", _SCRIPT, "sh", *command]
    shell = "/bin/sh"
    with _unheard():
        pid = os.posix_spawn(shell, argv, env, file_actions=actions, setsid=True, setsigmask=())
        # A handler of the user's may have collected it.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)


@contextlib.contextmanager
def _unheard() -> Iterator[None]:
    """Keep the end of a child of ours from the user's handler of SIGCHLD, if there is one.

    It may collect children without expecting that there is none.
    """
    if not callable(signal.getsignal(signal.SIGCHLD)):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    try:
        yield
        if signal.SIGCHLD in signal.sigpending():
            signal.sigtimedwait([signal.SIGCHLD], 0)
            if _has_ended_children():
                # It was for these, too.
                signal.raise_signal(signal.SIGCHLD)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _has_ended_children() -> bool:
    try:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return found is not None
