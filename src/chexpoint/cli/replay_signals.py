"""What ends a replay before its time: Ctrl-C, a signal, or the end of who follows it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Protocol

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SAID = b"\nchex: interrupting; once more to end at once\n"


class Interruptible(Protocol):
    """A replay that is under way."""

    def interrupt(self) -> None:
        """Let it come to an end soon; may be called from a signal handler."""


@contextlib.contextmanager
def interrupting(replay: Interruptible, *, is_quiet: bool) -> Iterator[None]:
    """Let the first Ctrl-C or SIGTERM interrupt a replay, and the second one end everything."""
    is_interrupted = False

    def interrupt(*_: object) -> None:
        nonlocal is_interrupted
        if is_interrupted:
            for number in _SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            raise KeyboardInterrupt
        is_interrupted = True
        if not is_quiet and sys.stderr.isatty():
            os.write(sys.stderr.fileno(), _SAID)  # print might wait for a lock that we hold
        replay.interrupt()

    before = {number: signal.signal(number, interrupt) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_with(pid: int) -> None:
    """Have SIGTERM sent to this process when another one ends."""

    def wait() -> None:
        try:
            process = os.pidfd_open(pid)
            poll = select.poll()
            poll.register(process, select.POLLIN)
            poll.poll()
        except ProcessLookupError:
            pass  # it has ended already
        except OSError:
            return  # this system cannot tell
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="chex-follows", daemon=True).start()
