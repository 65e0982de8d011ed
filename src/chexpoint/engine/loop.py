"""The worker's event loop, which can be forked while it is stopped."""

from __future__ import annotations

import asyncio
import selectors
import signal


class ForkableLoop(asyncio.SelectorEventLoop):
    """A loop on ``poll``, not ``epoll``: its interest set is in user space, so a fork copies it.

    Tasks and timers survive the fork; only the pair of sockets that wakes the
    loop is an object of the system, and is made again by `after_fork`.
    """

    def __init__(self) -> None:
        super().__init__(selectors.PollSelector())

    def own_descriptors(self) -> set[int]:
        """Return the descriptors that `after_fork` replaces."""
        return {self._ssock.fileno(), self._csock.fileno()}  # type: ignore[attr-defined]

    def after_fork(self) -> None:
        """To be called in the process that goes live, before the loop runs again."""
        self._selector.unregister(self._ssock)  # type: ignore[attr-defined]
        self._ssock.close()  # type: ignore[has-type]
        self._csock.close()  # type: ignore[has-type]
        self._internal_fds -= 1  # type: ignore[attr-defined]
        self._ssock = self._csock = None
        self._make_self_pipe()  # type: ignore[attr-defined]
        asyncio.set_event_loop(self)  # Python 3.12 resets it in forked children
        if getattr(self, "_signal_handlers", None):
            signal.set_wakeup_fd(self._csock.fileno())  # type: ignore[attr-defined]
