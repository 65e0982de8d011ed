"""Forking a checkpoint, waiting frozen, going live.

A checkpoint is forked twice: the process in between ends at once, so that the
checkpoint is the supervisor's child and not the worker's (a child of the
worker would show up in the user's ``os.wait()``).  The supervisor is a child
subreaper, which makes it the parent of every orphan below it.

The process in between also *settles*: it replaces what it shares with the
worker by copies of its own.  The worker waits for that, because it would
change what is shared as soon as it goes on; it does not wait for the second
fork, and not at all if nothing is shared.

A frozen process that is told to go live *becomes* the worker, and, if the
checkpoint is to be kept, first forks a frozen successor of itself: one fork on
the way to the restored state, and none at all for a taking restore.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

# debugpy replaces os.fork; this one it does not reach.
from posix import fork as _fork
from typing import NoReturn

from chexpoint.engine import proc
from chexpoint.engine.descriptors import Descriptor, open_descriptors, privatize
from chexpoint.engine.shared_memory import copy_shared_memory
from chexpoint.engine.wire import Link, Packet
from chexpoint.lineage import CHECKPOINT_NAME

_ALL_SIGNALS = set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}
# Under memory pressure the system ends checkpoints first, never the user's work.
_OOM_SCORE_FROZEN = 800
# Nobody waits for a copy: cells come first.
_NICE_COPY = 10


@dataclass(frozen=True, slots=True)
class Fork:
    """The outcome of `fork_settled`, in either process."""

    middle: int
    """The pid of the process in between, which the caller has to reap."""
    is_new: bool
    """Whether this is the new process."""
    lost: list[str]
    """In the new process: what it could not keep, in words."""
    has_shared_memory: bool = False
    name: bytes = b""
    """What the process is called when it is live."""


def fork_settled(
    keep: Collection[int],
    *,
    has_shared_memory: bool,
    descriptors: Iterable[Descriptor] | None = None,
) -> Fork:
    """Fork a process that becomes the supervisor's child and shares nothing with this one.

    Parameters
    ----------
    keep
        Descriptors that are left as they are.
    has_shared_memory
        Whether there is any to be copied: looking takes longer than the rest.
    descriptors
        Those that are open, if that is known.

    Raises
    ------
    OSError
        If there is no new process, for whatever reason.
    """
    found = open_descriptors() if descriptors is None else descriptors
    shares = has_shared_memory or any(descriptor.fd not in keep for descriptor in found)
    settled = _Settled() if shares else None
    name = proc.name()
    # Named from its first moment, so that the audit can tell it from the user's own processes.
    proc.set_name(CHECKPOINT_NAME)
    try:
        middle = _fork()
    except OSError:
        proc.set_name(name)
        if settled is not None:
            settled.abandon()
        raise
    if middle:
        proc.set_name(name)
        if settled is not None and not settled.wait():
            _reap(middle)
            raise OSError(errno.ECHILD, "the checkpoint could not be made independent")
        return Fork(middle, is_new=False, lost=[])
    lost: list[str] = []
    try:
        signal.pthread_sigmask(signal.SIG_SETMASK, _ALL_SIGNALS)
        middle = os.getpid()
        if has_shared_memory:
            copy_shared_memory()
        if settled is not None:
            lost = privatize({*keep, *settled.descriptors})
            settled.say()
        if _fork():
            os._exit(0)
    except BaseException:
        die()
    return Fork(middle, is_new=True, lost=lost, has_shared_memory=has_shared_memory, name=name)


class _Settled:
    """How the process in between tells the one that forked it to go on."""

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe()

    @property
    def descriptors(self) -> tuple[int, int]:
        return self._reader, self._writer

    def abandon(self) -> None:
        os.close(self._reader)
        os.close(self._writer)

    def wait(self) -> bool:
        """Wait for the other process; return whether it has settled."""
        os.close(self._writer)
        with open(self._reader, "rb") as reader:
            return bool(reader.read())

    def say(self) -> None:
        os.write(self._writer, b"\1")
        self.abandon()


def die() -> NoReturn:
    """End a forked process; never fall back into the code that forked, which runs elsewhere too."""
    traceback.print_exc(file=sys.__stderr__)
    os._exit(70)


def _reap(pid: int) -> None:
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


class ChildSignal:
    """Hides our own short-lived children from the user's SIGCHLD handling."""

    def __init__(self) -> None:
        self.waited_s = 0.0
        """How long the last wait for such a child took."""
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
            started = time.perf_counter()
            _reap(self._middle)
            self.waited_s = time.perf_counter() - started
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


def wait_frozen(
    control_fd: int,
    supervisor: int,
    fork: Fork,
    keep: Collection[int],
    write_image: Callable[[Packet], None],
) -> Wake:
    """Stay frozen until told to go live; does not return in any other case.

    To be called in a process made by `fork_settled`.  Descriptors in ``keep``
    are left as they are: their owner replaces them when it goes live.

    Parameters
    ----------
    write_image
        Called in a copy of the process when an image is wanted; the copy then ends.
    """
    try:
        return _wait_frozen(control_fd, supervisor, fork, {*keep, control_fd}, write_image)
    except BrokenPipeError:
        os._exit(0)  # dropped before it had settled
    except BaseException:
        die()


def _wait_frozen(
    control_fd: int,
    supervisor: int,
    fork: Fork,
    keep: set[int],
    write_image: Callable[[Packet], None],
) -> Wake:
    collecting = gc.isenabled()
    gc.disable()  # a collection would copy every page that holds an object
    oom_score = _set_oom_score(_OOM_SCORE_FROZEN)
    control = Link.from_fd(control_fd)
    lost, name = fork.lost, fork.name
    while True:
        _wait_for_parent(supervisor, fork.middle)
        control.command(event="frozen", pid=os.getpid(), lost=lost)
        while (packet := control.receive()) is not None and packet.command()["do"] == "image":
            _copy_that(write_image, packet, supervisor, control)
            packet.close_fds()
        if packet is None:
            os._exit(0)
        middle = 0  # nothing to reap, unless a successor is forked
        kept = packet.command()["keep"]
        if kept:
            try:
                fork = fork_settled({*keep, *packet.fds}, has_shared_memory=fork.has_shared_memory)
            except OSError:
                kept = False  # no memory for a successor: the checkpoint is used up
            else:
                if fork.is_new:
                    packet.close_fds()
                    continue
                middle = fork.middle
        control.close()
        _set_oom_score(oom_score)
        proc.set_name(name)
        if collecting:
            gc.enable()
        return Wake(link_fd=packet.fds[0], kept=kept, lost=lost, middle=middle)


def _copy_that(
    does: Callable[[Packet], None], packet: Packet, supervisor: int, control: Link
) -> None:
    """Let a copy of this process obey; it becomes the supervisor's child, and then ends."""
    try:
        middle = _fork()
    except OSError:
        return  # who waits for the copy sees that there is none
    if middle:
        _reap(middle)
        return
    try:
        middle = os.getpid()
        if _fork():
            os._exit(0)
        control.close()
        _wait_for_parent(supervisor, middle)
        os.nice(_NICE_COPY)
        does(packet)
        os._exit(0)
    except BaseException:
        die()


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
        with open(proc.open_unseen("/proc/self/oom_score_adj", os.O_RDWR), "r+") as file:
            old = int(file.read())
            file.seek(0)
            file.write(str(score))
    except (OSError, ValueError):
        return 0
    return old
