"""What is otherwise while the code of a script runs, and as it was as soon as it does not.

IPython and the worker need their own standard output, event loop and input; scripts expect those
of Python.  What a script puts in place of its own is kept for its next cell.
"""

from __future__ import annotations

import asyncio
import atexit
import builtins
import codecs
import getpass
import io
import signal
import sys
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from chexpoint.project.script_end import ScriptEnd


class ScriptWorld:
    """A context in which the code of a script runs."""

    def __init__(self, shell: Any, end: ScriptEnd) -> None:
        from IPython.core.interactiveshell import InteractiveShell

        kernel = shell.kernel
        stdout, stderr = _text_file(sys.stdout, "stdout"), _text_file(sys.stderr, "stderr")
        end.ignore(stdout, stderr, stdout.buffer, stderr.buffer)
        self._places: list[tuple[Any, str]] = [
            (sys, "stdout"),
            (sys, "stderr"),
            (sys, "__stdout__"),
            (sys, "__stderr__"),
            (sys, "excepthook"),
            (sys, "displayhook"),
            (builtins, "input"),
            (getpass, "getpass"),
            (atexit, "register"),
            (atexit, "unregister"),
            # Libraries ask IPython whether it is there.
            (InteractiveShell, "_instance"),
        ]
        self._values: list[Any] = [
            *(stdout, stderr, stdout, stderr),
            *(sys.__excepthook__, sys.__displayhook__),
            *(kernel._sys_raw_input, kernel._save_getpass),
            *(end.register, end.unregister),
            None,
        ]
        self._policy: Any = asyncio.DefaultEventLoopPolicy()
        self._on_interrupt: Any = signal.default_int_handler
        self._loop: Any = None
        self._hooks: Any = None

    def __enter__(self) -> None:
        self._swap()
        self._swap_handler()
        self._swap_policy()
        self._loop = asyncio._get_running_loop()
        self._hooks = sys.get_asyncgen_hooks()
        asyncio._set_running_loop(None)
        sys.set_asyncgen_hooks(None, None)

    def __exit__(self, *_: object) -> None:
        sys.set_asyncgen_hooks(*self._hooks)
        asyncio._set_running_loop(self._loop)
        self._swap_policy()
        self._swap_handler()
        self._swap()

    def _swap(self) -> None:
        for at, (holder, name) in enumerate(self._places):
            value = getattr(holder, name)
            setattr(holder, name, self._values[at])
            self._values[at] = value

    def _swap_handler(self) -> None:
        """Change what an interrupt does; IPython sets it before each cell."""
        self._on_interrupt = signal.signal(signal.SIGINT, self._on_interrupt)

    def _swap_policy(self) -> None:
        policy = asyncio.get_event_loop_policy()
        asyncio.set_event_loop_policy(self._policy)
        self._policy = policy


def _text_file(stream: Any, name: str) -> TextIO:
    """Return a file like that of Python for standard output or error, which writes to a stream."""
    plain: Any = getattr(sys, f"__{name}__")
    encoding, errors = plain.encoding or "utf-8", plain.errors or "strict"
    file = io.TextIOWrapper(
        _Bytes(stream, encoding), encoding=encoding, errors=errors, write_through=True
    )
    file.mode = "w"  # type: ignore[misc]
    return file


class _Bytes(io.BufferedIOBase):
    """Takes bytes for a stream of the worker, which takes text."""

    def __init__(self, stream: Any, encoding: str) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")
        self.name = f"<{stream.name}>"

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        count = memoryview(data).nbytes
        self._stream.write(self._decoder.decode(bytes(data)))
        return count

    def flush(self) -> None:
        self._stream.flush()

    def fileno(self) -> int:
        return int(self._stream.fileno())

    def close(self) -> None:
        """The stream is the worker's."""
