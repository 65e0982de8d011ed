"""What a fork breaks and can be mended.

`Repairs.before_fork` runs in the worker, `after_thaw` in the process that goes
live, `in_copy` in one that only writes an image, all on the same object: what
the one remembers the others put back.
"""

from __future__ import annotations

import concurrent.futures.thread as pool
import contextlib
import ctypes
import os
import random
import signal
import sys
import threading
from typing import Any

from chexpoint.engine.pools import loky_executor, resource_trackers
from chexpoint.engine.proc import libc, mapped_files
from chexpoint.engine.threads import idle_executor

_OMP_PAUSE_HARD = 2
_OPENMP = ("libgomp", "libiomp5", "libomp")
_TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Repairs:
    """Everything that is put right around one checkpoint."""

    def before_fork(self, maps: str) -> None:
        pause_openmp(maps)
        libc.fflush(None)  # or the child would print the same C buffers again
        self._pid = os.getpid()
        # random.py seeds itself anew in every forked child.
        self._random = random.getstate()
        self._pending = signal.sigpending()  # of signals the user has blocked
        self._timers = [signal.getitimer(which) for which in _TIMERS]
        threads = threading.enumerate()
        executors = {id(e): e for t in threads if (e := idle_executor(t)) is not None}
        self._executors = list(executors.values())

    def in_copy(self) -> None:
        """Put back what an image of the state shows; to be called in a copy that writes one."""
        random.setstate(self._random)
        for executor in self._executors:
            _revive_executor(executor)

    def after_thaw(self) -> None:
        threading.main_thread()._set_native_id()  # type: ignore[attr-defined]
        random.setstate(self._random)
        for which, (seconds, interval) in zip(_TIMERS, self._timers, strict=True):
            if seconds:
                signal.setitimer(which, seconds, interval)
        for number in self._pending:
            signal.raise_signal(number)
        for executor in self._executors:
            _revive_executor(executor)
        _forget_tqdm_monitor()
        _forget_loky()
        _forget_resource_trackers()
        _keep_multiprocessing(self._pid)


def pause_openmp(maps: str) -> None:
    """Stop the thread pools of all OpenMP runtimes.

    libgomp has no fork handler: a child that enters a parallel region waits
    for ever for threads it does not have.  Pausing is part of OpenMP 5.0, must
    be done by the forking thread, and for every copy of the runtime (wheels
    bring their own).
    """
    for path in mapped_files(maps, "omp"):
        if not os.path.basename(path).startswith(_OPENMP):
            continue
        with contextlib.suppress(OSError, AttributeError):
            runtime = ctypes.CDLL(path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            runtime.omp_pause_resource_all(_OMP_PAUSE_HARD)


def _revive_executor(executor: Any) -> None:
    """Let a ThreadPoolExecutor whose threads are gone start new ones."""
    for thread in executor._threads:
        pool._threads_queues.pop(thread, None)  # type: ignore[attr-defined]
    executor._threads.clear()
    executor._idle_semaphore = threading.Semaphore(0)
    executor._shutdown_lock = threading.Lock()


def _forget_tqdm_monitor() -> None:
    for name in ("tqdm.std", "tqdm"):
        tqdm = getattr(sys.modules.get(name), "tqdm", None)
        if tqdm is not None and getattr(tqdm, "monitor", None) is not None:
            tqdm.monitor = None


def _forget_loky() -> None:
    executor = loky_executor()
    if executor is not None:
        sys.modules[type(executor).__module__]._executor = None  # type: ignore[attr-defined]
        with contextlib.suppress(Exception):
            executor._processes = {}
            executor._flags.flag_as_shutting_down(kill_workers=False)


def _forget_resource_trackers() -> None:
    """The helper process belongs to the other timeline; a new one is started when needed."""
    for tracker in resource_trackers():
        with contextlib.suppress(OSError):
            os.close(tracker._fd)
        tracker._fd = tracker._pid = None


def _keep_multiprocessing(old_pid: int) -> None:
    """multiprocessing's finalizers and processes work only where they were made."""
    util = sys.modules.get("multiprocessing.util")
    for finalizer in list(getattr(util, "_finalizer_registry", {}).values()):
        if getattr(finalizer, "_pid", None) == old_pid:
            finalizer._pid = os.getpid()
    process = sys.modules.get("multiprocessing.process")
    for ended in list(getattr(process, "_dangling", ())):
        if getattr(ended, "_parent_pid", None) == old_pid:
            ended._parent_pid = os.getpid()
