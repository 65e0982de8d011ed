"""Kinds whose pickling succeeds and lies, or has effects; they are named as lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from chexpoint.image.lost import Lost

if TYPE_CHECKING:
    from chexpoint.image.pickler import ImagePickler

REASONS = {
    "IPython.core.interactiveshell.InteractiveShell": "it is the shell itself",
    "asyncio.events.AbstractEventLoop": "an event loop lives in its process only",
    "concurrent.futures.process.ProcessPoolExecutor": "its processes cannot be stored",
    "ipywidgets.widgets.widget.Widget": "its other half is in the browser",
    "multiprocessing.connection._ConnectionBase": "the other end is in another process",
    "multiprocessing.managers.BaseManager": "its server is another process",
    "multiprocessing.managers.BaseProxy": "what it stands for is in another process",
    "multiprocessing.process.BaseProcess": "a process cannot be stored",
    "multiprocessing.shared_memory.ShareableList": "its memory is shared with other processes",
    "multiprocessing.shared_memory.SharedMemory": "its memory is shared with other processes",
    "tempfile.TemporaryDirectory": "its folder is removed when the process ends",
    "tempfile._TemporaryFileWrapper": "its file is removed when the process ends",
    "threading.Thread": "a thread cannot be stored",
    "unittest.mock.NonCallableMock": "a mock answers to everything, its state cannot be checked",
    "weakref.finalize": "it waits for the end of an object of this process",
    "xgboost.core.DMatrix": "its data are inside the library",
}


def refuse(_: ImagePickler, obj: Any) -> Any:
    """Refuse an object, with the reason for its kind."""
    for base in type(obj).__mro__:
        reason = REASONS.get(f"{base.__module__}.{base.__qualname__}")
        if reason:
            raise Lost(reason)
    raise Lost(f"a {type(obj).__qualname__} cannot be stored")


RULES: Mapping[type | str, Callable[[ImagePickler, Any], Any]] = dict.fromkeys(REASONS, refuse)
