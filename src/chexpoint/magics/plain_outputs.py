"""What cells show, in a kernel that is not CHEX's: read along while it is shown.

`KernelOutputs` is for ipykernel.  Its hooks are of no use here: each thread has its own, they do
not see errors, nor what forked processes print.  But all that is published goes through one
method, with the id of the request that it belongs to, so what is recorded is what front ends show.

`ShellOutputs` is for everything else, such as IPython in a terminal: there is nothing between a
cell and the screen but the methods that write to it.  They are in their place only while a cell
runs, and the streams stay the objects they are: a terminal is still a terminal.
"""

from __future__ import annotations

import base64
import builtins
import functools
import getpass
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from chexpoint.engine import OutputCollector
from chexpoint.model import Output

Post = Callable[[Callable[[], None]], None]
"""Has something done by another thread, in order; never waits."""

Take = Callable[[str, str, dict[str, Any]], None]
"""Takes the mark of a cell, the type of a message, and its content; called by that thread."""

_DELIMITER = b"<IDS|MSG>"
_MOST_CHARACTERS = 32 * 2**20
_CUT = "CHEX: what followed was too much to be recorded\n"
# Small pieces of text are passed on together.
_TEXT_AT_ONCE = 2**20
_ABSENT = object()


class Capture(Protocol):
    """Reads along what the cells of one shell show; used by the thread that runs them."""

    is_late: bool
    """Whether outputs still come after the end of a cell, and then a status, when it is idle."""

    def begin(self) -> str:
        """A cell begins; return what its outputs are marked with."""

    def end(self) -> None:
        """The cell has ended."""

    def close(self) -> None:
        """Put everything back."""


def capture_of(shell: Any, post: Post, take: Take) -> Capture:
    """Return what reads along in a shell."""
    kernel = getattr(shell, "kernel", None)
    thread = getattr(kernel, "iopub_thread", None)
    if hasattr(thread, "send_multipart") and hasattr(kernel, "get_parent"):
        return KernelOutputs(kernel, post, take)
    return ShellOutputs(shell, post, take)


class CellOutputs:
    """The outputs of one cell, as a notebook file holds them; beyond some size, no more."""

    def __init__(self) -> None:
        self._collector = OutputCollector()
        self._size = 0

    def add(self, kind: str, content: dict[str, Any]) -> None:
        """Take one message."""
        if kind == "clear_output":
            self._size = 0
        was_full = self._size > _MOST_CHARACTERS
        self._size += _size(content)
        if self._size <= _MOST_CHARACTERS:
            self._collector.add(kind, content)
        elif not was_full:
            self._collector.add("stream", {"name": "stderr", "text": _CUT})

    @property
    def outputs(self) -> tuple[Output, ...]:
        return self._collector.outputs


def _size(content: dict[str, Any]) -> int:
    parts = (content.get("text"), *content.get("data", {}).values())
    return sum(len(part) for part in parts if isinstance(part, str))


class KernelOutputs:
    """Reads along what an ipykernel publishes, from whichever thread or forked process."""

    is_late = True

    def __init__(self, kernel: Any, post: Post, take: Take) -> None:
        self._kernel = kernel
        self._post = post
        self._take = take
        self._pid = os.getpid()
        self._patches = _Patches()

    def begin(self) -> str:
        """A cell begins; return the id of its request."""
        if not self._patches:
            thread = self._kernel.iopub_thread
            self._patches.put(thread, "send_multipart", self._send(thread.send_multipart))
        request = self._kernel.get_parent("shell") or {}
        return str(request.get("header", {}).get("msg_id", ""))

    def end(self) -> None:
        """Nothing to do: the status of the request tells."""

    def close(self) -> None:
        """Let the kernel publish alone again."""
        self._patches.undo()

    def _send(self, send: Callable[..., Any]) -> Callable[..., Any]:
        def send_multipart(frames: Any, *args: Any, **options: Any) -> Any:
            if os.getpid() == self._pid:  # what forked processes publish comes through here again
                self._post(partial(self._read, frames))
            return send(frames, *args, **options)

        return send_multipart

    def _read(self, frames: list[bytes]) -> None:
        if _DELIMITER not in frames:
            return
        unpack = self._kernel.session.unpack
        _, header, parent, _, content = frames[frames.index(_DELIMITER) + 1 :][:5]
        if mark := unpack(parent).get("msg_id"):
            kind = unpack(header)["msg_type"]
            if not kind.startswith("comm_"):
                self._take(mark, kind, unpack(content))


