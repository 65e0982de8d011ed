"""IPython's kernel as it runs in the worker: no ZMQ, no threads of its own.

Everything a cell can do is stock ipykernel and IPython; overridden is only what
needs a socket, a thread, or an open database.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import random
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ipykernel.ipkernel import IPythonKernel
from ipykernel.jsonutil import json_clean
from ipykernel.utils import _async_in_context
from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core.error import UsageError
from IPython.core.history import HistoryManager
from tornado.ioloop import IOLoop
from traitlets import Any as AnyTrait
from traitlets import Type

from chexpoint.engine.tracebacks import of_user
from chexpoint.lineage import only_imports

if TYPE_CHECKING:
    from chexpoint.engine.worker import Worker

# More than anyone types between two requests: the cache is written after each.
_HISTORY_CACHE = 10_000
_GUI_FREE = {None, "", "inline", "agg", "asyncio", "none", "headless", "ipympl", "widget"}


class WorkerHistory(HistoryManager):
    """History whose database is open only while it is read or written.

    Stock keeps a connection and a saving thread for the life of the kernel;
    neither survives a fork.
    """

    def __init__(self, **kwargs: Any) -> None:
        self._branched = False
        super().__init__(**kwargs)
        self._stop_save_thread()
        self.using_thread = False
        self.db_cache_size = _HISTORY_CACHE
        self.release()

    @property
    def db(self) -> Any:
        connection = self.__dict__.get("_connection")
        if connection is None and self.enabled:
            self.init_db()
            connection = self.__dict__.get("_connection")
        return connection

    @db.setter
    def db(self, connection: Any) -> None:
        self.__dict__["_connection"] = connection
        if connection is not None and self.hist_file != ":memory:":
            # Losing the last line in a power cut is better than a slow cell.
            connection.execute("PRAGMA synchronous=OFF")

    def release(self) -> None:
        """Write what is waiting and close the database."""
        if self.hist_file == ":memory:":
            return
        self.writeout_cache()
        connection = self.__dict__.get("_connection")
        if connection is not None:
            connection.close()
            self.__dict__["_connection"] = None

    def writeout_cache(self, conn: Any = None) -> None:
        if not self.db_input_cache and not self.db_output_cache:
            return
        if self._branched:
            self._branched = False
            self.new_session(conn)
        super().writeout_cache(conn)

    def branch(self) -> None:
        """After a restore line numbers come again: they need a session of their own."""
        self._branched = True
        # Written by the other timeline.
        self.db_input_cache.clear()
        self.db_output_cache.clear()


@contextlib.contextmanager
def _debugger_kept_out(*, is_there: bool) -> Iterator[None]:
    """Let ipykernel ask whether there is a debugger without importing it.

    It is large, lives in the supervisor, and most kernels are never debugged.
    """
    name = "ipykernel.debugger"
    if name in sys.modules:
        yield
        return
    answer: Any = types.ModuleType(name)
    answer._is_debugpy_available = is_there
    sys.modules[name] = answer
    try:
        yield
    finally:
        if sys.modules.get(name) is answer:
            del sys.modules[name]


class WorkerShell(ZMQInteractiveShell):
    """The shell of the worker."""

    while_importing: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext
    """What is to be held while statements run that only import."""

    def init_history(self) -> None:
        self.history_manager = WorkerHistory(shell=self, parent=self)
        self.configurables.append(self.history_manager)  # type: ignore[arg-type]

    async def run_code(self, code_obj: Any, result: Any = None, *, async_: bool = False) -> Any:
        with self.while_importing() if only_imports(code_obj) else contextlib.nullcontext():
            return await super().run_code(code_obj, result, async_=async_)

    def _get_exc_info(self, exc_tuple: Any = None) -> Any:
        kind, error, traceback = super()._get_exc_info(exc_tuple)
        if issubclass(kind, KeyboardInterrupt) and error is not None:
            traceback = of_user(traceback)
            error = error.with_traceback(traceback)
        return kind, error, traceback

    def enable_gui(self, gui: str | None = None) -> Any:
        if gui not in _GUI_FREE:
            raise UsageError(
                f"the {gui} event loop needs the stock Python kernel:"
                " CHEX cannot checkpoint a window system connection"
            )
        return super().enable_gui(gui)


class WorkerKernel(IPythonKernel):
    """IPython's kernel with its messages on the link to the supervisor."""

    # Stock insists on ZMQ streams.
    shell_stream = AnyTrait(None, allow_none=True)
    control_stream = AnyTrait(None, allow_none=True)
    debugpy_stream = AnyTrait(None, allow_none=True)
    shell_class = Type(WorkerShell)
    _supports_kernel_subshells = False
    chex_worker: Worker
    if TYPE_CHECKING:  # traits that are never None here
        shell: Any
        session: Any
    _info: dict[str, Any] | None = None

    debugger_class = AnyTrait(None, allow_none=True)

    def __init__(self, **kwargs: Any) -> None:
        with _debugger_kept_out(is_there=False):
            super().__init__(**kwargs)
        self._debugger: Any = None

    @property
    def kernel_info(self) -> dict[str, Any]:
        if self._info is None:
            # The banner draws a tip from the user's global random stream.
            state = random.getstate()
            with _debugger_kept_out(is_there=find_spec("debugpy") is not None):
                self._info = super().kernel_info
            random.setstate(state)
        return self._info

    def debugger_here(self) -> Any:
        """Return ipykernel's debugger, for what can only be asked inside the process."""
        if self._debugger is None:
            from ipykernel.debugger import Debugger

            self._debugger = Debugger(
                self.log,
                self.debugpy_stream,
                self._publish_debug_event,
                self.debug_shell_socket,
                self.session,
                self._kernel_modules,
                self.debug_just_my_code,
                self.filter_internal_frames,
            )
        return self._debugger

    def start(self) -> None:
        self.shell.exit_now = False
        self.io_loop = IOLoop.current()
        self._control_lock = asyncio.Lock()
        self._cells_context = contextvars.copy_context()
        self.handle_shell = _async_in_context(partial(self.shell_main, None), self._cells_context)
        self._publish_status("starting", "shell")

    def as_in_cells(self, work: Callable[..., Any], *args: Any) -> Any:
        """Call a function where it sees what cells have set, such as the precision of decimals."""
        try:
            return self._cells_context.run(work, *args)
        except RuntimeError as error:
            if "already entered" not in str(error):
                raise
            return work(*args)  # it is a cell that waits for it

    async def do_execute(self, code: str, silent: bool, *args: Any, **kwargs: Any) -> Any:
        worker = self.chex_worker
        transformed = self._transformed(code)
        can_wait = self._can_wait_for_comms(code, transformed)
        if can_wait:
            worker.tell(event="async", on=True)
        is_cell = not silent and self._keeps_history(args, kwargs)
        worker.audit.begin()
        if is_cell:
            worker.variables.begin(transformed)
            worker.loops.begin(transformed)
        started = time.perf_counter()
        try:
            reply = await super().do_execute(code, silent, *args, **kwargs)
        except KeyboardInterrupt:
            # It came after the user's code; stock would lose the reply.
            reply = self._interrupted_reply()
        finally:
            # From here on an interrupt is too late, and must not break the reply.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            worker.cell_seconds = time.perf_counter() - started
            worker.loops.end()
            if is_cell:
                worker.variables.end(transformed, worker.cell_seconds)
            if can_wait:
                worker.tell(event="async", on=False)
        if is_cell:
            worker.cell = (code, transformed, "ok" if reply["status"] == "ok" else "error")
        if reply["status"] == "error" and not silent:
            parent = self.get_parent("shell")
            if parent["content"].get("stop_on_error", True):
                # Before the reply, so that only requests queued by now are aborted.
                worker.tell(event="abort")
        return reply

    @staticmethod
    def _keeps_history(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Return whether this is a cell of the user's, not a front end's own question."""
        return bool(args[0] if args else kwargs.get("store_history", True))

    def _transformed(self, code: str) -> str:
        """Return a cell as plain Python, or as it is if it is not even that."""
        with contextlib.suppress(Exception):
            return str(self.shell.transform_cell(code))
        return code

    def _can_wait_for_comms(self, code: str, transformed: str) -> bool:
        with contextlib.suppress(Exception):
            return bool(self.shell.should_run_async(code, transformed_cell=transformed))
        return False

    def _interrupted_reply(self) -> dict[str, Any]:
        self.shell.showtraceback()
        return {
            "status": "error",
            "ename": "KeyboardInterrupt",
            "evalue": "",
            "traceback": self.shell._last_traceback or [],
            "execution_count": self.shell.execution_count - 1,
            "user_expressions": {},
            "payload": [],
        }

    @contextlib.contextmanager
    def _cancel_on_sigint(self, future: asyncio.Future[Any]) -> Iterator[None]:
        # Stock schedules the cancellation so that nothing wakes a sleeping loop.
        loop = asyncio.get_running_loop()

        def cancel(*_: object) -> None:
            if asyncio.current_task(loop) is future:  # it computes: stop it as any cell
                raise KeyboardInterrupt
            loop.call_soon_threadsafe(future.cancel)

        previous = signal.signal(signal.SIGINT, cancel)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, previous)

    def _abort_queues(self, subshell_id: str | None = None) -> None:
        """The queue is the supervisor's; `do_execute` has told it already."""

    def _input_request(self, prompt: str, ident: Any, parent: Any, password: bool = False) -> str:
        sys.stdout.flush()
        sys.stderr.flush()
        self.chex_worker.audit.asked_input()
        content = json_clean({"prompt": prompt, "password": password})
        self.session.send(self.stdin_socket, "input_request", content, parent, ident=ident)
        try:
            frames = self.chex_worker.wait_input()
        except KeyboardInterrupt:
            raise KeyboardInterrupt("Interrupted by user") from None
        try:
            _, parts = self.session.feed_identities(frames, copy=True)
            value = str(self.session.deserialize(parts, copy=True)["content"]["value"])
        except Exception:
            self.log.exception("Bad input_reply: %s", parent)
            value = ""
        if value == "\x04":
            raise EOFError
        return value

    async def usage_request(self, stream: Any, ident: Any, parent: Any) -> None:
        """Answered by the supervisor, which also knows when the worker is busy."""

    async def _at_shutdown(self) -> None:
        """The supervisor broadcasts the shutdown."""
