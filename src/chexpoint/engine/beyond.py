"""What a state has beyond its variables, and no image can hold: then none is made.

A fork holds all of it.  Things are compared with how they were before the first cell.
"""

from __future__ import annotations

import builtins
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.model import Hazard

if TYPE_CHECKING:  # the supervisor, which asks for reasons only, has no use for it
    import asyncio

_HOOKS = ("excepthook", "displayhook", "unraisablehook", "breakpointhook")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
# IPython puts the last result there.
# IPython's last result, and what instrumented loops call: both are there in every worker.
_FREE_BUILTINS = {"_", "__chex__"}
# What forbids a fork, but is not part of what an image has to hold.
_FORK_ONLY = {"native-threads", "library", "device", "fork", "machine"}


def beyond_hazards(hazards: tuple[Hazard, ...]) -> str:
    """Return which reason against a fork also speaks against an image; empty if none does."""
    return next((hazard.what for hazard in hazards if hazard.kind not in _FORK_ONLY), "")


class Beyond:
    """Finds what cells have done to the process, other than to variables.

    Parameters
    ----------
    shell
        IPython's.
    loop
        In which cells run.
    """

    def __init__(self, shell: Any, loop: asyncio.AbstractEventLoop) -> None:
        import asyncio

        self._shell = shell
        self._loop = loop
        self._before = _facts()
        self._tasks = asyncio.all_tasks(loop)

    def found(self) -> str:
        """Return what no image would hold, in words; empty if there is nothing."""
        return next(self._all(), "")

    def _all(self) -> Iterator[str]:
        import asyncio

        now = _facts()
        for name, before in self._before.items():
            if now[name] != before:
                yield f"{name} was changed"
        for which in _TIMERS:
            if signal.getitimer(which)[0]:
                yield "a timer is running"
        if any(not task.done() for task in asyncio.all_tasks(self._loop) - self._tasks):
            yield "an asyncio task is waiting"
        yield from self._in_the_shell()
        yield from self._in_libraries()

    def _in_the_shell(self) -> Iterator[str]:
        """Yield what cells have registered with IPython."""
        shell = self._shell
        for kind, table in shell.magics_manager.magics.items():
            for name, magic in table.items():
                if _is_of_a_cell(magic):
                    yield f"the {kind} magic '{name}' was defined in a cell"
        for event, callbacks in shell.events.callbacks.items():
            if any(map(_is_of_a_cell, callbacks)):
                yield f"a function of a cell is called at '{event}'"
        for mime, formatter in shell.display_formatter.formatters.items():
            printers = [*formatter.type_printers.values(), *formatter.deferred_printers.values()]
            if any(map(_is_of_a_cell, printers)):
                yield f"a function of a cell shows objects as {mime}"
        transforms = [
            *shell.ast_transformers,
            *shell.input_transformers_post,
            *shell.input_transformer_manager.cleanup_transforms,
            *shell.input_transformer_manager.line_transforms,
        ]
        if any(map(_is_of_a_cell, transforms)):
            yield "a function of a cell changes the source of cells"

    def _in_libraries(self) -> Iterator[str]:
        """Yield what cells have registered with libraries."""
        pandas: Any = sys.modules.get("pandas")
        for kind in (pandas.Series, pandas.DataFrame, pandas.Index) if pandas else ():
            for name, accessor in vars(kind).items():
                if getattr(getattr(accessor, "_accessor", None), "__module__", "") == "__main__":
                    yield f"the accessor '{name}' of pandas was defined in a cell"


def _facts() -> Mapping[str, Any]:
    """Return what can be compared, by what to call it."""
    import logging

    handlers: dict[str, Any] = {}
    for number in signal.valid_signals() - {signal.SIGINT, signal.SIGKILL, signal.SIGSTOP}:
        handlers[str(number)] = signal.getsignal(number)
    own = {name: value for name, value in vars(builtins).items() if name not in _FREE_BUILTINS}
    return {
        "a signal handler": _Same(handlers),
        "a builtin": _Same(own),
        "a hook of sys": _Same({name: getattr(sys, name) for name in _HOOKS}),
        "the trace function": _Same({"trace": sys.gettrace(), "profile": sys.getprofile()}),
        "the handlers of the root logger": _Same(dict(enumerate(logging.getLogger().handlers))),
    }


class _Same:
    """A table that equals another if it has the same objects; nothing of theirs is called."""

    def __init__(self, table: Mapping[Any, Any]) -> None:
        self._table = table

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Same):
            return NotImplemented
        mine, theirs = self._table, other._table
        return mine.keys() == theirs.keys() and all(mine[key] is theirs[key] for key in mine)

    __hash__ = None  # type: ignore[assignment]


def _is_of_a_cell(function: Callable[..., Any] | object) -> bool:
    """Return whether something that is called was defined in the notebook."""
    inner = getattr(function, "__func__", function)
    if not hasattr(inner, "__code__"):
        inner = type(inner)
    return getattr(inner, "__module__", None) == "__main__"
