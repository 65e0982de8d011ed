"""Values that a program logs, caught on their way: print, TensorBoard, MLflow, W&B, logging.

What is caught is what the user's program calls: functions that log are replaced by ones that take
a note first.  A library is looked for among those that are imported, and never imported.  Whoever
has kept a replaced function (``from mlflow import log_metric``) can go on to use it: without a tap
it does what the original does.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from chexpoint.hindsight.jsonable import jsonable
from chexpoint.hindsight.log_targets import LOCAL, TARGETS, Logged, Target, is_own, is_program


@dataclass(frozen=True, slots=True)
class Call:
    """One value that was logged."""

    via: str
    """``log``, ``print``, ``tensorboard``, ``mlflow``, ``wandb`` or ``logging``."""
    name: str
    value: Any
    """As JSON has it: see `jsonable`."""
    line: int
    file: str


class LogTap:
    """Catches what a program logs, in the thread that has installed it.

    Only one is installed at a time; a process that is forked off has none.

    Parameters
    ----------
    take
        Called with each value.  Whatever it raises is not seen by the program.
    forward
        Whether values are also sent to where the program sends them.  What is shown only where
        the program runs (print, logging) always is.
    is_user
        Whether code is of the program: a value belongs to the line of the innermost such frame.
    """

    def __init__(
        self,
        take: Callable[[Call], None],
        *,
        forward: bool = True,
        is_user: Callable[[CodeType], bool] = is_program,
    ) -> None:
        self.forward = forward
        self._take = take
        self._is_user = is_user
        self._thread = 0
        self.is_busy = False
        """Inside a call that was caught: what one function calls in turn is the same value."""
        self._modules = -1
        self._wandb_log: object = None
        self._undo: list[tuple[Any, str, object, object]] = []

    def install(self) -> None:
        """Begin to catch; a tap that is installed is removed."""
        global _current  # noqa: PLW0603 - functions are replaced for a whole process
        if _current is not None:
            _current.remove()
        self._thread = threading.get_ident()
        self.is_busy = False
        self._modules = -1
        if not isinstance(builtins.print, _Print):
            self._replace(builtins, "print", _Print(builtins.print))
        _current = self
        self.refresh()

    def remove(self) -> None:
        """Catch nothing more, and put the original functions back."""
        global _current  # noqa: PLW0603
        if _current is self:
            _current = None
        while self._undo:
            owner, name, original, ours = self._undo.pop()
            # Somebody else may have replaced it since; what he calls in turn is without effect.
            if vars(owner).get(name) is ours:
                setattr(owner, name, original)

    def refresh(self) -> None:
        """Look for libraries that were imported since."""
        wandb_log = getattr(sys.modules.get("wandb"), "log", None)
        if len(sys.modules) == self._modules and wandb_log is self._wandb_log:
            return
        if _current is not self:
            return
        is_complete = True
        for target in TARGETS:
            module = sys.modules.get(target.module)
            if module is not None:
                is_complete &= self._tap(module, target)
        # A module that is being imported by another thread may not have all that is in it.
        self._modules = len(sys.modules) if is_complete else -1
        self._wandb_log = getattr(sys.modules.get("wandb"), "log", None)

    def _tap(self, module: object, target: Target) -> bool:
        owner_name, _, name = target.name.rpartition(".")
        owner = getattr(module, owner_name, None) if owner_name else module
        original = None if owner is None else vars(owner).get(name)
        if not callable(original):
            return False
        # A method of an object of a class that was replaced is caught by that.
        if not hasattr(original, "__chex_target__"):
            with contextlib.suppress(AttributeError, TypeError):
                self._replace(owner, name, _tapped(original, target))
        return True

    def _replace(self, owner: Any, name: str, ours: object) -> None:
        original = vars(owner)[name]
        setattr(owner, name, ours)
        self._undo.append((owner, name, original, ours))

    @property
    def is_open(self) -> bool:
        """Whether a call made now is caught: by this thread, and not inside another."""
        return not self.is_busy and self._thread == threading.get_ident()

    def catch(self, via: str, read: Callable[[], Logged]) -> None:
        """Take a note of what is logged, if the program does; never fails."""
        with contextlib.suppress(Exception):
            frame: FrameType | None = sys._getframe(1)
            while frame is not None and (is_own(frame.f_code) or not self._is_user(frame.f_code)):
                frame = frame.f_back
            if frame is None:
                return
            line, file = frame.f_lineno, frame.f_code.co_filename
            for name, value in read():
                self._take(Call(via, str(name), jsonable(value), line, file))


_current: LogTap | None = None


def _forget() -> None:
    global _current  # noqa: PLW0603
    _current = None


os.register_at_fork(after_in_child=_forget)


def _tapped(original: Callable[..., Any], target: Target) -> Callable[..., Any]:
    """Return a function that logs as another does, and is heard."""

    @functools.wraps(original)
    def call(*args: Any, **kwargs: Any) -> Any:
        tap = _current
        if tap is None or not tap.is_open:
            return original(*args, **kwargs)
        tap.is_busy = True
        try:
            tap.catch(target.via, lambda: target.read(*args, **kwargs))
            if tap.forward or target.via in LOCAL:
                return original(*args, **kwargs)
        finally:
            tap.is_busy = False
        with contextlib.suppress(Exception):
            return None if target.answer is None else target.answer(*args, **kwargs)
        return None

    call.__chex_target__ = target  # type: ignore[attr-defined]
    return call


class _Print:
    """The function ``print``, heard.

    Not a Python function, because those become methods in a class, and ``print`` does not.
    """

    def __init__(self, original: Callable[..., None]) -> None:
        functools.update_wrapper(self, original)
        self._original = original

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        tap = _current
        if tap is None or not tap.is_open or not _is_shown(kwargs.get("file")):
            return self._original(*args, **kwargs)
        shown: tuple[Any, ...] = args
        tap.is_busy = True
        try:
            if len(args) != 1 or not _is_single(args[0]):
                # A text is made once: making it may have effects.
                shown = tuple(map(str, args))
            tap.catch("print", lambda: (("print", _printed(shown, kwargs.get("sep"))),))
            return self._original(*shown, **kwargs)
        finally:
            tap.is_busy = False

    def __repr__(self) -> str:
        return repr(self._original)

    def __reduce__(self) -> tuple[Callable[[], object], tuple[()]]:
        return _print_now, ()


def _print_now() -> object:
    return builtins.print


def _is_shown(file: object) -> bool:
    return file is None or file is sys.stdout or file is sys.stderr


def _is_single(value: object) -> bool:
    """Return whether a value is a number, a text, or an array of no dimension."""
    return value is None or isinstance(value, bool | int | float | str) or _is_scalar(value)


def _is_scalar(value: object) -> bool:
    return hasattr(value, "tolist") and getattr(value, "shape", None) == ()


def _printed(shown: tuple[Any, ...], sep: str | None) -> object:
    if len(shown) == 1:
        return shown[0]
    return (" " if sep is None else sep).join(shown)


def log(**values: object) -> None:
    """Log values: ``chexpoint.log(loss=loss)``.

    They are printed in one line; where loops are recorded they are kept, and where they are
    replayed they are the values that a replay finds.
    """
    tap = _current
    if tap is not None and tap.is_open:
        tap.is_busy = True
        try:
            tap.catch("log", values.items)
        finally:
            tap.is_busy = False
        if not tap.forward:
            return
    if values and sys.stdout is not None:
        line = "  ".join(f"{name}: {_text(value)}" for name, value in values.items())
        sys.stdout.write(f"{line}\n")


def _text(value: object) -> str:
    plain = jsonable(value)
    match plain:
        case float():
            return f"{plain:.6g}"
        case {"float": text} if len(plain) == 1:
            return str(text)
    return str(plain)
