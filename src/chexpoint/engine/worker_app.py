"""The worker's part of ipykernel: its application, without sockets and threads.

What ipykernel takes for sockets are `Outlet` objects, which write to the link to the supervisor.
"""

from __future__ import annotations

import threading
import types
from typing import TYPE_CHECKING, Any

from ipykernel.kernelapp import IPKernelApp

from chexpoint.engine.wire import Channel
from chexpoint.engine.worker_kernel import WorkerKernel

if TYPE_CHECKING:
    from chexpoint.engine.worker import Worker


class Frame:
    """A received frame with the two attributes ipykernel wants of a ``zmq.Frame``."""

    __slots__ = ("bytes",)

    def __init__(self, data: bytes) -> None:
        self.bytes = data

    @property
    def buffer(self) -> memoryview:
        return memoryview(self.bytes)

    def __len__(self) -> int:
        return len(self.bytes)


class Outlet:
    """One outgoing Jupyter channel; looks to ipykernel like the socket it writes to."""

    def __init__(self, worker: Worker, channel: Channel) -> None:
        self._worker = worker
        self._channel = channel

    def send_multipart(self, parts: Any, *_: Any, **__: Any) -> None:
        frames = [
            part.bytes if isinstance(getattr(part, "bytes", None), bytes) else part
            for part in parts
        ]
        self._worker.link.send(self._channel, frames)

    def send(self, part: Any, *_: Any, **__: Any) -> None:
        self.send_multipart([part])

    def flush(self, *_: Any, **__: Any) -> None:
        """Nothing waits here: the kernel's socket buffer is the only one."""

    on_recv = flush


class WorkerApp(IPKernelApp):
    """ipykernel's application without sockets, threads and connection file."""

    if TYPE_CHECKING:  # a trait that is never None here
        profile_dir: Any

    name = "ipython-kernel"
    kernel_class = WorkerKernel
    worker: Worker

    def init_poller(self) -> None:
        """The supervisor watches the parent."""

    def init_heartbeat(self) -> None:
        """The supervisor's heart beats."""

    def write_connection_file(self, **_: Any) -> None:
        """The supervisor writes it."""

    def log_connection_info(self) -> None:
        names = ("shell", "iopub", "stdin", "hb", "control")
        self._ports = {name: getattr(self, f"{name}_port") for name in names}

    def close(self) -> None:
        self.reset_io()

    def init_sockets(self) -> None:
        self.iopub_socket = self.iopub_thread = Outlet(self.worker, Channel.IOPUB)
        self.shell_socket = Outlet(self.worker, Channel.SHELL)
        self.control_socket = Outlet(self.worker, Channel.CONTROL)
        self.stdin_socket = Outlet(self.worker, Channel.STDIN)
        self.configure_tornado_logger()

    def init_kernel(self) -> None:
        self.kernel = self.kernel_class.instance(
            parent=self,
            session=self.session,
            shell_stream=self.shell_socket,
            control_stream=self.control_socket,
            # Stock looks up which thread runs the shell to make async cells interruptible.
            shell_channel_thread=types.SimpleNamespace(parent_thread=threading.main_thread()),
            iopub_thread=self.iopub_thread,
            iopub_socket=self.iopub_socket,
            stdin_socket=self.stdin_socket,
            log=self.log,
            profile_dir=self.profile_dir,
            user_ns=self.user_ns,
        )
        self.kernel.chex_worker = self.worker
        self.kernel.record_ports({f"{name}_port": port for name, port in self._ports.items()})
        self.displayhook.get_execution_count = lambda: self.kernel.execution_count


# Configuration for ipykernel is found by the name of its application's class.
WorkerApp.__name__ = IPKernelApp.__name__
