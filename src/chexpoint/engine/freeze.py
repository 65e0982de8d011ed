"""Forking a checkpoint, waiting frozen, going live.

A checkpoint is forked twice: the process in between ends at once, so that the
checkpoint is the supervisor's child and not the worker's (a child of the
worker would show up in the user's ``os.wait()``).  The supervisor is a child
subreaper, which makes it the parent of every orphan below it.

A frozen process that is told to go live *becomes* the worker, and, if the
checkpoint is to be kept, first forks a frozen successor of itself: one fork on
the way to the restored state, and none at all for a taking restore.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass

# debugpy replaces os.fork; this one it does not reach.
from posix import fork as _fork

from chexpoint.engine import proc
from chexpoint.engine.descriptors import privatize
from chexpoint.engine.shared_memory import copy_shared_memory
from chexpoint.engine.wire import Link

_ALL_SIGNALS = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}
# Under memory pressure the system ends checkpoints first, never the user's work.
_OOM_SCORE_FROZEN = 800


@dataclass(frozen=True, slots=True)
class Fork:
    """The outcome of `fork_detached`, in either process."""

    middle: int
    """The pid of the process in between."""
    is_new: bool
    """Whether this is the new process."""


def fork_detached() -> Fork:
    """Fork a process that becomes the supervisor's child.

    The caller has to reap the process in between.
    """
    middle = _fork()
    if middle:
        return Fork(middle, is_new=False)
    middle = os.getpid()
    try:
        detached = _fork()
    except OSError:
        os._exit(1)
    if detached:
        os._exit(0)
    return Fork(middle, is_new=True)


class ChildSignal:
    """Hides our own short-lived children from the user's SIGCHLD handling."""

    def __init__(self) -> None:
        self._middle = 0
        self._mask: set[signal.Signals | int] = set()

    def block(self) -> None:
        """To be called before the fork."""
        self._mask = set(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD}))

    def forked(self, middle: int) -> None:
        self._middle = middle

    def reap(self) -> None:
        """Collect the process in between; to be called before user code runs again."""
        if self._middle:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self._middle, 0)
            self._middle = 0
            signal.sigtimedwait({signal.SIGCHLD}, 0)
            # Signals of one kind merge: a child of the user may have ended meanwhile.
            with contextlib.suppress(ChildProcessError):
                if os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                    os.kill(os.getpid(), signal.SIGCHLD)
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def unblock(self) -> None:
        """To be called when the fork did not happen."""
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def thawed(self, middle: int) -> None:
        """Drop what was signalled to the frozen process, and take signals again."""
        while signal.sigtimedwait(_ALL_SIGNALS, 0):
            pass
        self._middle = middle
        still = {signal.SIGCHLD} if middle else set()
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask | still)


@dataclass(frozen=True, slots=True)
class Wake:
    """How a frozen process was told to go live."""

    link_fd: int
    """The connection to the supervisor that the new worker uses."""
    kept: bool
    lost: list[str]
    """What the state lacks, in words."""
    middle: int
    """To be reaped, if a successor was forked."""


def wait_frozen(control_fd: int, supervisor: int, middle: int, keep: set[int]) -> Wake:
    """Stay frozen until told to go live; does not return in any other case.

    To be called in a process made by `fork_detached`.  Descriptors in ``keep``
    are left as they are: their owner replaces them when it goes live.
    """
    try:
        return _wait_frozen(control_fd, supervisor, middle, keep)
    except BrokenPipeError:
        os._exit(0)  # dropped before it had settled
    except BaseException:
        # Never fall back into the code that forked: it would run in two processes.
        traceback.print_exc(file=sys.__stderr__)
        os._exit(70)


def _wait_frozen(control_fd: int, supervisor: int, middle: int, keep: set[int]) -> Wake:
    collecting = gc.isenabled()
    gc.disable()  # a collection would copy every page that holds an object
    signal.pthread_sigmask(signal.SIG_SETMASK, _ALL_SIGNALS)
    oom_score = _set_oom_score(_OOM_SCORE_FROZEN)
    control = Link.from_fd(control_fd)
    keep = keep | {control_fd}
    _wait_for_parent(supervisor, middle)
    lost = _settle(control, keep)
    while True:
        packet = control.receive()
        if packet is None:
            os._exit(0)
        command = packet.command()
        if command["do"] != "thaw":
            continue
        middle = 0  # nothing to reap, unless a successor is forked
        kept = command["keep"]
        if kept:
            try:
                fork = fork_detached()
            except OSError:
                kept = False  # no memory for a successor: the checkpoint is used up
            else:
                middle = fork.middle
                if fork.is_new:
                    packet.close_fds()
                    _wait_for_parent(supervisor, middle)
                    _settle(control, keep)
                    continue
        control.close()
        _set_oom_score(oom_score)
        if collecting:
            gc.enable()
        return Wake(link_fd=packet.fds[0], kept=kept, lost=lost, middle=middle)


def _settle(control: Link, keep: set[int]) -> list[str]:
    """Become independent of the process this one was forked from, and say so."""
    copy_shared_memory()
    lost = privatize(keep)
    control.command(event="frozen", pid=os.getpid(), lost=lost)
    return lost


def _wait_for_parent(supervisor: int, middle: int) -> None:
    """Wait until the process in between has ended, and end with the supervisor from then on."""
    while (parent := os.getppid()) != supervisor:
        if parent != middle:
            os._exit(0)  # the supervisor is gone: somebody else inherited us
        time.sleep(0.0002)
    proc.prctl(proc.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:
        os._exit(0)


def _set_oom_score(score: int) -> int:
    """Set how readily the system ends this process under memory pressure; return the old score."""
    try:
        with open("/proc/self/oom_score_adj", "r+") as file:
            old = int(file.read())
            file.seek(0)
            file.write(str(score))
    except (OSError, ValueError):
        return 0
    return old
