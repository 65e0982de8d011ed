"""The worker's event loop, which can be forked while it is stopped."""

from __future__ import annotations

import asyncio
import selectors
import signal
from typing import Any


class ForkableLoop(asyncio.SelectorEventLoop):
    """A loop on ``poll``, not ``epoll``: its interest set is in user space, so a fork copies it.

    Tasks and timers survive the fork; only the pair of sockets that wakes the
    loop is an object of the system, and is made again by `after_fork`.
    """

    def __init__(self) -> None:
        super().__init__(selectors.PollSelector())

    def own_descriptors(self) -> set[int]:
        """Return the descriptors that `after_fork` replaces."""
        loop: Any = self  # what follows is asyncio's own business
        return {loop._ssock.fileno(), loop._csock.fileno()}

    def after_fork(self) -> None:
        """To be called in the process that goes live, before the loop runs again."""
        loop: Any = self
        loop._selector.unregister(loop._ssock)
        loop._ssock.close()
        loop._csock.close()
        loop._internal_fds -= 1
        loop._ssock = loop._csock = None
        loop._make_self_pipe()
        asyncio.set_event_loop(self)  # Python 3.12 resets it in forked children
        if getattr(self, "_signal_handlers", None):
            signal.set_wakeup_fd(loop._csock.fileno())
