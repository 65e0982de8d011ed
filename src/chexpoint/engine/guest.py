"""An engine in the house of another program, which may be killed at any time.

It must not outlive the thread that has started it, nor take more cores than it is given.  What
cells have started must not outlive it either, and would not ask for that: so the engine has a
warden, a process above it that gets what is orphaned below, and ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from chexpoint.engine import proc


@dataclass(frozen=True, slots=True, kw_only=True)
class Guest:
    """What an engine that is a guest is given."""

    cores: frozenset[int] = frozenset()
    """Those that it may use; none means all."""
    without: tuple[str, ...] = ()
    """Environment variables that the host has set for itself, and that cells must not find."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables that hold where the engine is wanted."""

    def word(self) -> str:
        """Return what tells a new process that this one is its host."""
        return json.dumps([os.getpid(), sorted(self.cores), self.without])


def settle_in(word: str) -> None:
    """Do as a word of a `Guest` says, before anything else is started.

    The process that this returns in is a child of the one that has called it.
    """
    host, cores, without = json.loads(word)
    # Before the fork: what arrives meanwhile must not be lost.
    signal.pthread_sigmask(signal.SIG_BLOCK, _HEARD)
    proc.prctl(proc.PR_SET_PDEATHSIG, signal.SIGTERM)
    proc.prctl(proc.PR_SET_CHILD_SUBREAPER, 1)
    if os.getppid() != host:
        os._exit(0)  # it was gone before we had asked
    warden = os.getpid()
    engine = os.fork()
    if engine:
        _watch_over(engine)
    proc.prctl(proc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(0)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _HEARD)
    os.setpgid(0, 0)
    if wanted := set(cores) & os.sched_getaffinity(0):
        os.sched_setaffinity(0, wanted)
    for name in without:
        os.environ.pop(name, None)


_HEARD = {signal.SIGTERM, signal.SIGINT, signal.SIGCHLD}


def _watch_over(engine: int) -> NoReturn:
    """Wait until the engine has ended, or is to end; then end everything that is left of it."""
    # Who waits for the end of what the engine says must not wait for us.
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") > 0 else 65536)
    is_there = True
    while is_there:
        if signal.sigwait(_HEARD) != signal.SIGCHLD:
            os.kill(engine, signal.SIGKILL)
        is_there = engine not in _reaped()
    while children := proc.children(os.getpid()):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(child, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(-1, 0)  # what was below it is ours now
    os._exit(0)


def _reaped() -> set[int]:
    """Return the children that have ended."""
    found = set()
    with contextlib.suppress(ChildProcessError):
        while (pid := os.waitpid(-1, os.WNOHANG)[0]) != 0:
            found.add(pid)
    return found