class ShellOutputs:
    """Reads along what a shell writes to its streams, displays, and shows of errors."""

    is_late = False

    def __init__(self, shell: Any, post: Post, take: Take) -> None:
        self._shell = shell
        self._post = post
        self._take = take
        self._patches = _Patches()
        self._texts: deque[tuple[str, str]] = deque()
        self._held = 0
        self._is_on = False
        self._muted: set[int] = set()
        """Threads that write text of something that is noted otherwise."""

    def begin(self) -> str:
        """A cell begins."""
        self.close()
        self._is_on = True
        for name in ("stdout", "stderr"):
            stream = getattr(sys, name)
            self._patches.put(stream, "write", self._write(name, stream.write))
        publisher, hook = self._shell.display_pub, self._shell.displayhook
        self._patches.put(publisher, "publish", self._publish(publisher.publish))
        self._patches.put(publisher, "clear_output", self._clear(publisher.clear_output))
        self._patches.put(hook, "start_displayhook", self._start(hook.start_displayhook))
        self._patches.put(hook, "write_format_data", self._result(hook.write_format_data))
        self._patches.put(hook, "finish_displayhook", self._finish(hook.finish_displayhook))
        self._patches.put(self._shell, "_showtraceback", self._error(self._shell._showtraceback))
        return ""

    def end(self) -> None:
        """The cell has ended: pass on what it wrote last, and put everything back."""
        self._pass_on()
        self.close()

    def close(self) -> None:
        """Put everything back."""
        self._is_on = False
        self._patches.undo()
        self._muted.clear()

    def _write(self, name: str, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(text: Any, *args: Any, **options: Any) -> Any:
            done = write(text, *args, **options)
            is_shown = self._is_on and isinstance(text, str)
            if is_shown and threading.get_ident() not in self._muted:
                self._texts.append((name, text))
                self._held += len(text)
                if self._held > _TEXT_AT_ONCE:
                    self._pass_on()
            return done

        return written

    def _pass_on(self) -> None:
        """Pass on the text that was written so far, in as few pieces as possible."""
        self._held = 0
        pieces: list[tuple[str, list[str]]] = []
        while self._texts:
            name, text = self._texts.popleft()
            if not pieces or pieces[-1][0] != name:
                pieces.append((name, []))
            pieces[-1][1].append(text)
        for name, texts in pieces:
            content = {"name": name, "text": "".join(texts)}
            self._post(partial(self._take, "", "stream", content))

    def _show(self, kind: str, content: Callable[[], dict[str, Any]]) -> None:
        # Whatever is wrong with it, the user's own call must go on.
        with suppress(Exception):
            if self._is_on:
                self._pass_on()
                self._post(partial(self._take, "", kind, content()))

    def _quietly(self, call: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call what writes the text of something that is noted otherwise."""
        thread = threading.get_ident()
        was_muted = thread in self._muted
        self._muted.add(thread)
        try:
            return call(*args, **options)
        finally:
            if not was_muted:
                self._muted.discard(thread)

    def _publish(self, publish: Callable[..., Any]) -> Callable[..., Any]:
        def published(data: Any, metadata: Any = None, *args: Any, **options: Any) -> Any:
            kind = "update_display_data" if options.get("update") else "display_data"
            transient = {"transient": options.get("transient") or {}}
            self._show(kind, lambda: _bundle(data, metadata) | transient)
            return self._quietly(publish, data, metadata, *args, **options)

        return published

    def _clear(self, clear: Callable[..., Any]) -> Callable[..., Any]:
        def cleared(wait: bool = False) -> Any:
            self._show("clear_output", lambda: {"wait": wait})
            return self._quietly(clear, wait)

        return cleared

    def _start(self, start: Callable[[], None]) -> Callable[[], None]:
        def started() -> None:
            self._muted.add(threading.get_ident())  # the prompt is written next
            start()

        return started

    def _result(self, write: Callable[..., Any]) -> Callable[..., Any]:
        def written(data: Any, metadata: Any = None) -> Any:
            count = {"execution_count": self._shell.displayhook.prompt_count}
            self._show("execute_result", lambda: _bundle(data, metadata) | count)
            return write(data, metadata)

        return written

    def _finish(self, finish: Callable[[], None]) -> Callable[[], None]:
        def finished() -> None:
            finish()
            self._muted.discard(threading.get_ident())

        return finished

    def _error(self, show: Callable[..., Any]) -> Callable[..., Any]:
        def shown(kind: Any, value: Any, traceback: Any) -> Any:
            self._muted.discard(threading.get_ident())  # it may be a display that has failed
            lines = [traceback] if isinstance(traceback, str) else traceback
            self._show(
                "error",
                lambda: {"ename": kind.__name__, "evalue": str(value), "traceback": list(lines)},
            )
            return self._quietly(show, kind, value, traceback)

        return shown


class Questions:
    """Tells of cells that ask the user for input.

    Parameters
    ----------
    asked
        Called when one does.
    """

    def __init__(self, asked: Callable[[], None]) -> None:
        self._asked = asked
        self._patches = _Patches()

    def begin(self) -> None:
        """A cell begins."""
        self.close()
        for module, name in ((builtins, "input"), (getpass, "getpass")):
            self._patches.put(module, name, self._ask(getattr(module, name)))

    def close(self) -> None:
        """Put everything back."""
        self._patches.undo()

    def _ask(self, ask: Callable[..., str]) -> Callable[..., str]:
        @functools.wraps(ask)
        def answered(*args: Any, **options: Any) -> str:
            self._asked()
            return ask(*args, **options)

        return answered


class _Patches:
    """Attributes of objects that have others for a while."""

    def __init__(self) -> None:
        self._made: list[tuple[Any, str, Any, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._made)

    def put(self, target: Any, name: str, value: Any) -> None:
        """Give an attribute another value, if the object lets one."""
        with suppress(AttributeError, TypeError):
            before = vars(target).get(name, _ABSENT)
            setattr(target, name, value)
            self._made.append((target, name, value, before))

    def undo(self) -> None:
        """Put back what was there, unless somebody else has put something over it."""
        while self._made:
            target, name, value, before = self._made.pop()
            if vars(target).get(name) is value:
                if before is _ABSENT:
                    delattr(target, name)
                else:
                    setattr(target, name, before)


def _bundle(data: dict[str, Any], metadata: dict[str, Any] | None) -> dict[str, Any]:
    """Return what is displayed as JSON can hold it."""
    texts = {
        kind: base64.b64encode(value).decode() if isinstance(value, bytes) else value
        for kind, value in data.items()
    }
    return {"data": texts, "metadata": metadata or {}}
