"""Standard output and error of the worker, as Jupyter stream messages.

ipykernel publishes from a thread that lives as long as the kernel; a thread
would not survive the fork.  Here text is sent at once when the line is quiet,
and otherwise by a flusher thread that exists only while text is waiting.
"""

from __future__ import annotations

import contextvars
import os
import threading
import time
from collections import defaultdict
from io import StringIO
from typing import TYPE_CHECKING, Any

from ipykernel.iostream import OutStream

from chexpoint.engine.threads import FLUSHER

if TYPE_CHECKING:
    from chexpoint.engine.worker_app import Outlet

# Interactive programs feel immediate at a tenth of a second; stock waits two.
_INTERVAL_S = 0.1
_CHUNK = 64 * 1024
_DESCRIPTORS = {"stdout": 1, "stderr": 2}


class Flusher:
    """Sends waiting text from a thread that ends when there is none."""

    def __init__(self) -> None:
        self.streams: list[WorkerStream] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        os.register_at_fork(before=self.flush, after_in_child=self._after_fork)

    def wake(self) -> None:
        if self._thread is not None:
            return
        with self._lock:
            if self._thread is None:
                self._stop.clear()
                thread = threading.Thread(target=self._run, name=FLUSHER, daemon=True)
                # debugpy is not to stop in it, nor to wait for it.
                thread.pydev_do_not_trace = thread.is_pydev_daemon_thread = True  # type: ignore[attr-defined]
                self._thread = thread
                thread.start()

    def _run(self) -> None:
        quiet = 0
        while quiet < 3 and not self._stop.wait(_INTERVAL_S):
            quiet = 0 if any(stream.has_text for stream in self.streams) else quiet + 1
            self.flush()
        with self._lock:
            self._thread = None
        self.flush()  # written while the thread was on its way out

    def flush(self) -> None:
        for stream in self.streams:
            stream.flush()

    def stop(self) -> None:
        """End the thread and send everything; to be called before a checkpoint."""
        thread = self._thread
        if thread is not None:
            self._stop.set()
            thread.join()
        self.flush()

    def _after_fork(self) -> None:
        self._lock, self._thread, self._stop = threading.Lock(), None, threading.Event()
        for stream in self.streams:
            stream.forget()


flusher = Flusher()


class WorkerStream(OutStream):
    """``sys.stdout`` or ``sys.stderr`` in the worker; safe from threads and forked children."""

    def __init__(
        self,
        session: Any,
        pub_thread: Outlet,
        name: str,
        pipe: object = None,
        echo: object = None,
        *,
        watchfd: bool = True,
        isatty: bool = False,
    ) -> None:
        # Not calling the stock __init__, which insists on a publishing thread.
        self.session = session
        self.pub_thread = pub_thread
        self.name = name
        self.topic = b"stream." + name.encode()
        self.echo = None
        self._parent_header = contextvars.ContextVar("parent_header")
        self._parent_header.set({})
        self._parent_header_global: dict[str, Any] = {}
        self._isatty = isatty
        self._should_watch = False
        self._local = threading.local()
        self._sent_at = 0.0
        self._waiting = 0
        self.forget()
        flusher.streams.append(self)

    def forget(self) -> None:
        """Drop waiting text, which belongs to the process this one was forked from."""
        self._master_pid = os.getpid()
        self._buffer_lock = threading.RLock()
        self._buffers = defaultdict(StringIO)
        self._waiting = 0

    @property
    def has_text(self) -> bool:
        return self._waiting > 0

    def fileno(self) -> int:
        """Return the descriptor of a pipe that the supervisor reads."""
        return _DESCRIPTORS[self.name]

    def close(self) -> None:
        self.flush()

    @property
    def closed(self) -> bool:
        return False

    def write(self, string: str) -> int:
        if not isinstance(string, str):
            raise TypeError(f"write() argument must be str, not {type(string)}")
        with self._buffer_lock:
            self._buffers[frozenset(self.parent_header.items())].write(string)
            self._waiting += len(string)
        quiet = time.monotonic() - self._sent_at > _INTERVAL_S
        if self._waiting > _CHUNK or (quiet and string.endswith("\n")):
            self.flush()
        else:
            flusher.wake()
        return len(string)

    def flush(self) -> None:
        if not self._waiting:
            return
        self._sent_at = time.monotonic()
        with self._buffer_lock:  # also while sending: what was written first is sent first
            self._waiting = 0
            for parent, text in self._flush_buffers():
                if text:
                    self._send(parent, text)

    def _send(self, parent: dict[str, Any], text: str) -> None:
        self.session.pid = os.getpid()  # the session refuses to send from forked children
        message = self.session.msg("stream", {"name": self.name, "text": text}, parent=parent)
        for hook in self._hooks:
            message = hook(message)
            if message is None:
                return
        self.session.send(self.pub_thread, message, ident=self.topic)
