"""Process pools that libraries keep for their next use, and the helper processes of those."""

from __future__ import annotations

import sys
import threading
from typing import Any

_LOKY = ("joblib.externals.loky", "loky")
_TRACKERS = (
    "multiprocessing.resource_tracker",
    *(f"{name}.backend.resource_tracker" for name in _LOKY),
)


def is_loky_manager(thread: threading.Thread) -> bool:
    """Return whether a thread serves joblib's reusable process pool, and that pool is idle."""
    executor = loky_executor()
    if executor is None or executor._pending_work_items:
        return False
    names = ("ExecutorManagerThread", "QueueManagerThread", "QueueFeederThread")
    return type(thread).__name__.lstrip("_") in names or thread.name in names


def loky_executor() -> Any | None:
    """Return the process pool that joblib keeps for its next use."""
    for name in _LOKY:
        module = sys.modules.get(f"{name}.reusable_executor")
        if module is not None and getattr(module, "_executor", None) is not None:
            return module._executor
    return None


def resource_trackers() -> list[Any]:
    """Return the running resource trackers: processes that clean up after their parent."""
    loaded = [getattr(sys.modules.get(name), "_resource_tracker", None) for name in _TRACKERS]
    return [t for t in loaded if t is not None and t._pid is not None]
