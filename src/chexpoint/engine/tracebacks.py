"""Tracebacks without our own part: a cell may be interrupted while CHEX looks at what it does."""

from __future__ import annotations

import os
import re
import sysconfig
from collections.abc import Sequence
from types import TracebackType

import chexpoint

_OURS = os.path.dirname(os.path.abspath(chexpoint.__file__)) + os.sep
_LIBRARY = sysconfig.get_path("stdlib") + os.sep
_INSTALLED = re.compile(r"/(site|dist)-packages/")


def of_user(
    traceback: TracebackType | None,
    *,
    ours: str = _OURS,
    library: str = _LIBRARY,
) -> TracebackType | None:
    """Return a traceback up to where it enters CHEX, if it ends there.

    If there is nothing else in it, it stays as it is.
    """
    steps: list[TracebackType] = []
    at = traceback
    while at is not None:
        steps.append(at)
        at = at.tb_next
    files = [step.tb_frame.f_code.co_filename for step in steps]
    end = _end(files, ours, library)
    if end in {0, len(steps)}:
        return traceback
    found: TracebackType | None = None
    for step in reversed(steps[:end]):
        found = TracebackType(found, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return found


def _end(files: Sequence[str], ours: str, library: str) -> int:
    """Return how many steps there are before the last ones, which are ours or called by us.

    What is installed may have been called by us in turn: to be loaded, or to send a message.
    """
    end = len(files)
    for number in range(len(files) - 1, -1, -1):
        file = files[number]
        if file.startswith(ours):
            end = number
        elif not (file.startswith((library, "<")) or _INSTALLED.search(file)):
            break
    return end
