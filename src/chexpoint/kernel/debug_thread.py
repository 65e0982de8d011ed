"""The debugger: ipykernel's own, in a thread of the supervisor.

It speaks the debug adapter protocol with debugpy inside the worker.  What it
needs to know of the worker's namespace it asks of the worker between two cells;
where the stock debugger reaches into its own process, this one asks.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from typing import Any

from chexpoint.engine import cell_folder, use_cell_folder

_ALWAYS_ASKED = {"inspectVariables", "modules"}
_ASKED_WHEN_RUNNING = {"variables", "richInspectVariables"}

AskWorker = Callable[[dict[str, Any], Callable[[Any], None]], None]


class DebugThread:
    """Handles debug requests one after another; all callbacks are called from its thread.

    Parameters
    ----------
    ask_worker
        Has the idle worker do something, and calls back with the result.
    on_event
        Called with each event of the debugger.
    """

    def __init__(self, ask_worker: AskWorker, on_event: Callable[[Any], None]) -> None:
        self._ask_worker = ask_worker
        self._on_event = on_event
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop
        self._debugger: Any
        threading.Thread(target=self._run, name="chex-debugger", daemon=True).start()
        self._ready.wait()

    def request(
        self,
        content: dict[str, Any],
        on_begin: Callable[[], None],
        on_reply: Callable[[Any], None],
    ) -> None:
        """Handle one debug request when those before it are done, then call back."""

        async def handle() -> None:
            async with self._lock:
                on_begin()
                try:
                    reply = await self._debugger.process_request(content)
                except Exception as error:
                    reply = {
                        "type": "response",
                        "success": False,
                        "message": f"{type(error).__name__}: {error}",
                        "request_seq": content.get("seq"),
                        "command": content.get("command"),
                    }
                on_reply(reply)

        self._loop.call_soon_threadsafe(lambda: self._spawn(handle()))

    def stop(self) -> None:
        """End the thread; the worker it debugged is gone."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ask(self, **args: Any) -> Any:
        """Have the worker do something when it is idle."""
        future: asyncio.Future[Any] = self._loop.create_future()

        def resolve(result: Any) -> None:
            if not future.done():
                future.set_result(result)

        def on_result(result: Any) -> None:
            self._loop.call_soon_threadsafe(resolve, result)

        self._ask_worker(args, on_result)
        return await future

    def _run(self) -> None:
        self._loop = asyncio.new_event_loop()
        asyncio.set_event_loop(self._loop)
        self._tasks: set[asyncio.Task[None]] = set()
        self._lock = asyncio.Lock()
        self._debugger = _make_debugger(self)
        self._spawn(self._forward_stops())
        self._ready.set()
        self._loop.run_forever()

    async def _forward_stops(self) -> None:
        while True:
            await self._debugger.handle_stopped_event()


def _make_debugger(thread: DebugThread) -> Any:
    # Imported here: debugpy is large, and most kernels are never debugged.
    import zmq
    from ipykernel.debugger import Debugger
    from tornado.ioloop import IOLoop
    from zmq.eventloop.zmqstream import ZMQStream

    use_cell_folder(os.getpid())
    stream = ZMQStream(zmq.Context().socket(zmq.STREAM), IOLoop.current())

    class RemoteDebugger(Debugger):
        """ipykernel's debugger for a worker in another process."""

        async def process_request(self, message: dict[str, Any]) -> Any:
            command = message["command"]
            if command == "initialize" and not self.is_started:
                self.is_started = await self._start_worker_side()
            is_asked = command in _ALWAYS_ASKED or (
                command in _ASKED_WHEN_RUNNING and not self.stopped_threads
            )
            if is_asked:
                return await thread.ask(what="debug_request", message=message)
            return await super().process_request(message)

        async def _start_worker_side(self) -> bool:
            host, port = self.debugpy_client.get_host_port()
            os.makedirs(cell_folder(os.getpid()), mode=0o700, exist_ok=True)
            if self.debugpy_initialized:
                await thread.ask(what="debug_transforms", on=True)
            else:
                started = await thread.ask(what="debug_listen", host=host, port=int(port))
                self.debugpy_initialized = started["ok"]
                self.kernel_modules = started.get("modules", [])
            self.debugpy_client.connect_tcp_socket()
            return bool(self.debugpy_initialized)

        def stop(self) -> None:
            self.debugpy_client.disconnect_tcp_socket()
            thread._spawn(thread.ask(what="debug_transforms", on=False))

    log = logging.getLogger(__name__)
    debugger = RemoteDebugger(log, stream, thread._on_event, None, None, [])
    stream.on_recv(
        lambda frames: debugger.tcp_client.receive_dap_frame(frames[1].bytes.decode()), copy=False
    )
    return debugger
