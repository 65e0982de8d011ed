"""What ends a replay before its time: Ctrl-C, a signal, or the end of who follows it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Protocol, TypeVar

_T = TypeVar("_T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAID = b"\nchex: interrupting; once more to end at once\n"
# How long a signal may wait that another thread has got.
_LOOK_S = 0.25


class Interruptible(Protocol):
    """A replay that is under way."""

    def interrupt(self) -> None:
        """Let it come to an end soon; may be called from a signal handler."""


def run_interruptibly(replay: Interruptible, run: Callable[[], _T], *, is_quiet: bool) -> _T:
    """Return what ``run`` returns, which signals may end before its time.

    So that they do whatever the replay waits for, ``run`` has a thread of its own.
    """
    with _interrupting(replay, is_quiet=is_quiet) as is_interrupted:
        future = _started(run)
        while True:
            try:
                return future.result(_LOOK_S)
            except TimeoutError:
                if future.done():
                    return future.result()
                if is_interrupted():
                    replay.interrupt()  # a cell may have begun just after the first one


@contextlib.contextmanager
def _interrupting(replay: Interruptible, *, is_quiet: bool) -> Iterator[Callable[[], bool]]:
    """Let the first Ctrl-C or SIGTERM interrupt a replay; the second is a `KeyboardInterrupt`.

    Gives what tells whether there was one.
    """
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        if interrupted.is_set():
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt
        interrupted.set()
        if not is_quiet and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), _SAID)  # print might wait for a lock that we hold
        replay.interrupt()

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield interrupted.is_set
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _started(run: Callable[[], _T]) -> Future[_T]:
    """Have something done by a thread that nobody waits for in the end."""
    future: Future[_T] = Future()

    def work() -> None:
        try:
            future.set_result(run())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, name="chex-replay", daemon=True).start()
    return future


def end_with(pid: int) -> None:
    """Have SIGTERM sent to this process when another one ends."""
    from chexpoint.engine import wait_for_end

    def wait() -> None:
        if wait_for_end(pid):
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="chex-follows", daemon=True).start()
